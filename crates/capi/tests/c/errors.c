/* Each error that a program can cause is reported, without side effects. */
#include "check.h"

static cedrat_store *store;
static cedrat_heap *heap;
static cedrat_thread *self;

static void stores_and_heaps(const char *directory) {
  cedrat_store *other = (cedrat_store *)&other;
  cedrat_options options = {0};
  cedrat_heap_options choices = {0};
  cedrat_heap *found = NULL;
  char message[300], small[5] = "xxxx", large[1000];
  IS(CEDRAT_IN_USE, cedrat_open(directory, NULL, &other, message, sizeof message));
  CHECK(other == NULL && strstr(message, "open elsewhere") != NULL);
  IS(CEDRAT_IN_USE, cedrat_open(directory, NULL, &other, small, sizeof small));
  CHECK(strlen(small) == 4);
  IS(CEDRAT_IN_USE, cedrat_open(directory, NULL, &other, NULL, 0));
  CHECK(strlen(directory) < sizeof large - 10);
  strcat(strcpy(large, directory), ".large");
  options.page_pool_bytes = UINT64_MAX;
  IS(CEDRAT_OPTIONS, cedrat_open(large, &options, &other, message, sizeof message)); /* nor does it end the process */
  options.page_pool_bytes = 0;
  OK(cedrat_open(large, &options, &other, message, sizeof message));
  OK(cedrat_close(other));
  options.must_exist = 1;
  IS(CEDRAT_UNKNOWN, cedrat_open("/nonexistent/store", &options, &other, message, sizeof message));
  options.reserved[sizeof options.reserved / sizeof options.reserved[0] - 1] = 1;
  IS(CEDRAT_OPTIONS, cedrat_open(directory, &options, &other, message, sizeof message));
  IS(CEDRAT_NULL, cedrat_open(NULL, NULL, &other, message, sizeof message));
  CHECK(strstr(message, "directory") != NULL);
  IS(CEDRAT_NULL, cedrat_open(directory, NULL, NULL, message, sizeof message));
  IS(CEDRAT_MISUSE, cedrat_open("\xff\xfe", NULL, &other, message, sizeof message));

  choices.size = 4096;
  IS(CEDRAT_EXISTS, cedrat_heap_create(store, "heap", &choices, &found));
  OK(cedrat_message(store, message, sizeof message));
  CHECK(strstr(message, "\"heap\"") != NULL);
  IS(CEDRAT_OPTIONS, cedrat_heap_create(store, "none", NULL, &found));
  choices.address = 12345;
  IS(CEDRAT_OPTIONS, cedrat_heap_create(store, "none", &choices, &found));
  choices.address = (uint64_t)(uintptr_t)cedrat_heap_address(heap);
  IS(CEDRAT_IO, cedrat_heap_create(store, "none", &choices, &found)); /* the address range is in use */
  IS(CEDRAT_UNKNOWN, cedrat_heap_open(store, "none", &found));
  IS(CEDRAT_UNKNOWN, cedrat_heap_drop(store, "none"));
  IS(CEDRAT_NULL, cedrat_heap_open(store, NULL, &found));
  IS(CEDRAT_NULL, cedrat_heap_open(store, "heap", NULL));
  IS(CEDRAT_NULL, cedrat_heap_open(NULL, "heap", &found));
  OK(cedrat_heap_open(store, "heap", &found));
  CHECK(found == heap);
  IS(CEDRAT_LIMIT, cedrat_heap_grow(heap, UINT64_C(1) << 40));
  IS(CEDRAT_NULL, cedrat_heap_grow(NULL, 1));
  IS(CEDRAT_NULL, cedrat_heap_verify(heap, NULL));
  CHECK(cedrat_heap_address(NULL) == NULL && cedrat_heap_size(NULL) == 0 && cedrat_heap_first_offset(NULL) == 0);
  IS(CEDRAT_NULL, cedrat_checkpoint(NULL));
  IS(CEDRAT_NULL, cedrat_close(NULL));
  IS(CEDRAT_NULL, cedrat_get_statistics(store, NULL));
  IS(CEDRAT_NULL, cedrat_is_stable(store, 1, 0, NULL));
  IS(CEDRAT_NULL, cedrat_message(store, NULL, 0));
  IS(CEDRAT_MISUSE, cedrat_close(store)); /* a descriptor exists */
  CHECK(strcmp(cedrat_status_name((cedrat_status)99), "no cedrat_status") == 0);
  CHECK(strcmp(cedrat_status_name(CEDRAT_PANIC), "CEDRAT_PANIC") == 0);
  CHECK(strchr(cedrat_version(), '.') != NULL);
}

