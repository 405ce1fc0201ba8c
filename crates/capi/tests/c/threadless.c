/* The system refuses all threads to the process: the store works, and counts them. */
#include "check.h"

int main(int count_of, char **arguments) {
  cedrat_store *store;
  cedrat_heap *heap;
  cedrat_thread *self;
  cedrat_statistics statistics;
  uint64_t *word, value;
  CHECK(count_of == 2);
  store = open_store(arguments[1]);
  OK(cedrat_get_statistics(store, &statistics));
  CHECK(statistics.refused_threads >= 3); /* the cleaner, the checkpointer, and a writer of the log */
  heap = create_heap(store, "heap", 1 << 20, 0);
  word = (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word, 7));
  OK(cedrat_commit(self, CEDRAT_ASYNC, NULL));
  cedrat_thread_free(self);
  OK(cedrat_close(store));

  store = open_store(arguments[1]);
  OK(cedrat_heap_open(store, "heap", &heap));
  word = (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word, &value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(value == 7);
  cedrat_thread_free(self);
  OK(cedrat_close(store));
  return 0;
}
