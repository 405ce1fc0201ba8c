/* A process forks while its other threads commit, and so while they hold latches, which stay held in the child. Whatever the
 * child does with the store ends with an error, and does not wait. */
#include "check.h"

#include <pthread.h>

#define WRITERS 3
#define FORKS 180
#define WAITS_MAX 30 /* seconds, for a child that needs none */

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_thread *own;
static cedrat_txn *pending;
static uint64_t *own_block;
static uint64_t records, own_records, newest;
static volatile int ends;

static void *write_records(void *of_heap) {
  uint64_t place, *word = (uint64_t *)of_heap;
  cedrat_thread *self;
  cedrat_txn *txn;
  OK(cedrat_thread_create(store, &self));
  while (!ends) {
    OK(cedrat_begin(self));
    OK(cedrat_store_word(self, word, 7));
    OK(cedrat_commit(self, CEDRAT_ASYNC, NULL));
    OK(cedrat_txn_begin(store, &txn));
    /* Another thread may deadlock with this one. */
    if (cedrat_records_insert(txn, records, "record", 6, &place) == CEDRAT_OK) {
      OK(cedrat_records_delete(txn, records, place));
      OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_ASYNC, NULL, 0, NULL));
    }
    cedrat_txn_free(txn);
  }
  cedrat_thread_free(self);
  return NULL;
}

static void closes(void) {
  CHECK(cedrat_close(store) != CEDRAT_OK);
}

static void frees_and_closes(void) {
  cedrat_txn_free(pending);
  cedrat_thread_free(own);
  CHECK(cedrat_close(store) != CEDRAT_OK);
}

static void commits(void) {
  CHECK(cedrat_txn_commit(pending, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL) != CEDRAT_OK);
  cedrat_txn_free(pending);
}

static void commits_words(void) {
  CHECK(cedrat_commit(own, CEDRAT_SYNC, NULL) != CEDRAT_OK);
  cedrat_thread_free(own);
}

static void rolls_words_back(void) {
  cedrat_abort(own);
  CHECK(cedrat_begin(own) != CEDRAT_OK);
}

static void takes_a_checkpoint(void) {
  CHECK(cedrat_checkpoint(store) != CEDRAT_OK);
}

static void waits_for_a_commit(void) {
  int stable = 0;
  CHECK(cedrat_is_stable(store, newest + 1000000, 1, &stable) != CEDRAT_OK || !stable);
}

static void creates_a_heap(void) {
  cedrat_heap *other;
  cedrat_heap_options options = {0};
  options.size = 1 << 20;
  CHECK(cedrat_heap_create(store, "other", &options, &other) != CEDRAT_OK);
}

static void exits(void) {
  exit(0);
}

static void (*const acts[])(void) = {closes, frees_and_closes, commits, commits_words, rolls_words_back, takes_a_checkpoint,
                                     waits_for_a_commit, creates_a_heap, exits};

int main(int count, char **arguments) {
  pthread_t writers[WRITERS];
  cedrat_status outcome;
  uint64_t place;
  size_t number;
  CHECK(count == 2);
  store = open_store(arguments[1]);
  heap = create_heap(store, "words", 1 << 20, 0);
  OK(cedrat_records_open(store, "records", &records));
  OK(cedrat_records_open(store, "own records", &own_records));
  OK(cedrat_thread_create(store, &own));
  OK(cedrat_begin(own));
  OK(cedrat_malloc(own, heap, 64, (void **)&own_block));
  OK(cedrat_store_word(own, own_block, 7));
  OK(cedrat_txn_begin(store, &pending));
  OK(cedrat_records_insert(pending, own_records, "pending", 7, &place));
  for (number = 0; number < WRITERS; number++) {
    uint64_t *word = (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap)) + 512 * number;
    CHECK(pthread_create(&writers[number], NULL, write_records, word) == 0);
  }
  for (number = 0; number < FORKS; number++) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(WAITS_MAX);
      acts[number % (sizeof acts / sizeof acts[0])]();
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0) {
      fprintf(stderr, "child %d ended with status %d, by signal %d\n", (int)number, WEXITSTATUS(status), WTERMSIG(status));
      exit(1);
    }
  }
  ends = 1;
  for (number = 0; number < WRITERS; number++) {
    CHECK(pthread_join(writers[number], NULL) == 0);
  }
  OK(cedrat_commit(own, CEDRAT_SYNC, NULL));
  /* Rolled back if the others have filled the log meanwhile. */
  outcome = cedrat_txn_commit(pending, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL);
  CHECK(outcome == CEDRAT_OK || outcome == CEDRAT_ROLLED_BACK);
  cedrat_txn_free(pending);
  cedrat_thread_free(own);
  OK(cedrat_close(store));
  return 0;
}
