/* File descriptors: a process that has none left keeps its store, and one that has closed its standard output does not write
 * to a file of the store. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#define OPENINGS 12

static uint64_t *word;

static cedrat_store *open_small(const char *directory, cedrat_heap **heap) {
  char message[400] = "";
  cedrat_store *store;
  cedrat_options options = {0};
  options.no_background = 1;
  options.log_limit_bytes = 32 << 20;
  options.segment_bytes = 1 << 20;
  options.page_pool_bytes = 1 << 20;
  if (cedrat_open(directory, &options, &store, message, sizeof message) != CEDRAT_OK) {
    _exit(2);
  }
  if (cedrat_heap_open(store, "heap", heap) != CEDRAT_OK) {
    *heap = create_heap(store, "heap", 1 << 20, 0);
  }
  word = (uint64_t *)((char *)cedrat_heap_address(*heap) + cedrat_heap_first_offset(*heap));
  return store;
}

static cedrat_status fill_log(cedrat_thread *self, uint64_t *value) {
  static unsigned char bytes[1 << 16];
  int i;
  for (i = 0; i < 200; i++) {
    cedrat_status status;
    OK(cedrat_begin(self));
    OK(cedrat_store_word(self, word, *value + 1));
    OK(cedrat_store_bytes(self, word + 1, bytes, sizeof bytes));
    status = cedrat_commit(self, CEDRAT_SYNC, NULL);
    if (status != CEDRAT_OK) {
      return status;
    }
    ++*value;
  }
  return CEDRAT_OK;
}

/* Under a limit of open files, the log does not grow; when the limit is raised, it does. A transaction keeps all of it. */
static void without_descriptors(const char *directory) {
  cedrat_heap *heap;
  cedrat_store *store = open_small(directory, &heap);
  cedrat_thread *self;
  cedrat_txn *keeps;
  struct rlimit before, none;
  uint64_t value = 0, found, records, place;
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_records_open(store, "records", &records));
  OK(cedrat_txn_begin(store, &keeps));
  OK(cedrat_records_insert(keeps, records, "record", 6, &place));
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = before;
  none.rlim_cur = 3;
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  IS(CEDRAT_LOG_FULL, fill_log(self, &value));
  CHECK(strstr(cedrat_error(self), "ulimit -n") != NULL);
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word, &found));
  OK(cedrat_abort(self));
  CHECK(found == value);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  OK(fill_log(self, &value));
  cedrat_thread_free(self);
  cedrat_txn_free(keeps);
  OK(cedrat_close(store));
}

static volatile int ends, was_written;

static void *write_to_standard_output(void *argument) {
  (void)argument;
  while (!ends) {
    was_written |= write(1, "text of the program", 19) >= 0 || errno != EBADF;
    was_written |= write(2, "text of the program", 19) >= 0 || errno != EBADF;
  }
  return NULL;
}

/* E1.11: also between the opening of a file and the first use of its descriptor. */
static void closed_descriptors(const char *directory) {
  pthread_t writer;
  int i;
  close(0);
  close(1);
  close(2);
  if (pthread_create(&writer, NULL, write_to_standard_output, NULL) != 0) {
    _exit(3);
  }
  for (i = 0; i < OPENINGS; i++) {
    cedrat_heap *heap;
    cedrat_thread *self;
    cedrat_store *store = open_small(directory, &heap);
    uint64_t value = 0;
    if (cedrat_thread_create(store, &self) != CEDRAT_OK || fill_log(self, &value) != CEDRAT_OK) {
      _exit(4);
    }
    cedrat_thread_free(self);
    if (cedrat_close(store) != CEDRAT_OK) {
      _exit(5);
    }
  }
  ends = 1;
  pthread_join(writer, NULL);
  for (i = 0; i < 3; i++) {
    if (fcntl(i, F_GETFD) != -1) {
      _exit(6); /* it was closed */
    }
  }
  _exit(was_written ? 7 : 0);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  CHECK(!in_a_child(without_descriptors, arguments[1]));
  CHECK(!in_a_child(closed_descriptors, arguments[1]));
  return 0;
}
