/* Transactions over an object, a record and a word at once: committed, rolled back and refused as a whole. */
#include "check.h"

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_graph *graph;
static uint64_t records, object;

static void open_all(const char *directory) {
  cedrat_heap_options choices = {0};
  store = open_store(directory);
  if (cedrat_heap_open(store, "words", &heap) != CEDRAT_OK) {
    choices.size = 1 << 20;
    OK(cedrat_heap_create(store, "words", &choices, &heap));
  }
  OK(cedrat_graph_open(store, "objects", NULL, &graph));
  OK(cedrat_records_open(store, "records", &records));
}

static void close_all(void) {
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

/* Encodes the changes of a commit that adds an object of one word, or replaces it. Little-endian machines only. */
static size_t add(unsigned char *changes, uint64_t value) {
  const uint32_t head[4] = {1, 16, 1, 8};
  memcpy(changes, head, 16);
  memcpy(changes + 16, &value, 8);
  return 24;
}

static size_t patch(unsigned char *changes, uint64_t value) {
  const uint32_t head[2] = {2, 8}, where[2] = {8, 0};
  memcpy(changes, head, 8);
  memcpy(changes + 8, &object, 8);
  memcpy(changes + 16, where, 8);
  memcpy(changes + 24, &value, 8);
  return 32;
}

static uint64_t of_object(void) {
  unsigned char bytes[16];
  uint64_t value;
  size_t size;
  OK(cedrat_graph_read(graph, object, bytes, sizeof bytes, &size));
  CHECK(size == 16);
  memcpy(&value, bytes + 8, 8);
  return value;
}

/* Checks that all three have this value. */
static void all_are(uint64_t place, uint64_t expected) {
  cedrat_txn *txn;
  uint64_t block, value, places[2];
  size_t size, count;
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_read(txn, records, place, &value, sizeof value, &size));
  CHECK(size == sizeof value && value == expected);
  OK(cedrat_records_list(txn, records, places, 2, &count));
  CHECK(count == 1 && places[0] == place);
  IS(CEDRAT_LIMIT, cedrat_records_list(txn, records, places, 0, &count));
  IS(CEDRAT_LIMIT, cedrat_records_read(txn, records, place, &value, 3, &size));
  CHECK(size == sizeof value && count == 1);
  OK(cedrat_txn_get_root(txn, heap, "word", &block));
  OK(cedrat_txn_load_word(txn, heap, block, &value));
  CHECK(value == expected && of_object() == expected);
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
}

static cedrat_txn *with_value(uint64_t place, uint64_t value) {
  cedrat_txn *txn;
  uint64_t block;
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_update(txn, records, place, &value, sizeof value));
  OK(cedrat_txn_get_root(txn, heap, "word", &block));
  OK(cedrat_txn_store_word(txn, heap, block, value));
  return txn;
}

/* Places and collections by arbitrary numbers: missing ones are unknown, and those of other owners stay unchanged. */
static void wild_numbers_are_unknown(uint64_t place) {
  static const uint64_t wild[] = {0, 1, 2, 999999, (uint64_t)1 << 47, UINT64_MAX};
  uint64_t others, value, added, places[8];
  size_t size, count, i;
  cedrat_txn *txn;
  OK(cedrat_records_open(store, "others", &others));
  OK(cedrat_txn_begin(store, &txn));
  for (i = 0; i < sizeof wild / sizeof *wild; i++) {
    const uint64_t at = wild[i] << 16 | 1;
    IS(CEDRAT_UNKNOWN, cedrat_records_read(txn, wild[i], place, &value, sizeof value, &size));
    IS(CEDRAT_UNKNOWN, cedrat_records_insert(txn, wild[i], &value, sizeof value, &added));
    IS(CEDRAT_UNKNOWN, cedrat_records_list(txn, wild[i], places, 8, &count));
    IS(CEDRAT_UNKNOWN, cedrat_records_read(txn, records, at, &value, sizeof value, &size));
    IS(CEDRAT_UNKNOWN, cedrat_records_update(txn, records, at, &value, sizeof value));
    IS(CEDRAT_UNKNOWN, cedrat_records_delete(txn, records, at));
  }
  IS(CEDRAT_UNKNOWN, cedrat_records_read(txn, others, place, &value, sizeof value, &size));
  IS(CEDRAT_UNKNOWN, cedrat_records_update(txn, others, place, &value, sizeof value));
  IS(CEDRAT_UNKNOWN, cedrat_records_delete(txn, others, place));
  OK(cedrat_records_insert(txn, others, "other", 5, &added));
  OK(cedrat_records_list(txn, records, places, 8, &count));
  CHECK(count == 1 && places[0] == place);
  OK(cedrat_records_list(txn, others, places, 8, &count));
  CHECK(count == 1 && places[0] == added);
  cedrat_txn_free(txn);
}

