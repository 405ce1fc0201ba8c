/* An archive, and restores of a backup to its moments. */
#include "check.h"

#include <time.h>

static uint64_t *word_of(cedrat_heap *heap) {
  return (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
}

static cedrat_status open_archived(const char *directory, const char *archive, const char *backup, cedrat_store **store) {
  char message[300] = "";
  cedrat_options options = {0};
  options.no_huge_pages = 1;
  options.log_limit_bytes = 64 << 20;
  options.archive = archive;
  options.backup = backup;
  return cedrat_open(directory, &options, store, message, sizeof message);
}

/* Changes a byte of the first pages. */
static void harm_pages(const char *directory) {
  char path[300];
  FILE *file;
  int page, byte;
  CHECK(snprintf(path, sizeof path, "%s/pages", directory) < (int)sizeof path);
  file = fopen(path, "r+b");
  CHECK(file != NULL);
  for (page = 0; page < 2; page++) {
    CHECK(fseek(file, page * 4096L + 40, SEEK_SET) == 0);
    byte = fgetc(file);
    CHECK(byte != EOF && fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 1, file) != EOF);
  }
  CHECK(fclose(file) == 0);
}

static void set(cedrat_thread *self, cedrat_heap *heap, uint64_t value) {
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word_of(heap), value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
}

static uint64_t value_in(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_heap *heap;
  uint64_t value;
  OK(cedrat_heap_open(store, "words", &heap));
  value = *word_of(heap);
  OK(cedrat_close(store));
  return value;
}

static void refuses(cedrat_store *store, cedrat_heap *heap) {
  void *block;
  char message[300];
  IS(CEDRAT_MISUSE, cedrat_plain_alloc(heap, 64, &block));
  IS(CEDRAT_MISUSE, cedrat_plain_stored(heap, word_of(heap), 8));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "without an archive") != NULL);
}

/* Returns the status of a restore, whose message has a text. */
static cedrat_status refused(const char *backup, const char *archive, const char *to, uint64_t lsn, const char *text) {
  char message[300] = "";
  cedrat_restore_options options = {0};
  cedrat_status status;
  options.lsn = lsn;
  status = cedrat_restore(backup, archive, to, &options, NULL, message, sizeof message);
  CHECK(strstr(message, text) != NULL);
  return status;
}

int main(int count, char **arguments) {
  enum { ARCHIVE, BACKUP, LATER, LSN, TIME, NEWEST, ALONE, PLACES };
  char place[PLACES][300];
  cedrat_store *store, *other;
  cedrat_heap *heap;
  cedrat_thread *self;
  cedrat_restore_options options = {0};
  cedrat_backup_report report;
  cedrat_scrub_report scrubbed;
  cedrat_statistics statistics;
  uint64_t lsn, first;
  size_t index;
  CHECK(count == 2);
  for (index = 0; index < PLACES; index++) {
    CHECK(snprintf(place[index], sizeof place[index], "%s.%d", arguments[1], (int)index) < (int)sizeof place[index]);
  }
  IS(CEDRAT_OPTIONS, open_archived(arguments[1], NULL, place[BACKUP], &store));
  OK(open_archived(arguments[1], place[ARCHIVE], NULL, &store));
  heap = create_heap(store, "words", 1 << 20, 0);
  refuses(store, heap);
  OK(cedrat_thread_create(store, &self));
  set(self, heap, 1);
  OK(cedrat_backup(store, place[BACKUP], NULL, NULL));
  set(self, heap, 2);
  OK(cedrat_archive_extend(store, &lsn));
  options.time_ms = (uint64_t)time(NULL) * 1000 + 5000;
  set(self, heap, 3);
  cedrat_thread_free(self);
  OK(cedrat_close(store));
  harm_pages(arguments[1]);
  OK(open_archived(arguments[1], place[ARCHIVE], place[BACKUP], &store));
  OK(cedrat_scrub(store, 1 << 30, &scrubbed));
  CHECK(scrubbed.damaged == 0);
  OK(cedrat_close(store));

  OK(cedrat_restore(place[BACKUP], place[ARCHIVE], place[TIME], &options, NULL, NULL, 0));
  CHECK(value_in(place[TIME]) == 3);
  options.lsn = lsn;
  IS(CEDRAT_OPTIONS, cedrat_restore(place[BACKUP], place[ARCHIVE], place[LSN], &options, NULL, NULL, 0));
  options.time_ms = 0;
  OK(cedrat_restore(place[BACKUP], place[ARCHIVE], place[LSN], &options, &report, NULL, 0));
  CHECK(report.up_to_lsn == lsn && report.bytes >= 4096);
  CHECK(value_in(place[LSN]) == 2);
  OK(cedrat_restore(place[BACKUP], place[ARCHIVE], place[NEWEST], NULL, NULL, NULL, 0));
  CHECK(value_in(place[NEWEST]) == 3);
  OK(cedrat_restore(place[BACKUP], NULL, place[ALONE], NULL, NULL, NULL, 0));
  CHECK(value_in(place[ALONE]) == 1);

  IS(CEDRAT_EXISTS, refused(place[BACKUP], place[ARCHIVE], place[NEWEST], 0, "heaps"));
  IS(CEDRAT_NULL, cedrat_restore(NULL, NULL, place[ALONE], NULL, NULL, NULL, 0));
  IS(CEDRAT_MISUSE, open_archived(place[LSN], place[ARCHIVE], NULL, &other));

  OK(open_archived(arguments[1], place[ARCHIVE], NULL, &store));
  OK(cedrat_get_statistics(store, &statistics));
  IS(CEDRAT_UNKNOWN, cedrat_archive_forget(store, place[LATER], NULL));
  OK(cedrat_backup(store, place[LATER], NULL, NULL));
  OK(cedrat_archive_extend(store, NULL));
  IS(CEDRAT_NULL, cedrat_archive_forget(store, NULL, NULL));
  OK(cedrat_archive_forget(store, place[BACKUP], NULL));
  OK(cedrat_archive_forget(store, place[LATER], &first));
  CHECK(first > lsn);
  IS(CEDRAT_MISUSE, cedrat_archive_forget(store, place[BACKUP], NULL));
  OK(cedrat_close(store));
  store = open_store(place[ALONE]);
  IS(CEDRAT_MISUSE, cedrat_archive_extend(store, NULL));
  IS(CEDRAT_MISUSE, cedrat_archive_forget(store, place[BACKUP], NULL));
  OK(cedrat_close(store));
  return 0;
}
