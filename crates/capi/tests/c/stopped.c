/* The disk fails: commits that were not durable are not acknowledged, and no later one is. */
#include "check.h"

#include <sys/resource.h>

static uint64_t *found(cedrat_store *store, cedrat_thread *self) {
  void *block;
  cedrat_heap *heap;
  OK(cedrat_heap_open(store, "heap", &heap));
  OK(cedrat_begin(self));
  OK(cedrat_get_root(self, heap, "words", &block));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  return (uint64_t *)block;
}

/* From here on each write to the log fails: no file may be longer than a few bytes. */
static void let_the_disk_fail(void) {
  struct rlimit few;
  signal(SIGXFSZ, SIG_IGN);
  CHECK(getrlimit(RLIMIT_FSIZE, &few) == 0);
  few.rlim_cur = 16;
  CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
}

/* Returns whether the last checkpoint has failed, according to two calls. */
static int has_no_checkpoint(cedrat_store *store) {
  cedrat_statistics statistics;
  char why[300] = "unset";
  OK(cedrat_get_statistics(store, &statistics));
  OK(cedrat_get_checkpoint_failure(store, why, sizeof why));
  CHECK(statistics.checkpoint_failed == (strstr(why, "reopen") != NULL));
  CHECK(statistics.checkpoint_failed == (why[0] != 0));
  return statistics.checkpoint_failed == 1;
}

static void stops(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_heap *heap = create_heap(store, "heap", 1 << 20, 0);
  cedrat_thread *self, *other;
  uint64_t *words, lsn = 0, value;
  void *block;
  int stable;
  char message[300];
  cedrat_statistics statistics;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_thread_create(store, &other));
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, heap, 800, &block));
  memset(block, 0, 800);
  OK(cedrat_set_root(self, heap, "words", block));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  words = (uint64_t *)block;
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, &words[0], 1));
  OK(cedrat_commit(self, CEDRAT_SYNC, &lsn));
  OK(cedrat_is_stable(store, lsn, 0, &stable));
  CHECK(stable == 1);

  CHECK(!has_no_checkpoint(store));
  OK(cedrat_get_statistics(store, &statistics));
  CHECK(statistics.refused_threads == 0);
  let_the_disk_fail();
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, &words[1], 2));
  OK(cedrat_begin(other));
  OK(cedrat_store_word(other, &words[10], 3));
  OK(cedrat_commit(self, CEDRAT_ASYNC, &lsn));
  IS(CEDRAT_STOPPED, cedrat_is_stable(store, lsn, 1, &stable));
  CHECK(stable == 0);
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "reopen") != NULL);
  IS(CEDRAT_STOPPED, cedrat_is_stable(store, lsn, 0, &stable));
  IS(CEDRAT_STOPPED, cedrat_commit(other, CEDRAT_SYNC, NULL));
  CHECK(!cedrat_is_running(other));
  IS(CEDRAT_STOPPED, cedrat_begin(self));
  CHECK(strstr(cedrat_error(self), "reopen") != NULL);
  IS(CEDRAT_MISUSE, cedrat_load_word(self, &words[0], &value));
  IS(CEDRAT_STOPPED, cedrat_plain_alloc(heap, 10, &block));
  IS(CEDRAT_STOPPED, cedrat_checkpoint(store));
  CHECK(has_no_checkpoint(store));
  IS(CEDRAT_NULL, cedrat_get_checkpoint_failure(store, NULL, 10));
  IS(CEDRAT_NULL, cedrat_get_checkpoint_failure(NULL, message, sizeof message));
  cedrat_thread_free(self);
  cedrat_thread_free(other);
  IS(CEDRAT_STOPPED, cedrat_close(store));
}

static void goes_on(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_thread *self;
  uint64_t *words;
  OK(cedrat_thread_create(store, &self));
  words = found(store, self);
  CHECK(!has_no_checkpoint(store));
  CHECK(words[0] == 1);
  CHECK(words[1] == 0 || words[1] == 2);
  CHECK(words[10] == 0 || words[10] == 3);
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, &words[1], 4));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  OK(cedrat_close(store));
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  CHECK(!in_a_child(stops, arguments[1]));
  CHECK(!in_a_child(goes_on, arguments[1]));
  return 0;
}
