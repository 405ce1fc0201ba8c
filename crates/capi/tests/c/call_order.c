/* Calls in random orders: errors, never damage, an endless wait, an abort, or a loss of acknowledged transactions.
 *
 * A case has several lives: processes that open two stores, make calls, and end by a close, by exit, by _exit or by a signal.
 * Each life begins with what the lives before have left, and compares it with the model. CEDRAT_SEED selects the calls. */
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "check.h"
#include "files.h"

#include <ftw.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>

#define CASES 16
#define LIVES 4
#define STEPS 110
#define WAITS_MAX 5     /* seconds that a forked child may wait for a latch that another thread held at the fork */
#define LIFE_MAX 300    /* seconds after which a life counts as an endless wait */
#define PLACES 2
#define THREADS 3       /* descriptors of a store */
#define BRANCHES 4
#define COMMITS (STEPS * LIVES + 8)
#define TRACE 40
#define SAVEPOINTS 4

/* Values of a store: words of a heap with blocks, words of a raw heap, named blocks, and records. */
enum { WORDS = 0, RAW = 4, BLOCKS = 8, RECORDS = 11, CELLS = 14 };

typedef struct {
  uint64_t value[CELLS];
  char set[CELLS];
} changes;

/* A prepared transaction. ended_by: 0, or the number of the commit that ended it, which a crash may lose. */
typedef struct {
  int is_prepared, ended_by;
  changes effects;
} branch;

/* The states that a store had, one for each commit. A crash may leave each from the acknowledged one on. */
typedef struct {
  int exists, commits, acknowledged;
  uint64_t state[COMMITS][CELLS];
  branch branches[BRANCHES];
  uint64_t words, records, place_of[CELLS]; /* the offset of the block with the words, the collection, and its places */
} model;

/* A transaction that runs: by a descriptor, or over several faces. */
typedef struct {
  cedrat_thread *thread;
  cedrat_txn *txn;
  int runs, uses_other, since, savepoints;
  char is_possible[COMMITS]; /* the states that it may be reading */
  changes own, seen, saved[SAVEPOINTS];
} running;

typedef struct {
  model *model;
  char directory[1000];
  cedrat_store *store;
  cedrat_heap *heap, *raw, *other;
  running runs[THREADS + 1]; /* the last one is a cedrat_txn */
} place;

typedef struct {
  uint64_t seed;
  int number, life, step, next;
  char trace[TRACE][160];
  model models[PLACES];
} shared;

static shared *all;
static place places[PLACES];
static cedrat_options options;
static uint64_t random_state;
static int is_child; /* a forked process, whose calls may all fail */

static uint64_t draw(uint64_t below) {
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (z ^ z >> 31) % below;
}

static void note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(all->trace[all->next++ % TRACE], sizeof all->trace[0], format, arguments);
  va_end(arguments);
}

static void print_trace(void) {
  int i;
  for (i = all->next < TRACE ? 0 : all->next - TRACE; i < all->next; i++) {
    fprintf(stderr, "  %s\n", all->trace[i % TRACE]);
  }
  fprintf(stderr, "case %d, life %d, step %d; to repeat: CEDRAT_SEED=%" PRIu64 "\n", all->number, all->life, all->step,
          all->seed);
}

