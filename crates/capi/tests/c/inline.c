/* Loads and stores without a call: they see the same values as the functions, and fall back to them where more work is
 * needed. */
#include "check.h"

#include <pthread.h>

#include "cedrat_stm.h"

#define WORDS 512u
#define TOTAL (UINT64_C(1000) * WORDS)

static cedrat_store *store;
static cedrat_heap *heap;

static uint64_t *words_of(cedrat_heap *of) {
  /* The first words of a heap may be accessible only to the functions. */
  return (uint64_t *)((char *)cedrat_heap_address(of) + cedrat_heap_first_offset(of)) + 1024;
}

static cedrat_view *view_of(cedrat_thread *self) {
  cedrat_view *view = cedrat_thread_view(self, CEDRAT_VIEW_VERSION);
  CHECK(view != NULL && cedrat_thread_view(self, CEDRAT_VIEW_VERSION + 1) == NULL);
  CHECK(cedrat_thread_view(NULL, CEDRAT_VIEW_VERSION) == NULL);
  return view;
}

static void layout(void) {
  CHECK(offsetof(cedrat_view, heap) == 56 && offsetof(cedrat_view, snapshot) == 64);
  CHECK(offsetof(cedrat_view, reads) == 72 && offsetof(cedrat_view, writes) == 96);
  CHECK(offsetof(cedrat_view, filter) == 120 && sizeof(cedrat_view) == 120 + 1024);
  CHECK(offsetof(cedrat_view_write, bytes) == 24 && sizeof(cedrat_view_write) == 32);
}

/* A load without a call returns the value that the next call of the functions returns. */
static uint64_t loads(cedrat_thread *self, const uint64_t *word) {
  uint64_t shown = 0, loaded = 0;
  CHECK(cedrat_view_load(view_of(self), word, &shown));
  OK(cedrat_load_word(self, word, &loaded));
  CHECK(shown == loaded);
  return shown;
}