/* A freed block is not used again in the same transaction, unless the free is rolled back. */
static void access_to_freed_block_is_reported(void) {
  uint64_t block, value, savepoint;
  cedrat_txn *txn;
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_txn_get_root(txn, heap, "word", &block));
  OK(cedrat_txn_savepoint(txn, &savepoint));
  OK(cedrat_txn_release(txn, heap, block));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_txn_load_word(txn, heap, block, &value));
  CHECK(strstr(cedrat_txn_error(txn), "this transaction has freed") != NULL);
  IS(CEDRAT_NOT_ALLOCATED, cedrat_txn_store_word(txn, heap, block, 9));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_txn_release(txn, heap, block));
  OK(cedrat_txn_rollback_to(txn, savepoint));
  OK(cedrat_txn_load_word(txn, heap, block, &value));
  OK(cedrat_txn_store_word(txn, heap, block, value));
  cedrat_txn_free(txn);
}

/* With check_blocks, access to a word outside of all blocks is reported. */
static void access_outside_blocks_is_reported(const char *directory) {
  cedrat_options options = {0};
  uint64_t block, value;
  cedrat_txn *txn;
  options.check_blocks = 1;
  OK(cedrat_open(directory, &options, &store, NULL, 0));
  OK(cedrat_heap_open(store, "words", &heap));
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_txn_get_root(txn, heap, "word", &block));
  OK(cedrat_txn_load_word(txn, heap, block, &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_txn_load_word(txn, heap, block + 8, &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_txn_store_word(txn, heap, block + 8, 1));
  OK(cedrat_txn_store_word(txn, heap, block, value));
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  OK(cedrat_close(store));
}

int main(int count, char **arguments) {
  unsigned char changes[64];
  cedrat_txn *txn;
  uint64_t place, block, value = 1, savepoint, lsn = 0;
  uint32_t class_number;
  size_t size;
  int stable = 0;
  CHECK(count == 2);
  open_all(arguments[1]);
  OK(cedrat_graph_define_class(graph, "one word", 8, &class_number));
  CHECK(class_number == 1);

  OK(cedrat_txn_begin(store, &txn));
  IS(CEDRAT_MISUSE, cedrat_close(store));
  OK(cedrat_records_insert(txn, records, &value, sizeof value, &place));
  OK(cedrat_txn_allocate(txn, heap, 8, &block));
  OK(cedrat_txn_load_word(txn, heap, block, &value));
  CHECK(value == 0);
  OK(cedrat_txn_store_word(txn, heap, block, 1));
  OK(cedrat_txn_set_root(txn, heap, "word", block));
  OK(cedrat_txn_commit(txn, graph, changes, add(changes, 1), CEDRAT_ASYNC, &object, 1, &lsn));
  OK(cedrat_is_stable(store, lsn, 1, &stable));
  CHECK(stable);
  IS(CEDRAT_MISUSE, cedrat_txn_store_word(txn, heap, block, 2));
  CHECK(strstr(cedrat_txn_error(txn), "ended") != NULL);
  cedrat_txn_free(txn);
  all_are(place, 1);

  /* Rolled back, as a whole or to a savepoint. */
  cedrat_txn_free(with_value(place, 2));
  all_are(place, 1);
  txn = with_value(place, 3);
  OK(cedrat_txn_savepoint(txn, &savepoint));
  CHECK(savepoint == 0);
  value = 4;
  OK(cedrat_records_update(txn, records, place, &value, sizeof value));
  OK(cedrat_txn_store_word(txn, heap, block, 4));
  OK(cedrat_txn_rollback_to(txn, savepoint));
  IS(CEDRAT_MISUSE, cedrat_txn_rollback_to(txn, 1));
  OK(cedrat_txn_commit(txn, graph, changes, patch(changes, 3), CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  all_are(place, 3);

  /* Refused because of the objects: nothing of the others is committed. */
  txn = with_value(place, 5);
  object += 1;
  IS(CEDRAT_UNKNOWN, cedrat_txn_commit(txn, graph, changes, patch(changes, 5), CEDRAT_SYNC, NULL, 0, NULL));
  object -= 1;
  CHECK(strstr(cedrat_txn_error(txn), "entry 0") != NULL);
  cedrat_txn_free(txn);
  txn = with_value(place, 5);
  IS(CEDRAT_NULL, cedrat_txn_commit(txn, NULL, changes, 8, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  all_are(place, 3);

  /* Mistakes that change nothing. */
  OK(cedrat_txn_begin(store, &txn));
  IS(CEDRAT_UNKNOWN, cedrat_records_read(txn, records, place + 1, &value, sizeof value, &size));
  IS(CEDRAT_UNKNOWN, cedrat_records_delete(txn, records, place & ~(uint64_t)0xffff));
  IS(CEDRAT_MISALIGNED, cedrat_txn_load_word(txn, heap, block + 1, &value));
  OK(cedrat_records_delete(txn, records, place));
  OK(cedrat_txn_release(txn, heap, block));
  OK(cedrat_txn_set_root(txn, heap, "word", 0));
  cedrat_txn_free(txn);
  cedrat_txn_free(NULL);
  wild_numbers_are_unknown(place);
  access_to_freed_block_is_reported();
  IS(CEDRAT_NULL, cedrat_txn_savepoint(NULL, &savepoint));
  close_all();

  open_all(arguments[1]);
  all_are(place, 3);
  close_all();
  access_outside_blocks_is_reported(arguments[1]);
  return 0;
}