#define MUST(condition)                                                          \
  do {                                                                           \
    if (!(condition) && !is_child) {                                             \
      fprintf(stderr, "%s:%d: %s; after\n", __FILE__, __LINE__, #condition);     \
      print_trace();                                                             \
      _exit(1);                                                                  \
    }                                                                            \
  } while (0)

static cedrat_status noted(const place *at, const char *call, cedrat_status status) {
  if (!is_child) {
    note("store %d: %s: %s", (int)(at - places), call, cedrat_status_name(status));
  }
  return status;
}

/* Notes a call, and returns its status. */
#define CALL(at, call) noted(at, #call, call)

static int is_prepared(const place *at) {
  int i, found = 0;
  for (i = 0; i < BRANCHES; i++) {
    found += at->model->branches[i].is_prepared;
  }
  return found;
}

/* ---- the model ------------------------------------------------------------------------------------------------------- */

static const uint64_t *newest(const place *at) {
  return at->model->state[at->model->commits];
}

static void apply(place *at, const changes *effects) {
  model *m = at->model;
  int cell;
  MUST(m->commits + 1 < COMMITS);
  memcpy(m->state[m->commits + 1], m->state[m->commits], sizeof m->state[0]);
  m->commits++;
  for (cell = 0; cell < CELLS; cell++) {
    if (effects->set[cell]) {
      m->state[m->commits][cell] = effects->value[cell];
    }
  }
}

static int has_changes(const running *run) {
  return memchr(run->own.set, 1, CELLS) != NULL;
}

static void begun(place *at, running *run) {
  run->runs = 1;
  run->uses_other = run->savepoints = 0;
  run->since = at->model->commits;
  memset(run->is_possible, 1, sizeof run->is_possible);
  memset(&run->own, 0, sizeof run->own);
  memset(&run->seen, 0, sizeof run->seen);
}

/* A load found a value: that of the transaction, or that of a state in which its other values are, too. */
static void found(place *at, running *run, int cell, uint64_t value) {
  int i, possible = 0;
  if (run->own.set[cell]) {
    MUST(value == run->own.value[cell]);
    return;
  }
  for (i = run->since; i <= at->model->commits; i++) {
    run->is_possible[i] &= at->model->state[i][cell] == value;
    possible |= run->is_possible[i];
  }
  MUST(possible);
  run->seen.set[cell] = 1;
  run->seen.value[cell] = value;
}

/* A transaction that has changed something was committed or prepared: what it had read is the newest state (H1). */
static void expect_serial(const place *at, const running *run) {
  int cell;
  for (cell = 0; cell < CELLS; cell++) {
    MUST(!run->seen.set[cell] || run->seen.value[cell] == newest(at)[cell]);
  }
}

/* ---- calls within transactions --------------------------------------------------------------------------------------- */

static char *address(const place *at, int cell) {
  return cell < RAW ? (char *)cedrat_heap_address(at->heap) + at->model->words + cell * 4096
                    : (char *)cedrat_heap_address(at->raw) + (cell - RAW) * 8;
}

static uint64_t offset(const place *at, int cell) {
  return (uint64_t)(address(at, cell) - (char *)cedrat_heap_address(cell < RAW ? at->heap : at->raw));
}

static const char *root(int cell) {
  static const char *const names[] = {"one", "two", "three"};
  return names[cell - BLOCKS];
}

static size_t size_of(uint64_t value) {
  return 16 + value % 500;
}

/* The transaction continues, or has ended, as the status says. */
static int may_continue(place *at, running *run, cedrat_status status) {
  if (status == CEDRAT_ABORTED || status == CEDRAT_ROLLED_BACK) {
    run->runs = 0;
    MUST(run->thread == NULL || !cedrat_is_running(run->thread));
    if (run->txn != NULL) {
      cedrat_txn_free(run->txn);
      run->txn = NULL;
    }
    return 0;
  }
  MUST(status == CEDRAT_OK || status == CEDRAT_HEAP_FULL || (status == CEDRAT_IN_DOUBT && is_prepared(at)));
  MUST(run->thread == NULL || cedrat_is_running(run->thread));
  return status == CEDRAT_OK;
}

/* Reads a named block: 0 if there is none. */
static cedrat_status read_block(place *at, running *run, int cell, uint64_t *value, void **block) {
  unsigned char bytes[600];
  size_t size = 0, i;
  cedrat_status status = CALL(at, cedrat_get_root(run->thread, at->heap, root(cell), block));
  *value = 0;
  if (status != CEDRAT_OK || *block == NULL) {
    return status;
  }
  status = CALL(at, cedrat_block_size(run->thread, *block, &size));
  if (status != CEDRAT_OK) {
    return status;
  }
  MUST(size >= 16 && size <= sizeof bytes);
  status = CALL(at, cedrat_load_bytes(run->thread, *block, bytes, size));
  if (status != CEDRAT_OK) {
    return status;
  }
  memcpy(value, bytes, sizeof *value);
  MUST(size == size_of(*value));
  for (i = sizeof *value; i < size; i++) {
    MUST(bytes[i] == (unsigned char)*value);
  }
  return status;
}

static void read_cell(place *at, running *run, int cell) {
  uint64_t value = 0;
  size_t size = 0;
  void *block;
  cedrat_status status;
  if (cell >= RECORDS) {
    status = CALL(at, cedrat_records_read(run->txn, at->model->records, at->model->place_of[cell], &value, 8, &size));
  } else if (cell >= BLOCKS) {
    status = read_block(at, run, cell, &value, &block);
  } else if (run->txn != NULL) {
    status = CALL(at, cedrat_txn_load_word(run->txn, cell < RAW ? at->heap : at->raw, offset(at, cell), &value));
  } else {
    status = CALL(at, cedrat_load_word(run->thread, address(at, cell), &value));
  }
  if (may_continue(at, run, status)) {
    found(at, run, cell, value);
  }
}

/* Allocates, fills and names a block, and frees the one that had the name; nothing is written if there is none, and is to be
 * none. */
static cedrat_status write_block(place *at, running *run, int cell, uint64_t value, int *is_written) {
  void *before, *block = NULL;
  uint64_t old;
  cedrat_status status = read_block(at, run, cell, &old, &before);
  if (status == CEDRAT_OK) {
    found(at, run, cell, old);
    status = value == 0 ? CEDRAT_OK : CALL(at, cedrat_malloc(run->thread, at->heap, size_of(value), &block));
  }
  if (status == CEDRAT_OK && block != NULL) {
    memset(block, (unsigned char)value, size_of(value));
    memcpy(block, &value, sizeof value);
  }
  if (status == CEDRAT_OK && (block != NULL || before != NULL)) {
    status = CALL(at, cedrat_set_root(run->thread, at->heap, root(cell), block));
  }
  if (status == CEDRAT_OK && before != NULL) {
    status = CALL(at, cedrat_free(run->thread, before));
    if (status == CEDRAT_OK && draw(2)) {
      MUST(cedrat_free(run->thread, before) != CEDRAT_OK);
      if (!cedrat_is_running(run->thread)) {
        return CEDRAT_ABORTED;
      }
      MUST(cedrat_load_word(run->thread, before, &old) == CEDRAT_NOT_ALLOCATED);
    }
  }
  *is_written = block != NULL || before != NULL;
  return status;
}

static void write_cell(place *at, running *run, int cell, uint64_t value) {
  cedrat_status status;
  int is_written = 1;
  if (cell >= RECORDS) {
    status = CALL(at, cedrat_records_update(run->txn, at->model->records, at->model->place_of[cell], &value, 8));
  } else if (cell >= BLOCKS) {
    status = write_block(at, run, cell, value, &is_written);
  } else if (run->txn != NULL) {
    status = CALL(at, cedrat_txn_store_word(run->txn, cell < RAW ? at->heap : at->raw, offset(at, cell), value));
  } else {
    status = CALL(at, cedrat_store_word(run->thread, address(at, cell), value));
  }
  if (may_continue(at, run, status)) {
    run->own.set[cell] |= (char)is_written;
    run->own.value[cell] = value;
  } else if (cell >= BLOCKS && cell < RECORDS && run->runs) {
    /* Half of the calls were made. */
    MUST(cedrat_abort(run->thread) == CEDRAT_OK);
    run->runs = 0;
  }
}

static void use(place *at, running *run) {
  int cell = (int)draw(run->txn != NULL ? CELLS : RECORDS);
  if (run->txn != NULL && cell >= BLOCKS && cell < RECORDS) {
    cell = (int)draw(BLOCKS);
  }
  if (draw(2)) {
    read_cell(at, run, cell);
  } else {
    write_cell(at, run, cell, draw(8) == 0 ? 0 : draw(100000));
  }
}

/* ---- calls that are refused ------------------------------------------------------------------------------------------ */

/* A descriptor without a transaction refuses what needs one. */
static void use_idle(place *at, running *run) {
  uint64_t value = 7;
  void *block = NULL;
  size_t size;
  MUST(CALL(at, cedrat_load_word(run->thread, address(at, 0), &value)) == CEDRAT_MISUSE && value == 7);
  MUST(CALL(at, cedrat_store_word(run->thread, address(at, 0), 1)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_malloc(run->thread, at->heap, 10, &block)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_free(run->thread, address(at, 0))) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_block_size(run->thread, address(at, 0), &size)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_set_root(run->thread, at->heap, "one", NULL)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_commit(run->thread, CEDRAT_SYNC, NULL)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_prepare(run->thread, "id", 2, NULL)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_abort(run->thread)) == CEDRAT_OK);
}

