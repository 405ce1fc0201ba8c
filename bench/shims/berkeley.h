/* The few calls of Berkeley DB 5.3 that the benchmarks need, as plain functions. Every function returns 0 or an error
 * number of Berkeley DB (berkeley_error returns its text). */
#ifndef BENCH_BERKELEY_H
#define BENCH_BERKELEY_H

#include <stdint.h>

struct berkeley;

struct berkeley_options {
    const char *home;       /* an existing, empty directory */
    uint64_t cache_len;     /* bytes of buffer pool */
    uint32_t elements;      /* hash: how many records to presize for; 0 = let it grow */
    uint32_t log_buffer_len;
    uint32_t log_file_len;
    uint32_t page_len;
    uint8_t btree;          /* 1 = btree, 0 = hash */
    uint8_t locks;          /* 1 = with the lock manager, 0 = without */
    uint8_t fresh;          /* 1 = create, 0 = open the existing store, with recovery */
    uint8_t direct;         /* 1 = the table's pages past the system's cache */
};

int berkeley_open(const struct berkeley_options *options, struct berkeley **out);
int berkeley_close(struct berkeley *store);
const char *berkeley_error(int error);

int berkeley_begin(struct berkeley *store, void **transaction);
/* Writes 8 bytes under 8 bytes. */
int berkeley_put(struct berkeley *store, void *transaction, uint64_t key, uint64_t value);
/* Writes bytes under 8 bytes: the whole value or, if partial, the part of an existing value that begins at offset at. */
int berkeley_put_bytes(struct berkeley *store, void *transaction, uint64_t key, const void *bytes, uint32_t len,
                       uint32_t at, uint8_t partial);
/* Reads up to len bytes. */
int berkeley_get_bytes(struct berkeley *store, void *transaction, uint64_t key, void *bytes, uint32_t len);
/* Makes all log records durable. */
int berkeley_force_log(struct berkeley *store);
/* Commits durably (DB_TXN_SYNC). Frees the transaction, also on failure. */
int berkeley_commit(void *transaction);
int berkeley_abort(void *transaction);
int berkeley_is_deadlock(int error);
/* Reads without a transaction. */
int berkeley_get(struct berkeley *store, uint64_t key, uint64_t *value);
/* Returns the bytes written to the log since the environment was created. */
int berkeley_log_len(struct berkeley *store, uint64_t *len);

#endif
