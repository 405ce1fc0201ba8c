/* A process that was forked from one with a store, a heap and a log alone changes none of their files, whatever it calls and
 * however it ends. The process that has opened them goes on, and holds their locks until it closes them. */
#include "check.h"
#include "files.h"

#define WAITS_MAX 5 /* seconds: a latch that another thread held at the fork stays held in the child */

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_graph *graph;
static cedrat_log *log_alone;
static cedrat_thread *self, *within;
static cedrat_txn *pending;
static uint64_t records, commits, newest;
static uint64_t *word;
static char store_directory[1000], log_directory[1000];

/* Pipes: the owner has left the last one to the child, the child's number, the files are noted, and one that ends with the
 * child. */
static int left[2], number[2], noted[2], ended[2];

static void send_to(int pipe_end, const void *bytes, size_t size) {
  CHECK(write(pipe_end, bytes, size) == (ssize_t)size);
}

static void receive_from(int pipe_end, void *bytes, size_t size) {
  CHECK(read(pipe_end, bytes, size) == (ssize_t)size);
}

/* ---- the process that opens ---------------------------------------------------------------------------------------- */

static void open_all(void) {
  char message[300] = "";
  cedrat_log_options options = {0};
  store = open_store(store_directory);
  if (cedrat_heap_open(store, "words", &heap) != CEDRAT_OK) {
    heap = create_heap(store, "words", 1 << 20, 0);
  }
  word = (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
  OK(cedrat_graph_open(store, "objects", NULL, &graph));
  OK(cedrat_records_open(store, "records", &records));
  OK(cedrat_thread_create(store, &self));
  options.log_limit_bytes = 8 << 20;
  options.segment_bytes = 1 << 20;
  OK(cedrat_log_open(log_directory, &options, &log_alone, message, sizeof message));
}

/* One more record, the next number in the word, and one more entry. */
static void change_all(cedrat_commit_mode mode) {
  uint64_t place, lsn;
  cedrat_txn *txn;
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_insert(txn, records, "record", 6, &place));
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, mode, NULL, 0, NULL));
  cedrat_txn_free(txn);
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word, ++commits));
  OK(cedrat_commit(self, mode, &newest));
  OK(cedrat_log_append(log_alone, "entry", 5, &lsn));
  if (mode == CEDRAT_SYNC) {
    OK(cedrat_log_force(log_alone, lsn));
  }
}

/* Each call finds what `changes` calls of change_all have left. */
static void holds_all(uint64_t changes) {
  uint64_t places[100], value, lsn, entries = 0;
  size_t count, size;
  const void *bytes;
  cedrat_log_cursor *cursor;
  cedrat_txn *txn;
  OK(cedrat_txn_begin(store, &txn));
  OK(cedrat_records_list(txn, records, places, 100, &count));
  CHECK(count == changes);
  cedrat_txn_free(txn);
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, word, &value));
  OK(cedrat_abort(self));
  CHECK(value == changes);
  OK(cedrat_log_cursor_create(log_alone, 0, &cursor));
  for (;;) {
    OK(cedrat_log_cursor_next(cursor, &bytes, &size, &lsn));
    if (lsn == 0) {
      break;
    }
    entries++;
  }
  cedrat_log_cursor_free(cursor);
  CHECK(entries == changes);
}

static void close_all(void) {
  cedrat_thread_free(self);
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
  OK(cedrat_log_close(log_alone));
}

/* Whether both directories are held by an opening. */
static void both_are_held(int held) {
  cedrat_store *other;
  cedrat_log *other_log;
  cedrat_options choices = {0};
  cedrat_log_options options = {0};
  char message[300] = "";
  choices.no_huge_pages = 1;
  IS(held ? CEDRAT_IN_USE : CEDRAT_OK, cedrat_open(store_directory, &choices, &other, message, sizeof message));
  IS(held ? CEDRAT_IN_USE : CEDRAT_OK, cedrat_log_open(log_directory, &options, &other_log, message, sizeof message));
  if (!held) {
    OK(cedrat_close(other));
    OK(cedrat_log_close(other_log));
  }
}

