/* Backups beside transactions of several threads, and what is refused meanwhile. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 2, WORDS = 512 };

static cedrat_store *store;
static cedrat_heap *heap;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static uint64_t committed;
static int is_over;

static uint64_t *words_of(cedrat_heap *of) {
  return (uint64_t *)((char *)cedrat_heap_address(of) + cedrat_heap_first_offset(of));
}

static uint64_t now(void) {
  uint64_t number;
  CHECK(pthread_mutex_lock(&turn) == 0);
  number = committed;
  CHECK(pthread_mutex_unlock(&turn) == 0);
  return number;
}

/* Writes one number to all words, until it is over. */
static void *commits(void *is_first) {
  cedrat_thread *self;
  OK(cedrat_thread_create(store, &self));
  for (;;) {
    size_t word;
    CHECK(pthread_mutex_lock(&turn) == 0);
    if (is_over) {
      break;
    }
    OK(cedrat_begin(self));
    for (word = 0; word < WORDS; word++) {
      OK(cedrat_store_word(self, words_of(heap) + word, committed + 1));
    }
    OK(cedrat_commit(self, is_first == NULL ? CEDRAT_ASYNC : CEDRAT_SYNC, NULL));
    committed++;
    CHECK(pthread_mutex_unlock(&turn) == 0);
  }
  CHECK(pthread_mutex_unlock(&turn) == 0);
  cedrat_thread_free(self);
  return NULL;
}

/* Returns the number that all words have. */
static uint64_t number_in(const char *directory) {
  cedrat_store *copy = open_store(directory);
  cedrat_heap *of;
  const uint64_t *words;
  uint64_t number;
  size_t word;
  OK(cedrat_heap_open(copy, "words", &of));
  words = words_of(of);
  number = words[0];
  for (word = 0; word < WORDS; word++) {
    CHECK(words[word] == number);
  }
  OK(cedrat_close(copy));
  return number;
}

static void refuses(const char *directory, const char *copy) {
  void *block;
  char message[300];
  cedrat_backup_options options = {0};
  IS(CEDRAT_NULL, cedrat_backup(NULL, copy, NULL, NULL));
  IS(CEDRAT_NULL, cedrat_backup(store, NULL, NULL, NULL));
  IS(CEDRAT_EXISTS, cedrat_backup(store, directory, &options, NULL));
  OK(cedrat_plain_alloc(heap, 64, &block));
  IS(CEDRAT_MISUSE, cedrat_backup(store, copy, &options, NULL));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "take a checkpoint") != NULL);
  OK(cedrat_checkpoint(store));
  OK(cedrat_plain_stored(heap, words_of(heap), 8));
  IS(CEDRAT_MISUSE, cedrat_backup(store, copy, &options, NULL));
  OK(cedrat_checkpoint(store));
}

int main(int count, char **arguments) {
  enum { BACKUPS = 3 };
  char copy[BACKUPS + 1][300];
  pthread_t threads[THREADS];
  cedrat_backup_report report;
  uint64_t before, number;
  size_t index;
  CHECK(count == 2);
  for (index = 0; index <= BACKUPS; index++) {
    CHECK(snprintf(copy[index], sizeof copy[index], "%s.copy%d", arguments[1], (int)index) < (int)sizeof copy[index]);
  }
  store = open_store(arguments[1]);
  heap = create_heap(store, "words", 1 << 20, 0);
  refuses(arguments[1], copy[BACKUPS]);
  for (index = 0; index < THREADS; index++) {
    CHECK(pthread_create(&threads[index], NULL, commits, index == 0 ? &turn : NULL) == 0);
  }
  for (index = 0; index < BACKUPS; index++) {
    before = now();
    OK(cedrat_backup(store, copy[index], NULL, &report));
    CHECK(report.bytes >= 1 << 20 && report.up_to_lsn > 0);
    number = number_in(copy[index]);
    CHECK(before <= number && number <= now());
  }
  CHECK(pthread_mutex_lock(&turn) == 0);
  is_over = 1;
  CHECK(pthread_mutex_unlock(&turn) == 0);
  for (index = 0; index < THREADS; index++) {
    CHECK(pthread_join(threads[index], NULL) == 0);
  }
  OK(cedrat_close(store));
  CHECK(number_in(arguments[1]) == committed);
  return 0;
}
