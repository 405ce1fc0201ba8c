/* Shared code of the test programs: each is called with a directory for its store, and exits with 0 on success. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _XOPEN_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cedrat.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* Checks that a call returned a certain status. */
#define IS(expected, call)                                                                                             \
  do {                                                                                                                 \
    cedrat_status came_to = (call);                                                                                    \
    if (came_to != (expected)) {                                                                                       \
      fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #call, cedrat_status_name(came_to),               \
              cedrat_status_name(expected));                                                                           \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define OK(call) IS(CEDRAT_OK, call)

/* Runs a part of the test in a process of its own. Returns whether it was killed; its failure fails the test. */
static inline int in_a_child(void (*part)(const char *directory), const char *directory) {
  int status;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    part(directory);
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static inline cedrat_store *open_store(const char *directory) {
  char message[300] = "";
  cedrat_store *store;
  cedrat_options options = {0};
  cedrat_status status;
  options.no_huge_pages = 1;
  options.log_limit_bytes = 64 << 20;
  options.threads_max = 40;
  status = cedrat_open(directory, &options, &store, message, sizeof message);
  if (status != CEDRAT_OK) {
    fprintf(stderr, "%s: %s\n", cedrat_status_name(status), message);
    exit(1);
  }
  return store;
}

static inline cedrat_heap *create_heap(cedrat_store *store, const char *name, uint64_t size, uint64_t address) {
  cedrat_heap *heap;
  cedrat_heap_options options = {0};
  options.size = options.size_max = size;
  options.chunk_bytes = 4096;
  options.address = address;
  OK(cedrat_heap_create(store, name, &options, &heap));
  return heap;
}

#endif
