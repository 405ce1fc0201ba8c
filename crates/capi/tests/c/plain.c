/* Plain blocks before the threads start, a checkpoint, a kill; and raw pointers that survive it. */
#include "check.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

enum { NODES = 3000, LONG_BLOCK = 300000 };

static const uint64_t ADDRESS = UINT64_C(0x530000000000);

struct node {
  struct node *next;
  uint64_t number;
  char *long_block;
};

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_thread *self;

static void *root(const char *name) {
  void *block;
  OK(cedrat_begin(self));
  OK(cedrat_get_root(self, heap, name, &block));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  return block;
}

static void open_all(const char *directory) {
  store = open_store(directory);
  if (cedrat_heap_open(store, "plain", &heap) != CEDRAT_OK) {
    heap = create_heap(store, "plain", 4 << 20, ADDRESS);
  }
  CHECK(cedrat_heap_address(heap) == (void *)(uintptr_t)ADDRESS);
  OK(cedrat_thread_create(store, &self));
}

static void *plain(size_t size) {
  void *block;
  OK(cedrat_plain_alloc(heap, size, &block));
  return block;
}

/* Builds a list, by plain stores only. */
static void fill(void) {
  struct node *first = NULL;
  uint64_t i;
  for (i = 0; i < NODES; i++) {
    struct node *node = plain(sizeof *node);
    node->next = first;
    node->number = i;
    node->long_block = NULL;
    first = node;
  }
  first->long_block = plain(LONG_BLOCK);
  memset(first->long_block, 'x', LONG_BLOCK);
  OK(cedrat_plain_set_root(heap, "list", first));
}

static void look(uint64_t first_number) {
  const struct node *node = root("list");
  uint64_t i;
  cedrat_usage usage;
  CHECK(node != NULL && node->number == first_number);
  for (i = 0; i < LONG_BLOCK; i++) {
    CHECK(node->long_block[i] == 'x');
  }
  for (node = node->next, i = NODES - 1; node != NULL; node = node->next) {
    CHECK(node->number == --i);
  }
  CHECK(i == 0);
  OK(cedrat_heap_verify(heap, &usage));
  CHECK(usage.blocks == NODES + 2);
}

/* Blocks that an earlier process filled differently, so that the log has other words for the same offsets. */
static void earlier_life(void) {
  static void *blocks[NODES];
  uint64_t i;
  OK(cedrat_begin(self));
  for (i = 0; i < NODES; i++) {
    OK(cedrat_malloc(self, heap, sizeof(struct node), &blocks[i]));
    memset(blocks[i], 0xee, sizeof(struct node));
  }
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_begin(self));
  for (i = 0; i < NODES; i++) {
    OK(cedrat_free(self, blocks[i]));
  }
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
}

static void killed_before_the_checkpoint(const char *directory) {
  open_all(directory);
  earlier_life();
  fill();
  /* Transactions before the checkpoint are durable, and do not make plain blocks durable with them. */
  OK(cedrat_begin(self));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  kill(getpid(), SIGKILL);
}

static void killed_after_the_checkpoint(const char *directory) {
  cedrat_usage usage;
  open_all(directory);
  CHECK(root("list") == NULL);
  OK(cedrat_heap_verify(heap, &usage));
  CHECK(usage.blocks == 0);
  earlier_life();
  fill();
  OK(cedrat_checkpoint(store));
  kill(getpid(), SIGKILL);
}

static void killed_after_transactions(const char *directory) {
  struct node *first;
  open_all(directory);
  look(NODES - 1);
  first = root("list");
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, &first->number, 77));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, &first->number, 88)); /* never committed */
  kill(getpid(), SIGKILL);
}

/* Exit with a pending store to a word and a pending block. */
static void exits_within_a_transaction(const char *directory) {
  struct node *first;
  void *block;
  open_all(directory);
  first = root("list");
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, &first->number, 99));
  OK(cedrat_malloc(self, heap, 1000, &block));
  memset(block, 1, 1000);
  exit(0);
}

