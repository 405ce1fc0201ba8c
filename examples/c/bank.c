/* A bank that is killed: accounts in a sorted list, in a heap at a fixed address.
 *
 *     ./bank DIRECTORY ROUNDS
 *
 * Each round runs in a process of its own: four threads move money, open accounts and close them, until the parent kills
 * the process. The next round opens the store again and audits it: the list is sorted, its pointers are still valid, and
 * the sum of money is unchanged.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cedrat_stm.h>

enum { THREADS = 4, STEPS_REPORTED = 100, NUMBERS = 1000, FIRST_ACCOUNTS = 100, FIRST_BALANCE = 1000 };

/* All members are words of 8 bytes, the unit of transactional loads and stores. */
struct account {
  uint64_t number;
  uint64_t balance;
  struct account *next;
};

/* Closed accounts leave their money in the till, and new ones are funded from it. */
struct bank {
  struct account *first;
  uint64_t till;
  uint64_t transfers;
};

static cedrat_store *store;
static cedrat_heap *heap;
static struct bank *bank;
static int reports; /* a pipe to the parent: one byte for each STEPS_REPORTED transactions */

static void must(cedrat_status status, const char *what) {
  char message[300] = "";
  if (status != CEDRAT_OK) {
    cedrat_message(store, message, sizeof message);
    fprintf(stderr, "%s: %s: %s\n", what, cedrat_status_name(status), message);
    exit(1);
  }
}

static void check(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "audit failed: %s\n", what);
    exit(1);
  }
}

/* ---- inside of transactions: functions of their own, so that a restart finds no stale locals ----------------------- */

/* Returns the link to the first account with this number or a larger one. */
static struct account **find(STM_THREAD *self, uint64_t number, struct account **found) {
  struct account **link = &bank->first;
  struct account *account = STM_LOAD_PTR(self, link);
  while (account != NULL && STM_LOAD(self, &account->number) < number) {
    link = &account->next;
    account = STM_LOAD_PTR(self, link);
  }
  *found = account;
  return link;
}

static int has_number(STM_THREAD *self, struct account *account, uint64_t number) {
  return account != NULL && STM_LOAD(self, &account->number) == number;
}

static void transfer(STM_THREAD *self, uint64_t from_number, uint64_t to_number, uint64_t amount) {
  struct account *from, *to;
  uint64_t balance;
  find(self, from_number, &from);
  find(self, to_number, &to);
  if (from == to || !has_number(self, from, from_number) || !has_number(self, to, to_number)) {
    return;
  }
  balance = STM_LOAD(self, &from->balance);
  if (balance < amount) {
    return;
  }
  STM_STORE(self, &from->balance, balance - amount);
  STM_STORE(self, &to->balance, STM_LOAD(self, &to->balance) + amount);
  STM_STORE(self, &bank->transfers, STM_LOAD(self, &bank->transfers) + 1);
}

