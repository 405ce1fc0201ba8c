/* Two-phase commit: transactions in doubt across openings, which keep their locks and end with their outcome. */
#include "check.h"

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_thread *self;

static void open_all(const char *directory) {
  char message[200];
  cedrat_heap_options choices = {0};
  OK(cedrat_open(directory, NULL, &store, message, sizeof message));
  if (cedrat_heap_open(store, "words", &heap) != CEDRAT_OK) {
    choices.size = 1 << 20;
    OK(cedrat_heap_create(store, "words", &choices, &heap));
  }
  OK(cedrat_thread_create(store, &self));
}

static void close_all(void) {
  cedrat_thread_free(self);
  OK(cedrat_close(store));
}

static uint64_t *word(int at) {
  return (uint64_t *)((char *)cedrat_heap_address(heap) + (1 << 16) + at * 4096);
}

static uint64_t load(int at) {
  uint64_t value;
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word(at), &value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  return value;
}

/* Writes two words, and a named block that is filled plainly, and prepares. */
static void prepare(const char *id, uint64_t value) {
  int read_only = 7;
  void *block;
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word(0), value));
  OK(cedrat_store_word(self, word(1), value));
  OK(cedrat_malloc(self, heap, 100, &block));
  memcpy(block, &value, sizeof value);
  OK(cedrat_set_root(self, heap, "block", block));
  OK(cedrat_prepare(self, id, strlen(id), &read_only));
  CHECK(read_only == 0 && !cedrat_is_running(self));
}

static void expect_in_doubt(const char *id) {
  cedrat_branch branches[2];
  size_t count = 9;
  uint64_t value;
  OK(cedrat_in_doubt(store, branches, 2, &count));
  CHECK(count == 1 && branches[0].id_len == strlen(id) && memcmp(branches[0].id, id, strlen(id)) == 0);
  CHECK(branches[0].transaction > 0 && branches[0].since_lsn > 0 && branches[0].heuristic == 0);
  OK(cedrat_in_doubt(store, NULL, 0, &count));
  CHECK(count == 1);
  OK(cedrat_begin(self));
  IS(CEDRAT_IN_DOUBT, cedrat_load_word(self, word(0), &value));
  CHECK(strstr(cedrat_error(self), "prepared transaction") != NULL && cedrat_is_running(self));
  OK(cedrat_abort(self));
}

static void crash(const char *directory) {
  open_all(directory);
  prepare("branch of a child", 5);
  raise(SIGKILL);
}

/* The larger transaction needs a place of its own. */
static void at_the_limit_of_threads(void) {
  static cedrat_thread *others[1023]; /* with `self` as many as threads_max, by default */
  size_t i, count;
  for (i = 0; i < sizeof others / sizeof others[0]; i++) {
    OK(cedrat_thread_create(store, &others[i]));
  }
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word(0), 1));
  IS(CEDRAT_LIMIT, cedrat_prepare(self, "one too many", 12, NULL));
  CHECK(!cedrat_is_running(self));
  cedrat_thread_free(others[0]);
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word(0), 7));
  OK(cedrat_prepare(self, "one too many", 12, NULL));
  OK(cedrat_rollback_prepared(store, "one too many", 12));
  for (i = 1; i < sizeof others / sizeof others[0]; i++) {
    cedrat_thread_free(others[i]);
  }
  OK(cedrat_in_doubt(store, NULL, 0, &count));
  CHECK(count == 0);
}

/* The outcome of an operator is kept until the manager forgets it, also in later openings. */
static void ended_by_operator(const char *directory, const char *id) {
  cedrat_branch branch;
  size_t count;

  prepare(id, 6);
  IS(CEDRAT_MISUSE, cedrat_resolve(store, id, strlen(id), (cedrat_heuristic)9));
  expect_in_doubt(id);
  OK(cedrat_resolve(store, id, strlen(id), CEDRAT_HEURISTIC_ROLLBACK));
  close_all();
  open_all(directory);
  CHECK(load(0) == 5);
  IS(CEDRAT_UNKNOWN, cedrat_commit_prepared(store, id, strlen(id), CEDRAT_SYNC));
  OK(cedrat_heuristic_branches(store, &branch, 1, &count));
  CHECK(count == 1 && branch.id_len == strlen(id) && memcmp(branch.id, id, branch.id_len) == 0);
  CHECK(branch.heuristic == CEDRAT_HEURISTIC_ROLLBACK && branch.transaction == 0);
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word(2), 1));
  IS(CEDRAT_EXISTS, cedrat_prepare(self, id, strlen(id), NULL));
  OK(cedrat_forget(store, id, strlen(id)));
  IS(CEDRAT_UNKNOWN, cedrat_forget(store, id, strlen(id)));
  OK(cedrat_heuristic_branches(store, NULL, 0, &count));
  CHECK(count == 0);
}

int main(int argc, char **argv) {
  const char *directory = argv[argc - 1];
  const char *id = "branch of a child";
  char long_id[CEDRAT_BRANCH_ID_MAX + 1] = {1};
  size_t count;
  int read_only;
  void *block;

  CHECK(in_a_child(crash, directory));
  open_all(directory);
  expect_in_doubt(id);
  close_all();
  open_all(directory);
  expect_in_doubt(id);
  IS(CEDRAT_UNKNOWN, cedrat_commit_prepared(store, "another", 7, CEDRAT_SYNC));
  IS(CEDRAT_MISUSE, cedrat_commit_prepared(store, id, strlen(id), CEDRAT_PARTITION));
  IS(CEDRAT_MISUSE, cedrat_commit_prepared(store, id, strlen(id), (cedrat_commit_mode)9));
  expect_in_doubt(id);
  OK(cedrat_commit_prepared(store, id, strlen(id), CEDRAT_SYNC));
  CHECK(load(0) == 5 && load(1) == 5);
  OK(cedrat_begin(self));
  OK(cedrat_get_root(self, heap, "block", &block));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(*(uint64_t *)block == 5);
  ended_by_operator(directory, id);

  prepare(id, 6);
  OK(cedrat_rollback_prepared(store, id, strlen(id)));
  IS(CEDRAT_UNKNOWN, cedrat_rollback_prepared(store, id, strlen(id)));
  CHECK(load(0) == 5);

  prepare(id, 7);
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word(2), 1));
  IS(CEDRAT_EXISTS, cedrat_prepare(self, id, strlen(id), NULL));
  CHECK(!cedrat_is_running(self));
  OK(cedrat_commit_prepared(store, id, strlen(id), CEDRAT_ASYNC));
  CHECK(load(0) == 7 && load(2) == 0);

  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word(0), (uint64_t *)&count));
  OK(cedrat_prepare(self, "reader", 6, &read_only));
  CHECK(read_only == 1);
  OK(cedrat_in_doubt(store, NULL, 0, &count));
  CHECK(count == 0);
  IS(CEDRAT_MISUSE, cedrat_prepare(self, "none runs", 9, NULL));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word(2), 1));
  IS(CEDRAT_LIMIT, cedrat_prepare(self, long_id, sizeof long_id, NULL));
  IS(CEDRAT_NULL, cedrat_prepare(self, NULL, 1, NULL));
  IS(CEDRAT_NULL, cedrat_in_doubt(store, NULL, 1, &count));
  IS(CEDRAT_NULL, cedrat_in_doubt(store, NULL, 0, NULL));
  at_the_limit_of_threads();
  close_all();
  return 0;
}
