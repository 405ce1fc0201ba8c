/* An encrypted store: its keys, its backup, and their change. */
#include "check.h"

static unsigned char keys[3][32];

static cedrat_status open_with(const char *directory, const char *archive, const unsigned char *key,
                               const unsigned char *older, cedrat_store **store, const char *text) {
  char message[300] = "";
  cedrat_options options = {0};
  cedrat_status status;
  options.no_huge_pages = 1;
  options.archive = archive;
  options.key = key;
  options.older_key = older;
  status = cedrat_open(directory, &options, store, message, sizeof message);
  CHECK(strstr(message, text) != NULL);
  return status;
}

static uint64_t *word_of(cedrat_heap *heap) {
  return (uint64_t *)((char *)cedrat_heap_address(heap) + cedrat_heap_first_offset(heap));
}

static uint64_t value_in(const char *directory, const unsigned char *key) {
  cedrat_store *store;
  cedrat_heap *heap;
  uint64_t value;
  OK(open_with(directory, NULL, key, NULL, &store, ""));
  OK(cedrat_heap_open(store, "words", &heap));
  value = *word_of(heap);
  OK(cedrat_close(store));
  return value;
}

int main(int count, char **arguments) {
  enum { ARCHIVE, BACKUP, RESTORED, OTHER, PLAIN, PLACES };
  char place[PLACES][300], message[300];
  cedrat_store *store;
  cedrat_heap *heap;
  cedrat_thread *self;
  cedrat_restore_options options = {0};
  int index;
  CHECK(count == 2);
  for (index = 0; index < PLACES; index++) {
    CHECK(snprintf(place[index], sizeof place[index], "%s.%d", arguments[1], index) < (int)sizeof place[index]);
  }
  for (index = 0; index < 3; index++) {
    memset(keys[index], index + 1, sizeof keys[index]);
  }
  OK(open_with(arguments[1], place[ARCHIVE], keys[0], NULL, &store, ""));
  OK(cedrat_heap_create(store, "words", &(cedrat_heap_options){.size = 1 << 20, .raw = 1}, &heap));
  OK(cedrat_thread_create(store, &self));
  OK(cedrat_begin(self));
  OK(cedrat_store_word(self, word_of(heap), 7));
  OK(cedrat_commit(self, CEDRAT_SYNC, NULL));
  cedrat_thread_free(self);
  OK(cedrat_backup(store, place[BACKUP], NULL, NULL));
  IS(CEDRAT_MISUSE, cedrat_rotate_key(store, NULL));
  OK(cedrat_rotate_key(store, keys[1]));
  OK(cedrat_close(store));

  IS(CEDRAT_OPTIONS, open_with(place[OTHER], NULL, NULL, keys[0], &store, "older_key without key"));

  /* The store and its archive have the new key, the backup has the old one. */
  IS(CEDRAT_MISUSE, open_with(arguments[1], NULL, NULL, NULL, &store, "no key was given"));
  IS(CEDRAT_MISUSE, open_with(arguments[1], NULL, keys[0], NULL, &store, "was encrypted with the key"));
  OK(open_with(arguments[1], place[ARCHIVE], keys[2], keys[1], &store, ""));
  OK(cedrat_rotate_key(store, keys[1]));
  OK(cedrat_close(store));
  CHECK(value_in(arguments[1], keys[1]) == 7);

  IS(CEDRAT_MISUSE, cedrat_restore(place[BACKUP], NULL, place[RESTORED], NULL, NULL, message, sizeof message));
  options.key = keys[1];
  IS(CEDRAT_MISUSE, cedrat_restore(place[BACKUP], NULL, place[RESTORED], &options, NULL, message, sizeof message));
  options.key = keys[0];
  OK(cedrat_restore(place[BACKUP], NULL, place[RESTORED], &options, NULL, message, sizeof message));
  CHECK(value_in(place[RESTORED], keys[0]) == 7);
  options.new_key = keys[2];
  OK(cedrat_restore(place[BACKUP], NULL, place[OTHER], &options, NULL, message, sizeof message));
  CHECK(value_in(place[OTHER], keys[2]) == 7);

  store = open_store(place[PLAIN]);
  IS(CEDRAT_MISUSE, cedrat_rotate_key(store, keys[0]));
  OK(cedrat_close(store));
  IS(CEDRAT_MISUSE, open_with(place[PLAIN], NULL, keys[0], NULL, &store, "not encrypted"));
  return 0;
}
