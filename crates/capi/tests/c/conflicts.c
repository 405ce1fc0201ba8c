/* Transactions of several threads, and transactions that end otherwise than by a commit. */
#include "check.h"

#include <pthread.h>

#include "cedrat_stm.h"

enum { THREADS = 2, ADDITIONS = 20000 };

static cedrat_store *store;
static cedrat_heap *heap;
static uint64_t *words;

/* ---- by calls ----------------------------------------------------------------------------------------------------- */

static void the_later_of_two_is_aborted(void) {
  cedrat_thread *one, *other;
  cedrat_statistics before, after;
  uint64_t value;
  OK(cedrat_get_statistics(store, &before));
  OK(cedrat_thread_create(store, &one));
  OK(cedrat_thread_create(store, &other));
  OK(cedrat_begin(one));
  OK(cedrat_begin(other));
  OK(cedrat_load_word(one, &words[0], &value));
  OK(cedrat_store_word(other, &words[0], value + 1));
  OK(cedrat_commit(other, CEDRAT_SYNC, NULL));
  OK(cedrat_store_word(one, &words[8], value));
  IS(CEDRAT_ABORTED, cedrat_commit(one, CEDRAT_SYNC, NULL));
  CHECK(!cedrat_is_running(one) && strstr(cedrat_error(one), "conflict") != NULL);
  CHECK(words[8] == 0);
  OK(cedrat_begin(one));
  OK(cedrat_load_word(one, &words[0], &value));
  /* An inconsistent state is never visible: the load is aborted already. */
  OK(cedrat_begin(other));
  OK(cedrat_store_word(other, &words[0], value + 1));
  OK(cedrat_store_word(other, &words[8], value + 1));
  OK(cedrat_commit(other, CEDRAT_SYNC, NULL));
  IS(CEDRAT_ABORTED, cedrat_load_word(one, &words[8], &value));
  CHECK(!cedrat_is_running(one));
  IS(CEDRAT_MISUSE, cedrat_load_word(one, &words[8], &value));
  OK(cedrat_begin(one));
  IS(CEDRAT_ABORTED, cedrat_restart(one));
  OK(cedrat_begin(one));
  OK(cedrat_store_word(one, &words[8], 0));
  OK(cedrat_commit(one, CEDRAT_SYNC, NULL));
  OK(cedrat_get_statistics(store, &after));
  CHECK(after.conflicts == before.conflicts + 2);
  CHECK(after.stable_lsn <= after.newest_lsn && after.stable_lsn > before.stable_lsn);
  cedrat_thread_free(one);
  cedrat_thread_free(other);
}

/* ---- a thread that ends within a transaction ---------------------------------------------------------------------- */

static cedrat_thread *left;

static void *leaves(void *how) {
  void *block;
  OK(cedrat_begin(left));
  OK(cedrat_store_word(left, &words[16], 1));
  OK(cedrat_malloc(left, heap, 64, &block));
  if (how != NULL) {
    pthread_exit(NULL);
  }
  return NULL;
}

