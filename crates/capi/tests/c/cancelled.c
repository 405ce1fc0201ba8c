/* A thread that is about to be cancelled completes each call; it ends at the next cancellation point of the program, and its
 * transaction is aborted. */
#include "check.h"

#include <pthread.h>

static const char *directory;
static cedrat_store *store;
static cedrat_heap *heap;

/* Its log needs a new file each few commits, made by the thread that commits. */
static cedrat_store *open_with_short_segments(void) {
  char message[300] = "";
  cedrat_store *opened;
  cedrat_options options = {0};
  options.segment_bytes = 1 << 18;
  options.log_limit_bytes = 64 << 20;
  options.no_background = 1;
  OK(cedrat_open(directory, &options, &opened, message, sizeof message));
  return opened;
}

static void opens_and_closes(void) {
  cedrat_store *other = open_with_short_segments();
  (void)create_heap(other, "heap", 1 << 20, 0);
  OK(cedrat_close(other));
}

/* The log gets new segments. */
static void commits(void) {
  static char large[1 << 19];
  cedrat_thread *self;
  void *block;
  int round;
  OK(cedrat_thread_create(store, &self));
  for (round = 0; round < 100; round++) {
    OK(cedrat_begin(self));
    OK(cedrat_malloc(self, heap, sizeof large, &block));
    OK(cedrat_store_bytes(self, block, large, sizeof large));
    OK(cedrat_set_root(self, heap, "block", block));
    OK(cedrat_free(self, block));
    OK(cedrat_set_root(self, heap, "block", NULL));
    OK(cedrat_commit(self, round % 2 == 0 ? CEDRAT_SYNC : CEDRAT_ASYNC, NULL));
  }
  OK(cedrat_begin(self)); /* runs on when the thread ends */
  OK(cedrat_store_bytes(self, (char *)cedrat_heap_address(heap) + (1 << 20), "x", 1));
}

static void changes_all_faces(void) {
  static char record[1000];
  cedrat_graph *graph;
  cedrat_graph_collection *collection;
  cedrat_graph_stage stage;
  cedrat_txn *txn;
  uint64_t records, place;
  uint32_t class_number;
  int round;
  OK(cedrat_records_open(store, "records", &records));
  OK(cedrat_txn_begin(store, &txn));
  for (round = 0; round < 3000; round++) {
    OK(cedrat_records_insert(txn, records, record, sizeof record, &place));
  }
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  OK(cedrat_graph_open(store, "objects", NULL, &graph));
  OK(cedrat_graph_define_class(graph, record, sizeof record, &class_number));
  OK(cedrat_graph_collect_begin(graph, NULL, 0, &collection));
  OK(cedrat_graph_collect_step(collection, 10, &stage));
  cedrat_graph_collect_free(collection);
  cedrat_graph_close(graph);
  OK(cedrat_checkpoint(store));
}

static void *run(void *part) {
  void (*call)(void) = *(void (**)(void))part;
  CHECK(pthread_cancel(pthread_self()) == 0);
  call();
  pthread_testcancel();
  return NULL;
}

static void in_cancelled_thread(void (*part)(void)) {
  pthread_t thread;
  void *ended;
  CHECK(pthread_create(&thread, NULL, run, &part) == 0);
  CHECK(pthread_join(thread, &ended) == 0);
  CHECK(ended == PTHREAD_CANCELED);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  directory = arguments[1];
  in_cancelled_thread(opens_and_closes);
  store = open_with_short_segments();
  heap = create_heap(store, "large", 64 << 20, 0);
  in_cancelled_thread(commits);
  in_cancelled_thread(changes_all_faces);
  return 0;
}
