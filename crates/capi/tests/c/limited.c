/* A process with a limit on its address space: a store opens with all defaults, works, and reports when address space runs
 * out. */
#include "check.h"

#include <sys/resource.h>

static const rlim_t limit = (rlim_t)2 << 30;

static cedrat_store *open_with_defaults(const char *directory) {
  char message[400] = "";
  cedrat_store *store;
  if (cedrat_open(directory, NULL, &store, message, sizeof message) != CEDRAT_OK) {
    fprintf(stderr, "%s\n", message);
    exit(1);
  }
  return store;
}

static void count_to(cedrat_store *store, cedrat_heap *heap, uint64_t wanted) {
  uint64_t value;
  uint64_t *word = (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
  cedrat_thread *self;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word, &value));
  OK(cedrat_store_word(self, word, value + 1));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(value + 1 == wanted);
  cedrat_thread_free(self);
}

static void add_record(cedrat_store *store) {
  uint64_t records, place;
  cedrat_txn *txn;
  OK(cedrat_records_open(store, "records", &records));
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_insert(txn, records, "a record", 8, &place));
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
}

static void too_large(cedrat_store *store) {
  cedrat_heap_options choices = {0};
  cedrat_heap *heap;
  char message[400];
  choices.size = (uint64_t)3 << 30;
  IS(CEDRAT_IO, cedrat_heap_create(store, "large", &choices, &heap));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "3221225472 bytes of address space") != NULL);
  CHECK(strstr(message, "size_max") != NULL && strstr(message, "ulimit -v") != NULL);
}

static void limited(const char *directory) {
  struct rlimit bound = {0};
  cedrat_heap_options choices = {0};
  cedrat_heap *heap;
  cedrat_store *store;
  uint64_t run;
  bound.rlim_cur = bound.rlim_max = limit;
  CHECK(setrlimit(RLIMIT_AS, &bound) == 0);
  for (run = 1; run <= 2; run++) {
    store = open_with_defaults(directory);
    if (run == 1) {
      choices.size = (uint64_t)512 << 20; /* by default it would grow to 4 GiB */
      OK(cedrat_heap_create(store, "heap", &choices, &heap));
      too_large(store);
    } else {
      OK(cedrat_heap_open(store, "heap", &heap));
    }
    count_to(store, heap, run);
    add_record(store);
    OK(cedrat_heap_grow(heap, cedrat_heap_size(heap)));
    IS(CEDRAT_LIMIT, cedrat_heap_grow(heap, (uint64_t)4 << 30));
    OK(cedrat_close(store));
  }
}

/* Without a limit, the heap has the size_max of its creation. */
static void unlimited(const char *directory) {
  cedrat_heap *heap;
  cedrat_store *store = open_with_defaults(directory);
  OK(cedrat_heap_open(store, "heap", &heap));
  count_to(store, heap, 3);
  OK(cedrat_heap_grow(heap, (uint64_t)600 << 20));
  OK(cedrat_close(store));
}

static void page_space(const char *directory) {
  char message[400] = "";
  cedrat_store *store;
  cedrat_options options = {0};
  options.page_space_bytes = 8192;
  IS(CEDRAT_LIMIT, cedrat_open(directory, &options, &store, message, sizeof message));
  CHECK(strstr(message, "page_space_bytes") != NULL);
  options.page_space_bytes = (uint64_t)64 << 20;
  options.stripes = 1 << 12;
  OK(cedrat_open(directory, &options, &store, message, sizeof message));
  add_record(store);
  OK(cedrat_close(store));
  options.stripes = 1000;
  IS(CEDRAT_OPTIONS, cedrat_open(directory, &options, &store, message, sizeof message));
  CHECK(strstr(message, "stripes") != NULL);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  CHECK(!in_a_child(limited, arguments[1]));
  CHECK(!in_a_child(unlimited, arguments[1]));
  page_space(arguments[1]);
  return 0;
}
