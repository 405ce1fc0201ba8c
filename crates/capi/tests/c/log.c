/* A log without a store: forced entries can be read again, also after a kill; each error is reported. */
#include "check.h"

#include <sys/resource.h>

#define LONG (3 << 20) /* bytes of an entry that takes several records */

static cedrat_log *open_log(const char *directory, uint64_t limit) {
  char message[300] = "";
  cedrat_log *log;
  cedrat_log_options options = {0};
  cedrat_status status;
  options.log_limit_bytes = limit;
  options.segment_bytes = 1 << 20;
  status = cedrat_log_open(directory, &options, &log, message, sizeof message);
  if (status != CEDRAT_OK) {
    fprintf(stderr, "%s: %s\n", cedrat_status_name(status), message);
    exit(1);
  }
  return log;
}

/* Returns the number of entries after an LSN, the first one's bytes and the last one's LSN. */
static uint64_t count(cedrat_log *log, uint64_t after, char *first, uint64_t *last) {
  cedrat_log_cursor *cursor;
  const void *bytes;
  size_t size;
  uint64_t entries = 0, lsn, before = after;
  OK(cedrat_log_cursor_create(log, after, &cursor));
  for (;;) {
    OK(cedrat_log_cursor_next(cursor, &bytes, &size, &lsn));
    if (lsn == 0) {
      CHECK(bytes == NULL && size == 0);
      break;
    }
    CHECK(bytes != NULL && lsn > before);
    if (entries++ == 0 && first != NULL) {
      CHECK(size < 100);
      memcpy(first, bytes, size);
      first[size] = 0;
    }
    if (last != NULL) {
      *last = lsn;
    }
    before = lsn;
  }
  cedrat_log_cursor_free(cursor);
  return entries;
}

static uint64_t append(cedrat_log *log, const char *text) {
  uint64_t lsn;
  OK(cedrat_log_append(log, text, strlen(text), &lsn));
  CHECK(lsn > 0);
  return lsn;
}

static void appends_and_is_killed(const char *directory) {
  cedrat_log *log = open_log(directory, 64 << 20);
  char *bytes = malloc(LONG);
  uint64_t lsn, durable;
  int i;
  CHECK(bytes != NULL);
  for (i = 0; i < LONG; i++) {
    bytes[i] = (char)(i / 1000);
  }
  append(log, "first");
  OK(cedrat_log_append(log, NULL, 0, &lsn));
  OK(cedrat_log_append(log, bytes, LONG, &lsn));
  OK(cedrat_log_force(log, lsn));
  OK(cedrat_log_durable_lsn(log, &durable));
  CHECK(durable >= lsn);
  kill(getpid(), SIGKILL);
}

static void reads_again(const char *directory) {
  cedrat_log *log = open_log(directory, 64 << 20);
  cedrat_log_cursor *cursor;
  const void *bytes;
  size_t size;
  uint64_t first, last = 0, lsn;
  char text[100];
  int i;
  CHECK(count(log, 0, text, &last) == 3 && strcmp(text, "first") == 0);
  OK(cedrat_log_cursor_create(log, 0, &cursor));
  OK(cedrat_log_cursor_next(cursor, &bytes, &size, &first));
  OK(cedrat_log_cursor_next(cursor, &bytes, &size, &lsn));
  CHECK(size == 0 && lsn > first);
  OK(cedrat_log_cursor_next(cursor, &bytes, &size, &lsn));
  CHECK(size == LONG && lsn == last);
  for (i = 0; i < LONG; i++) {
    CHECK(((const char *)bytes)[i] == (char)(i / 1000));
  }
  IS(CEDRAT_MISUSE, cedrat_log_close(log)); /* a cursor exists */
  cedrat_log_cursor_free(cursor);
  CHECK(count(log, first, NULL, NULL) == 2);
  CHECK(count(log, last, NULL, NULL) == 0);

  OK(cedrat_log_force(log, append(log, "second")));
  OK(cedrat_log_truncate(log, last));
  CHECK(count(log, 0, text, NULL) == 1 && strcmp(text, "second") == 0);
  OK(cedrat_log_close(log));
  log = open_log(directory, 64 << 20);
  CHECK(count(log, 0, text, NULL) == 1 && strcmp(text, "second") == 0);
  OK(cedrat_log_close(log));
}

