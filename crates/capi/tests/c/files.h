/* A hash of all files of a directory. */
#ifndef FILES_H
#define FILES_H

#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static inline uint64_t mixed(uint64_t hash, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  uint64_t word;
  for (; size >= sizeof word; size -= sizeof word, at += sizeof word) {
    memcpy(&word, at, sizeof word);
    hash = (hash ^ word) * 1099511628211u;
  }
  for (; size > 0; size--) {
    hash = (hash ^ *at++) * 1099511628211u;
  }
  return hash;
}

/* The names, lengths, times of the last write and bytes of all files. The order of names is that of the directory. */
static inline uint64_t files_of(const char *directory) {
  char path[2000], bytes[1 << 16];
  uint64_t hash = 14695981039346656037u;
  struct dirent *entry;
  struct stat about;
  ssize_t len;
  int file;
  DIR *listing = opendir(directory);
  CHECK(listing != NULL);
  while ((entry = readdir(listing)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    CHECK(snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < (int)sizeof path);
    CHECK(stat(path, &about) == 0);
    hash = mixed(hash, entry->d_name, strlen(entry->d_name));
    if (S_ISDIR(about.st_mode)) {
      uint64_t within = files_of(path);
      hash = mixed(hash, &within, sizeof within);
      continue;
    }
    hash = mixed(hash, &about.st_size, sizeof about.st_size);
    hash = mixed(hash, &about.st_mtim, sizeof about.st_mtim);
    file = open(path, O_RDONLY);
    CHECK(file >= 0);
    while ((len = read(file, bytes, sizeof bytes)) > 0) {
      hash = mixed(hash, bytes, (size_t)len);
    }
    CHECK(len == 0);
    close(file);
  }
  closedir(listing);
  return hash;
}

#endif
