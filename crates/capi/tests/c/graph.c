/* A graph of objects: committed objects can be read again, also after a kill; each error is reported. */
#include "check.h"

#include <pthread.h>

#define NEW_OBJECT(number) (UINT64_C(0xff) << 56 | (number))

/* A buffer of changes, in the format of docs/formats/graph.md. */
static unsigned char changes[1 << 16];
static size_t changes_size;

static void put(const void *bytes, size_t size) {
  CHECK(changes_size + size <= sizeof changes);
  memcpy(changes + changes_size, bytes, size);
  changes_size += size;
}

static void put_u32(uint32_t number) {
  unsigned char bytes[4];
  int i;
  for (i = 0; i < 4; i++) {
    bytes[i] = (unsigned char)(number >> 8 * i);
  }
  put(bytes, sizeof bytes);
}

static void put_u64(uint64_t number) {
  put_u32((uint32_t)number);
  put_u32((uint32_t)(number >> 32));
}

static void pad(void) {
  while (changes_size % 8 != 0) {
    put("", 1);
  }
}

static void head(uint32_t kind, size_t size) {
  put_u32(kind);
  put_u32((uint32_t)size);
}

/* An object with eight bytes of data and one reference. */
static void object(uint32_t class_number, uint64_t data, uint64_t reference) {
  put_u32(class_number);
  put_u32(8);
  put_u64(data);
  put_u64(reference);
}

static void add(uint64_t data, uint64_t reference) {
  head(1, 24);
  object(1, data, reference);
}

static void patch(uint64_t identity, uint32_t offset, const void *bytes, size_t size) {
  head(2, size);
  put_u64(identity);
  put_u32(offset);
  put_u32(0);
  put(bytes, size);
  pad();
}

static void replace(uint64_t identity, uint64_t data, uint64_t reference) {
  head(3, 24);
  put_u64(identity);
  object(1, data, reference);
}

static void set_root(const char *name, uint64_t reference) {
  head(4, strlen(name));
  put_u64(reference);
  put(name, strlen(name));
  pad();
}

static uint64_t word_at(const unsigned char *bytes, size_t offset) {
  uint64_t word = 0;
  int i;
  for (i = 7; i >= 0; i--) {
    word = word << 8 | bytes[offset + i];
  }
  return word;
}

static cedrat_graph *open_graph(cedrat_store *store) {
  cedrat_graph *graph;
  OK(cedrat_graph_open(store, "graph", NULL, &graph));
  return graph;
}

static void commits_and_is_killed(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = open_graph(store);
  uint64_t identities[2], lsn;
  uint32_t class_number;
  int stable;
  OK(cedrat_graph_define_class(graph, "a class", 7, &class_number));
  CHECK(class_number == 1);
  add(17, NEW_OBJECT(1)); /* each references the other */
  add(18, NEW_OBJECT(0));
  set_root("first", NEW_OBJECT(0));
  set_root("second", NEW_OBJECT(1));
  OK(cedrat_graph_commit(graph, changes, changes_size, CEDRAT_ASYNC, identities, 2, &lsn));
  changes_size = 0;
  patch(identities[0], 8, "\x13", 1);
  replace(identities[1], 20, 0);
  set_root("second", 0);
  OK(cedrat_graph_commit(graph, changes, changes_size, CEDRAT_ASYNC, NULL, 0, &lsn));
  OK(cedrat_is_stable(store, lsn, 1, &stable));
  CHECK(stable);
  kill(getpid(), SIGKILL);
}