static void errors(const char *directory) {
  cedrat_log *log = open_log(directory, 64 << 20), *other = (cedrat_log *)&other;
  cedrat_log_cursor *cursor;
  cedrat_log_options options = {0};
  cedrat_store *store;
  const void *bytes;
  size_t size;
  uint64_t lsn = 17;
  char message[300], path[1000];
  OK(cedrat_log_message(log, message, sizeof message));
  CHECK(message[0] == 0);
  IS(CEDRAT_IN_USE, cedrat_log_open(directory, NULL, &other, message, sizeof message));
  CHECK(other == NULL && strstr(message, "open elsewhere") != NULL);
  IS(CEDRAT_IN_USE, cedrat_open(directory, NULL, &store, NULL, 0));
  IS(CEDRAT_NULL, cedrat_log_open(NULL, NULL, &other, message, sizeof message));
  IS(CEDRAT_NULL, cedrat_log_open(directory, NULL, NULL, message, sizeof message));
  options.must_exist = 1;
  IS(CEDRAT_UNKNOWN, cedrat_log_open("/nonexistent/log", &options, &other, message, sizeof message));
  options.reserved[4] = 1;
  IS(CEDRAT_OPTIONS, cedrat_log_open(directory, &options, &other, message, sizeof message));
  options.reserved[4] = 0;
  options.must_exist = 0;
  options.segment_bytes = 12345;
  CHECK(snprintf(path, sizeof path, "%s.none", directory) < (int)sizeof path);
  IS(CEDRAT_OPTIONS, cedrat_log_open(path, &options, &other, message, sizeof message));
  CHECK(strstr(message, "segment_len") != NULL);

  IS(CEDRAT_NULL, cedrat_log_append(NULL, "x", 1, &lsn));
  IS(CEDRAT_NULL, cedrat_log_append(log, NULL, 1, &lsn));
  IS(CEDRAT_NULL, cedrat_log_append(log, "x", 1, NULL));
  OK(cedrat_log_message(log, message, sizeof message));
  CHECK(strstr(message, "lsn") != NULL);
  IS(CEDRAT_LIMIT, cedrat_log_append(log, "x", (size_t)65 << 20, &lsn));
  CHECK(lsn == 0);
  IS(CEDRAT_NULL, cedrat_log_force(NULL, 1));
  IS(CEDRAT_NULL, cedrat_log_durable_lsn(NULL, &lsn));
  IS(CEDRAT_NULL, cedrat_log_durable_lsn(log, NULL));
  IS(CEDRAT_NULL, cedrat_log_truncate(NULL, 1));
  IS(CEDRAT_NULL, cedrat_log_message(log, NULL, 0));
  IS(CEDRAT_NULL, cedrat_log_message(NULL, message, sizeof message));
  IS(CEDRAT_NULL, cedrat_log_cursor_create(NULL, 0, &cursor));
  IS(CEDRAT_NULL, cedrat_log_cursor_create(log, 0, NULL));
  IS(CEDRAT_NULL, cedrat_log_cursor_next(NULL, &bytes, &size, &lsn));
  OK(cedrat_log_cursor_create(log, 0, &cursor));
  IS(CEDRAT_NULL, cedrat_log_cursor_next(cursor, NULL, &size, &lsn));
  IS(CEDRAT_NULL, cedrat_log_cursor_next(cursor, &bytes, NULL, &lsn));
  IS(CEDRAT_NULL, cedrat_log_cursor_next(cursor, &bytes, &size, NULL));
  cedrat_log_cursor_free(cursor);
  cedrat_log_cursor_free(NULL);
  IS(CEDRAT_NULL, cedrat_log_close(NULL));
  OK(cedrat_log_close(log));

  /* A store and a separate log are not mistaken for each other. */
  IS(CEDRAT_MISUSE, cedrat_open(directory, NULL, &store, message, sizeof message));
  CHECK(strstr(message, "a log alone") != NULL);
  CHECK(snprintf(path, sizeof path, "%s.store", directory) < (int)sizeof path);
  OK(cedrat_close(open_store(path)));
  IS(CEDRAT_MISUSE, cedrat_log_open(path, NULL, &other, message, sizeof message));
  CHECK(strstr(message, "a store") != NULL);
}