static void calls_out_of_place(void) {
  uint64_t value;
  void *block;
  int stable;
  char *inside = (char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap);
  CHECK(!cedrat_is_running(self) && !cedrat_is_running(NULL));
  IS(CEDRAT_MISUSE, cedrat_load_word(self, inside, &value));
  CHECK(strstr(cedrat_error(self), "begin one first") != NULL);
  IS(CEDRAT_MISUSE, cedrat_store_word(self, inside, 1));
  IS(CEDRAT_MISUSE, cedrat_malloc(self, heap, 10, &block));
  IS(CEDRAT_MISUSE, cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_abort(self)); /* nothing to do */
  OK(cedrat_begin(self));
  IS(CEDRAT_MISUSE, cedrat_begin(self));
  CHECK(cedrat_is_running(self));
  IS(CEDRAT_MISUSE, cedrat_commit(self, (cedrat_commit_mode)9, NULL));
  CHECK(cedrat_is_running(self));
  OK(cedrat_commit(self, CEDRAT_PARTITION, &value));
  OK(cedrat_is_stable(store, value, 1, &stable));
  CHECK(stable == 1);
  IS(CEDRAT_NULL, cedrat_begin(NULL));
  IS(CEDRAT_NULL, cedrat_commit(NULL, CEDRAT_SYNC, NULL));
  IS(CEDRAT_NULL, cedrat_abort(NULL));
  IS(CEDRAT_NULL, cedrat_restart(NULL));
  IS(CEDRAT_NULL, cedrat_thread_create(store, NULL));
  IS(CEDRAT_NULL, cedrat_thread_create(NULL, &self));
  CHECK(strstr(cedrat_error(NULL), "null") != NULL);
  cedrat_thread_free(NULL);
}

static void addresses(void) {
  char *base = cedrat_heap_address(heap);
  char *inside = base + cedrat_heap_first_offset(heap), *end = base + cedrat_heap_size(heap);
  char bytes[16] = "";
  uint64_t value = 7, local = 0;
  OK(cedrat_begin(self));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, &local, &value));
  CHECK(strstr(cedrat_error(self), "no heap") != NULL);
  CHECK(value == 7);
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, NULL, &value));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_store_word(self, &local, 1));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, base, &value)); /* the account of blocks */
  IS(CEDRAT_OUT_OF_RANGE, cedrat_store_word(self, base + 8, 1));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, end, &value));
  IS(CEDRAT_MISALIGNED, cedrat_load_word(self, inside + 4, &value));
  IS(CEDRAT_MISALIGNED, cedrat_store_word(self, inside + 1, 1));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_bytes(self, end - 8, bytes, 9));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_store_bytes(self, end - 8, bytes, 9));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_store_bytes(self, end - 8, bytes, SIZE_MAX / 4));
  IS(CEDRAT_NULL, cedrat_load_word(self, inside, NULL));
  IS(CEDRAT_NULL, cedrat_load_bytes(self, inside, NULL, 1));
  IS(CEDRAT_NULL, cedrat_store_bytes(self, inside, NULL, 1));
  /* The transaction continues, as if nothing had happened. */
  strcpy(bytes, "fifteen letters");
  OK(cedrat_store_bytes(self, end - 15, bytes, 15));
  memset(bytes, 0, sizeof bytes);
  OK(cedrat_load_bytes(self, end - 15, bytes, 15));
  CHECK(strcmp(bytes, "fifteen letters") == 0);
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(memcmp(end - 15, "fifteen letters", 15) == 0);
}