static void reads_again(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = open_graph(store);
  cedrat_graph_statistics statistics;
  unsigned char bytes[100];
  uint64_t first, identities[4];
  size_t size, offsets[5], count;
  char text[300];
  OK(cedrat_graph_get_class(graph, 1, bytes, 7, &size));
  CHECK(size == 7 && memcmp(bytes, "a class", 7) == 0);
  IS(CEDRAT_LIMIT, cedrat_graph_get_class(graph, 1, bytes, 6, &size));
  CHECK(size == 7);
  IS(CEDRAT_UNKNOWN, cedrat_graph_get_class(graph, 2, bytes, sizeof bytes, &size));
  IS(CEDRAT_UNKNOWN, cedrat_graph_get_class(graph, 0, bytes, sizeof bytes, &size));
  OK(cedrat_graph_get_root(graph, "first", &first));
  CHECK(first != 0);
  OK(cedrat_graph_get_root(graph, "second", &identities[0]));
  CHECK(identities[0] == 0);
  OK(cedrat_graph_get_roots(graph, bytes, sizeof bytes, &size));
  CHECK(size == 24 && bytes[0] == 4 && word_at(bytes, 8) == first && memcmp(bytes + 16, "first\0\0\0", 8) == 0);
  IS(CEDRAT_LIMIT, cedrat_graph_get_roots(graph, bytes, 23, &size));
  CHECK(size == 24);

  OK(cedrat_graph_read(graph, first, bytes, sizeof bytes, &size));
  CHECK(size == 24 && word_at(bytes, 8) == 19);
  identities[1] = word_at(bytes, 16);
  size = 0;
  IS(CEDRAT_LIMIT, cedrat_graph_read(graph, first, bytes, 23, &size));
  CHECK(size == 24);
  OK(cedrat_graph_message(graph, text, sizeof text));
  CHECK(strstr(text, "24 bytes") != NULL && strstr(text, "23") != NULL);
  IS(CEDRAT_UNKNOWN, cedrat_graph_read(graph, first + 77, bytes, sizeof bytes, &size));
  IS(CEDRAT_UNKNOWN, cedrat_graph_read(graph, 0, bytes, sizeof bytes, &size));
  CHECK(size == 0);

  identities[0] = first;
  identities[2] = first + 77;
  identities[3] = first;
  OK(cedrat_graph_read_many(graph, identities, 4, bytes, sizeof bytes, offsets, &count));
  CHECK(count == 4 && offsets[0] == 0 && offsets[1] == 24 && offsets[2] == 48 && offsets[3] == 48 && offsets[4] == 72);
  CHECK(word_at(bytes, 8) == 19 && word_at(bytes, 24 + 8) == 20 && word_at(bytes, 48 + 8) == 19);
  OK(cedrat_graph_read_many(graph, identities, 4, bytes, 71, offsets, &count));
  CHECK(count == 3 && offsets[4] == 72);
  IS(CEDRAT_LIMIT, cedrat_graph_read_many(graph, identities, 4, bytes, 23, offsets, &count));
  CHECK(count == 0 && offsets[1] == 24);

  OK(cedrat_graph_get_statistics(graph, &statistics));
  CHECK(statistics.classes == 1 && statistics.newest_lsn >= statistics.stable_lsn && statistics.stable_lsn > 0);
  IS(CEDRAT_MISUSE, cedrat_close(store)); /* the graph is open */
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

static void errors(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = open_graph(store), *other = (cedrat_graph *)&other;
  cedrat_graph_options options = {0};
  uint64_t first, identity, lsn = 17;
  size_t size;
  char text[300];
  options.must_exist = 1;
  IS(CEDRAT_UNKNOWN, cedrat_graph_open(store, "no such", &options, &other));
  CHECK(other == NULL);
  options.program_locks = 1;
  IS(CEDRAT_MISUSE, cedrat_graph_open(store, "graph", &options, &other)); /* other options */
  options.program_locks = 0;
  options.cache_bytes = 1 << 20;
  IS(CEDRAT_MISUSE, cedrat_graph_open(store, "graph", &options, &other)); /* other options */
  options.reserved[1] = 1;
  IS(CEDRAT_OPTIONS, cedrat_graph_open(store, "graph", &options, &other));
  IS(CEDRAT_NULL, cedrat_graph_open(NULL, "graph", NULL, &other));
  IS(CEDRAT_NULL, cedrat_graph_open(store, NULL, NULL, &other));
  IS(CEDRAT_NULL, cedrat_graph_open(store, "graph", NULL, NULL));

  OK(cedrat_graph_get_root(graph, "first", &first));
  changes_size = 0;
  add(1, first);
  set_root("lost", NEW_OBJECT(0));
  IS(CEDRAT_LIMIT, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, NULL, 0, &lsn));
  IS(CEDRAT_MISUSE, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_NO_FLUSH, &identity, 1, &lsn));
  IS(CEDRAT_MISUSE, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_PARTITION, &identity, 1, &lsn));
  IS(CEDRAT_NULL, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, NULL, 1, &lsn));
  IS(CEDRAT_NULL, cedrat_graph_commit(graph, NULL, changes_size, CEDRAT_SYNC, &identity, 1, &lsn));
  IS(CEDRAT_NULL, cedrat_graph_commit(NULL, changes, changes_size, CEDRAT_SYNC, &identity, 1, &lsn));
  patch(first + 77, 8, "x", 1);
  IS(CEDRAT_UNKNOWN, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, &identity, 1, &lsn));
  OK(cedrat_graph_message(graph, text, sizeof text));
  CHECK(strstr(text, "entry 2, at byte 56 ") != NULL);
  for (size = 1; size < changes_size; size++) {
    if (size == 32 || size == 56) {
      continue; /* whole entries */
    }
    IS(CEDRAT_MISUSE, cedrat_graph_commit(graph, changes, size, CEDRAT_SYNC, &identity, 1, &lsn));
  }
  changes[0] = 9;
  IS(CEDRAT_MISUSE, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, &identity, 1, &lsn));
  CHECK(lsn == 17);
  OK(cedrat_graph_get_root(graph, "lost", &identity));
  CHECK(identity == 0); /* nothing has happened */
  OK(cedrat_graph_commit(graph, NULL, 0, CEDRAT_SYNC, NULL, 0, NULL));
  cedrat_graph_close(NULL);
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