static void a_thread_that_ends_leaves_nothing(void) {
  pthread_t thread;
  cedrat_thread *other;
  cedrat_usage before, after;
  int how;
  OK(cedrat_heap_verify(heap, &before));
  OK(cedrat_thread_create(store, &left));
  OK(cedrat_thread_create(store, &other));
  for (how = 0; how < 2; how++) {
    CHECK(pthread_create(&thread, NULL, leaves, how ? &how : NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(!cedrat_is_running(left));
    /* Nothing is locked: the store was opened so that stores lock. */
    OK(cedrat_begin(other));
    OK(cedrat_store_word(other, &words[16], 2));
    OK(cedrat_commit(other, CEDRAT_SYNC, NULL));
    CHECK(words[16] == 2);
  }
  /* Its descriptor may be reused by another thread; freeing one within a transaction also rolls the transaction back. */
  OK(cedrat_begin(left));
  OK(cedrat_store_word(left, &words[16], 3));
  cedrat_thread_free(left);
  OK(cedrat_begin(other));
  OK(cedrat_store_word(other, &words[16], 4));
  OK(cedrat_commit(other, CEDRAT_SYNC, NULL));
  CHECK(words[16] == 4);
  cedrat_thread_free(other);
  OK(cedrat_heap_verify(heap, &after));
  CHECK(before.blocks == after.blocks);
}

/* ---- by macros ---------------------------------------------------------------------------------------------------- */

static void add(STM_THREAD *self, unsigned at, unsigned to) {
  STM_BEGIN(self);
  STM_STORE(self, &words[at], STM_LOAD(self, &words[at]) + 1);
  STM_STORE(self, &words[to], STM_LOAD(self, &words[to]) - 1);
  STM_COMMIT(self);
}

static void *adds(void *place) {
  STM_THREAD self;
  unsigned i, at = *(unsigned *)place;
  STM_THREAD_INIT(&self, store);
  STM_MODE(&self, CEDRAT_NO_FLUSH);
  for (i = 0; i < ADDITIONS; i++) {
    /* Two words, in a different order in each thread. */
    add(&self, at, at ^ 8);
    add(&self, at ^ 8, at);
    add(&self, at, 24);
  }
  STM_MODE(&self, CEDRAT_SYNC);
  add(&self, at, 24);
  STM_THREAD_FREE(&self);
  return NULL;
}

static void threads_lose_nothing(void) {
  static unsigned places[THREADS] = {0, 8};
  pthread_t threads[THREADS];
  uint64_t before = words[0] + words[8];
  int i;
  words[24] = 0;
  for (i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, adds, &places[i]) == 0);
  }
  for (i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  CHECK(words[0] + words[8] == before + THREADS * (ADDITIONS + 1));
  CHECK(words[24] == (uint64_t)0 - THREADS * (ADDITIONS + 1));
}

static unsigned restarts(STM_THREAD *self) {
  volatile unsigned attempts = 0;
  STM_BEGIN(self);
  attempts++;
  STM_STORE(self, &words[32], STM_LOAD(self, &words[32]) + 1);
  if (attempts < 4) {
    STM_RESTART(self);
  }
  STM_COMMIT(self);
  return attempts;
}

static void transactions_nest_restart_and_are_cancelled(void) {
  STM_THREAD self;
  uint64_t *block;
  STM_THREAD_INIT(&self, store);
  words[32] = 0;
  CHECK(restarts(&self) == 4 && words[32] == 1);
  CHECK(STM_LSN(&self) > 0);
  STM_BEGIN(&self);
  STM_STORE(&self, &words[32], 10);
  add(&self, 32, 40); /* a part of this transaction */
  CHECK(self.depth == 1 && words[32] == 1);
  CHECK(STM_LOAD(&self, &words[32]) == 11);
  STM_COMMIT(&self);
  CHECK(words[32] == 11);
  STM_BEGIN(&self);
  STM_STORE(&self, &words[32], 12);
  block = (uint64_t *)STM_MALLOC(&self, heap, 16);
  block[0] = 5;
  STM_FREE(&self, block);
  STM_CANCEL(&self);
  STM_COMMIT(&self);
  CHECK(words[32] == 11 && !cedrat_is_running(self.thread));
  STM_THREAD_FREE(&self);
}

int main(int count, char **arguments) {
  int locking;
  CHECK(count == 2);
  for (locking = 0; locking < 2; locking++) {
    char message[300] = "";
    cedrat_options options = {0};
    void *block;
    options.encounter_locking = locking;
    options.partitions = 2;
    if (cedrat_open(arguments[1], &options, &store, message, sizeof message) != CEDRAT_OK) {
      fprintf(stderr, "%s\n", message);
      return 1;
    }
    if (locking == 0) {
      heap = create_heap(store, "heap", 1 << 20, 0);
    } else {
      OK(cedrat_heap_open(store, "heap", &heap));
    }
    OK(cedrat_plain_alloc(heap, 64 * sizeof *words, &block));
    words = (uint64_t *)block;
    memset(words, 0, 64 * sizeof *words);
    OK(cedrat_checkpoint(store));
    the_later_of_two_is_aborted();
    a_thread_that_ends_leaves_nothing();
    threads_lose_nothing();
    transactions_nest_restart_and_are_cancelled();
    OK(cedrat_close(store));
  }
  return 0;
}
