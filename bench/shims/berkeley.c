#define _GNU_SOURCE /* O_DIRECT */
#include "berkeley.h"

#include <db.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct berkeley {
    DB_ENV *environment;
    DB *table;
};

static const char TABLE[] = "table";

/* Debian builds the library without direct I/O (DB_DIRECT_DB is refused), but lets a program replace its system calls.
 * They apply to the whole process, so in one process all environments are direct, or none, and one has its table open.
 *
 * The table's file becomes direct when its first page is read or written: before that the library reads its header by
 * calls that cannot be replaced well. The library's page buffers are not aligned: pages are copied through an aligned
 * buffer, at one hundredth of the cost of the disk access. */
static int table = -1;
static int table_is_direct;
static _Thread_local void *aligned;
static _Thread_local size_t aligned_len;
#define ALIGNMENT 4096

static int open_noting(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    int descriptor = open(path, flags, mode);
    const char *slash = strrchr(path, '/');
    if (descriptor >= 0 && !strcmp(slash ? slash + 1 : path, TABLE)) {
        table = descriptor;
        table_is_direct = 0;
    }
    return descriptor;
}

static int close_noting(int descriptor)
{
    if (descriptor == table)
        table = -1;
    return close(descriptor);
}

static int make_table_direct(void)
{
    if (table_is_direct)
        return 0;
    int flags = fcntl(table, F_GETFL);
    if (flags < 0 || fcntl(table, F_SETFL, flags | O_DIRECT) < 0)
        return -1;
    table_is_direct = 1;
    return 0;
}

static void *aligned_for(size_t len)
{
    if (len > aligned_len) {
        free(aligned);
        aligned_len = 0;
        if ((errno = posix_memalign(&aligned, ALIGNMENT, len))) {
            aligned = NULL;
            return NULL;
        }
        aligned_len = len;
    }
    return aligned;
}

static ssize_t pread_direct(int descriptor, void *bytes, size_t len, off_t offset)
{
    if (descriptor != table)
        return pread(descriptor, bytes, len, offset);
    void *buffer = aligned_for(len);
    ssize_t done = buffer && !make_table_direct() ? pread(descriptor, buffer, len, offset) : -1;
    if (done > 0)
        memcpy(bytes, buffer, (size_t)done);
    return done;
}

static ssize_t pwrite_direct(int descriptor, const void *bytes, size_t len, off_t offset)
{
    if (descriptor != table)
        return pwrite(descriptor, bytes, len, offset);
    void *buffer = aligned_for(len);
    if (!buffer || make_table_direct())
        return -1;
    memcpy(buffer, bytes, len);
    return pwrite(descriptor, buffer, len, offset);
}

static int bring_direct_calls(void)
{
    int error;
    (void)((error = db_env_set_func_open(open_noting)) || (error = db_env_set_func_close(close_noting)) ||
           (error = db_env_set_func_pread(pread_direct)) || (error = db_env_set_func_pwrite(pwrite_direct)));
    return error;
}

/* Number of pairs per page, which Berkeley DB's manual asks for; half of a page is free on average. */
#define PAIR_LEN (8 + 8 + 8)

static int open_environment(const struct berkeley_options *options, DB_ENV **out)
{
    DB_ENV *environment;
    int error = db_env_create(&environment, 0);
    if (error)
        return error;
    uint32_t gigabytes = (uint32_t)(options->cache_len >> 30);
    uint32_t bytes = (uint32_t)(options->cache_len & ((1u << 30) - 1));
    uint32_t flags = DB_CREATE | DB_INIT_LOG | DB_INIT_MPOOL | DB_INIT_TXN | DB_PRIVATE | DB_THREAD;
    if (options->locks)
        flags |= DB_INIT_LOCK;
    if (!options->fresh)
        flags |= DB_RECOVER;
    (void)((error = environment->set_cachesize(environment, gigabytes, bytes, 1)) ||
           (error = environment->set_lg_bsize(environment, options->log_buffer_len)) ||
           (error = environment->set_lg_max(environment, options->log_file_len)) ||
           (error = environment->set_tx_max(environment, 1000)) ||
           /* A log file that grows with every flush pays for its metadata each time. */
           (error = environment->log_set_config(environment, DB_LOG_ZERO, 1)) ||
           (options->locks && (error = environment->set_lk_detect(environment, DB_LOCK_DEFAULT))) ||
           (error = environment->open(environment, options->home, flags, 0644)));
    if (error) {
        environment->close(environment, 0);
        return error;
    }
    *out = environment;
    return 0;
}

