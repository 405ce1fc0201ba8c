/* Cost of a small transaction: `speed DIRECTORY [TRANSACTIONS [volatile]]` prints nanoseconds. Each measured transaction is a
 * function of its own, so that callgrind counts the instructions of the calls within it. */
#include "check.h"

#include <time.h>

#include "cedrat_stm.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define APART __attribute__((__noinline__))

static APART void once(STM_THREAD *self, uint64_t *word, int stores) {
  STM_BEGIN(self);
  if (stores) {
    STM_STORE(self, word, STM_LOAD(self, word) + 1);
  }
  STM_COMMIT(self);
}

/* Its local variables are reset in each attempt. */
static uint64_t sum_of(STM_THREAD *self, const uint64_t *words, unsigned count) {
  unsigned i;
  uint64_t sum = 0;
  for (i = 0; i < count; i++) {
    sum += STM_LOAD(self, &words[i]);
  }
  return sum;
}

static APART void load_many(STM_THREAD *self, const uint64_t *words, unsigned count) {
  STM_BEGIN(self);
  CHECK(sum_of(self, words, count) > 0);
  STM_COMMIT(self);
}

static void *allocate_in(STM_THREAD *self, cedrat_heap *heap, uint64_t *word) {
  uint64_t *block = (uint64_t *)STM_MALLOC(self, heap, 32);
  block[0] = block[1] = block[2] = block[3] = 1;
  STM_STORE_PTR(self, word, block);
  return block;
}

static APART void *allocate(STM_THREAD *self, cedrat_heap *heap, uint64_t *word) {
  void *volatile block;
  STM_BEGIN(self);
  block = allocate_in(self, heap, word);
  STM_COMMIT(self);
  return block;
}

static APART void release(STM_THREAD *self, uint64_t *word, void *block) {
  STM_BEGIN(self);
  STM_STORE_PTR(self, word, NULL);
  STM_FREE(self, block);
  STM_COMMIT(self);
}

int main(int count, char **arguments) {
  char message[300] = "";
  cedrat_store *store;
  cedrat_heap *heap;
  STM_THREAD self;
  static void *blocks[1000];
  void *block;
  cedrat_options options = {0};
  uint64_t *words, wanted = count > 2 ? strtoull(arguments[2], NULL, 10) : 10000, i;
  double began;
  options.volatile_memory = count > 3;
  if (cedrat_open(arguments[1], &options, &store, message, sizeof message) != CEDRAT_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  heap = create_heap(store, "heap", 4 << 20, 0);
  OK(cedrat_plain_alloc(heap, 1 << 20, &block));
  words = (uint64_t *)block;
  memset(words, 0, 1 << 20);
  OK(cedrat_checkpoint(store));
  STM_THREAD_INIT(&self, store);
  STM_MODE(&self, CEDRAT_NO_FLUSH);
  began = now();
  for (i = 0; i < wanted; i++) {
    once(&self, &words[i % 1000 * 64], 1);
  }
  printf("%6.1f ns per begin, load, store, commit\n", (now() - began) / (double)wanted);
  began = now();
  for (i = 0; i < wanted; i++) {
    once(&self, &words[i % 1000 * 64], 0);
  }
  printf("%6.1f ns per begin, commit\n", (now() - began) / (double)wanted);
  began = now();
  for (i = 0; i < wanted / 100; i++) {
    load_many(&self, words, 1000);
  }
  printf("%6.1f ns per load\n", (now() - began) / (double)(wanted / 100 * 1000));
  began = now();
  for (i = 0; i < wanted; i++) {
    if (blocks[i % 1000] != NULL) {
      release(&self, &words[i % 1000], blocks[i % 1000]);
    }
    blocks[i % 1000] = allocate(&self, heap, &words[i % 1000]);
  }
  printf("%6.1f ns per begin, free, commit, begin, malloc, commit\n", (now() - began) / (double)wanted);
  STM_THREAD_FREE(&self);
  OK(cedrat_close(store));
  return 0;
}
