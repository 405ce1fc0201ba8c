/* A program that has locked its memory, also what it maps later (mlockall): a store takes memory only for what it uses. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define RESERVED ((uint64_t)512 << 20)
#define MEMORY_MAX (200L << 10) /* KiB */

static void use(const char *directory, int is_new) {
  cedrat_options options = {0};
  cedrat_heap_options choices = {0};
  char message[400] = "";
  uint64_t records, place, value;
  cedrat_store *store;
  cedrat_heap *heap;
  cedrat_thread *self;
  cedrat_txn *txn;
  char *word;
  options.page_space_bytes = RESERVED;
  options.page_pool_bytes = 1 << 20;
  if (cedrat_open(directory, &options, &store, message, sizeof message) != CEDRAT_OK) {
    fprintf(stderr, "%s\n", message);
    exit(1);
  }
  choices.size = choices.size_max = RESERVED;
  if (is_new) {
    OK(cedrat_heap_create(store, "heap", &choices, &heap));
  } else {
    OK(cedrat_heap_open(store, "heap", &heap));
  }
  OK(cedrat_thread_create(store, &self));
  word = (char *)cedrat_heap_address(heap) + RESERVED / 2;
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word, &value));
  CHECK(value == (is_new ? 0 : 7));
  OK(cedrat_store_word(self, word, 7));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  /* More pages than there are frames: they are returned to the system. */
  OK(cedrat_records_open(store, "records", &records));
  OK(cedrat_txn_begin(store, &txn));
  for (value = 0; value < 2000; value++) {
    OK(cedrat_records_insert(txn, records, message, sizeof message, &place));
  }
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  OK(cedrat_close(store));
}

/* Whether the process may lock as much address space as it is about to reserve. */
static int may_lock(void) {
  void *range = mmap(NULL, 3 * RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return range != MAP_FAILED && munmap(range, 3 * RESERVED) == 0;
}

/* The system refuses to reserve the address space (ulimit -l): a store opens with less, or is refused. */
static void expect_refused(const char *directory) {
  char message[400] = "";
  cedrat_store *store;
  cedrat_status status = cedrat_open(directory, NULL, &store, message, sizeof message);
  CHECK(status == CEDRAT_OK ? cedrat_close(store) == CEDRAT_OK : status == CEDRAT_IO && message[0] != 0);
}

int main(int count, char **arguments) {
  struct rusage used;
  CHECK(count == 2);
  CHECK(mlockall(MCL_FUTURE) == 0);
  if (!may_lock()) {
    expect_refused(arguments[1]);
    return 0;
  }
  use(arguments[1], 1);
  use(arguments[1], 0);
  CHECK(getrusage(RUSAGE_SELF, &used) == 0);
  if (used.ru_maxrss > MEMORY_MAX) {
    fprintf(stderr, "%ld KiB of memory were taken\n", used.ru_maxrss);
    return 1;
  }
  return 0;
}