/* A wrong call is refused with the wanted status, or ends the transaction by a conflict with what it has to read. Returns
 * whether the transaction continues. */
static int is_refused(place *at, running *run, cedrat_status wanted, cedrat_status status) {
  if (status != wanted) {
    MUST(status != CEDRAT_OK);
    may_continue(at, run, status);
  }
  return run->runs;
}

/* A transaction refuses wrong addresses, heaps and numbers, and continues. */
static void misuse(place *at, running *run) {
  place *other = at == places ? at + 1 : places;
  uint64_t value = 7, local = 0;
  size_t size;
  void *block = NULL;
  char *inside = address(at, 0);
  if (run->txn != NULL) {
    MUST(CALL(at, cedrat_txn_rollback_to(run->txn, 1000)) == CEDRAT_MISUSE);
    (void)(is_refused(at, run, CEDRAT_MISALIGNED,
                      CALL(at, cedrat_txn_load_word(run->txn, at->heap, offset(at, 0) + 3, &value))) &&
           is_refused(at, run, CEDRAT_OUT_OF_RANGE, CALL(at, cedrat_txn_store_word(run->txn, at->raw, 1 << 30, 1))) &&
           is_refused(at, run, CEDRAT_UNKNOWN,
                      CALL(at, cedrat_records_read(run->txn, at->model->records, 9999999, &value, 8, &size))));
    return;
  }
  MUST(CALL(at, cedrat_begin(run->thread)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_commit(run->thread, (cedrat_commit_mode)9, NULL)) == CEDRAT_MISUSE);
  if (other->store != NULL) {
    MUST(CALL(at, cedrat_malloc(run->thread, other->heap, 10, &block)) == CEDRAT_MISUSE);
    MUST(CALL(at, cedrat_store_word(run->thread, address(other, 0), 1)) == CEDRAT_OUT_OF_RANGE);
  }
  MUST(CALL(at, cedrat_load_word(run->thread, &local, &value)) == CEDRAT_OUT_OF_RANGE);
  MUST(CALL(at, cedrat_store_word(run->thread, NULL, 1)) == CEDRAT_OUT_OF_RANGE);
  MUST(CALL(at, cedrat_malloc(run->thread, at->raw, 10, &block)) == CEDRAT_MISUSE);
  MUST(CALL(at, cedrat_load_word(run->thread, cedrat_heap_address(at->heap), &value)) == CEDRAT_OUT_OF_RANGE);
  (void)(is_refused(at, run, CEDRAT_MISALIGNED, CALL(at, cedrat_store_word(run->thread, inside + 3, 1))) &&
         is_refused(at, run, CEDRAT_NOT_ALLOCATED, CALL(at, cedrat_free(run->thread, inside + 16))) &&
         is_refused(at, run, CEDRAT_UNKNOWN, CALL(at, cedrat_set_root(run->thread, at->heap, "none", NULL))));
  MUST(value == 7 && block == NULL);
}

