/* A forked process has neither pages nor words. What it maps in their place is its own, and stays when it frees the handles, also
 * those of transactions that run. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define RANGES_MAX 10000
#define WAITS_MAX 30 /* seconds, for a child that needs none */

typedef struct {
  char *from;
  size_t size;
} range;

typedef struct {
  cedrat_store *store;
  cedrat_heap *heap;
  cedrat_thread *within; /* its transaction has changed a word and blocks */
} opened;

static range ranges[RANGES_MAX];

/* Finds what is mapped; returns the number of ranges. */
static size_t find_ranges(void) {
  size_t count = 0;
  uint64_t from, to;
  char line[1000];
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) {
    CHECK(count < RANGES_MAX && sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2);
    ranges[count].from = (char *)from;
    ranges[count++].size = to - from;
  }
  fclose(maps);
  return count;
}

/* Maps memory where this process has none of what its parent had mapped; returns the number of these ranges, which come first. */
static size_t fill_gaps(size_t count) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  size_t number, filled = 0;
  for (number = 0; number < count; number++) {
    range gap = ranges[number];
    if (mmap(gap.from, gap.size, PROT_READ | PROT_WRITE, flags, -1, 0) == gap.from) {
      *gap.from = 5;
      ranges[filled++] = gap;
    }
  }
  return filled;
}

static opened open_one(const char *directory, int is_volatile) {
  opened one;
  cedrat_options options = {0};
  cedrat_heap_options size = {0};
  char message[300] = "";
  void *block, *freed;
  options.volatile_memory = is_volatile;
  options.no_huge_pages = 1;
  size.size = 1 << 20;
  IS(CEDRAT_OK, cedrat_open(is_volatile ? NULL : directory, &options, &one.store, message, sizeof message));
  OK(cedrat_heap_create(one.store, "words", &size, &one.heap));
  OK(cedrat_thread_create(one.store, &one.within));
  OK(cedrat_begin(one.within));
  OK(cedrat_malloc(one.within, one.heap, 64, &freed));
  OK(cedrat_commit(one.within, CEDRAT_ASYNC, NULL));
  OK(cedrat_begin(one.within));
  OK(cedrat_malloc(one.within, one.heap, 64, &block));
  OK(cedrat_store_word(one.within, block, 7));
  OK(cedrat_free(one.within, freed));
  return one;
}

static void end_in_child(opened *one) {
  cedrat_thread_free(one->within);
  (void)cedrat_close(one->store);
}

static void end(opened *one) {
  OK(cedrat_commit(one->within, CEDRAT_SYNC, NULL));
  cedrat_thread_free(one->within);
  OK(cedrat_close(one->store));
}

int main(int count, char **arguments) {
  opened durable, in_memory;
  size_t number, mapped, filled;
  int status;
  pid_t child;
  CHECK(count == 2);
  durable = open_one(arguments[1], 0);
  in_memory = open_one(NULL, 1);
  mapped = find_ranges();
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(WAITS_MAX);
    filled = fill_gaps(mapped);
    CHECK(filled >= 3); /* two heaps and the pages */
    end_in_child(&durable);
    end_in_child(&in_memory);
    for (number = 0; number < filled; number++) {
      unsigned char is_in_memory;
      CHECK(mincore(ranges[number].from, 1, &is_in_memory) == 0 && *ranges[number].from == 5);
    }
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (status != 0) {
    fprintf(stderr, "the child ended with status %d, by signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
    exit(1);
  }
  end(&durable);
  end(&in_memory);
  return 0;
}