static int open_table(const struct berkeley_options *options, DB_ENV *environment, DB **out)
{
    DB *table;
    int error = db_create(&table, environment, 0);
    if (error)
        return error;
    uint32_t flags = DB_THREAD | DB_AUTO_COMMIT | (options->fresh ? DB_CREATE : 0);
    error = table->set_pagesize(table, options->page_len);
    if (!error && !options->btree && options->elements) {
        (void)((error = table->set_h_ffactor(table, (options->page_len - 32) / PAIR_LEN)) ||
               (error = table->set_h_nelem(table, options->elements)));
    }
    if (!error)
        error = table->open(table, NULL, TABLE, NULL, options->btree ? DB_BTREE : DB_HASH, flags, 0644);
    if (error) {
        table->close(table, DB_NOSYNC);
        return error;
    }
    *out = table;
    return 0;
}

int berkeley_open(const struct berkeley_options *options, struct berkeley **out)
{
    struct berkeley *store = calloc(1, sizeof *store);
    if (!store)
        return ENOMEM;
    int error = options->direct ? bring_direct_calls() : 0;
    if (!error)
        error = open_environment(options, &store->environment);
    if (!error) {
        error = open_table(options, store->environment, &store->table);
        if (error)
            store->environment->close(store->environment, 0);
    }
    if (error) {
        free(store);
        return error;
    }
    *out = store;
    return 0;
}

int berkeley_close(struct berkeley *store)
{
    /* The figures end before this: the files are deleted, so no page is written back. */
    int first = store->table->close(store->table, DB_NOSYNC);
    int second = store->environment->close(store->environment, 0);
    free(store);
    return first ? first : second;
}

const char *berkeley_error(int error) { return db_strerror(error); }
int berkeley_is_deadlock(int error) { return error == DB_LOCK_DEADLOCK || error == DB_LOCK_NOTGRANTED; }

int berkeley_begin(struct berkeley *store, void **transaction)
{
    return store->environment->txn_begin(store->environment, NULL, (DB_TXN **)transaction, DB_TXN_SYNC);
}

int berkeley_put(struct berkeley *store, void *transaction, uint64_t key, uint64_t value)
{
    return berkeley_put_bytes(store, transaction, key, &value, sizeof value, 0, 0);
}

int berkeley_put_bytes(struct berkeley *store, void *transaction, uint64_t key, const void *bytes, uint32_t len,
                       uint32_t at, uint8_t partial)
{
    DBT k, v;
    memset(&k, 0, sizeof k);
    memset(&v, 0, sizeof v);
    k.data = &key;
    k.size = k.ulen = sizeof key;
    k.flags = DB_DBT_USERMEM;
    v.data = (void *)bytes;
    v.size = v.ulen = len;
    v.flags = DB_DBT_USERMEM;
    if (partial) {
        v.flags |= DB_DBT_PARTIAL;
        v.doff = at;
        v.dlen = len;
    }
    return store->table->put(store->table, transaction, &k, &v, 0);
}

int berkeley_get_bytes(struct berkeley *store, void *transaction, uint64_t key, void *bytes, uint32_t len)
{
    DBT k, v;
    memset(&k, 0, sizeof k);
    memset(&v, 0, sizeof v);
    k.data = &key;
    k.size = k.ulen = sizeof key;
    k.flags = DB_DBT_USERMEM;
    v.data = bytes;
    v.ulen = len;
    v.flags = DB_DBT_USERMEM;
    return store->table->get(store->table, transaction, &k, &v, 0);
}

int berkeley_force_log(struct berkeley *store) { return store->environment->log_flush(store->environment, NULL); }

int berkeley_commit(void *transaction)
{
    DB_TXN *txn = transaction;
    return txn->commit(txn, DB_TXN_SYNC);
}

int berkeley_abort(void *transaction)
{
    DB_TXN *txn = transaction;
    return txn->abort(txn);
}

int berkeley_get(struct berkeley *store, uint64_t key, uint64_t *value)
{
    return berkeley_get_bytes(store, NULL, key, value, sizeof *value);
}

int berkeley_log_len(struct berkeley *store, uint64_t *len)
{
    DB_LOG_STAT *stat;
    int error = store->environment->log_stat(store->environment, &stat, 0);
    if (error)
        return error;
    *len = ((uint64_t)stat->st_w_mbytes << 20) + stat->st_w_bytes;
    free(stat);
    return 0;
}