static void open_or_close(STM_THREAD *self, uint64_t number) {
  struct account *account;
  struct account **link = find(self, number, &account);
  uint64_t till = STM_LOAD(self, &bank->till);
  if (has_number(self, account, number)) {
    STM_STORE(self, &bank->till, till + STM_LOAD(self, &account->balance));
    STM_STORE_PTR(self, link, STM_LOAD_PTR(self, &account->next));
    STM_FREE(self, account);
  } else {
    /* A new block is filled with plain stores: no other thread can reach it, and it is logged as a whole. */
    struct account *created = STM_MALLOC(self, heap, sizeof *created);
    created->number = number;
    created->balance = till / 10;
    created->next = account;
    STM_STORE(self, &bank->till, till - created->balance);
    STM_STORE_PTR(self, link, created);
  }
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* Runs one transaction. The function where it begins changes no local variable in between, so none needs to be volatile. */
static void step(STM_THREAD *self, uint64_t one, uint64_t other, int moves_money) {
  STM_BEGIN(self);
  if (moves_money) {
    transfer(self, one, other, 1 + other % 50);
  } else {
    open_or_close(self, one);
  }
  STM_COMMIT(self);
}

static void *work(void *seed) {
  STM_THREAD self;
  uint64_t random = (uint64_t)(uintptr_t)seed, steps;
  STM_THREAD_INIT(&self, store);
  STM_MODE(&self, CEDRAT_ASYNC);
  for (steps = 1;; steps++) {
    uint64_t one = next_random(&random) % NUMBERS, other = next_random(&random) % NUMBERS;
    step(&self, one, other, next_random(&random) % 4 != 0);
    if (steps % STEPS_REPORTED == 0 && write(reports, "", 1) != 1) {
      break; /* the parent has ended */
    }
  }
  STM_THREAD_FREE(&self);
  return NULL;
}

/* ---- one round ---------------------------------------------------------------------------------------------------- */

/* Creates the first accounts: plain stores, as long as there is one thread, and a checkpoint. */
static void found(void) {
  struct account **link;
  void *block;
  int i;
  must(cedrat_plain_alloc(heap, sizeof *bank, &block), "allocating the bank");
  bank = block;
  bank->till = bank->transfers = 0;
  link = &bank->first;
  for (i = 0; i < FIRST_ACCOUNTS; i++) {
    must(cedrat_plain_alloc(heap, sizeof **link, &block), "allocating an account");
    *link = block;
    (*link)->number = (uint64_t)i * (NUMBERS / FIRST_ACCOUNTS);
    (*link)->balance = FIRST_BALANCE;
    link = &(*link)->next;
  }
  *link = NULL;
  must(cedrat_plain_set_root(heap, "bank", bank), "naming the bank");
  must(cedrat_checkpoint(store), "the checkpoint");
}

/* Plain loads suffice: no other thread has started. */
static void audit(void) {
  const struct account *account;
  uint64_t total = bank->till, accounts = 0;
  cedrat_usage usage;
  for (account = bank->first; account != NULL; account = account->next) {
    total += account->balance;
    accounts++;
    check(account->next == NULL || account->number < account->next->number, "the list is not sorted");
  }
  check(total == (uint64_t)FIRST_ACCOUNTS * FIRST_BALANCE, "money came or went");
  must(cedrat_heap_verify(heap, &usage), "verifying the heap");
  check(usage.blocks == accounts + 2, "blocks are lost"); /* the bank, and its name */
  printf("%" PRIu64 " accounts, %" PRIu64 " transfers, %" PRIu64 " in the till: all is there\n", accounts,
         bank->transfers, bank->till);
  fflush(stdout);
}

static void open_bank(const char *directory) {
  char message[300] = "";
  STM_THREAD self;
  cedrat_status status = cedrat_open(directory, NULL, &store, message, sizeof message);
  if (status != CEDRAT_OK) {
    fprintf(stderr, "%s\n", message);
    exit(1);
  }
  status = cedrat_heap_open(store, "bank", &heap);
  if (status == CEDRAT_UNKNOWN) {
    cedrat_heap_options options = {0};
    options.size = 4 << 20;
    options.address = UINT64_C(0x520000000000);
    status = cedrat_heap_create(store, "bank", &options, &heap);
  }
  must(status, "the heap");
  STM_THREAD_INIT(&self, store);
  STM_BEGIN(&self);
  bank = STM_GET_ROOT(&self, heap, "bank");
  STM_COMMIT(&self);
  STM_THREAD_FREE(&self);
}

/* Opens, audits, and works until the process is killed; the last round closes the store. */
static void run_round(const char *directory, unsigned seed, int is_last) {
  pthread_t threads[THREADS];
  unsigned i;
  open_bank(directory);
  if (bank == NULL) {
    found();
  }
  audit();
  if (is_last) {
    must(cedrat_close(store), "closing");
    return;
  }
  for (i = 0; i < THREADS; i++) {
    uint64_t start = UINT64_C(0x9e3779b97f4a7c15) * (seed * THREADS + i + 1);
    if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)start) != 0) {
      perror("a thread");
      exit(1);
    }
  }
  pthread_join(threads[0], NULL);
}

/* Runs one round in a process of its own, killed after a number of reports; with 0 reports it runs to its end. */
static int kill_a_round(const char *directory, int round, int reports_wanted) {
  int ends[2], status, heard = 0;
  char byte;
  pid_t child;
  if (pipe(ends) != 0 || (child = fork()) < 0) {
    perror("a round");
    exit(1);
  }
  if (child == 0) {
    close(ends[0]);
    reports = ends[1];
    run_round(directory, (unsigned)round, reports_wanted == 0);
    exit(0);
  }
  close(ends[1]);
  while (heard < reports_wanted && read(ends[0], &byte, 1) == 1) {
    heard++;
  }
  if (reports_wanted > 0) {
    kill(child, SIGKILL);
  }
  waitpid(child, &status, 0);
  close(ends[0]);
  return heard == reports_wanted && (WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

int main(int count, char **arguments) {
  int rounds, round;
  if (count != 3) {
    fprintf(stderr, "usage: %s DIRECTORY ROUNDS\n", arguments[0]);
    return 2;
  }
  rounds = atoi(arguments[2]);
  for (round = 0; round <= rounds; round++) {
    if (!kill_a_round(arguments[1], round, round < rounds ? 100 + 37 * round : 0)) {
      fprintf(stderr, "round %d failed\n", round);
      return 1;
    }
  }
  return 0;
}
