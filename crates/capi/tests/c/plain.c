/* Plain blocks before the threads start, a checkpoint, a kill; and raw pointers that survive it. */
#include "check.h"

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

/* A list, all by plain stores. */
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

/* Blocks that an earlier life filled otherwise, so that the log has other words for the same places. */
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
  /* Transactions of the time before are durable, and do not bring plain blocks with them. */
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

/* Transactions in between are none of a program's that keeps the rules: told, and the plain blocks are gone. */
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

int main(int count, char **arguments) {
  CHECK(count == 2);
  CHECK(in_a_child(killed_before_the_checkpoint, arguments[1]));
  CHECK(in_a_child(killed_after_the_checkpoint, arguments[1]));
  CHECK(in_a_child(killed_after_transactions, arguments[1]));
  CHECK(!in_a_child(closed_without_a_checkpoint, arguments[1]));
  CHECK(!in_a_child(overtaken, arguments[1]));
  return 0;
}