/* ---- what a forked process does ------------------------------------------------------------------------------------ */

static void exits(void) {
  exit(0); /* with the functions that run at the end of a process */
}

static void ends_at_once(void) {
  _exit(0);
}

static void expect_killed(void) {
  raise(SIGKILL);
}

static void closes(void) {
  cedrat_txn_free(pending);
  cedrat_thread_free(self);
  cedrat_graph_close(graph);
  CHECK(cedrat_close(store) != CEDRAT_OK);
  CHECK(cedrat_log_close(log_alone) != CEDRAT_OK);
}

static void closes_with_a_transaction(void) {
  (void)cedrat_close(store);
  (void)cedrat_log_close(log_alone);
}

static void frees_handles(void) {
  cedrat_txn_free(pending);
  cedrat_thread_free(self);
  cedrat_graph_close(graph);
}

static void takes_a_checkpoint(void) {
  CHECK(cedrat_checkpoint(store) != CEDRAT_OK);
}

static void waits_for_a_commit(void) {
  int stable = 0;
  CHECK(cedrat_is_stable(store, newest, 1, &stable) != CEDRAT_OK || !stable);
}

static void appends_to_the_log(void) {
  uint64_t lsn;
  if (cedrat_log_append(log_alone, "child", 5, &lsn) == CEDRAT_OK) {
    CHECK(cedrat_log_force(log_alone, lsn) != CEDRAT_OK);
  }
}

static void truncates_the_log(void) {
  (void)cedrat_log_truncate(log_alone, 1);
}

/* Pages are not mapped in a forked process. */
static void commits_a_record(void) {
  uint64_t place;
  cedrat_txn *txn;
  if (cedrat_txn_begin(store, &txn) == CEDRAT_OK &&
      cedrat_records_insert(txn, records, "child", 5, &place) == CEDRAT_OK) {
    CHECK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL) != CEDRAT_OK);
  }
}

static void rolls_back(void) {
  (void)cedrat_txn_rollback_to(pending, 0);
}

/* Nor are the words of a heap. */
static void commits_a_word(void) {
  if (cedrat_begin(self) == CEDRAT_OK && cedrat_store_word(self, word, 77) == CEDRAT_OK) {
    CHECK(cedrat_commit(self, CEDRAT_SYNC, NULL) != CEDRAT_OK);
  }
}

static void assigns_a_word(void) {
  *(volatile uint64_t *)word = 77;
}

static void creates_a_heap(void) {
  cedrat_heap *other;
  cedrat_heap_options options = {0};
  options.size = 1 << 20;
  CHECK(cedrat_heap_create(store, "other", &options, &other) != CEDRAT_OK);
}

static void waits(void) {
  alarm(0);
  for (;;) {
    pause();
  }
}

static void opens_them(void) {
  both_are_held(1);
}

/* ---- the files ----------------------------------------------------------------------------------------------------- */

static uint64_t all_files(void) {
  return files_of(store_directory) ^ files_of(log_directory) * 3;
}

/* ---- three processes: one observes, one opens, and one is forked from that ------------------------------------------- */

static void be_the_child(void (*act)(void)) {
  char byte;
  pid_t own = getpid();
  receive_from(left[0], &byte, 1);
  send_to(number[1], &own, sizeof own);
  CHECK(kill(getppid(), SIGSTOP) == 0); /* from here on no thread of the owner writes */
  receive_from(noted[0], &byte, 1);
  alarm(WAITS_MAX);
  act();
  _exit(0);
}

static void ended_well(pid_t child, int may_fault) {
  int status, by;
  CHECK(waitpid(child, &status, 0) == child);
  by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (by != SIGKILL && by != SIGALRM && !(may_fault && (by == SIGSEGV || by == SIGBUS)) && status != 0) {
    fprintf(stderr, "the child ended with status %d, by signal %d\n", WEXITSTATUS(status), by);
    exit(1);
  }
}