static void expect_full(const char *directory) {
  cedrat_log *log = open_log(directory, 6 << 20);
  char *bytes = calloc(1, 100000), message[300];
  uint64_t lsn, last = 0;
  cedrat_status status;
  int count = 0, round;
  CHECK(bytes != NULL);
  for (round = 0; round < 3; round++) {
    for (; (status = cedrat_log_append(log, bytes, 100000, &lsn)) == CEDRAT_OK; count++) {
      last = lsn;
      CHECK(count < 1000);
    }
    IS(CEDRAT_LOG_FULL, status);
    CHECK(lsn == 0);
    OK(cedrat_log_message(log, message, sizeof message));
    CHECK(strstr(message, "the log is full") != NULL);
    OK(cedrat_log_truncate(log, last));
  }
  CHECK(count > 50);
  OK(cedrat_log_close(log));
}

/* From here on each write to the log fails: no file may be longer than a few bytes. */
static void let_the_disk_fail(void) {
  struct rlimit few;
  signal(SIGXFSZ, SIG_IGN);
  CHECK(getrlimit(RLIMIT_FSIZE, &few) == 0);
  few.rlim_cur = 16;
  CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
}

static void stops(const char *directory) {
  cedrat_log *log = open_log(directory, 64 << 20);
  char message[300];
  uint64_t lsn = append(log, "kept");
  OK(cedrat_log_force(log, lsn));
  let_the_disk_fail();
  lsn = append(log, "perhaps");
  IS(CEDRAT_STOPPED, cedrat_log_force(log, lsn));
  OK(cedrat_log_message(log, message, sizeof message));
  CHECK(strstr(message, "reopen") != NULL);
  IS(CEDRAT_STOPPED, cedrat_log_force(log, lsn));
  IS(CEDRAT_STOPPED, cedrat_log_append(log, "no", 2, &lsn));
  IS(CEDRAT_STOPPED, cedrat_log_truncate(log, lsn));
  IS(CEDRAT_STOPPED, cedrat_log_close(log));
}

static void damaged(const char *directory) {
  char path[1000], message[300];
  cedrat_log *log = open_log(directory, 64 << 20);
  FILE *file;
  long i, len;
  append(log, "promised");
  OK(cedrat_log_close(log));
  CHECK(snprintf(path, sizeof path, "%s/control", directory) < (int)sizeof path);
  file = fopen(path, "r+b");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  len = ftell(file);
  rewind(file);
  for (i = 0; i < len; i++) { /* both of its slots */
    fputc(0xff, file);
  }
  CHECK(fclose(file) == 0);
  IS(CEDRAT_DAMAGED, cedrat_log_open(directory, NULL, &log, message, sizeof message));
  CHECK(log == NULL && strstr(message, "control") != NULL && strstr(message, "byte ") != NULL);
}

int main(int arguments_count, char **arguments) {
  char directory[1000], text[100];
  cedrat_log *log;
  CHECK(arguments_count == 2);
  CHECK(in_a_child(appends_and_is_killed, arguments[1]));
  reads_again(arguments[1]);
  errors(arguments[1]);
  expect_full(arguments[1]);
  CHECK(snprintf(directory, sizeof directory, "%s.stops", arguments[1]) < (int)sizeof directory);
  CHECK(!in_a_child(stops, directory));
  log = open_log(directory, 64 << 20);
  CHECK(count(log, 0, text, NULL) >= 1 && strcmp(text, "kept") == 0);
  OK(cedrat_log_close(log));
  damaged(directory);
  return 0;
}