static cedrat_graph_stage step_until(cedrat_graph_collection *collection, cedrat_graph_stage end) {
  cedrat_graph_stage stage = CEDRAT_GRAPH_MARKING;
  int i;
  for (i = 0; i < 1000 && stage != end; i++) {
    OK(cedrat_graph_collect_step(collection, 1, &stage));
  }
  CHECK(stage == end);
  return stage;
}

static void collects(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = open_graph(store);
  cedrat_graph_collection *collection, *other = (cedrat_graph_collection *)&other;
  cedrat_graph_collected collected;
  cedrat_graph_stage stage;
  uint64_t identities[4];
  unsigned char bytes[100];
  size_t size;
  changes_size = 0;
  add(1, 0);
  add(2, NEW_OBJECT(0));
  add(3, 0);
  add(4, 0);
  set_root("kept", NEW_OBJECT(1));
  OK(cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, identities, 4, NULL));
  IS(CEDRAT_NULL, cedrat_graph_collect_begin(graph, NULL, 1, &collection));
  IS(CEDRAT_NULL, cedrat_graph_collect_begin(graph, NULL, 0, NULL));
  OK(cedrat_graph_collect_begin(graph, &identities[2], 1, &collection));
  IS(CEDRAT_MISUSE, cedrat_graph_collect_begin(graph, NULL, 0, &other));
  CHECK(other == NULL);
  IS(CEDRAT_MISUSE, cedrat_graph_collect_seal(collection, NULL, 0, &stage));
  IS(CEDRAT_NULL, cedrat_graph_collect_step(collection, 1, NULL));
  IS(CEDRAT_NULL, cedrat_graph_collect_step(NULL, 1, &stage));
  step_until(collection, CEDRAT_GRAPH_MARKED);
  changes_size = 0;
  set_root("kept", 0); /* two of them stay reachable only in this collection's initial state */
  OK(cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, NULL, 0, NULL));
  do {
    OK(cedrat_graph_collect_seal(collection, NULL, 0, &stage));
    if (stage == CEDRAT_GRAPH_MARKING) {
      step_until(collection, CEDRAT_GRAPH_MARKED);
    }
  } while (stage != CEDRAT_GRAPH_SWEEPING);
  IS(CEDRAT_UNKNOWN, cedrat_graph_read(graph, identities[3], bytes, sizeof bytes, &size));
  step_until(collection, CEDRAT_GRAPH_DONE);
  OK(cedrat_graph_collect_get(collection, &collected));
  CHECK(collected.objects >= 1 && collected.marked >= 3 && collected.mark_bytes > 0);
  cedrat_graph_close(graph); /* the collection keeps it */
  IS(CEDRAT_MISUSE, cedrat_close(store));
  cedrat_graph_collect_free(NULL);
  cedrat_graph_collect_free(collection);
  graph = open_graph(store);
  OK(cedrat_graph_read(graph, identities[0], bytes, sizeof bytes, &size));
  OK(cedrat_graph_read(graph, identities[1], bytes, sizeof bytes, &size));
  OK(cedrat_graph_read(graph, identities[2], bytes, sizeof bytes, &size));
  IS(CEDRAT_UNKNOWN, cedrat_graph_read(graph, identities[3], bytes, sizeof bytes, &size));
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