/* ---- the beginning and the end of transactions ----------------------------------------------------------------------- */

static void begin(place *at, running *run) {
  if (run == &at->runs[THREADS]) {
    MUST(CALL(at, cedrat_txn_begin(at->store, &run->txn)) == CEDRAT_OK);
    if (run->txn == NULL) {
      return;
    }
  } else {
    MUST(CALL(at, cedrat_begin(run->thread)) == CEDRAT_OK);
  }
  begun(at, run);
}

static void commit(place *at, running *run) {
  cedrat_commit_mode mode = (cedrat_commit_mode)draw(run->txn != NULL ? 2 : 4);
  uint64_t lsn = 0;
  int stable = 0;
  cedrat_status status = run->txn != NULL
    ? CALL(at, cedrat_txn_commit(run->txn, NULL, NULL, 0, mode, NULL, 0, &lsn))
    : CALL(at, cedrat_commit(run->thread, mode, &lsn));
  run->runs = 0;
  if (is_child && status == CEDRAT_OK && has_changes(run) && (mode == CEDRAT_SYNC || mode == CEDRAT_PARTITION)) {
    _exit(3); /* a forked process has acknowledged a commit */
  }
  MUST(run->thread == NULL || !cedrat_is_running(run->thread));
  if (run->txn != NULL) {
    cedrat_txn_free(run->txn);
    run->txn = NULL;
  }
  if (status != CEDRAT_OK) {
    MUST(status == CEDRAT_ABORTED || (status == CEDRAT_IN_DOUBT && is_prepared(at)) ||
         (status == CEDRAT_UNKNOWN && run->uses_other));
    return;
  }
  if (!has_changes(run)) {
    return;
  }
  expect_serial(at, run);
  apply(at, &run->own);
  if (mode != CEDRAT_SYNC && mode != CEDRAT_PARTITION && draw(4) == 0) {
    MUST(CALL(at, cedrat_is_stable(at->store, lsn, draw(2) == 0, &stable)) == CEDRAT_OK);
  }
  if (mode == CEDRAT_SYNC || mode == CEDRAT_PARTITION || stable) {
    at->model->acknowledged = at->model->commits;
  }
}

static void roll_back(place *at, running *run) {
  if (run->txn != NULL) {
    cedrat_txn_free(run->txn);
    run->txn = NULL;
  } else if (draw(2)) {
    MUST(CALL(at, cedrat_abort(run->thread)) == CEDRAT_OK);
  } else {
    MUST(CALL(at, cedrat_restart(run->thread)) == CEDRAT_ABORTED);
  }
  run->runs = 0;
}

static void savepoint(place *at, running *run) {
  uint64_t number = 99;
  if (run->txn == NULL) {
    return;
  }
  if (run->savepoints < SAVEPOINTS && draw(2)) {
    MUST(CALL(at, cedrat_txn_savepoint(run->txn, &number)) == CEDRAT_OK && number == (uint64_t)run->savepoints);
    run->saved[run->savepoints++] = run->own;
  } else if (run->savepoints > 0) {
    number = draw((uint64_t)run->savepoints);
    if (may_continue(at, run, CALL(at, cedrat_txn_rollback_to(run->txn, number)))) {
      run->own = run->saved[number];
      run->savepoints = (int)number + 1;
    }
  }
}

/* The identifier of a branch; each has another length. */
static size_t id_of(int number, unsigned char *id) {
  memset(id, 'a' + number, CEDRAT_BRANCH_ID_MAX);
  return 1 + (size_t)number * 46;
}

