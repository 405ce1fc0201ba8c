/* The change stream: transactions, changes, tokens, consumers, and the thread that follows a store. */
#include "check.h"

#include <pthread.h>

static cedrat_store *store;
static cedrat_heap *heap;

static void set(uint64_t word, uint64_t value) {
  uint64_t *words = (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
  cedrat_thread *self;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, words + word, value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
}

/* Reads a transaction that sets one word of the heap, and returns the value; 0 if there is no transaction. */
static uint64_t next_value(cedrat_change_stream *stream, uint64_t word) {
  cedrat_change change;
  uint64_t lsn, transaction = 7, value;
  OK(cedrat_changes_next(stream, &lsn, &transaction));
  if (lsn == 0) {
    IS(CEDRAT_MISUSE, cedrat_changes_next_change(stream, &change));
    CHECK(change.kind == CEDRAT_CHANGE_END);
    return 0;
  }
  OK(cedrat_changes_next_change(stream, &change));
  CHECK(change.kind == CEDRAT_CHANGE_WORDS && change.heap == cedrat_heap_number(heap));
  CHECK(change.offset == cedrat_heap_first_offset(heap) + 8 * word && change.value_size == 8);
  memcpy(&value, change.value, sizeof value);
  OK(cedrat_changes_next_change(stream, &change));
  CHECK(change.kind == CEDRAT_CHANGE_END && change.value == NULL);
  return value;
}

/* Records are operations on pages, with a name and arguments. */
static void reads_records(void) {
  cedrat_change_stream *stream;
  cedrat_consumer *consumer;
  cedrat_change change;
  cedrat_txn *txn;
  uint64_t records, place, lsn, transaction;
  int found = 0;
  OK(cedrat_records_open(store, "orders", &records));
  OK(cedrat_consumer_open(store, "orders", 1 << 20, &consumer));
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_insert(txn, records, "17 pears", 8, &place));
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  OK(cedrat_consumer_changes(consumer, &stream));
  OK(cedrat_changes_next(stream, &lsn, &transaction));
  CHECK(lsn > 0 && transaction > 0);
  for (;;) {
    OK(cedrat_changes_next_change(stream, &change));
    if (change.kind == CEDRAT_CHANGE_END) {
      break;
    }
    if (change.kind == CEDRAT_CHANGE_RAW) {
      size_t at;
      CHECK(strlen(change.name) > 3 && change.page > 0);
      for (at = 0; at + 8 <= change.value_size; at++) {
        found += memcmp((const char *)change.value + at, "17 pears", 8) == 0;
      }
    }
  }
  CHECK(found == 1);
  cedrat_changes_free(stream);
  cedrat_consumer_free(consumer);
  OK(cedrat_consumer_drop(store, "orders"));
  IS(CEDRAT_UNKNOWN, cedrat_consumer_drop(store, "orders"));
}

static void *sets_later(void *unused) {
  set(3, 30);
  return unused;
}

/* Waits for a transaction of another thread. */
static void follows(void) {
  cedrat_change_stream *stream;
  unsigned char token[CEDRAT_TOKEN_SIZE];
  cedrat_statistics statistics;
  pthread_t thread;
  uint64_t value;
  int more = 7;
  OK(cedrat_get_statistics(store, &statistics));
  OK(cedrat_changes(store, statistics.stable_lsn + 1, &stream));
  CHECK(next_value(stream, 0) == 0);
  CHECK(pthread_create(&thread, NULL, sets_later, NULL) == 0);
  while ((value = next_value(stream, 3)) == 0) {
    OK(cedrat_changes_wait(stream, 100, &more));
    CHECK(more == 0 || more == 1);
  }
  CHECK(value == 30);
  CHECK(pthread_join(thread, NULL) == 0);
  OK(cedrat_changes_token(stream, token));
  IS(CEDRAT_MISUSE, cedrat_close(store));
  cedrat_changes_free(stream);
  OK(cedrat_changes_after(store, token, &stream));
  set(4, 40);
  CHECK(next_value(stream, 4) == 40);
  cedrat_changes_free(stream);
  token[0] ^= 1;
  IS(CEDRAT_MISUSE, cedrat_changes_after(store, token, &stream));
  CHECK(stream == NULL);
}