/* The address range of the heap is in use: the open is refused, and nothing is overwritten. */
static void the_address_is_taken(const char *directory) {
  char message[300] = "";
  int zeros = open("/dev/zero", O_RDWR);
  char *taken = (char *)mmap((void *)(uintptr_t)ADDRESS, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zeros, 0);
  CHECK(taken == (char *)(uintptr_t)ADDRESS);
  taken[0] = 17;
  IS(CEDRAT_IO, cedrat_open(directory, NULL, &store, message, sizeof message));
  CHECK(store == NULL && strstr(message, "plain") != NULL);
  CHECK(taken[0] == 17);
}

static void closed_without_a_checkpoint(const char *directory) {
  void *block;
  open_all(directory);
  look(77);
  IS(CEDRAT_OUT_OF_RANGE, cedrat_plain_set_root(heap, "none", NULL));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_plain_set_root(heap, "none", (char *)cedrat_heap_address(heap) + (1 << 20) + 1));
  IS(CEDRAT_NULL, cedrat_plain_alloc(heap, 10, NULL));
  IS(CEDRAT_NULL, cedrat_plain_alloc(NULL, 10, &block));
  IS(CEDRAT_HEAP_FULL, cedrat_plain_alloc(heap, SIZE_MAX, &block));
  memset(plain(100000), 1, 100000);
  IS(CEDRAT_MISUSE, cedrat_heap_drop(store, "plain"));
  cedrat_thread_free(self);
  OK(cedrat_close(store));
  open_all(directory);
  look(77);
  cedrat_thread_free(self);
  OK(cedrat_close(store));
}

/* Transactions in between violate the rules for programs: they are reported, and the plain blocks are gone. */
static void overtaken(const char *directory) {
  struct node *first;
  void *block;
  char message[300];
  open_all(directory);
  first = root("list");
  block = plain(64);
  OK(cedrat_plain_set_root(heap, "list", block));
  OK(cedrat_begin(self));
  OK(cedrat_set_root(self, heap, "list", first->next));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  IS(CEDRAT_MISUSE, cedrat_checkpoint(store));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "before the threads start") != NULL);
  CHECK(root("list") == first->next);
  OK(cedrat_checkpoint(store));
}

/* ---- killed at any moment of the checkpoint ------------------------------------------------------------------------ */

static int about_to_take_it[2];

static void takes_a_checkpoint(const char *directory) {
  open_all(directory);
  earlier_life();
  fill();
  CHECK(write(about_to_take_it[1], "", 1) == 1);
  OK(cedrat_checkpoint(store));
  pause();
}

static void all_or_nothing(const char *directory) {
  cedrat_usage usage;
  open_all(directory);
  if (root("list") != NULL) {
    look(NODES - 1);
  } else {
    OK(cedrat_heap_verify(heap, &usage));
    CHECK(usage.blocks == 0);
  }
}

static void kill_at_some_moment(const char *directory, int round) {
  char place[1000], byte;
  int status, i;
  pid_t child;
  CHECK(snprintf(place, sizeof place, "%s.%d", directory, round) < (int)sizeof place);
  CHECK(pipe(about_to_take_it) == 0);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    takes_a_checkpoint(place);
  }
  close(about_to_take_it[1]);
  CHECK(read(about_to_take_it[0], &byte, 1) == 1);
  for (i = 0; i < round * round * 100; i++) {
    sched_yield();
  }
  kill(child, SIGKILL);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  close(about_to_take_it[0]);
  CHECK(!in_a_child(all_or_nothing, place));
}

int main(int count, char **arguments) {
  int round;
  CHECK(count == 2);
  for (round = 0; round < 20; round++) {
    kill_at_some_moment(arguments[1], round);
  }
  CHECK(in_a_child(killed_before_the_checkpoint, arguments[1]));
  CHECK(in_a_child(killed_after_the_checkpoint, arguments[1]));
  CHECK(in_a_child(killed_after_transactions, arguments[1]));
  CHECK(!in_a_child(exits_within_a_transaction, arguments[1]));
  CHECK(!in_a_child(the_address_is_taken, arguments[1]));
  CHECK(!in_a_child(closed_without_a_checkpoint, arguments[1]));
  CHECK(!in_a_child(overtaken, arguments[1]));
  return 0;
}