/* Classes without objects, and not named by a value, are dropped. */
static void drops_classes(const char *directory) {
  const uint64_t name_of_3 = UINT64_C(9) << 56 | UINT64_C(3) << 24;
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = NULL;
  cedrat_graph_options options = {0};
  cedrat_graph_collection *collection = NULL;
  cedrat_graph_stage stage;
  uint32_t number, unused[2] = {0};
  unsigned char bytes[8];
  size_t count, size;
  uint64_t identity;
  int dropped = 7, i;
  options.class_tag = 255;
  IS(CEDRAT_OPTIONS, cedrat_graph_open(store, "classes", &options, &graph));
  options.class_tag = 9;
  OK(cedrat_graph_open(store, "classes", &options, &graph));
  for (i = 0; i < 4; i++) {
    OK(cedrat_graph_define_class(graph, "class", 5, &number));
  }
  changes_size = 0;
  add(1, 0);
  set_root("kept", NEW_OBJECT(0));
  set_root("constant", name_of_3);
  OK(cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, &identity, 1, NULL));
  OK(cedrat_graph_collect_begin(graph, NULL, 0, &collection));
  IS(CEDRAT_MISUSE, cedrat_graph_collect_get_unused_classes(collection, unused, 2, &count));
  IS(CEDRAT_MISUSE, cedrat_graph_collect_drop_classes(collection, unused, 2, &dropped));
  step_until(collection, CEDRAT_GRAPH_MARKED);
  OK(cedrat_graph_collect_seal(collection, NULL, 0, &stage));
  step_until(collection, CEDRAT_GRAPH_DONE);
  IS(CEDRAT_NULL, cedrat_graph_collect_get_unused_classes(collection, NULL, 2, &count));
  IS(CEDRAT_LIMIT, cedrat_graph_collect_get_unused_classes(collection, unused, 1, &count));
  CHECK(count == 2);
  OK(cedrat_graph_collect_get_unused_classes(collection, unused, 2, &count));
  CHECK(count == 2 && unused[0] == 2 && unused[1] == 4);
  number = 3;
  OK(cedrat_graph_collect_drop_classes(collection, &number, 1, &dropped));
  CHECK(dropped == 0);
  IS(CEDRAT_NULL, cedrat_graph_collect_drop_classes(collection, unused, 2, NULL));
  OK(cedrat_graph_collect_drop_classes(collection, unused, 2, &dropped));
  CHECK(dropped == 1);
  cedrat_graph_collect_free(collection);
  IS(CEDRAT_UNKNOWN, cedrat_graph_get_class(graph, 2, bytes, sizeof bytes, &size));
  CHECK(size == SIZE_MAX);
  IS(CEDRAT_UNKNOWN, cedrat_graph_get_class(graph, 5, bytes, sizeof bytes, &size));
  CHECK(size == 0);
  OK(cedrat_graph_get_class(graph, 3, bytes, sizeof bytes, &size));
  changes_size = 0;
  head(1, 24);
  object(4, 0, 0);
  IS(CEDRAT_CLASS_DROPPED, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, &identity, 1, NULL));
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

/* Threads commit and read with one handle. */

static cedrat_graph *shared;
static uint64_t counted;

static void *counts(void *unused) {
  unsigned char mine[32] = {2, 0, 0, 0, 8};
  unsigned char bytes[100];
  size_t size;
  uint64_t i, now;
  (void)unused;
  for (i = 0; i < 8; i++) {
    mine[8 + i] = (unsigned char)(counted >> 8 * i);
  }
  mine[16] = 8;
  for (i = 1; i <= 200; i++) {
    OK(cedrat_graph_read(shared, counted, bytes, sizeof bytes, &size));
    now = word_at(bytes, 8);
    /* Each writes one byte eight times. */
    CHECK(size == 24 && now == (now & 0xff) * UINT64_C(0x0101010101010101));
    memset(mine + 24, (int)i & 0xff, 8);
    OK(cedrat_graph_commit(shared, mine, 32, CEDRAT_ASYNC, NULL, 0, NULL));
  }
  return NULL;
}