static void prepare(place *at, running *run) {
  unsigned char id[CEDRAT_BRANCH_ID_MAX + 1];
  int read_only = 0, number = (int)draw(BRANCHES);
  branch *b = &at->model->branches[number];
  size_t len = id_of(number, id);
  cedrat_status status;
  if (run->txn != NULL) {
    return;
  }
  if (draw(16) == 0) {
    len = draw(2) ? 0 : sizeof id;
    status = CALL(at, cedrat_prepare(run->thread, id, len, NULL));
    MUST(status == (len == 0 ? CEDRAT_MISUSE : CEDRAT_LIMIT) || status == CEDRAT_ABORTED || status == CEDRAT_IN_DOUBT ||
         (status == CEDRAT_UNKNOWN && run->uses_other));
    MUST(!cedrat_is_running(run->thread));
    run->runs = 0;
    return;
  }
  status = CALL(at, cedrat_prepare(run->thread, id, len, &read_only));
  run->runs = 0;
  if (is_child) {
    if (status == CEDRAT_OK && !read_only) {
      _exit(3);
    }
    return;
  }
  MUST(!cedrat_is_running(run->thread));
  if (status == CEDRAT_OK && !read_only) {
    MUST(!b->is_prepared);
    expect_serial(at, run);
    b->is_prepared = 1;
    b->ended_by = 0;
    b->effects = run->own;
  } else {
    MUST(status == CEDRAT_OK || status == CEDRAT_ABORTED || (status == CEDRAT_EXISTS && b->is_prepared) ||
         (status == CEDRAT_IN_DOUBT && is_prepared(at)) || (status == CEDRAT_UNKNOWN && run->uses_other));
    MUST(status != CEDRAT_OK || !has_changes(run));
  }
}

static void end_branch(place *at) {
  unsigned char id[CEDRAT_BRANCH_ID_MAX];
  int number = (int)draw(BRANCHES), tries = (int)draw(BRANCHES);
  cedrat_commit_mode mode = (cedrat_commit_mode)draw(4);
  branch *b;
  size_t len;
  cedrat_status status;
  while (tries-- > 0 && !at->model->branches[number].is_prepared) {
    number = (number + 1) % BRANCHES;
  }
  b = &at->model->branches[number];
  len = id_of(number, id);
  if (draw(3) == 0) {
    status = CALL(at, cedrat_rollback_prepared(at->store, id, len));
    if (is_child && status == CEDRAT_OK) {
      _exit(3);
    }
    MUST(status == (b->is_prepared ? CEDRAT_OK : CEDRAT_UNKNOWN));
    b->is_prepared = 0;
    return;
  }
  status = CALL(at, cedrat_commit_prepared(at->store, id, len, mode));
  if (is_child && status == CEDRAT_OK && mode == CEDRAT_SYNC) {
    _exit(3);
  }
  if (mode == CEDRAT_PARTITION && b->is_prepared) {
    MUST(status == CEDRAT_MISUSE);
    return;
  }
  MUST(status == (b->is_prepared ? CEDRAT_OK : CEDRAT_UNKNOWN) || mode == CEDRAT_PARTITION);
  if (b->is_prepared && !is_child) {
    b->is_prepared = 0;
    apply(at, &b->effects);
    b->ended_by = at->model->commits;
    if (mode == CEDRAT_SYNC) {
      at->model->acknowledged = at->model->commits;
    }
  }
}

/* ---- stores ---------------------------------------------------------------------------------------------------------- */

/* The values that a transaction reads; those in doubt are unknown. */
static void read_all(place *at, changes *values) {
  cedrat_thread *thread;
  running run = {0};
  size_t size;
  void *block;
  int cell;
  memset(values, 0, sizeof *values);
  MUST(cedrat_thread_create(at->store, &thread) == CEDRAT_OK);
  run.thread = thread;
  MUST(cedrat_begin(thread) == CEDRAT_OK);
  for (cell = 0; cell < RECORDS; cell++) {
    cedrat_status status = cell >= BLOCKS ? read_block(at, &run, cell, &values->value[cell], &block)
                                          : CALL(at, cedrat_load_word(thread, address(at, cell), &values->value[cell]));
    MUST(status == CEDRAT_OK || (status == CEDRAT_IN_DOUBT && is_prepared(at)));
    values->set[cell] = status == CEDRAT_OK;
  }
  MUST(cedrat_commit(thread, CEDRAT_SYNC, NULL) == CEDRAT_OK);
  cedrat_thread_free(thread);
  run.thread = NULL;
  MUST(cedrat_txn_begin(at->store, &run.txn) == CEDRAT_OK);
  for (cell = RECORDS; cell < CELLS; cell++) {
    MUST(CALL(at, cedrat_records_read(run.txn, at->model->records, at->model->place_of[cell], &values->value[cell], 8,
                                      &size)) == CEDRAT_OK);
    values->set[cell] = 1;
  }
  cedrat_txn_free(run.txn);
}

static int is_state(const place *at, int commits, const changes *values) {
  int cell;
  for (cell = 0; cell < CELLS; cell++) {
    if (values->set[cell] && values->value[cell] != at->model->state[commits][cell]) {
      return 0;
    }
  }
  return 1;
}

