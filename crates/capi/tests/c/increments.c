/* Incremental backups, streams of backups, and stores as they were. */
#include "check.h"
#include "files.h"

enum { FULL, FIRST, SECOND, ARCHIVE, STREAMED, TORN, CHAIN, SCRATCH, OTHER, UNUSED, REST, PLACES };

static char place[PLACES][300];

/* The bytes of a stream. */
typedef struct {
  unsigned char *bytes;
  size_t size, at, fails_at;
  int calls;
} stream;

static int written(void *context, const void *bytes, size_t size) {
  stream *to = context;
  to->calls++;
  CHECK(size > 0 && size <= 1 << 20);
  if (to->size + size > to->fails_at) {
    to->fails_at = 0;
    return 7;
  }
  to->bytes = realloc(to->bytes, to->size + size);
  CHECK(to->bytes != NULL);
  memcpy(to->bytes + to->size, bytes, size);
  to->size += size;
  return 0;
}

static int64_t has_read(void *context, void *bytes, size_t size) {
  stream *from = context;
  if (from->at >= from->fails_at) {
    return -9;
  }
  if (size > from->size - from->at) {
    size = from->size - from->at;
  }
  memcpy(bytes, from->bytes + from->at, size);
  from->at += size;
  return (int64_t)size;
}

static uint64_t *word_of(cedrat_heap *heap) {
  return (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
}

static void set(cedrat_store *store, cedrat_heap *heap, uint64_t value) {
  cedrat_thread *self;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word_of(heap), value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
}

static uint64_t value_of(cedrat_store *store) {
  cedrat_heap *heap;
  OK(cedrat_heap_open(store, "words", &heap));
  return *word_of(heap);
}

static uint64_t value_in(const char *directory) {
  cedrat_store *store = open_store(directory);
  uint64_t value = value_of(store);
  OK(cedrat_close(store));
  return value;
}

static cedrat_store *open_archived(const char *directory) {
  cedrat_store *store;
  cedrat_options options = {0};
  options.no_huge_pages = 1;
  options.log_limit_bytes = 64 << 20;
  options.archive = place[ARCHIVE];
  OK(cedrat_open(directory, &options, &store, NULL, 0));
  return store;
}

/* A backup that a full one is missing, or that another store has made, is not continued. */
static void refuses_increments(cedrat_store *store) {
  const char *missing[] = {place[UNUSED]}, *wrong[] = {place[FIRST]};
  cedrat_backup_options options = {0};
  char message[300];
  options.since = missing;
  options.since_count = 1;
  IS(CEDRAT_UNKNOWN, cedrat_backup(store, place[OTHER], &options, NULL));
  options.since = wrong;
  IS(CEDRAT_MISUSE, cedrat_backup(store, place[OTHER], &options, NULL));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "incremental") != NULL);
  options.since = NULL;
  IS(CEDRAT_NULL, cedrat_backup(store, place[OTHER], &options, NULL));
  options.since_count = 0;
  options.reserved[4] = 1;
  IS(CEDRAT_OPTIONS, cedrat_backup(store, place[OTHER], &options, NULL));
}

static void streams(cedrat_store *store) {
  stream bytes = {NULL, 0, 0, SIZE_MAX, 0}, failed = {NULL, 0, 0, 5000, 0};
  const char *full[] = {place[FULL]}, *increments[] = {place[STREAMED]};
  cedrat_backup_options options = {0};
  cedrat_restore_options restore = {0};
  cedrat_backup_report report;
  uint64_t count;
  size_t size;
  char message[300];
  options.since = full;
  options.since_count = 1;
  OK(cedrat_backup_to_stream(store, written, &bytes, &options, &report));
  CHECK(bytes.size > 1000 && report.up_to_lsn > 0 && report.cannot_continue == 0);
  OK(cedrat_restore_stream(has_read, &bytes, place[STREAMED], &count, NULL, 0));
  CHECK(count > 0 && count < bytes.size);
  restore.increments = increments;
  restore.increment_count = 1;
  OK(cedrat_restore(place[FULL], NULL, place[REST], &restore, NULL, NULL, 0));
  CHECK(value_in(place[REST]) == 3);

  bytes.at = 0;
  IS(CEDRAT_EXISTS, cedrat_restore_stream(has_read, &bytes, place[STREAMED], NULL, NULL, 0));
  bytes.at = 0;
  size = bytes.size--;
  IS(CEDRAT_IO, cedrat_restore_stream(has_read, &bytes, place[TORN], NULL, message, sizeof message));
  CHECK(strstr(message, "it is torn") != NULL);
  bytes.at = 0;
  bytes.fails_at = size / 2;
  IS(CEDRAT_IO, cedrat_restore_stream(has_read, &bytes, place[OTHER], NULL, message, sizeof message));
  CHECK(strstr(message, "returned -9") != NULL);
  IS(CEDRAT_IO, cedrat_backup_to_stream(store, written, &failed, NULL, NULL));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "returned 7") != NULL);
  size = (size_t)failed.calls;
  CHECK(failed.fails_at == 0 && size > 0);
  IS(CEDRAT_NULL, cedrat_backup_to_stream(store, NULL, NULL, NULL, NULL));
  IS(CEDRAT_NULL, cedrat_restore_stream(NULL, NULL, place[UNUSED], NULL, NULL, 0));
  free(bytes.bytes);
  free(failed.bytes);
}