static void blocks(void) {
  uint64_t *block = NULL, *other = NULL, value = 0;
  void *root;
  size_t size = 0;
  cedrat_usage before, after;
  OK(cedrat_heap_verify(heap, &before));
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, heap, 100, (void **)&block));
  CHECK((uintptr_t)block % 16 == 0);
  memset(block, 0x5a, 100); /* plain stores */
  OK(cedrat_block_size(self, block, &size));
  CHECK(size == 100);
  OK(cedrat_set_root(self, heap, "block", block));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_set_root(self, heap, "none", block + 2));
  IS(CEDRAT_UNKNOWN, cedrat_set_root(self, heap, "none", NULL));
  IS(CEDRAT_NULL, cedrat_malloc(self, NULL, 1, (void **)&other));
  IS(CEDRAT_NULL, cedrat_malloc(self, heap, 1, NULL));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));

  OK(cedrat_begin(self));
  OK(cedrat_get_root(self, heap, "block", &root));
  CHECK(root == block && block[0] == UINT64_C(0x5a5a5a5a5a5a5a5a));
  OK(cedrat_get_root(self, heap, "none", &root));
  CHECK(root == NULL);
  IS(CEDRAT_NOT_ALLOCATED, cedrat_free(self, block + 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_free(self, block + 2));
  OK(cedrat_free(self, block));
  /* Used after it was freed. */
  IS(CEDRAT_NOT_ALLOCATED, cedrat_free(self, block));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, block, &value));
  CHECK(strstr(cedrat_error(self), "has freed") != NULL);
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, block + 11, 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_bytes(self, (char *)block - 4, &value, 8));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_bytes(self, (char *)block + 99, &value, 8));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_block_size(self, block, &size));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_set_root(self, heap, "block", block));
  OK(cedrat_set_root(self, heap, "block", NULL));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_begin(self));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_free(self, block)); /* a transaction later */
  OK(cedrat_abort(self));

  /* Allocated and freed in one transaction. */
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, heap, 48, (void **)&other));
  OK(cedrat_free(self, other));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, other, 1));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_heap_verify(heap, &after));
  CHECK(before.blocks == after.blocks && before.bytes == after.bytes);
}

/* A transaction that filled the heap leaves nothing. */
static void out_of_memory(void) {
  uint64_t count = 0;
  void *block;
  cedrat_usage before, after;
  cedrat_status status;
  OK(cedrat_heap_verify(heap, &before));
  OK(cedrat_begin(self));
  IS(CEDRAT_HEAP_FULL, cedrat_malloc(self, heap, SIZE_MAX, &block));
  CHECK(block == NULL);
  while ((status = cedrat_malloc(self, heap, 5000, &block)) == CEDRAT_OK) {
    memset(block, 1, 5000);
    count++;
  }
  IS(CEDRAT_HEAP_FULL, status);
  CHECK(count > 50);
  OK(cedrat_abort(self));
  OK(cedrat_heap_verify(heap, &after));
  CHECK(before.blocks == after.blocks && before.bytes == after.bytes);
}

static void other_stores(const char *directory) {
  char second[1000];
  cedrat_store *other;
  cedrat_heap *foreign, *raw, *successor;
  cedrat_heap_options choices = {0};
  cedrat_usage usage;
  uint64_t value = 0;
  void *block;
  CHECK(strlen(directory) < sizeof second - 10);
  strcat(strcpy(second, directory), ".second");
  other = open_store(second);
  foreign = create_heap(other, "foreign", 1 << 20, 0);
  choices.size = 8192;
  choices.size_max = 16384;
  choices.chunk_bytes = 4096;
  choices.raw = 1;
  OK(cedrat_heap_create(store, "raw", &choices, &raw));
  OK(cedrat_begin(self));
  IS(CEDRAT_MISUSE, cedrat_malloc(self, foreign, 10, &block));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, (char *)cedrat_heap_address(foreign) + (1 << 19), &value));
  /* A program manages a raw heap itself, from its first word to its last. */
  IS(CEDRAT_MISUSE, cedrat_malloc(self, raw, 10, &block));
  OK(cedrat_store_word(self, cedrat_heap_address(raw), 17));
  OK(cedrat_store_word(self, (char *)cedrat_heap_address(raw) + 8184, 18));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_store_word(self, (char *)cedrat_heap_address(raw) + 8192, 19));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(*(uint64_t *)cedrat_heap_address(raw) == 17);
  IS(CEDRAT_MISUSE, cedrat_heap_verify(raw, &usage));
  IS(CEDRAT_MISUSE, cedrat_plain_alloc(raw, 10, &block));
  /* Dropped while a transaction uses it. A plain allocation that has failed does not prevent that. */
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, cedrat_heap_address(raw), 18));
  OK(cedrat_heap_drop(store, "raw"));
  OK(cedrat_heap_create(store, "raw", &choices, &successor));
  IS(CEDRAT_UNKNOWN, cedrat_heap_grow(raw, 16384)); /* the one that was dropped */
  CHECK(cedrat_heap_size(successor) == 8192);
  OK(cedrat_heap_grow(successor, 16384));
  IS(CEDRAT_UNKNOWN, cedrat_commit(self, CEDRAT_SYNC, NULL));
  CHECK(!cedrat_is_running(self));
  OK(cedrat_close(other));
}

