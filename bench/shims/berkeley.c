#include "berkeley.h"

#include <db.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct berkeley {
    DB_ENV *environment;
    DB *table;
};

/* What Berkeley DB's manual asks for: how many pairs fill a page; half of it is free on average. */
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
        error = table->open(table, NULL, "table", NULL, options->btree ? DB_BTREE : DB_HASH, flags, 0644);
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
    int error = open_environment(options, &store->environment);
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
    /* The figures end before this: the files are thrown away, so nothing is written home. */
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