/* The store is open, and goes on. */
static void views(cedrat_store *store, cedrat_heap *heap, uint64_t lsn) {
  const char *increments[] = {place[FIRST]};
  cedrat_restore_options moment = {0};
  cedrat_options options = {0};
  cedrat_store *view;
  cedrat_heap *viewed;
  cedrat_thread *self;
  uint64_t as_of, before = files_of(place[FULL]), number;
  char message[300] = "";
  cedrat_txn *txn;
  moment.increments = increments;
  moment.increment_count = 1;
  moment.lsn = lsn;
  options.no_huge_pages = 1;
  OK(cedrat_open_as_of(place[FULL], place[ARCHIVE], place[SCRATCH], &moment, &options, &view, &as_of, message, sizeof message));
  CHECK(as_of == lsn && value_of(view) == 2);
  set(store, heap, 4);
  CHECK(value_of(view) == 2 && value_of(store) == 4);
  OK(cedrat_heap_open(view, "words", &viewed));
  OK(cedrat_thread_create(view, &self));
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word_of(viewed), &number));
  CHECK(number == 2);
  OK(cedrat_store_word(self, word_of(viewed), 9));
  IS(CEDRAT_READ_ONLY, cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  OK(cedrat_txn_begin(view, &txn));
  IS(CEDRAT_READ_ONLY, cedrat_records_open(view, "new", &number));
  cedrat_txn_free(txn);
  IS(CEDRAT_MISUSE, cedrat_plain_stored(viewed, word_of(viewed), 8));
  CHECK(value_of(view) == 2);
  OK(cedrat_close(view));
  CHECK(files_of(place[FULL]) == before);

  moment.lsn = lsn + 1000;
  IS(CEDRAT_MISUSE, cedrat_open_as_of(place[FULL], place[ARCHIVE], place[UNUSED], &moment, &options, &view, NULL, message, sizeof message));
  CHECK(view == NULL && strstr(message, "LSN") != NULL);
  options.archive = place[ARCHIVE];
  IS(CEDRAT_OPTIONS, cedrat_open_as_of(place[FULL], NULL, place[UNUSED], NULL, &options, &view, NULL, NULL, 0));
  IS(CEDRAT_NULL, cedrat_open_as_of(NULL, NULL, place[UNUSED], NULL, NULL, &view, NULL, NULL, 0));
  IS(CEDRAT_NULL, cedrat_open_as_of(place[FULL], NULL, NULL, NULL, NULL, &view, NULL, NULL, 0));
}

/* The store is open, and goes on (E26.1, E26.3). */
static void reads_beside(cedrat_store *store, cedrat_heap *heap, const char *directory) {
  cedrat_options options = {0};
  cedrat_store *view;
  cedrat_heap *viewed;
  cedrat_thread *self;
  uint64_t as_of, later;
  char message[300] = "";
  options.no_huge_pages = 1;
  set(store, heap, 5);
  OK(cedrat_open_read_only(directory, &options, &view, &as_of, message, sizeof message));
  CHECK(as_of > 0 && value_of(view) == 5);
  set(store, heap, 6);
  CHECK(value_of(view) == 5 && value_of(store) == 6);
  OK(cedrat_heap_open(view, "words", &viewed));
  OK(cedrat_thread_create(view, &self));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word_of(viewed), 9));
  IS(CEDRAT_READ_ONLY, cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  OK(cedrat_close(view));
  OK(cedrat_open_read_only(directory, &options, &view, &later, message, sizeof message));
  CHECK(later > as_of && value_of(view) == 6);
  OK(cedrat_close(view));

  IS(CEDRAT_NULL, cedrat_open_read_only(NULL, NULL, &view, NULL, NULL, 0));
  options.archive = place[ARCHIVE];
  IS(CEDRAT_OPTIONS, cedrat_open_read_only(directory, &options, &view, NULL, NULL, 0));
}

int main(int count, char **arguments) {
  const char *since[] = {place[FULL], place[FIRST]}, *increments[] = {place[FIRST], place[SECOND]};
  cedrat_backup_options options = {0};
  cedrat_restore_options restore = {0};
  cedrat_backup_report report;
  cedrat_store *store;
  cedrat_heap *heap;
  uint64_t lsn;
  size_t index;
  char message[300] = "";
  CHECK(count == 2);
  for (index = 0; index < PLACES; index++) {
    CHECK(snprintf(place[index], sizeof place[index], "%s.%d", arguments[1], (int)index) < (int)sizeof place[index]);
  }
  store = open_archived(arguments[1]);
  heap = create_heap(store, "words", 1 << 20, 0);
  set(store, heap, 1);
  OK(cedrat_backup(store, place[FULL], NULL, &report));
  CHECK(report.cannot_continue == 0);
  set(store, heap, 2);
  options.since = since;
  options.since_count = 1;
  OK(cedrat_backup(store, place[FIRST], &options, NULL));
  OK(cedrat_archive_extend(store, &lsn));
  set(store, heap, 3);
  options.since_count = 2;
  OK(cedrat_backup(store, place[SECOND], &options, NULL));
  refuses_increments(store);
  streams(store);
  views(store, heap, lsn);
  reads_beside(store, heap, arguments[1]);
  OK(cedrat_close(store));

  restore.increments = increments;
  restore.increment_count = 2;
  OK(cedrat_restore(place[FULL], NULL, place[CHAIN], &restore, &report, NULL, 0));
  CHECK(report.up_to_lsn > lsn && value_in(place[CHAIN]) == 3);
  restore.increments = increments + 1;
  restore.increment_count = 1;
  IS(CEDRAT_MISUSE, cedrat_restore(place[FULL], NULL, place[UNUSED], &restore, NULL, message, sizeof message));
  CHECK(strstr(message, "it continues the backup") != NULL);
  restore.increments = NULL;
  IS(CEDRAT_NULL, cedrat_restore(place[FULL], NULL, place[UNUSED], &restore, NULL, NULL, 0));
  return 0;
}