/* Finds the branches in doubt; returns the newest state that may have been kept beside them. */
static int find_branches(place *at) {
  cedrat_branch list[BRANCHES + 1];
  unsigned char id[CEDRAT_BRANCH_ID_MAX];
  size_t count, i;
  int number, newest_kept = at->model->commits;
  MUST(cedrat_in_doubt(at->store, list, BRANCHES + 1, &count) == CEDRAT_OK && count <= BRANCHES);
  for (number = 0; number < BRANCHES; number++) {
    branch *b = &at->model->branches[number];
    size_t len = id_of(number, id), found_here = 0;
    for (i = 0; i < count; i++) {
      found_here += list[i].id_len == len && memcmp(list[i].id, id, len) == 0;
    }
    MUST(found_here <= 1 && (!b->is_prepared || found_here));
    if (found_here && !b->is_prepared) {
      MUST(b->ended_by > at->model->acknowledged); /* a crash has lost its commit, and all later ones */
      newest_kept = newest_kept < b->ended_by ? newest_kept : b->ended_by - 1;
      b->is_prepared = 1;
    }
  }
  return newest_kept;
}

/* Blocks of a prepared transaction are neither allocated nor free. With encounter_locking, nor are those of one that runs. */
static void verify(place *at) {
  cedrat_usage usage;
  cedrat_status status = CALL(at, cedrat_heap_verify(at->heap, &usage));
  MUST(status == CEDRAT_OK || (status == CEDRAT_IN_DOUBT && is_prepared(at)) ||
       (status == CEDRAT_MISUSE && options.encounter_locking));
}

/* Compares an opened store with the states that it may have, and continues with the one that is found. */
static void settle(place *at, int oldest) {
  changes values;
  int kept = find_branches(at), number;
  read_all(at, &values);
  while (kept >= oldest && !is_state(at, kept, &values)) {
    kept--;
  }
  note("store %d: %d of %d commits were kept, %d at least", (int)(at - places), kept, at->model->commits, oldest);
  MUST(kept >= oldest);
  verify(at);
  for (number = 0; number < BRANCHES; number++) {
    branch *b = &at->model->branches[number];
    MUST(b->is_prepared || b->ended_by <= kept);
    b->ended_by = 0;
  }
  memcpy(at->model->state[0], at->model->state[kept], sizeof at->model->state[0]);
  at->model->commits = at->model->acknowledged = 0;
}