/* Limits that a program may reach: of descriptors, and of the log. */
static void limits(void) {
  cedrat_thread *threads[64];
  cedrat_heap *large;
  uint64_t lsn = 17;
  void *block;
  cedrat_usage usage;
  int i = 0;
  while (i < 64 && cedrat_thread_create(store, &threads[i]) == CEDRAT_OK) {
    i++;
  }
  CHECK(i > 10 && i < 64);
  IS(CEDRAT_LIMIT, cedrat_thread_create(store, &threads[i]));
  CHECK(threads[i] == NULL);
  while (i > 0) {
    cedrat_thread_free(threads[--i]);
  }
  OK(cedrat_thread_create(store, &threads[0]));
  cedrat_thread_free(threads[0]);

  large = create_heap(store, "large", 128 << 20, 0);
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, large, 100 << 20, &block)); /* logged as a whole, in a log of 64 MiB */
  IS(CEDRAT_LOG_FULL, cedrat_commit(self, CEDRAT_SYNC, &lsn));
  CHECK(lsn == 17 && !cedrat_is_running(self));
  OK(cedrat_heap_verify(large, &usage));
  CHECK(usage.blocks == 0);
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, large, 100, &block));
  OK(cedrat_commit(self, CEDRAT_SYNC, &lsn));
}

/* Pointers that were kept too long, in a store that was opened to detect them. */
static void kept_too_long(const char *directory) {
  cedrat_options options = {0};
  cedrat_heap *found;
  uint64_t *small, *large, *neighbour, value = 0;
  void *block;
  char bytes[8] = "";
  options.check_blocks = 1;
  OK(cedrat_open(directory, &options, &store, NULL, 0));
  OK(cedrat_heap_open(store, "large", &found));
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_malloc(self, found, 40, &block));
  small = (uint64_t *)block;
  OK(cedrat_malloc(self, found, 40, &block));
  neighbour = (uint64_t *)block;
  OK(cedrat_malloc(self, found, 1 << 20, &block));
  large = (uint64_t *)block;
  memset(large, 0, 1 << 20);
  OK(cedrat_store_word(self, &small[0], 1));
  OK(cedrat_store_word(self, &large[0], 1));
  OK(cedrat_store_word(self, &large[(1 << 17) - 1], 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, &large[1 << 17], 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, &small[-1], 1)); /* a header */
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, &small[5], 1));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, &small[4], &value));
  OK(cedrat_load_word(self, &large[1 << 16], &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_bytes(self, (char *)small + 36, bytes, 5));
  OK(cedrat_free(self, small));
  OK(cedrat_free(self, large));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  OK(cedrat_begin(self));
  OK(cedrat_load_word(self, &neighbour[4], &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, &small[0], &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_store_word(self, &small[4], 1));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, &large[0], &value));
  IS(CEDRAT_NOT_ALLOCATED, cedrat_load_word(self, &large[1 << 16], &value));
  IS(CEDRAT_OUT_OF_RANGE, cedrat_load_word(self, cedrat_heap_address(found), &value));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  OK(cedrat_close(store));
}

static void damage(const char *directory) {
  char path[1000], message[300];
  FILE *file;
  long i, len;
  cedrat_store *damaged;
  CHECK(snprintf(path, sizeof path, "%s/control", directory) < (int)sizeof path);
  file = fopen(path, "r+b");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  len = ftell(file);
  rewind(file);
  for (i = 0; i < len; i++) { /* both of its slots */
    fputc(0xff, file);
  }
  CHECK(fclose(file) == 0);
  IS(CEDRAT_DAMAGED, cedrat_open(directory, NULL, &damaged, message, sizeof message));
  CHECK(damaged == NULL && strstr(message, "control") != NULL);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  store = open_store(arguments[1]);
  heap = create_heap(store, "heap", 1 << 20, 0);
  OK(cedrat_thread_create(store, &self));
  CHECK(cedrat_error(self)[0] == 0);
  stores_and_heaps(arguments[1]);
  calls_out_of_place();
  addresses();
  blocks();
  out_of_memory();
  other_stores(arguments[1]);
  limits();
  cedrat_thread_free(self);
  OK(cedrat_close(store));
  kept_too_long(arguments[1]);
  damage(arguments[1]);
  return 0;
}