/* Opens, forks, and goes on when the child has ended, or beside it. */
static void own(void (*act)(void), int may_fault, int is_outlived) {
  uint64_t place;
  void *block;
  pid_t child;
  open_all();
  change_all(CEDRAT_SYNC);
  change_all(CEDRAT_ASYNC); /* in buffers, which the child has as well */
  OK(cedrat_thread_create(store, &within));
  OK(cedrat_begin(within)); /* the end of this thread would abort it */
  OK(cedrat_malloc(within, heap, 100, &block));
  OK(cedrat_txn_begin(store, &pending));
  OK(cedrat_records_insert(pending, records, "pending", 7, &place));
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_the_child(act);
  }
  close(ended[1]);
  send_to(left[1], "", 1);
  if (!is_outlived) {
    ended_well(child, may_fault);
  }
  both_are_held(1);
  OK(cedrat_abort(within));
  cedrat_thread_free(within);
  cedrat_txn_free(pending); /* rolled back */
  change_all(CEDRAT_SYNC);
  holds_all(3);
  close_all();
  both_are_held(0);
  open_all();
  holds_all(3);
  close_all();
}

static void observe(void (*act)(void), int may_fault, int is_outlived) {
  char byte;
  int status;
  uint64_t before;
  pid_t child, owner;
  CHECK(pipe(left) == 0 && pipe(number) == 0 && pipe(noted) == 0 && pipe(ended) == 0);
  owner = fork();
  CHECK(owner >= 0);
  if (owner == 0) {
    own(act, may_fault, is_outlived);
    exit(0);
  }
  close(ended[1]);
  CHECK(waitpid(owner, &status, WUNTRACED) == owner && WIFSTOPPED(status));
  receive_from(number[0], &child, sizeof child);
  before = all_files();
  send_to(noted[1], "", 1);
  if (!is_outlived) {
    CHECK(read(ended[0], &byte, 1) == 0);
    CHECK(all_files() == before);
  }
  CHECK(kill(owner, SIGCONT) == 0);
  CHECK(waitpid(owner, &status, 0) == owner && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (is_outlived) {
    CHECK(kill(child, SIGKILL) == 0); /* it still was there */
  }
  close(left[0]);
  close(left[1]);
  close(number[0]);
  close(number[1]);
  close(noted[0]);
  close(noted[1]);
  close(ended[0]);
}

static const struct {
  void (*act)(void);
  const char *name;
  int may_fault;
} acts[] = {
    {exits, "exits", 0},
    {ends_at_once, "ends at once", 0},
    {expect_killed, "is killed", 0},
    {closes, "closes", 0},
    {closes_with_a_transaction, "closes with a transaction", 0},
    {frees_handles, "frees handles", 0},
    {takes_a_checkpoint, "takes a checkpoint", 0},
    {waits_for_a_commit, "waits for a commit", 0},
    {appends_to_the_log, "appends to the log", 0},
    {truncates_the_log, "truncates the log", 0},
    {rolls_back, "rolls back", 1},
    {commits_a_record, "commits a record", 1},
    {commits_a_word, "commits a word", 1},
    {assigns_a_word, "assigns a word", 1},
    {creates_a_heap, "creates a heap", 0},
    {opens_them, "opens them", 0},
};

int main(int count, char **arguments) {
  size_t round;
  CHECK(count == 2);
  for (round = 0; round <= sizeof acts / sizeof acts[0]; round++) {
    int is_outlived = round == sizeof acts / sizeof acts[0];
    CHECK(snprintf(store_directory, sizeof store_directory, "%s.%d", arguments[1], (int)round) < (int)sizeof store_directory);
    CHECK(snprintf(log_directory, sizeof log_directory, "%s.%d.log", arguments[1], (int)round) < (int)sizeof log_directory);
    printf("a child that %s\n", is_outlived ? "outlives the opening" : acts[round].name);
    fflush(stdout);
    observe(is_outlived ? waits : acts[round].act, is_outlived ? 0 : acts[round].may_fault, is_outlived);
  }
  return 0;
}