static void threads(const char *directory) {
  cedrat_store *store = open_store(directory);
  pthread_t threads[4];
  int i;
  shared = open_graph(store);
  OK(cedrat_graph_get_root(shared, "first", &counted));
  changes_size = 0;
  replace(counted, 0, 0);
  OK(cedrat_graph_commit(shared, changes, changes_size, CEDRAT_SYNC, NULL, 0, NULL));
  for (i = 0; i < 4; i++) {
    CHECK(pthread_create(&threads[i], NULL, counts, NULL) == 0);
  }
  for (i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  cedrat_graph_close(shared);
  OK(cedrat_close(store));
}

static const char BRANCH[] = "branch of a graph";

/* Changes of an existing object, a new one, and a root. */
static void prepares_and_is_killed(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = open_graph(store);
  uint64_t identities[2];
  int read_only = 7;
  changes_size = 0;
  add(1, 0);
  set_root("in a branch", NEW_OBJECT(0));
  OK(cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, identities, 1, NULL));
  changes_size = 0;
  patch(identities[0], 8, "\x02", 1);
  add(3, identities[0]);
  set_root("in a branch", NEW_OBJECT(0));
  IS(CEDRAT_LIMIT, cedrat_graph_prepare(graph, changes, changes_size, BRANCH, 6, identities, 0, &read_only));
  IS(CEDRAT_MISUSE, cedrat_graph_prepare(graph, changes, changes_size, BRANCH, 0, identities, 1, &read_only));
  IS(CEDRAT_NULL, cedrat_graph_prepare(graph, changes, changes_size, NULL, 6, identities, 1, &read_only));
  OK(cedrat_graph_prepare(graph, NULL, 0, BRANCH, 6, NULL, 0, &read_only));
  CHECK(read_only == 1);
  OK(cedrat_graph_prepare(graph, changes, changes_size, BRANCH, 6, identities + 1, 1, &read_only));
  CHECK(read_only == 0);
  kill(getpid(), SIGKILL);
}

static void ends_what_is_prepared(const char *directory) {
  cedrat_store *store = open_store(directory);
  cedrat_graph *graph = open_graph(store);
  unsigned char bytes[100], changed[64];
  uint64_t root, now;
  size_t size, count;
  cedrat_branch branch;
  char text[300];
  OK(cedrat_in_doubt(store, &branch, 1, &count));
  CHECK(count == 1 && branch.id_len == 6 && memcmp(branch.id, BRANCH, 6) == 0);
  OK(cedrat_graph_get_root(graph, "in a branch", &root));
  OK(cedrat_graph_read(graph, root, bytes, sizeof bytes, &size));
  CHECK(word_at(bytes, 8) == 1);
  IS(CEDRAT_LIMIT, cedrat_graph_get_branch(graph, BRANCH, 6, changed, 8, &size));
  CHECK(size == 24 + 32);
  OK(cedrat_graph_get_branch(graph, BRANCH, 6, changed, sizeof changed, &size));
  CHECK(size == 24 + 32 && changed[0] == 2 && word_at(changed, 8) == root && changed[24] == 4);
  CHECK(memcmp(changed + 24 + 16, "in a branch", 11) == 0);
  IS(CEDRAT_UNKNOWN, cedrat_graph_get_branch(graph, BRANCH, 5, changed, sizeof changed, &size));
  changes_size = 0;
  patch(root, 8, "\x09", 1);
  IS(CEDRAT_IN_DOUBT, cedrat_graph_commit(graph, changes, changes_size, CEDRAT_SYNC, NULL, 0, NULL));
  OK(cedrat_graph_message(graph, text, sizeof text));
  CHECK(strstr(text, "6272616e6368") != NULL);
  OK(cedrat_commit_prepared(store, BRANCH, 6, CEDRAT_SYNC));
  IS(CEDRAT_UNKNOWN, cedrat_graph_get_branch(graph, BRANCH, 6, changed, sizeof changed, &size));
  OK(cedrat_graph_read(graph, root, bytes, sizeof bytes, &size));
  CHECK(word_at(bytes, 8) == 2);
  OK(cedrat_graph_get_root(graph, "in a branch", &now));
  OK(cedrat_graph_read(graph, now, bytes, sizeof bytes, &size));
  CHECK(word_at(bytes, 8) == 3 && word_at(bytes, 16) == root);
  cedrat_graph_close(graph);
  OK(cedrat_close(store));
}

int main(int arguments_count, char **arguments) {
  CHECK(arguments_count == 2);
  CHECK(in_a_child(commits_and_is_killed, arguments[1]));
  reads_again(arguments[1]);
  errors(arguments[1]);
  collects(arguments[1]);
  drops_classes(arguments[1]);
  CHECK(in_a_child(prepares_and_is_killed, arguments[1]));
  ends_what_is_prepared(arguments[1]);
  threads(arguments[1]);
  return 0;
}