static void one_thread(void) {
  uint64_t value = 0, *words = words_of(heap);
  cedrat_thread *self, *other;
  cedrat_view *view;
  void *block;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_thread_create(store, &other));
  view = view_of(self);
  CHECK(!cedrat_view_load(view, words, &value) && !cedrat_view_store(view, words, 1)); /* no transaction runs */
  OK(cedrat_begin(self));
  CHECK(!cedrat_view_load(view, words, &value)); /* no heap is known yet */
  OK(cedrat_load_word(self, words, &value));
  CHECK(value == 0 && loads(self, words) == 0 && loads(self, words + WORDS) == 0);
  CHECK(!cedrat_view_load(view, (char *)words + 4, &value) && !cedrat_view_load(view, &value, &value));
  CHECK(!cedrat_view_load(view, (char *)cedrat_heap_address(heap) + cedrat_heap_size(heap), &value));
  CHECK(!cedrat_view_load(view, cedrat_heap_address(heap), &value)); /* the account of blocks */
  CHECK(!cedrat_view_store(view, words, 7)); /* the heap was not stored to yet */
  OK(cedrat_store_word(self, words, 7));
  CHECK(cedrat_view_store(view, words + 1, 8) && !cedrat_view_store(view, words + 1, 9));
  CHECK(!cedrat_view_load(view, words + 1, &value)); /* a word that it has stored to */
  OK(cedrat_load_word(self, words + 1, &value));
  CHECK(value == 8 && words[1] == 0);
  OK(cedrat_store_word(self, words + 1, 9));
  OK(cedrat_store_bytes(self, words + 2, "x", 1));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(words[0] == 7 && words[1] == 9 && words[2] == 'x');
  CHECK(!cedrat_view_load(view, words, &value) && !cedrat_view_store(view, words, 1));

  /* A word that another transaction has changed since it was loaded without a call: detected at the commit. */
  OK(cedrat_begin(self));
  CHECK(loads(self, words) == 7);
  OK(cedrat_begin(other));
  OK(cedrat_store_word(other, words, 70));
  OK(cedrat_commit(other, CEDRAT_ASYNC, NULL));
  CHECK(!cedrat_view_load(view, words, &value)); /* newer than the snapshot */
  CHECK(cedrat_view_store(view, words + 100, 1));
  IS(CEDRAT_ABORTED, cedrat_commit(self, CEDRAT_ASYNC, NULL));
  CHECK(words[100] == 0 && !cedrat_view_store(view, words, 1));
  OK(cedrat_begin(self));
  CHECK(loads(self, words) == 70);
  OK(cedrat_begin(other));
  CHECK(cedrat_view_store(view_of(other), words, 71));
  OK(cedrat_commit(other, CEDRAT_ASYNC, NULL));
  IS(CEDRAT_ABORTED, cedrat_load_word(self, words, &value));
  CHECK(!cedrat_view_load(view, words, &value));

  /* A block that the transaction has freed. */
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, heap, 64, &block));
  OK(cedrat_store_word(self, block, 5));
  OK(cedrat_commit(self, CEDRAT_ASYNC, NULL));
  OK(cedrat_begin(self));
  CHECK(loads(self, block) == 5);
  OK(cedrat_free(self, block));
  CHECK(!cedrat_view_load(view, block, &value) && !cedrat_view_load(view, (uint64_t *)block + 7, &value));
  CHECK(!cedrat_view_store(view, block, 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, block, &value));
  OK(cedrat_abort(self));
  CHECK(!cedrat_view_load(view, block, &value));
  OK(cedrat_begin(self));
  CHECK(loads(self, block) == 5);
  OK(cedrat_commit(self, CEDRAT_ASYNC, NULL));

  /* A block of no bytes has an address as well. */
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, heap, 0, &block));
  OK(cedrat_commit(self, CEDRAT_ASYNC, NULL));
  OK(cedrat_begin(self));
  (void)loads(self, block);
  OK(cedrat_free(self, block));
  CHECK(!cedrat_view_load(view, block, &value) && !cedrat_view_store(view, block, 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, block, &value));
  OK(cedrat_commit(self, CEDRAT_ASYNC, NULL));

  /* A prepare that meets a conflict: the next transaction has a view as before. */
  OK(cedrat_begin(self));
  CHECK(loads(self, words) == 71);
  OK(cedrat_begin(other));
  OK(cedrat_store_word(other, words, 71));
  OK(cedrat_commit(other, CEDRAT_ASYNC, NULL));
  IS(CEDRAT_ABORTED, cedrat_prepare(self, "id", 2, NULL));
  OK(cedrat_begin(self));
  CHECK(loads(self, words) == 71);
  OK(cedrat_abort(self));

  /* In doubt: the view belongs to the next transaction. */
  OK(cedrat_begin(self));
  CHECK(loads(self, words) == 71);
  OK(cedrat_store_word(self, words + 3, 3));
  OK(cedrat_prepare(self, "id", 2, NULL));
  CHECK(view_of(self) == view && !cedrat_view_load(view, words, &value));
  OK(cedrat_begin(self));
  CHECK(!cedrat_view_load(view, words + 3, &value));
  IS(CEDRAT_IN_DOUBT, cedrat_load_word(self, words + 3, &value));
  OK(cedrat_abort(self));
  OK(cedrat_commit_prepared(store, "id", 2, CEDRAT_SYNC));
  OK(cedrat_begin(self));
  CHECK(loads(self, words + 3) == 3);
  OK(cedrat_abort(self));
  cedrat_thread_free(other);
  cedrat_thread_free(self);
}

