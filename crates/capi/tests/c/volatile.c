/* A store of volatile heaps, and plain stores that a checkpoint makes durable. */
#include "check.h"

#include "cedrat_stm.h"

static void expect_refused(cedrat_store *store, cedrat_thread *self) {
  uint64_t records;
  cedrat_graph *graph;
  cedrat_txn *txn;
  size_t count;
  char message[300];
  IS(CEDRAT_MISUSE, cedrat_records_open(store, "records", &records));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "volatile") != NULL);
  IS(CEDRAT_MISUSE, cedrat_graph_open(store, "graph", NULL, &graph));
  IS(CEDRAT_MISUSE, cedrat_txn_begin(store, &txn));
  IS(CEDRAT_MISUSE, cedrat_in_doubt(store, NULL, 0, &count));
  OK(cedrat_begin(self));
  IS(CEDRAT_MISUSE, cedrat_prepare(self, "id", 2, NULL));
  OK(cedrat_abort(self));
}

static void in_memory_alone(void) {
  char message[300] = "";
  cedrat_options options = {0};
  cedrat_heap_options choices = {0};
  cedrat_store *store;
  cedrat_heap *heap;
  cedrat_statistics statistics;
  STM_THREAD self;
  uint64_t *block;
  void *plain;
  int stable = 1;
  options.volatile_memory = 1;
  options.stripes = 1 << 10;
  OK(cedrat_open(NULL, &options, &store, message, sizeof message));
  choices.size = 1 << 20;
  OK(cedrat_heap_create(store, "heap", &choices, &heap));
  OK(cedrat_plain_alloc(heap, 64, &plain));
  memset(plain, 1, 64);
  OK(cedrat_plain_set_root(heap, "plain", plain));
  OK(cedrat_checkpoint(store));
  STM_THREAD_INIT(&self, store);
  STM_BEGIN(&self);
  block = STM_MALLOC(&self, heap, 16);
  STM_STORE(&self, block, 7);
  STM_STORE(&self, (uint64_t *)plain, STM_LOAD(&self, (uint64_t *)plain) + 1);
  STM_COMMIT(&self);
  CHECK(*block == 7 && *(uint64_t *)plain == UINT64_C(0x0101010101010102));
  OK(cedrat_is_stable(store, STM_LSN(&self), 1, &stable));
  CHECK(!stable);
  OK(cedrat_get_statistics(store, &statistics));
  CHECK(statistics.newest_lsn == 0 && statistics.created == 1);
  expect_refused(store, self.thread);
  STM_THREAD_FREE(&self);
  OK(cedrat_close(store));
}

/* Dies after a checkpoint that contains the earlier plain stores. */
static void stores_plainly(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_heap *heap = create_heap(store, "heap", 1 << 20, 0);
  char *base = (char *)cedrat_heap_address(heap);
  size_t first = (size_t)cedrat_heap_first_offset(heap);
  cedrat_thread *self;
  OK(cedrat_checkpoint(store));
  /* Recovery must not replay this over later plain stores. */
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_store_bytes(self, base + first, "transaction", 11));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  memset(base + first, 0, 16);
  memset(base + first + 5, 'x', 9000);
  OK(cedrat_plain_stored(heap, base + first, 9005));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_plain_stored(heap, base, 8));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_plain_stored(heap, base + first, 1 << 20));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_plain_stored(heap, &first, 8));
  IS(CEDRAT_NULL, cedrat_plain_stored(NULL, base, 8));
  OK(cedrat_checkpoint(store));
  raise(SIGKILL);
}

static void finds_them(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_heap *heap;
  const char *bytes;
  unsigned i;
  OK(cedrat_heap_open(store, "heap", &heap));
  bytes = (const char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap);
  for (i = 0; i < 9100; i++) {
    CHECK(bytes[i] == (i >= 5 && i < 9005 ? 'x' : 0));
  }
  OK(cedrat_close(store));
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  in_memory_alone();
  CHECK(in_a_child(stores_plainly, arguments[1]));
  finds_them(arguments[1]);
  return 0;
}
