/* A program to be run by valgrind: each kind of handle is used, freed, and used again after the store was opened again. */
#include "check.h"

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_graph *graph;
static uint64_t records;

static void open_all(const char *directory, int is_new) {
  char message[400] = "";
  cedrat_options options = {0};
  options.page_space_bytes = 64 << 20;
  options.page_pool_bytes = 1 << 20;
  options.log_limit_bytes = 16 << 20;
  options.segment_bytes = 1 << 20;
  options.stripes = 1 << 12;
  options.partitions = 2;
  if (cedrat_open(directory, &options, &store, message, sizeof message) != CEDRAT_OK) {
    fprintf(stderr, "%s\n", message);
    exit(1);
  }
  if (is_new) {
    heap = create_heap(store, "heap", 1 << 20, 0);
  } else {
    OK(cedrat_heap_open(store, "heap", &heap));
  }
  OK(cedrat_graph_open(store, "graph", NULL, &graph));
  OK(cedrat_records_open(store, "records", &records));
}

static void close_all(void) {
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

static void use_words(uint64_t round) {
  uint64_t *block, *before, value;
  char bytes[30];
  size_t size;
  void *found;
  cedrat_thread *self;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_get_root(self, heap, "block", &found));
  before = found;
  CHECK((before == NULL) == (round == 0));
  if (before != NULL) {
    OK(cedrat_load_word(self, before, &value));
    OK(cedrat_block_size(self, before, &size));
    CHECK(value == round - 1 && size == 100 + value);
    OK(cedrat_free(self, before));
    IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, before, &value));
  }
  OK(cedrat_malloc(self, heap, 100 + round, (void **)&block));
  memset(block, 1, 100);
  OK(cedrat_store_word(self, block, round));
  OK(cedrat_store_bytes(self, (char *)block + 13, "bytes within two words", 22));
  OK(cedrat_load_bytes(self, (char *)block + 13, bytes, 22));
  CHECK(memcmp(bytes, "bytes within two words", 22) == 0);
  OK(cedrat_set_root(self, heap, "block", block));
  OK(cedrat_commit(self, round % 2 ? CEDRAT_SYNC : CEDRAT_ASYNC, NULL));
  IS(CEDRAT_MISUSE, cedrat_load_word(self, block, &value));
  CHECK(cedrat_error(self)[0] != 0);
  OK(cedrat_begin(self));
  OK(cedrat_store_bytes(self, (char *)block + 8, "prepared", 8));
  OK(cedrat_prepare(self, "branch", 6, NULL));
  OK(cedrat_begin(self));
  IS(CEDRAT_IN_DOUBT, cedrat_load_word(self, block + 1, &value));
  cedrat_thread_free(self);
  OK(cedrat_commit_prepared(store, "branch", 6, CEDRAT_SYNC));
}

static void use_records(uint64_t round) {
  char record[200] = "a record";
  uint64_t places[10], place, savepoint;
  size_t count, size;
  cedrat_txn *txn;
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_list(txn, records, places, 10, &count));
  CHECK(count == round);
  OK(cedrat_records_insert(txn, records, record, 150, &place));
  OK(cedrat_records_update(txn, records, place, "short", 5));
  OK(cedrat_txn_savepoint(txn, &savepoint));
  OK(cedrat_records_delete(txn, records, place));
  IS(CEDRAT_UNKNOWN, cedrat_records_read(txn, records, place, record, sizeof record, &size));
  CHECK(cedrat_txn_error(txn)[0] != 0);
  OK(cedrat_txn_rollback_to(txn, savepoint));
  OK(cedrat_records_read(txn, records, place, record, sizeof record, &size));
  CHECK(size == 5 && memcmp(record, "short", 5) == 0);
  OK(cedrat_txn_store_word(txn, heap, cedrat_heap_first_offset(heap) + (1 << 19), round));
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_insert(txn, records, record, 150, &place));
  cedrat_txn_free(txn); /* rolled back */
}

static void use_graph(void) {
  cedrat_graph_collection *collection;
  cedrat_graph_stage stage = CEDRAT_GRAPH_MARKING;
  cedrat_graph_statistics statistics;
  uint32_t class_number;
  uint64_t root;
  OK(cedrat_graph_define_class(graph, "a class", 7, &class_number));
  OK(cedrat_graph_get_root(graph, "none", &root));
  CHECK(root == 0);
  OK(cedrat_graph_get_statistics(graph, &statistics));
  OK(cedrat_graph_collect_begin(graph, NULL, 0, &collection));
  while (stage != CEDRAT_GRAPH_DONE) {
    OK(stage == CEDRAT_GRAPH_MARKED ? cedrat_graph_collect_seal(collection, NULL, 0, &stage)
                                    : cedrat_graph_collect_step(collection, 100, &stage));
  }
  cedrat_graph_collect_free(collection);
}

static void use_log_alone(const char *directory, uint64_t round) {
  char path[1000], message[400] = "";
  cedrat_log_options options = {0};
  cedrat_log *log;
  cedrat_log_cursor *cursor;
  const void *bytes;
  uint64_t lsn, entries = 0;
  size_t size;
  CHECK(snprintf(path, sizeof path, "%s.log", directory) < (int)sizeof path);
  options.log_limit_bytes = 1 << 20;
  options.segment_bytes = 1 << 16;
  OK(cedrat_log_open(path, &options, &log, message, sizeof message));
  OK(cedrat_log_append(log, "an entry", 8, &lsn));
  OK(cedrat_log_force(log, lsn));
  OK(cedrat_log_cursor_create(log, 0, &cursor));
  do {
    OK(cedrat_log_cursor_next(cursor, &bytes, &size, &lsn));
    CHECK(lsn == 0 || (size == 8 && memcmp(bytes, "an entry", 8) == 0));
    entries += lsn != 0;
  } while (lsn != 0);
  CHECK(entries == round + 1);
  cedrat_log_cursor_free(cursor);
  OK(cedrat_log_close(log));
}

int main(int count, char **arguments) {
  uint64_t round;
  cedrat_usage usage;
  CHECK(count == 2);
  for (round = 0; round < 3; round++) {
    open_all(arguments[1], round == 0);
    use_words(round);
    use_records(round);
    use_graph();
    OK(cedrat_checkpoint(store));
    OK(cedrat_heap_verify(heap, &usage));
    use_log_alone(arguments[1], round);
    close_all();
  }
  return 0;
}