/* Two heaps in turn; one grows, one is dropped. */
static void two_heaps(void) {
  cedrat_heap_options choices = {0};
  cedrat_heap *second, *third;
  uint64_t value, *words, *mine = words_of(heap);
  cedrat_thread *self;
  choices.size = 1 << 20;
  choices.size_max = 4 << 20;
  OK(cedrat_heap_create(store, "second", &choices, &second));
  OK(cedrat_heap_create(store, "third", &choices, &third));
  OK(cedrat_thread_create(store, &self));
  words = words_of(second);
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, words, 1));
  OK(cedrat_store_word(self, mine, 72));
  CHECK(cedrat_view_store(view_of(self), mine + 1, 10) && !cedrat_view_store(view_of(self), words + 1, 2));
  OK(cedrat_store_word(self, words + 1, 2));
  CHECK(cedrat_view_store(view_of(self), words + 2, 3));
  CHECK(!cedrat_view_store(view_of(self), mine + 2, 1));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(words[0] == 1 && words[1] == 2 && words[2] == 3 && mine[0] == 72 && mine[1] == 10);
  OK(cedrat_heap_grow(second, 3 << 20));
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, words, &value));
  CHECK(loads(self, (uint64_t *)cedrat_heap_address(second) + (2 << 17)) == 0);
  OK(cedrat_load_word(self, words_of(third), &value));
  CHECK(loads(self, words_of(third)) == 0);
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_heap_drop(store, "third"));
  OK(cedrat_begin(self));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, &value, &value));
  OK(cedrat_load_word(self, words, &value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
}

#define SPREAD 160u

/* Returns a word of a heap by its number: words whose numbers differ by 40 share a byte of the filter. */
static uint64_t *nth(uint64_t *words, unsigned number) {
  return words + number % 40 + number / 40 * 1024;
}

/* A freed block is refused by the view, whatever was stored to it before, and to words that share its bytes of the filter. */
static void freed_in_between(cedrat_thread *self, uint64_t *block, uint64_t *words) {
  cedrat_view *view = view_of(self);
  uint64_t value, *shares = words + ((uint64_t)(block + 1 - words) & 1023);
  CHECK(!cedrat_view_load_stored(view, block + 1, &value) || value == 7);
  OK(cedrat_free(self, block));
  OK(cedrat_store_word(self, shares + 1024, 1));
  CHECK(!cedrat_view_load(view, block, &value) && !cedrat_view_load(view, block + 1, &value));
  CHECK(!cedrat_view_load_stored(view, block + 1, &value) && !cedrat_view_store_stored(view, block + 1, 8));
  CHECK(!cedrat_view_load_stored(view, block, &value) && !cedrat_view_store(view, block + 1, 8));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, block + 1, &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, block + 1, 8));
}

/* What the view shows of stored words is what the functions load, whatever was stored, where and how; and it is committed. */
static void stored_words(void) {
  static uint64_t wanted[2][SPREAD], before[2][SPREAD];
  cedrat_heap *second;
  cedrat_thread *self;
  cedrat_view *view;
  uint64_t shown, loaded, *words[2];
  unsigned i, round, random = 7, found = 0, changed = 0, bits[2] = {0, 0};
  OK(cedrat_heap_open(store, "second", &second));
  words[0] = words_of(heap) + 8192; /* the other tests use those before */
  words[1] = words_of(second) + 8192;
  OK(cedrat_thread_create(store, &self));
  view = view_of(self);
  for (round = 0; round < 200; round++) {
    void *block;
    CHECK(!cedrat_view_load_stored(view, words[0], &shown) && !cedrat_view_store_stored(view, words[0], 1));
    OK(cedrat_begin(self));
    OK(cedrat_malloc(self, heap, 40, &block));
    OK(cedrat_store_word(self, (uint64_t *)block + 1, 7));
    for (i = 0; i < 200; i++) {
      unsigned which, number;
      uint64_t *word;
      random = random * 1664525u + 1013904223u;
      which = random >> 30 & 1;
      number = (random >> 8) % SPREAD;
      word = nth(words[which], number);
      if ((random >> 20 & 7) == 0) {
        OK(cedrat_store_bytes(self, (char *)word + (random >> 24 & 7), "x", 1));
        ((char *)&wanted[which][number])[random >> 24 & 7] = 'x';
      } else if ((random >> 20 & 7) < 4) {
        if (cedrat_view_store_stored(view, word, random)) {
          changed++;
        } else if (!cedrat_view_store(view, word, random)) {
          OK(cedrat_store_word(self, word, random));
        }
        wanted[which][number] = random;
      }
      if (i == 20 && round % 4 == 0) {
        OK(cedrat_load_word(self, words[0], &loaded)); /* its heap is shown */
        freed_in_between(self, (uint64_t *)block, words[0] + 5 * 1024);
      }
      shown = 0;
      if (cedrat_view_load_stored(view, word, &shown)) {
        found++;
        CHECK(shown == wanted[which][number]);
      }
      if (cedrat_view_load(view, word, &shown)) {
        CHECK(shown == wanted[which][number]);
        bits[which]++;
      }
      OK(cedrat_load_word(self, word, &loaded));
      CHECK(loaded == wanted[which][number]);
    }
    if (round % 3 == 0) {
      OK(cedrat_abort(self));
      memcpy(wanted, before, sizeof wanted);
    } else {
      OK(cedrat_commit(self, CEDRAT_NO_FLUSH, NULL));
      memcpy(before, wanted, sizeof wanted);
    }
    for (i = 0; i < 2 * SPREAD; i++) {
      CHECK(*nth(words[i % 2], i / 2) == wanted[i % 2][i / 2]);
    }
  }
  CHECK(found > 1000 && changed > 1000 && bits[0] > 100 && bits[1] > 100);
  cedrat_thread_free(self);
}