static void create(place *at) {
  uint64_t zero = 0;
  cedrat_heap_options choices = {0};
  cedrat_thread *thread;
  cedrat_txn *txn;
  char *words;
  int cell;
  at->heap = create_heap(at->store, "blocks", 1 << 20, 0);
  OK(cedrat_thread_create(at->store, &thread));
  OK(cedrat_begin(thread));
  OK(cedrat_malloc(thread, at->heap, RAW * 4096, (void **)&words));
  memset(words, 0, RAW * 4096);
  OK(cedrat_commit(thread, CEDRAT_SYNC, NULL));
  cedrat_thread_free(thread);
  at->model->words = (uint64_t)(words - (char *)cedrat_heap_address(at->heap));
  choices.size = 8192;
  choices.size_max = 8192;
  choices.chunk_bytes = 4096;
  choices.raw = 1;
  OK(cedrat_heap_create(at->store, "raw", &choices, &at->raw));
  OK(cedrat_records_open(at->store, "records", &at->model->records));
  OK(cedrat_txn_begin(at->store, &txn));
  for (cell = RECORDS; cell < CELLS; cell++) {
    OK(cedrat_records_insert(txn, at->model->records, &zero, 8, &at->model->place_of[cell]));
  }
  OK(cedrat_txn_commit(txn, NULL, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_txn_free(txn);
  at->model->exists = 1;
}

static void open_place(place *at, int oldest) {
  char message[400] = "";
  memset(at->runs, 0, sizeof at->runs);
  if (cedrat_open(at->directory, &options, &at->store, message, sizeof message) != CEDRAT_OK) {
    note("%s", message);
    MUST(!"it opens");
  }
  at->other = NULL;
  if (!at->model->exists) {
    create(at);
    return;
  }
  OK(cedrat_heap_open(at->store, "blocks", &at->heap));
  OK(cedrat_heap_open(at->store, "raw", &at->raw));
  if (cedrat_heap_open(at->store, "other", &at->other) != CEDRAT_OK) {
    at->other = NULL;
  }
  settle(at, oldest);
}

/* Closes a store, after all its handles are freed. */
static void close_place(place *at) {
  int i;
  for (i = 0; i <= THREADS; i++) {
    cedrat_thread_free(at->runs[i].thread);
    cedrat_txn_free(at->runs[i].txn);
    at->runs[i].thread = NULL;
    at->runs[i].txn = NULL;
    at->runs[i].runs = 0;
  }
  MUST(CALL(at, cedrat_close(at->store)) == CEDRAT_OK);
  at->store = NULL;
}

static void close_and_open(place *at) {
  int i, handles = 0;
  for (i = 0; i <= THREADS; i++) {
    handles += at->runs[i].thread != NULL || at->runs[i].txn != NULL;
  }
  if (handles > 0 && draw(2)) {
    MUST(CALL(at, cedrat_close(at->store)) == CEDRAT_MISUSE);
    return;
  }
  close_place(at);
  if (draw(4) != 0) {
    open_place(at, at->model->commits);
  }
}

static void open_again(place *at) {
  cedrat_store *other = (cedrat_store *)&other;
  MUST(CALL(at, cedrat_open(at->directory, &options, &other, NULL, 0)) == CEDRAT_IN_USE && other == NULL);
}

/* ---- heaps ----------------------------------------------------------------------------------------------------------- */

static void change_heaps(place *at, running *run) {
  cedrat_heap_options choices = {0};
  cedrat_heap *heap = NULL;
  cedrat_status status;
  choices.size = 1 << 16;
  choices.size_max = 1 << 17;
  choices.raw = 1;
  switch (draw(5)) {
    case 0:
      status = CALL(at, cedrat_heap_create(at->store, "other", &choices, &heap));
      MUST(status == (at->other == NULL ? CEDRAT_OK : CEDRAT_EXISTS));
      at->other = status == CEDRAT_OK ? heap : at->other;
      break;
    case 1:
      status = CALL(at, cedrat_heap_drop(at->store, "other"));
      /* Plain blocks of any heap prevent it. */
      MUST(status == CEDRAT_MISUSE || status == (at->other == NULL ? CEDRAT_UNKNOWN : CEDRAT_OK));
      at->other = status == CEDRAT_OK ? NULL : at->other;
      break;
    case 2:
      status = CALL(at, cedrat_heap_open(at->store, "other", &heap));
      MUST(status == (at->other == NULL ? CEDRAT_UNKNOWN : CEDRAT_OK) && heap == at->other);
      break;
    case 3:
      status = at->other == NULL ? CEDRAT_OK : CALL(at, cedrat_heap_grow(at->other, (1 << 16) + 4096 * draw(8)));
      MUST(status == CEDRAT_OK || status == CEDRAT_LIMIT);
      break;
    default:
      if (at->other != NULL && run->thread != NULL && run->runs) {
        char *base = (char *)cedrat_heap_address(at->other) + cedrat_heap_first_offset(at->other);
        run->uses_other |= may_continue(at, run, CALL(at, cedrat_store_word(run->thread, base, draw(100))));
      }
  }
}

static void whole_store(place *at) {
  cedrat_statistics statistics;
  cedrat_usage usage;
  cedrat_status status;
  void *block;
  switch (draw(4)) {
    case 0:
      status = CALL(at, cedrat_checkpoint(at->store));
      MUST(status == CEDRAT_OK || status == CEDRAT_MISUSE || (status == CEDRAT_IN_DOUBT && is_prepared(at)));
      break;
    case 1:
      verify(at);
      MUST(CALL(at, cedrat_heap_verify(at->raw, &usage)) == CEDRAT_MISUSE);
      break;
    case 2:
      MUST(CALL(at, cedrat_get_statistics(at->store, &statistics)) == CEDRAT_OK);
      break;
    default:
      status = CALL(at, cedrat_plain_alloc(at->heap, 64, &block));
      if (status == CEDRAT_OK && draw(2)) {
        status = CALL(at, cedrat_plain_set_root(at->heap, "plain", block));
      }
      MUST(status == CEDRAT_OK || status == CEDRAT_MISUSE || status == CEDRAT_HEAP_FULL ||
           (status == CEDRAT_IN_DOUBT && is_prepared(at)));
  }
}

/* ---- threads and processes ------------------------------------------------------------------------------------------- */

typedef struct {
  place *at;
  running *run;
} of_thread;

static void *be_a_thread(void *argument) {
  of_thread *of = argument;
  int i;
  begin(of->at, of->run);
  for (i = 0; i < 3 && of->run->runs; i++) {
    use(of->at, of->run);
  }
  if (of->run->runs && draw(2)) {
    commit(of->at, of->run);
  }
  return NULL;
}

/* A transaction whose thread ends is aborted; a cedrat_txn lives on. */
static void in_thread(place *at, running *run) {
  of_thread of;
  pthread_t thread;
  of.at = at;
  of.run = run;
  CHECK(pthread_create(&thread, NULL, be_a_thread, &of) == 0 && pthread_join(thread, NULL) == 0);
  if (run->thread != NULL) {
    MUST(!cedrat_is_running(run->thread));
    run->runs = 0;
  }
}

static void any_call(place *at);

/* The child of a fork makes calls with all handles, which change no file, and ends in some way. */
static void be_a_child(void) {
  static model own[PLACES];
  int i, calls = (int)draw(6), way = (int)draw(3);
  is_child = 1;
  alarm(WAITS_MAX);
  for (i = 0; i < PLACES; i++) {
    memcpy(&own[i], places[i].model, sizeof own[i]);
    places[i].model = &own[i];
  }
  for (i = 0; i < calls; i++) {
    place *at = &places[draw(PLACES)];
    if (at->store != NULL) {
      any_call(at);
    }
  }
  if (way == 0) {
    exit(0);
  } else if (way == 1) {
    raise(SIGKILL);
  }
  _exit(0);
}

static void forked(void) {
  int status, by;
  uint64_t before[PLACES] = {0};
  pid_t child;
  size_t i;
  for (i = 0; i < PLACES && options.no_background; i++) {
    before[i] = files_of(places[i].directory);
  }
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_a_child();
  }
  CHECK(waitpid(child, &status, 0) == child);
  by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  note("a child has ended with status %d, by signal %d", WIFEXITED(status) ? WEXITSTATUS(status) : 0, by);
  /* Its heaps and pages are not mapped, and a thread that it lacks may hold a latch. */
  MUST(status == 0 || by == SIGKILL || by == SIGALRM || by == SIGSEGV || by == SIGBUS);
  for (i = 0; i < PLACES && options.no_background; i++) {
    MUST(files_of(places[i].directory) == before[i]);
  }
  (void)draw(1000);
}

/* ---- all of them ----------------------------------------------------------------------------------------------------- */

static void thread_call(place *at, running *run) {
  if (run->thread == NULL) {
    MUST(CALL(at, cedrat_thread_create(at->store, &run->thread)) == CEDRAT_OK);
  } else if (draw(12) == 0) {
    cedrat_thread_free(run->thread);
    run->thread = NULL;
    run->runs = 0;
  } else if (draw(3) == 0) {
    use_idle(at, run);
  } else if (draw(4) == 0) {
    in_thread(at, run);
  } else {
    begin(at, run);
  }
}

static void txn_call(place *at, running *run) {
  switch (draw(14)) {
    case 0: commit(at, run); break;
    case 1: commit(at, run); break;
    case 2: roll_back(at, run); break;
    case 3: prepare(at, run); break;
    case 4: savepoint(at, run); break;
    case 5: misuse(at, run); break;
    default: use(at, run);
  }
}

static void any_call(place *at) {
  running *run = &at->runs[draw(THREADS + 1)];
  uint64_t kind = draw(24);
  if (kind == 0 && !is_child) {
    close_and_open(at);
  } else if (kind == 1) {
    open_again(at);
  } else if (kind == 2) {
    end_branch(at);
  } else if (kind == 3) {
    change_heaps(at, run);
  } else if (kind == 4) {
    whole_store(at);
  } else if (run->runs) {
    txn_call(at, run);
  } else if (run == &at->runs[THREADS]) {
    begin(at, run);
  } else {
    thread_call(at, run);
  }
}

/* One process: it opens both stores, and leaves them in some way. */
static void live(void) {
  int i;
  alarm(LIFE_MAX);
  for (i = 0; i < PLACES; i++) {
    open_place(&places[i], all->life == 0 ? 0 : all->models[i].acknowledged);
  }
  for (all->step = 0; all->step < STEPS; all->step++) {
    place *at = &places[draw(PLACES)];
    if (at->store == NULL) {
      open_place(at, at->model->commits);
    } else if (draw(60) == 0) {
      forked();
    } else {
      any_call(at);
    }
  }
  switch (draw(4)) {
    case 0: raise(SIGKILL); break;
    case 1: _exit(0); break;
    case 2: exit(0); break;
    default:
      for (i = 0; i < PLACES; i++) {
        if (places[i].store != NULL) {
          close_place(&places[i]);
        }
        places[i].model->acknowledged = places[i].model->commits;
      }
      _exit(0);
  }
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *within) {
  (void)about;
  (void)kind;
  (void)within;
  return remove(path);
}

static void be_a_life(void) {
  pid_t child = fork();
  int status;
  CHECK(child >= 0);
  if (child == 0) {
    live();
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
    if (WIFSIGNALED(status)) {
      fprintf(stderr, "ended by signal %d after\n", WTERMSIG(status));
      print_trace();
    }
    exit(1);
  }
}

int main(int count, char **arguments) {
  const char *seed = getenv("CEDRAT_SEED");
  int i;
  CHECK(count == 2);
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(all != MAP_FAILED);
  all->seed = seed == NULL ? 1 : strtoull(seed, NULL, 10);
  for (all->number = 0; all->number < CASES; all->number++) {
    random_state = all->seed * 1000003 + (uint64_t)all->number;
    memset(all->models, 0, sizeof all->models);
    memset(&options, 0, sizeof options);
    options.no_huge_pages = 1;
    options.threads_max = 40;
    options.log_limit_bytes = 16 << 20;
    options.segment_bytes = 1 << 20;
    options.page_pool_bytes = 16 << 20;
    options.no_background = (int)draw(2);
    options.encounter_locking = draw(4) == 0;
    options.check_blocks = draw(4) == 0;
    for (i = 0; i < PLACES; i++) {
      places[i].model = &all->models[i];
      CHECK(snprintf(places[i].directory, sizeof places[i].directory, "%s.%d.%d", arguments[1], all->number, i) <
            (int)sizeof places[i].directory);
    }
    for (all->life = 0; all->life < LIVES; all->life++) {
      random_state += (uint64_t)all->life * UINT64_C(0x9e3779b97f4a7c15) * 1000;
      be_a_life();
    }
    for (i = 0; i < PLACES; i++) {
      CHECK(nftw(places[i].directory, remove_one, 10, FTW_DEPTH | FTW_PHYS) == 0);
    }
  }
  return 0;
}