static void refuses(void) {
  cedrat_change_stream *stream;
  cedrat_consumer *consumer;
  char name[CEDRAT_CONSUMER_NAME_MAX + 2];
  uint64_t lsn;
  memset(name, 'n', sizeof name);
  name[sizeof name - 1] = 0;
  IS(CEDRAT_LIMIT, cedrat_consumer_open(store, name, 0, &consumer));
  IS(CEDRAT_NULL, cedrat_consumer_open(store, NULL, 0, &consumer));
  IS(CEDRAT_NULL, cedrat_consumer_open(store, "name", 0, NULL));
  IS(CEDRAT_NULL, cedrat_changes(NULL, 0, &stream));
  IS(CEDRAT_NULL, cedrat_changes(store, 0, NULL));
  IS(CEDRAT_NULL, cedrat_changes_after(store, NULL, &stream));
  IS(CEDRAT_NULL, cedrat_changes_next(NULL, &lsn, NULL));
  IS(CEDRAT_NULL, cedrat_consumer_restart(NULL));
  IS(CEDRAT_NULL, cedrat_consumer_list(store, NULL, 1, NULL));
  cedrat_changes_free(NULL);
  cedrat_consumer_free(NULL);
}

/* An opening after the first one goes on behind the confirmed token. */
static void consumes(const char *directory) {
  cedrat_change_stream *stream;
  cedrat_consumer *consumer;
  cedrat_consumer_status status[2];
  unsigned char token[CEDRAT_TOKEN_SIZE], confirmed[CEDRAT_TOKEN_SIZE];
  size_t count;
  OK(cedrat_consumer_open(store, "index", 0, &consumer));
  set(1, 10);
  set(2, 20);
  OK(cedrat_consumer_changes(consumer, &stream));
  CHECK(next_value(stream, 1) == 10);
  OK(cedrat_changes_token(stream, token));
  OK(cedrat_consumer_confirm(consumer, token));
  OK(cedrat_consumer_token(consumer, confirmed));
  CHECK(memcmp(token, confirmed, sizeof token) == 0);
  CHECK(next_value(stream, 2) == 20);
  cedrat_changes_free(stream);
  IS(CEDRAT_MISUSE, cedrat_close(store));
  cedrat_consumer_free(consumer);
  OK(cedrat_close(store));

  store = open_store(directory);
  OK(cedrat_heap_open(store, "words", &heap));
  OK(cedrat_consumer_list(store, status, 2, &count));
  CHECK(count == 1 && strcmp(status[0].name, "index") == 0 && status[0].limit_bytes == 256 << 20);
  CHECK(status[0].is_released == 0 && status[0].lacks_log == 0 && status[0].position_lsn > 0);
  OK(cedrat_consumer_open(store, "index", 0, &consumer));
  OK(cedrat_consumer_changes(consumer, &stream));
  CHECK(next_value(stream, 2) == 20);
  CHECK(next_value(stream, 0) == 0);
  cedrat_changes_free(stream);
  OK(cedrat_consumer_restart(consumer));
  OK(cedrat_consumer_changes(consumer, &stream));
  CHECK(next_value(stream, 0) == 0);
  cedrat_changes_free(stream);
  OK(cedrat_consumer_drop(store, "index"));
  IS(CEDRAT_UNKNOWN, cedrat_consumer_token(consumer, token));
  IS(CEDRAT_UNKNOWN, cedrat_consumer_changes(consumer, &stream));
  cedrat_consumer_free(consumer);
}

/* Nothing keeps the log for a stream that begins at the first LSN. */
static void loses(void) {
  cedrat_change_stream *stream;
  char message[300];
  OK(cedrat_checkpoint(store));
  IS(CEDRAT_CHANGES_LOST, cedrat_changes(store, 0, &stream));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "lost") != NULL);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  store = open_store(arguments[1]);
  heap = create_heap(store, "words", 1 << 20, 0);
  CHECK(cedrat_heap_number(NULL) == 0);
  refuses();
  consumes(arguments[1]);
  reads_records();
  follows();
  loses();
  OK(cedrat_close(store));
  return 0;
}