static uint64_t sum(STM_THREAD *self, const uint64_t *words) {
  uint64_t all = 0;
  unsigned i;
  for (i = 0; i < WORDS; i++) {
    all += STM_LOAD(self, &words[i]);
  }
  return all;
}

static void move(STM_THREAD *self, uint64_t *words, unsigned from, unsigned to, uint64_t amount) {
  STM_STORE(self, &words[from], STM_LOAD(self, &words[from]) - amount);
  STM_STORE(self, &words[to], STM_LOAD(self, &words[to]) + amount);
}

/* Amounts move back and forth; each state that a transaction sees has the same sum, also one that is aborted later. */
static void *mover(void *words) {
  STM_THREAD self;
  unsigned i, random;
  STM_THREAD_INIT(&self, store);
  STM_MODE(&self, CEDRAT_NO_FLUSH);
  random = (unsigned)(uintptr_t)&self >> 4 | 1u;
  for (i = 0; i < 3000; i++) {
    random = random * 1664525u + 1013904223u;
    STM_BEGIN(&self);
    if (i % 16 == 0) {
      CHECK(sum(&self, (const uint64_t *)words) == TOTAL);
    }
    move(&self, (uint64_t *)words, random >> 8 & (WORDS - 1), random >> 20 & (WORDS - 1), random >> 30);
    STM_COMMIT(&self);
  }
  STM_THREAD_FREE(&self);
  return NULL;
}

static void many_threads(void) {
  pthread_t threads[4];
  uint64_t *words = words_of(heap);
  STM_THREAD self;
  unsigned i;
  STM_THREAD_INIT(&self, store);
  STM_BEGIN(&self);
  for (i = 0; i < WORDS; i++) {
    STM_STORE(&self, &words[i], 1000);
  }
  STM_COMMIT(&self);
  for (i = 0; i < 4; i++) {
    CHECK(pthread_create(&threads[i], NULL, mover, words) == 0);
  }
  for (i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  STM_BEGIN(&self);
  CHECK(sum(&self, words) == TOTAL);
  STM_COMMIT(&self);
  STM_THREAD_FREE(&self);
}

/* If each load must be checked, none is without a call; if stores lock, no store is. */
static void other_options(const char *directory, int check_blocks) {
  char message[300] = "";
  uint64_t value, *words;
  cedrat_thread *self;
  cedrat_options options = {0};
  options.check_blocks = check_blocks;
  options.encounter_locking = !check_blocks;
  OK(cedrat_open(directory, &options, &store, message, sizeof message));
  OK(cedrat_heap_open(store, "second", &heap));
  words = words_of(heap);
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  if (check_blocks) {
    IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, words, &value));
    CHECK(!cedrat_view_load(view_of(self), words, &value));
  } else {
    OK(cedrat_load_word(self, words, &value));
    CHECK(loads(self, words) == 1 && loads(self, words + 2) == 3);
    OK(cedrat_store_word(self, words, 1));
    CHECK(!cedrat_view_store(view_of(self), words + 64, 1));
    CHECK(!cedrat_view_load(view_of(self), words + 1, &value)); /* its stripe is locked */
    OK(cedrat_load_word(self, words + 1, &value));
    CHECK(value == 2);
  }
  OK(cedrat_abort(self));
  cedrat_thread_free(self);
  OK(cedrat_close(store));
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  layout();
  store = open_store(arguments[1]);
  heap = create_heap(store, "heap", 1 << 20, 0);
  one_thread();
  two_heaps();
  stored_words();
  many_threads();
  OK(cedrat_close(store));
  store = open_store(arguments[1]);
  OK(cedrat_heap_open(store, "heap", &heap));
  CHECK(words_of(heap)[0] != 0);
  OK(cedrat_close(store));
  other_options(arguments[1], 0);
  other_options(arguments[1], 1);
  return 0;
}
