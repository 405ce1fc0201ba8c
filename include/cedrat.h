/* cedrat.h: durable transactional memory.
 *
 * A store is a directory. It has heaps (regions of memory whose words are read and written in transactions), graphs
 * (objects that refer to each other) and collections of records. A committed transaction survives crashes as a whole; any
 * other leaves nothing. docs/use/c.md is the guide; cedrat_stm.h wraps this interface in the macros of a word-based STM.
 *
 * For every function, unless its comment says otherwise:
 *
 * - It returns a cedrat_status. After any status but CEDRAT_OK the call has changed nothing, and its results are zero or
 *   unchanged. The message is returned by cedrat_error (calls with a thread descriptor), cedrat_txn_error (calls
 *   with a cedrat_txn), cedrat_message (calls with a store, heap, change stream or consumer, cedrat_graph_open,
 *   cedrat_records_open),
 *   cedrat_graph_message (calls with a graph, or with a collection of its objects), cedrat_log_message (calls with a log
 *   or cursor), or in the buffer of cedrat_open, cedrat_open_as_of, cedrat_open_read_only,
 *   cedrat_restore, cedrat_restore_stream and cedrat_log_open.
 * - A null pointer is CEDRAT_NULL, unless a meaning is documented.
 * - Calls with a store, a heap, a graph or a log may come from any thread at any time. A thread descriptor belongs to one thread
 *   at a time; it may be handed to another between transactions. A cursor, a change stream, a collection or a cedrat_txn belongs
 *   to one thread at a time. A consumer may be used by any thread.
 * - It never jumps or unwinds (no longjmp, C++ exception or panic), and never calls the program, but for the functions that a program
 *   gives to cedrat_backup_to_stream and cedrat_restore_stream. Do not call it from a signal handler or in the child of a fork,
 *   where heaps are not mapped.
 * - It is not a point at which a thread is cancelled (pthread_cancel). Only cedrat_malloc may be one, when the heap is nearly
 *   full, and the process ends then: a thread that may be cancelled disables that around it.
 * - Sizes, lengths and offsets are in bytes. Names are UTF-8 that ends with a zero.
 */
#ifndef CEDRAT_H
#define CEDRAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a call. The numbers are stable; later versions may add others at the end. */
typedef enum cedrat_status {
  CEDRAT_OK = 0,
  /* Write conflict: the transaction is aborted. Run it again. */
  CEDRAT_ABORTED = 1,
  /* The address, or a part of the bytes, is outside all heaps of the store, or in a heap's own metadata. */
  CEDRAT_OUT_OF_RANGE = 2,
  /* The address of a word is not a multiple of 8; use the calls for bytes. */
  CEDRAT_MISALIGNED = 3,
  /* No allocated block begins there (it was freed before, or never allocated), or the bytes lie in a block that this
   * transaction has freed. */
  CEDRAT_NOT_ALLOCATED = 4,
  /* The heap has no space for the block: free blocks, or call cedrat_heap_grow. */
  CEDRAT_HEAP_FULL = 5,
  /* A pointer is null. */
  CEDRAT_NULL = 6,
  /* The call is invalid in this state: no transaction runs, or one does; the heap is of another store; … */
  CEDRAT_MISUSE = 7,
  /* There is no store, heap or root of this name. */
  CEDRAT_UNKNOWN = 8,
  /* The name is taken. */
  CEDRAT_EXISTS = 9,
  /* An option is invalid. */
  CEDRAT_OPTIONS = 10,
  /* A documented limit is exceeded: threads, lengths, sizes. */
  CEDRAT_LIMIT = 11,
  /* The log or the disk is full, or there is no file descriptor for more log; the transaction is aborted. Run it again, or
   * raise log_limit_bytes or the limit of descriptors: the message names the cause. */
  CEDRAT_LOG_FULL = 12,
  /* The store has stopped because the disk failed, and acknowledges nothing more. Close it and open it again to learn
   * which commits it kept. */
  CEDRAT_STOPPED = 13,
  /* A file is corrupt; the message names file and offset. Restore it from a copy. */
  CEDRAT_DAMAGED = 14,
  /* Another process, or another part of this one, has the store open. */
  CEDRAT_IN_USE = 15,
  /* A call to the operating system failed; the message names the call and the reason. */
  CEDRAT_IO = 16,
  /* A bug in the library. The transaction is aborted and the store has stopped: close it and open it again. */
  CEDRAT_PANIC = 17,
  /* A prepared transaction without an outcome (cedrat_in_doubt) holds the data. Abort, and run again after it has ended. */
  CEDRAT_IN_DOUBT = 18,
  /* The store has rolled the transaction back, because it kept more of the log than one transaction may (half of
   * log_limit_bytes); the message names the limit. Its locks are free. Free it, and run it again in smaller steps. */
  CEDRAT_ROLLED_BACK = 19,
  /* A class was dropped, because no object had it (cedrat_graph_collect_drop_classes). Define it again, under a new number. */
  CEDRAT_CLASS_DROPPED = 20,
  /* The store is a view (cedrat_open_as_of, cedrat_open_read_only), which is only read. */
  CEDRAT_READ_ONLY = 21,
  /* A change stream needs log that neither the store nor its archive has any more. Read the data itself, and begin a new stream; a
   * consumer calls cedrat_consumer_restart. */
  CEDRAT_CHANGES_LOST = 22
} cedrat_status;

/* The moment at which cedrat_commit returns. */
typedef enum cedrat_commit_mode {
  /* When the commit, and all that the transaction read, is durable. */
  CEDRAT_SYNC = 0,
  /* At once; cedrat_is_stable checks or waits for durability. An earlier crash loses the transaction as a whole, and only
   * together with all newer ones. */
  CEDRAT_ASYNC = 1,
  /* As CEDRAT_ASYNC; the log writes it when it next writes anything. */
  CEDRAT_NO_FLUSH = 2,
  /* When its own partition of the log is durable. For transactions that are independent of those of other threads; a
   * dependent one becomes CEDRAT_SYNC. */
  CEDRAT_PARTITION = 3
} cedrat_commit_mode;

/* An open store. From cedrat_open to cedrat_close. */
typedef struct cedrat_store cedrat_store;

/* A heap of an open store. Lives as long as the store is open; there is nothing to free. */
typedef struct cedrat_heap cedrat_heap;

/* A thread descriptor: a place for one transaction at a time. From cedrat_thread_create to cedrat_thread_free. */
typedef struct cedrat_thread cedrat_thread;

/* An open graph of objects. From cedrat_graph_open to cedrat_graph_close. */
typedef struct cedrat_graph cedrat_graph;

/* A running garbage collection of a graph. From cedrat_graph_collect_begin to cedrat_graph_collect_free. */
typedef struct cedrat_graph_collection cedrat_graph_collection;

/* A transaction over records, heaps and a graph at once. From cedrat_txn_begin to cedrat_txn_free. */
typedef struct cedrat_txn cedrat_txn;

/* A stream of the committed transactions of a store. From cedrat_changes, cedrat_changes_after or cedrat_consumer_changes to
 * cedrat_changes_free. */
typedef struct cedrat_change_stream cedrat_change_stream;

/* A named reader of the change stream, for which the store keeps its log. From cedrat_consumer_open to cedrat_consumer_free. */
typedef struct cedrat_consumer cedrat_consumer;

/* An open log alone, without a store around it. From cedrat_log_open to cedrat_log_close. */
typedef struct cedrat_log cedrat_log;

/* A cursor that reads a log. From cedrat_log_cursor_create to cedrat_log_cursor_free. */
typedef struct cedrat_log_cursor cedrat_log_cursor;

/* Options of a store. Begin with `cedrat_options options = {0};`: zero is the default of each. Options marked fixed take
 * effect when the store is created, and are ignored later. */
typedef struct cedrat_options {
  int must_exist;                  /* not 0: a missing store is CEDRAT_UNKNOWN, and not created */
  int no_background;               /* not 0: no background threads; call cedrat_checkpoint before the log is full */
  int encounter_locking;           /* not 0: words are locked when they are first stored to, not at the commit */
  int no_huge_pages;               /* not 0: the system is not asked for huge pages */
  int check_blocks;                /* not 0: a load or store outside of an allocated block is CEDRAT_NOT_ALLOCATED; for
                                    * debugging: slower, with more conflicts */
  int volatile_memory;             /* not 0: heaps in memory only: no directory, no log, nothing survives the close; records,
                                    * graphs and prepared transactions are CEDRAT_MISUSE (docs/use/c.md) */
  uint32_t partitions;             /* of the log; 1; fixed */
  uint32_t threads_max;            /* thread descriptors at a time; 1,024 */
  uint64_t log_limit_bytes;        /* the log's size on disk; 1 GiB */
  uint64_t segment_bytes;          /* the length of one of its files; fixed */
  uint64_t checkpoint_every_bytes; /* growth of the log between checkpoints; 256 MiB */
  uint64_t page_pool_bytes;        /* memory for pages, which heaps do not use; 256 MiB */
  uint64_t page_space_bytes;       /* address space for pages, which limits the page file until the store is opened again;
                                    * 1 TiB. If the system refuses it, less is reserved */
  uint64_t stripes;                /* locks of words, 8 bytes each: a power of two, 16 to 2^32; 262,144. More mean fewer false
                                    * conflicts, and more cache misses */
  const char *archive;             /* directory of the archive of the store's log, from which cedrat_restore restores; null: none.
                                    * Plain stores are CEDRAT_MISUSE in a store with an archive (docs/use/backup.md) */
  const char *backup;              /* directory of a backup of the store, which the archive continues: damaged pages are rebuilt from
                                    * both; null: pages are rebuilt if the archive has all of their records. Without archive, it is
                                    * CEDRAT_OPTIONS */
  const unsigned char *key;        /* 32 random bytes: the files of the store, of its archive and of its backups are encrypted with
                                    * this key, which is copied; null: they are not (docs/use/encryption.md) */
  const unsigned char *older_key;  /* 32 bytes: another key that the store, its archive or its backup may still have, beside key; null: none */
  uint64_t reserved[2];            /* zero */
} cedrat_options;

/* Options of a heap, used when it is created. Begin with `cedrat_heap_options options = {0};`. */
typedef struct cedrat_heap_options {
  uint64_t size;        /* its size; there is no default */
  uint64_t size_max;    /* size to which it may grow, reserved as address space; eight times size, or size if raw. If the
                         * system refuses it, less is reserved, at least size */
  uint64_t address;     /* fixed address, so that pointers into it stay valid across restarts: a multiple of 2 MiB in an
                         * unused range, such as 0x500000000000; 0: any address, which may change */
  uint64_t chunk_bytes; /* unit that checkpoints copy; a multiple of 4,096; 1 MiB */
  int raw;              /* not 0: no blocks and no roots; the program manages the whole heap */
  int reserved_int;     /* zero */
  uint64_t reserved[4]; /* zero */
} cedrat_heap_options;

/* Options of a graph. Begin with `cedrat_graph_options options = {0};`. */
typedef struct cedrat_graph_options {
  int must_exist;       /* not 0: a missing graph is CEDRAT_UNKNOWN, and not created */
  int program_locks;    /* not 0: the program locks each object itself, from its change to the return of the commit, and each
                         * object of a branch until the call that decides the branch returns, in later openings too. Commits
                         * then seldom lock objects. If two commits change one object at the same time, its bytes are
                         * undefined */
  uint64_t cache_bytes; /* memory for changed objects; all changed objects of one commit have to fit; 64 MiB */
  uint64_t class_tag;   /* not 0: the highest byte, 1 to 254, of values that name a class by their next four bytes. Such a class
                         * is in use, and is not dropped */
  uint64_t reserved[5]; /* zero */
} cedrat_graph_options;

/* Statistics of a graph since the store was opened. */
typedef struct cedrat_graph_statistics {
  uint64_t classes;         /* classes defined, ever, dropped ones included */
  uint64_t cache_hits;      /* changes of records that were in the cache */
  uint64_t cache_misses;    /* changes of records that were read from their pages */
  uint64_t cache_evictions; /* records evicted */
  uint64_t cache_flushes;   /* records written to their pages */
  uint64_t cache_records;   /* records in the cache now */
  uint64_t cache_bytes;     /* memory of the cached records */
  uint64_t newest_lsn;      /* the newest record of the log */
  uint64_t stable_lsn;      /* everything up to here is durable */
  uint64_t reserved[7];
} cedrat_graph_statistics;

/* Stage of a garbage collection. */
typedef enum cedrat_graph_stage {
  /* Some reachable objects are not marked yet. */
  CEDRAT_GRAPH_MARKING = 0,
  /* All reachable objects are marked: call cedrat_graph_collect_seal. */
  CEDRAT_GRAPH_MARKED = 1,
  /* Unreachable objects are being removed. */
  CEDRAT_GRAPH_SWEEPING = 2,
  /* All unreachable objects are removed. */
  CEDRAT_GRAPH_DONE = 3
} cedrat_graph_stage;

/* Progress of a garbage collection. */
typedef struct cedrat_graph_collected {
  uint64_t marked;     /* reachable objects and pieces of objects */
  uint64_t objects;    /* removed objects */
  uint64_t pieces;     /* removed pieces of objects */
  uint64_t mark_bytes; /* memory for marks: some 100 bytes for each page with objects, and at most 512 KiB */
  uint64_t reserved[4];
} cedrat_graph_collected;

/* Options of a log alone. Begin with `cedrat_log_options options = {0};`: zero is the default of each. */
typedef struct cedrat_log_options {
  int must_exist;           /* not 0: a missing log is CEDRAT_UNKNOWN, and not created */
  int reserved_int;         /* zero */
  uint64_t log_limit_bytes; /* its size on disk, of which about three quarters hold entries; at least four segments; 1 GiB */
  uint64_t segment_bytes;   /* the largest length of one of its files, a multiple of 4,096; made when the log is created, and
                             * ignored later; 16 MiB */
  uint64_t reserved[5];     /* zero */
} cedrat_log_options;

/* The longest identifier of a prepared transaction: for one of XA, its format, the lengths of its two parts, and these. */
#define CEDRAT_BRANCH_ID_MAX 140

/* A prepared transaction without an outcome, or one that an operator has ended. */
typedef struct cedrat_branch {
  size_t id_len;                          /* length of its identifier */
  unsigned char id[CEDRAT_BRANCH_ID_MAX]; /* the identifier under which it prepared */
  uint32_t heuristic;                     /* the outcome that an operator has decided (cedrat_heuristic); 0: in doubt */
  uint64_t transaction;                   /* its number; 0 if it has ended */
  uint64_t since_lsn;                     /* the LSN of its prepare record, or of that of the operator's outcome */
} cedrat_branch;

/* The outcome of a prepared transaction that an operator has ended (cedrat_resolve). */
typedef enum cedrat_heuristic {
  CEDRAT_HEURISTIC_COMMIT = 1,
  CEDRAT_HEURISTIC_ROLLBACK = 2
} cedrat_heuristic;

/* Options of a backup. Begin with `cedrat_backup_options options = {0};`. */
typedef struct cedrat_backup_options {
  uint64_t bytes_per_second_max; /* of pages and heaps; 0: as many as possible */
  const char *const *since;      /* directories of an earlier full backup and of its increments, in their order: only what changed since is
                                  * copied (an incremental backup); null: all */
  size_t since_count;            /* the number of these directories */
  uint64_t reserved[5];          /* zero */
} cedrat_backup_options;

/* The result of a backup. */
typedef struct cedrat_backup_report {
  uint64_t up_to_lsn;   /* every transaction that had committed up to here is in the backup */
  uint64_t bytes;       /* of pages and heaps that were read */
  uint64_t nanoseconds; /* time that it took */
  uint64_t cannot_continue; /* 1: the backup is complete, but no incremental one can continue it, because the store could not note it;
                             * cedrat_message returns the reason */
  uint64_t reserved[4];
} cedrat_backup_report;

/* Writes the next bytes of a stream. Returns 0, or another number if it has failed: it is not called again then. */
typedef int (*cedrat_stream_write)(void *context, const void *bytes, size_t size);

/* Reads the next bytes of a stream to bytes, at most size of them. Returns their number, 0 at the end of the stream, or a negative number
 * if it has failed. */
typedef int64_t (*cedrat_stream_read)(void *context, void *bytes, size_t size);

/* The result of a scrub. */
typedef struct cedrat_scrub_report {
  uint64_t pages;       /* in use, which were read */
  uint64_t log_records; /* of the log, which were read */
  uint64_t rebuilt;     /* damaged pages that were rebuilt during the scrub, also by other threads */
  uint64_t damaged;     /* damaged pages that could not be rebuilt */
  uint64_t reserved[4];
} cedrat_scrub_report;

/* The moment to which a backup is restored. Begin with `cedrat_restore_options options = {0};`: the newest one. */
typedef struct cedrat_restore_options {
  uint64_t lsn;         /* not 0: the record with this LSN, and all before it */
  uint64_t time_ms;     /* not 0: the last moment of the archive up to this time, in milliseconds since 1970 (UTC); without lsn */
  const char *const *increments; /* directories of the incremental backups that continue the full one, in their order; null: none */
  size_t increment_count;        /* the number of these directories */
  const unsigned char *key;     /* 32 bytes: the key of an encrypted backup and of its archive; null: they are not encrypted */
  const unsigned char *new_key; /* 32 bytes: the key of the restored store; null: it has that of the backup */
  uint64_t reserved[2]; /* zero */
} cedrat_restore_options;

/* The bytes of a token: a position in the change stream of one store. */
#define CEDRAT_TOKEN_SIZE 32

/* The longest name of a consumer. */
#define CEDRAT_CONSUMER_NAME_MAX 128

/* Kind of a change. Later versions may add others. */
typedef enum cedrat_change_kind {
  CEDRAT_CHANGE_END = 0,    /* the transaction has no more */
  CEDRAT_CHANGE_PUT = 1,    /* the table with the root page `page` has `value` under `key` now, both as the table encodes them */
  CEDRAT_CHANGE_REMOVE = 2, /* the table has no value under `key` now */
  CEDRAT_CHANGE_DROP = 3,   /* the structure with the root page `page` was dropped */
  CEDRAT_CHANGE_ADD = 4,    /* `amount` was added to the number at `page` and `slot` */
  CEDRAT_CHANGE_WORDS = 5,  /* the heap with the number `heap` has the words `value` from `offset` on (cedrat_heap_number) */
  CEDRAT_CHANGE_RECORD = 6, /* the program has logged a record of the kind `name`, with the bytes `value` */
  CEDRAT_CHANGE_RAW = 7,    /* the operation `name` has changed `page` and `slot`; `value` has its arguments as logged. So records
                             * and objects */
  CEDRAT_CHANGE_OTHER = 8   /* a kind of change that C does not have yet */
} cedrat_change_kind;

/* A change of a committed transaction. Members that its kind does not name are zero. */
typedef struct cedrat_change {
  uint32_t kind;     /* cedrat_change_kind */
  uint32_t slot;
  uint64_t page;
  uint64_t heap;
  uint64_t offset;   /* of the first word in the heap, in bytes */
  int64_t amount;
  const char *name;  /* this and the next ones are valid until the next call with the stream */
  const void *key;
  size_t key_size;
  const void *value;
  size_t value_size; /* of words: 8 bytes for each */
  uint64_t reserved[4];
} cedrat_change;

/* The state of a consumer. */
typedef struct cedrat_consumer_status {
  char name[CEDRAT_CONSUMER_NAME_MAX + 8]; /* with a zero at the end */
  uint64_t position_lsn;   /* all commits up to this LSN were confirmed */
  uint64_t needs_lsn;      /* the first LSN that it needs */
  uint64_t limit_bytes;    /* of log that it may keep */
  uint64_t lag_bytes;      /* of log from needs_lsn on */
  uint64_t released_bytes; /* of log that it kept when it was released */
  int is_released;         /* not 0: it keeps the log no longer, beyond its limit or in a full log */
  int lacks_log;           /* not 0: the log lacks records that it needs; an archive may have them */
  uint64_t reserved[4];
} cedrat_consumer_status;

/* Statistics of a store since it was opened. */
typedef struct cedrat_statistics {
  uint64_t conflicts;                   /* transactions aborted by a write conflict */
  uint64_t partition_commits_made_sync; /* CEDRAT_PARTITION commits that depended on others */
  uint64_t newest_lsn;                  /* of the log: a count of commits and other records */
  uint64_t stable_lsn;                  /* everything up to here is durable */
  uint64_t recovered_records;           /* records that the opening read */
  uint64_t recovered_words;             /* words that it replayed behind the checkpoint */
  uint64_t recovery_nanoseconds;        /* time that it took */
  uint64_t created;                     /* 1 if the opening created the store */
  uint64_t checkpoint_failed;           /* 1 if the last checkpoint failed, in any thread: the log is not truncated and may become
                                         * full; cedrat_get_checkpoint_failure returns the reason */
  uint64_t refused_threads;             /* threads that the system has refused to the opening: the store works without them,
                                         * and transactions do their work */
  uint64_t archive_waits_since_ms;      /* time since when the store waits for the disk of its archive, in milliseconds since 1970
                                         * (UTC); 0: it does not wait. If that is long ago, the disk does not answer */
  uint64_t reserved[5];
} cedrat_statistics;

/* Use of a heap's space. */
typedef struct cedrat_usage {
  uint64_t blocks;        /* allocated blocks, those of roots included */
  uint64_t bytes;         /* their requested sizes */
  uint64_t taken_bytes;   /* bytes that they occupy */
  uint64_t free_bytes;    /* free bytes */
  uint64_t account_bytes; /* bytes of the allocator's metadata */
} cedrat_usage;

/* The library's version, such as "0.1.0". Never freed. */
const char *cedrat_version(void);

/* The name of a status, such as "CEDRAT_OK". Never freed. */
const char *cedrat_status_name(cedrat_status status);

/* ---- stores ----------------------------------------------------------------------------------------------------- */

/* Opens and recovers the store in a directory, or creates it. When it returns, the store has exactly the committed
 * transactions.
 *
 * options: null means all defaults. message: receives the text of an error, at most message_len bytes with the zero at the
 * end; may be null. A store can be open once at a time, in one process. directory: may be null with volatile_memory, which
 * ignores it.
 *
 * Errors: CEDRAT_IN_USE, CEDRAT_UNKNOWN, CEDRAT_DAMAGED, CEDRAT_OPTIONS, CEDRAT_LIMIT (page_space_bytes is less than the page
 * file has), CEDRAT_MISUSE (the store, its archive or its backup is encrypted with another key, with one and key is null, or with none: the
 * message names the file), CEDRAT_IO (also if a heap's fixed address is in use, or the address space is exhausted: the message names the
 * size and the option). A failed opening does not change the store. */
cedrat_status cedrat_open(const char *directory, const cedrat_options *options, cedrat_store **store, char *message,
                          size_t message_len);

/* Makes asynchronous commits durable, takes a checkpoint and closes the store. Plain blocks that no checkpoint has made
 * durable are lost. Heaps of the store, and addresses in them, are invalid afterwards.
 *
 * Errors: CEDRAT_MISUSE while thread descriptors, graphs, collections of their objects, transactions (cedrat_txn), change
 * streams or consumers live, or another call runs: the store stays open, and the handle valid. Any other status invalidates the handle.
 * CEDRAT_STOPPED: the store had stopped. */
cedrat_status cedrat_close(cedrat_store *store);

/* Takes a checkpoint: copies heaps to the disk and truncates the log. Transactions continue. When it returns, the plain
 * blocks allocated before are durable with their content and roots (see cedrat_plain_alloc); no thread may write to them
 * with plain stores during the call or after it.
 *
 * Errors: CEDRAT_STOPPED; CEDRAT_MISUSE: transactions collided with plain blocks, which are lost; or a running or prepared
 * transaction keeps log that recovery would replay over plain stores: end it, and call again. CEDRAT_IN_DOUBT: a prepared
 * transaction holds words that plain blocks or their roots need. CEDRAT_LOG_FULL, CEDRAT_IO. After an error that leaves the
 * store running, and no collision, plain blocks are as before: call again without its cause. */
cedrat_status cedrat_checkpoint(cedrat_store *store);

/* Copies the store to a directory that is empty, or is created, while transactions run. The copy opens like a store after a crash: it
 * has every transaction that had committed before the call, also with CEDRAT_ASYNC, and some later ones. options may be null, and report,
 * too. Both stores have the same identity: never let both take part in two-phase commits. No plain blocks are allocated, and no bytes
 * stored plainly, while a backup runs. Any thread may call it, also several at once.
 *
 * With since, the backup is incremental: it is restored with the earlier ones, by cedrat_restore, and opens as no store.
 *
 * Errors: CEDRAT_EXISTS: the directory has files. CEDRAT_MISUSE: plain blocks or plain stores wait for a checkpoint; the store is
 * volatile; the store cannot continue the earlier backup, which is of another store or history, or was opened since. CEDRAT_UNKNOWN:
 * there is no earlier backup. CEDRAT_LOG_FULL: the log was full, and the backup kept it from being truncated; transactions go on.
 * CEDRAT_DAMAGED: the message names file and offset in this store, or in the earlier backup. CEDRAT_STOPPED, CEDRAT_IO. After CEDRAT_EXISTS the directory is unchanged, after any
 * other error it is no store: delete it. */
cedrat_status cedrat_backup(cedrat_store *store, const char *directory, const cedrat_backup_options *options,
                            cedrat_backup_report *report);

/* Backs up as cedrat_backup does, to a stream, full or incremental. write is called with the context in this thread, one call at a time,
 * with at most 1 MiB. It may use other stores, but makes no call with this one, and returns: no longjmp, no exception.
 *
 * Errors: those of cedrat_backup but CEDRAT_EXISTS. CEDRAT_NULL: write. CEDRAT_IO: write has failed; the message has the number that it
 * has returned. After an error the stream is incomplete, and cedrat_restore_stream refuses it. */
cedrat_status cedrat_backup_to_stream(cedrat_store *store, cedrat_stream_write write, void *context,
                                      const cedrat_backup_options *options, cedrat_backup_report *report);
/* Gives the store and its archive another key of 32 bytes, durably, while transactions run. The key of the data stays. Later backups have
 * the new key, earlier ones keep the old one. A crash leaves store and archive each with one of both: open the store with the new key, and
 * the old one as older_key, then call this again.
 *
 * Errors: CEDRAT_MISUSE: the store was opened without a key, or key is null. CEDRAT_IO, CEDRAT_DAMAGED, CEDRAT_STOPPED. */
cedrat_status cedrat_rotate_key(cedrat_store *store, const unsigned char *key);

/* Archives all that is durable now, which the store does each second, and when it is closed. If lsn is not null, *lsn becomes the LSN up
 * to which the archive has all records.
 *
 * Errors: CEDRAT_MISUSE: the store was opened without an archive. CEDRAT_IO, CEDRAT_DAMAGED, CEDRAT_STOPPED: the archive is as it was, and
 * the message names the file. */
cedrat_status cedrat_archive_extend(cedrat_store *store, uint64_t *lsn);

/* Reads and verifies all pages in use, then the log, while transactions run. bytes_per_second_max limits the rate for pages; 0: no limit. A
 * damaged page is rebuilt from the archive, or written again if it is in memory. report may be null.
 *
 * Errors: CEDRAT_DAMAGED: pages could not be rebuilt: the message names file and offset of the first one, with the reason, and report is
 * written; or the log is damaged. CEDRAT_MISUSE: the store is volatile. CEDRAT_STOPPED, CEDRAT_IO. */
cedrat_status cedrat_scrub(cedrat_store *store, uint64_t bytes_per_second_max, cedrat_scrub_report *report);

/* Lets the archive forget the log that neither this backup nor a younger one needs: older backups are not restored with it any more. If
 * first_lsn is not null, *first_lsn becomes the first LSN that the archive keeps. The archive is read before that, while transactions run.
 *
 * Errors: CEDRAT_MISUSE: the store was opened without an archive, or is volatile; the archive does not reach the backup any more, or does
 * not have its end yet; or the backup is of another store or history. CEDRAT_UNKNOWN: the backup is missing. CEDRAT_IN_USE: it is an open
 * store. CEDRAT_DAMAGED: backup or archive is damaged, and nothing is forgotten. CEDRAT_IO: the archive has its old beginning or the new
 * one, and the message names the file. CEDRAT_STOPPED. */
cedrat_status cedrat_archive_forget(cedrat_store *store, const char *backup, uint64_t *first_lsn);

/* Restores a backup to a directory that is empty, or is created: to its end if archive is null, else to the moment that options name, or
 * to the newest one of the archive. The backup may be the directory of any store that is not open. Both are only read. options and
 * report may be null.
 *
 * Errors: CEDRAT_MISUSE: the moment is older than the backup, or later than the archive (without one, later than the backup); the archive
 * is of another store or history; an increment does not continue the backup before it; a heap was replaced next to the moment; or backup or archive have another key.
 * CEDRAT_OPTIONS: lsn and time_ms are both set. CEDRAT_EXISTS: the directory has files. CEDRAT_IN_USE: the backup is an open store. CEDRAT_UNKNOWN: backup or archive is missing. CEDRAT_DAMAGED,
 * CEDRAT_IO: the message names the file. After CEDRAT_EXISTS the directory is unchanged, after any other error it is no store: delete
 * it. */
cedrat_status cedrat_restore(const char *backup, const char *archive, const char *directory, const cedrat_restore_options *options,
                             cedrat_backup_report *report, char *message, size_t message_len);

/* Writes the backup of a stream to a directory that is empty, or is created, durably. A full backup is a store then; an incremental one
 * is restored with those before it (cedrat_restore). If bytes is not null, *bytes becomes the number of bytes of its files. read is called
 * with the context in this thread, one call at a time, until the stream has ended; it returns, without longjmp or exception.
 *
 * Errors: CEDRAT_EXISTS: the directory has files. CEDRAT_IO: the stream is torn, changed, or none, or bytes follow it: the message has the
 * offset; or read has failed: the message has the number that it has returned. CEDRAT_NULL. After CEDRAT_EXISTS the directory is unchanged, after
 * any other error it is no store: delete it. */
cedrat_status cedrat_restore_stream(cedrat_stream_read read, void *context, const char *directory, uint64_t *bytes, char *message,
                                    size_t message_len);

/* Opens a store as it was at a moment, to be read: from a backup, its increments in moment, and an archive, which are only read. archive may be
 * null: then the end of the backup is the only moment. moment may be null: the newest one. The store itself may be open, in this process
 * or another one; no program may open the backup as a store meanwhile. scratch is a directory that is empty, or is created, for the log
 * since the backup, heaps and changed pages: delete it after cedrat_close. If lsn is not null, *lsn becomes the LSN as of which the view is.
 *
 * The view has all that had committed at the moment; prepared transactions without an outcome are rolled back in it. It is used like a
 * store, by any threads. Calls that would change it are CEDRAT_READ_ONLY, plain stores to its heaps CEDRAT_MISUSE. Heaps with a
 * fixed address need it: a view and its store with such heaps are open in different processes. options are those of cedrat_open, without
 * volatile_memory, archive and backup; they may be null.
 *
 * Errors: those of cedrat_restore for backup, archive and moment, and those of cedrat_open. CEDRAT_EXISTS, CEDRAT_IO: scratch has files. */
cedrat_status cedrat_open_as_of(const char *backup, const char *archive, const char *scratch, const cedrat_restore_options *moment,
                                const cedrat_options *options, cedrat_store **store, uint64_t *lsn, char *message, size_t message_len);

/* Opens a store that this process or another one has open, or none has, to be read as of its newest durable record. If lsn is not null, *lsn
 * becomes that LSN. Nothing in the directory is changed, and the process that has the store open is not involved. All pages and heaps are
 * copied to the directory for temporary files, where cedrat_close deletes them. To see later commits, open the store again.
 *
 * The store has all that had committed up to the LSN; prepared transactions without an outcome are rolled back in it. It is used like a view
 * (cedrat_open_as_of): calls that would change it are CEDRAT_READ_ONLY, plain stores CEDRAT_MISUSE. options are those of cedrat_open, without
 * volatile_memory, archive and backup; they may be null.
 *
 * Errors: those of cedrat_open, except CEDRAT_IN_USE. */
cedrat_status cedrat_open_read_only(const char *directory, const cedrat_options *options, cedrat_store **store, uint64_t *lsn, char *message,
                                    size_t message_len);

/* Writes 1 to *stable if the commit with this LSN, and each before it, is durable, otherwise 0. If wait is not 0, it
 * waits until they are durable.
 *
 * Errors: CEDRAT_STOPPED: it was not durable when the store stopped. The next opening decides. */
cedrat_status cedrat_is_stable(cedrat_store *store, uint64_t lsn, int wait, int *stable);

/* Returns the statistics of a store. */
cedrat_status cedrat_get_statistics(cedrat_store *store, cedrat_statistics *statistics);

/* Returns the reason if the last checkpoint failed, or the archive was not extended, also in the background: at most message_len bytes, with a zero at the
 * end; otherwise an empty string. Until a checkpoint succeeds, the log is not fully truncated. */
cedrat_status cedrat_get_checkpoint_failure(cedrat_store *store, char *message, size_t message_len);

/* Returns the message of the last failed call with this store or one of its heaps, in any thread: at most message_len bytes,
 * with a zero at the end. Empty before the first failure. */
cedrat_status cedrat_message(cedrat_store *store, char *message, size_t message_len);

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

/* Creates a heap, filled with zeros. When it returns, the heap is durable.
 *
 * Errors: CEDRAT_EXISTS, CEDRAT_OPTIONS, CEDRAT_IO (no memory, no space on the disk, or the address is in use),
 * CEDRAT_STOPPED. */
cedrat_status cedrat_heap_create(cedrat_store *store, const char *name, const cedrat_heap_options *options,
                                 cedrat_heap **heap);

/* Returns the heap of this name; always the same handle.
 *
 * Errors: CEDRAT_UNKNOWN. */
cedrat_status cedrat_heap_open(cedrat_store *store, const char *name, cedrat_heap **heap);

/* Deletes a heap. From now on, transactions that write to it fail; its memory stays mapped until the store is closed.
 *
 * Errors: CEDRAT_UNKNOWN, CEDRAT_MISUSE while there are plain blocks. CEDRAT_IO: the heap is deleted, and one of its files is
 * removed at the next opening. CEDRAT_STOPPED: the next opening decides. */
cedrat_status cedrat_heap_drop(cedrat_store *store, const char *name);

/* Grows a heap to at most its size_max, or the address space that was reserved. When it returns, the size is durable.
 *
 * Errors: CEDRAT_LIMIT, CEDRAT_IO, CEDRAT_STOPPED. */
cedrat_status cedrat_heap_grow(cedrat_heap *heap, uint64_t size);

/* Returns the address of the heap's first byte; null for a null heap. */
void *cedrat_heap_address(const cedrat_heap *heap);

/* Returns the size of the heap; 0 for a null heap. */
uint64_t cedrat_heap_size(const cedrat_heap *heap);

/* The number under which a change stream has the words of a heap; 0 for a null pointer. Another heap of the store, also a later one of the same
 * name, has another number. */
uint32_t cedrat_heap_number(const cedrat_heap *heap);

/* Returns the first offset that programs may use: 0 in a raw heap, otherwise the first behind the allocator's metadata. */
uint64_t cedrat_heap_first_offset(const cedrat_heap *heap);

/* Checks the allocator's metadata and all blocks, and returns the use of space. Exact while nothing is allocated or freed.
 *
 * Errors: CEDRAT_DAMAGED with the place. CEDRAT_MISUSE: a raw heap; or, with encounter_locking, a transaction that this thread
 * has begun has allocated or freed blocks: end it first. CEDRAT_IN_DOUBT: a prepared transaction has. CEDRAT_ABORTED: for ten
 * seconds, transactions of other threads have held or changed blocks that lie together; call it again. */
cedrat_status cedrat_heap_verify(cedrat_heap *heap, cedrat_usage *usage);

/* ---- before the threads start ----------------------------------------------------------------------------------- */

/* Allocates a block outside of any transaction, for a program's initial data. Any threads fill it with plain stores while
 * no transaction runs; then cedrat_checkpoint makes all such blocks and their roots durable at once. A crash before that
 * returns leaves all of them or none. The initial content of the block is undefined.
 *
 * After the checkpoint, transactions free these blocks like all others.
 *
 * Errors: CEDRAT_HEAP_FULL, CEDRAT_LIMIT, CEDRAT_STOPPED, CEDRAT_MISUSE (a raw heap; or a transaction collided, and all
 * plain blocks since the last checkpoint are lost). */
cedrat_status cedrat_plain_alloc(cedrat_heap *heap, size_t size, void **block);

/* Names a plain block; replaces a root of the same name. The root becomes durable together with the block.
 *
 * Errors: CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE, and those of cedrat_plain_alloc. */
cedrat_status cedrat_plain_set_root(cedrat_heap *heap, const char *name, const void *block);

/* Marks bytes of a heap as changed by plain stores, which are not logged: the next checkpoint copies them. Call it after the
 * stores and before cedrat_checkpoint. A crash before that returns may keep some of the stores. So use plain stores for
 * initial data, for data that can be computed again, and for blocks that no committed data refers to. Blocks of
 * cedrat_plain_alloc need no call.
 *
 * No transaction may use the bytes from the first store until the checkpoint returns.
 *
 * Errors: CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_plain_stored(cedrat_heap *heap, const void *address, size_t size);

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* Creates a thread descriptor. Descriptors are assigned to the log's partitions in turn.
 *
 * Errors: CEDRAT_LIMIT. */
cedrat_status cedrat_thread_create(cedrat_store *store, cedrat_thread **thread);

/* Frees a thread descriptor, from any thread. A transaction that runs is aborted. Null is allowed. */
void cedrat_thread_free(cedrat_thread *thread);

/* Returns the message of the last failed call with this descriptor; valid until the next call with it. Empty before the
 * first failure. */
const char *cedrat_error(cedrat_thread *thread);

/* ---- transactions ----------------------------------------------------------------------------------------------- */

/* Begins a transaction. All its loads see one state of all heaps, the current one or a later one. After CEDRAT_ABORTED and
 * cedrat_restart it waits before it begins, longer each time.
 *
 * A transaction whose thread ends, or whose process does, is aborted.
 *
 * Errors: CEDRAT_MISUSE if one runs with this descriptor; CEDRAT_STOPPED. */
cedrat_status cedrat_begin(cedrat_thread *thread);

/* Commits. lsn: receives the LSN for cedrat_is_stable; may be null. The transaction has ended with every status but
 * CEDRAT_MISUSE for an invalid mode.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_IN_DOUBT, CEDRAT_LOG_FULL: it is rolled back. CEDRAT_STOPPED: the next opening decides whether
 * it has committed. CEDRAT_UNKNOWN: a heap was dropped. CEDRAT_MISUSE: no transaction runs. */
cedrat_status cedrat_commit(cedrat_thread *thread, cedrat_commit_mode mode, uint64_t *lsn);

/* Rolls back the transaction, if one runs. */
cedrat_status cedrat_abort(cedrat_thread *thread);

/* Rolls back, to run again. Returns CEDRAT_ABORTED, as a conflict does. */
cedrat_status cedrat_restart(cedrat_thread *thread);

/* Returns 1 if a transaction runs, otherwise 0; 0 for a null descriptor. */
int cedrat_is_running(const cedrat_thread *thread);

/* ---- transactions in two phases --------------------------------------------------------------------------------- */

/* Prepares: when this returns, everything that the transaction has changed and read is durable, and it can be committed
 * and rolled back, also after a crash. The descriptor is free for another transaction. The prepared one is in doubt, and its
 * changes are invisible, until it is ended. Loads and stores of words that it has written are CEDRAT_IN_DOUBT.
 *
 * id: its identifier, 1 to CEDRAT_BRANCH_ID_MAX bytes. read_only: receives 1 if the transaction has changed nothing, and so
 * has ended; may be null.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_IN_DOUBT, CEDRAT_LOG_FULL, CEDRAT_EXISTS (another one is prepared under this identifier),
 * CEDRAT_LIMIT (a longer identifier, or too many transactions at a time), CEDRAT_MISUSE (an empty one; no transaction runs),
 * CEDRAT_UNKNOWN (a heap was dropped). It is rolled back.
 * CEDRAT_STOPPED: the next opening decides whether it is prepared. */
cedrat_status cedrat_prepare(cedrat_thread *thread, const void *id, size_t len, int *read_only);

/* Commits a prepared transaction. After any mode but CEDRAT_SYNC a crash may lose the outcome, never the transaction: it is
 * in doubt again.
 *
 * Errors: CEDRAT_UNKNOWN: there is none of this identifier; an operator may have ended it (cedrat_heuristic_branches).
 * CEDRAT_LIMIT: a longer identifier than CEDRAT_BRANCH_ID_MAX.
 * CEDRAT_IN_USE: another call is ending it. CEDRAT_MISUSE for CEDRAT_PARTITION. CEDRAT_STOPPED: the next opening decides. */
cedrat_status cedrat_commit_prepared(cedrat_store *store, const void *id, size_t len, cedrat_commit_mode mode);

/* Rolls back a prepared transaction, durably.
 *
 * Errors: as cedrat_commit_prepared. */
cedrat_status cedrat_rollback_prepared(cedrat_store *store, const void *id, size_t len);

/* Returns the prepared transactions without an outcome, the oldest first, also those of earlier openings. branches has
 * space for capacity of them; *count receives their number.
 *
 * Errors: CEDRAT_STOPPED in a process that was forked from that of the store. */
cedrat_status cedrat_in_doubt(cedrat_store *store, cedrat_branch *branches, size_t capacity, size_t *count);

/* Ends a prepared transaction as an operator decides, because its transaction manager is lost. The store keeps the outcome for
 * a manager that returns, until cedrat_forget. Both are durable when this returns.
 *
 * Errors: as cedrat_commit_prepared. CEDRAT_MISUSE for another outcome. */
cedrat_status cedrat_resolve(cedrat_store *store, const void *id, size_t len, cedrat_heuristic outcome);

/* Returns the transactions that cedrat_resolve, or the command `cedrat resolve`, has ended and that are not forgotten, in the
 * order of their identifiers. As cedrat_in_doubt. */
cedrat_status cedrat_heuristic_branches(cedrat_store *store, cedrat_branch *branches, size_t capacity, size_t *count);

/* Forgets, durably, the outcome of such a transaction: its transaction manager knows it.
 *
 * Errors: CEDRAT_UNKNOWN: none is kept under this identifier. CEDRAT_LOG_FULL: it is still kept. CEDRAT_STOPPED: the next
 * opening decides. */
cedrat_status cedrat_forget(cedrat_store *store, const void *id, size_t len);

/* ---- words and blocks in transactions --------------------------------------------------------------------------- */

/* For the following calls: CEDRAT_ABORTED has ended the transaction and rolled it back. After any other error it continues
 * as if the call had not been made. CEDRAT_MISUSE: no transaction runs; or, with encounter_locking, after ten seconds of
 * CEDRAT_ABORTED: the owner of a word waits for another transaction of this thread. End that one first. */

/* Loads the 8 bytes at an address, in native byte order.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_OUT_OF_RANGE, CEDRAT_MISALIGNED, CEDRAT_NOT_ALLOCATED. */
cedrat_status cedrat_load_word(cedrat_thread *thread, const void *address, uint64_t *value);

/* Stores 8 bytes at an address. The program's memory changes at the commit, and this transaction's loads see it now.
 *
 * Errors: as cedrat_load_word. */
cedrat_status cedrat_store_word(cedrat_thread *thread, void *address, uint64_t value);

/* Loads bytes of any address and length. After an error the content of bytes is undefined.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_OUT_OF_RANGE, CEDRAT_NOT_ALLOCATED. */
cedrat_status cedrat_load_bytes(cedrat_thread *thread, const void *address, void *bytes, size_t len);

/* Stores bytes of any address and length.
 *
 * Errors: as cedrat_load_bytes. */
cedrat_status cedrat_store_bytes(cedrat_thread *thread, void *address, const void *bytes, size_t len);

/* State of a thread descriptor for the inline functions below. Programs do not access it directly. CEDRAT_VIEW_VERSION is
 * the version of its layout: a program compiled with another header gets no view (cedrat_thread_view). */
#define CEDRAT_VIEW_VERSION 3

typedef struct cedrat_view_write {
  uint64_t word, value;
  uint32_t heap, stripe;
  uint8_t bytes, read, unused[6];
} cedrat_view_write;

typedef struct cedrat_view {
  uint64_t from, words, store_words, first; /* the words that may be loaded and stored */
  uint64_t stripes, salt, mask;             /* the table of locks, and how a word finds its lock */
  uint32_t heap, stripe_words_log2;
  uint64_t snapshot;                        /* the newest version that the transaction may see */
  uint32_t *reads;                          /* the locks of what it has loaded */
  size_t reads_len, reads_capacity;
  cedrat_view_write *writes;                /* what it has stored */
  size_t writes_len, writes_capacity;
  uint8_t filter[1024];                     /* by the low bits of a word's number: 0 if no such word is among the writes or
                                             * in a freed block, the index plus 1 of the only one, or 255 */
} cedrat_view;

/* Returns the view of a thread descriptor, which lives as long as the descriptor; null if the library has another version,
 * or the descriptor is null. Like the descriptor, it belongs to one thread. */
cedrat_view *cedrat_thread_view(cedrat_thread *thread, uint32_t version);

#if defined(__GNUC__) && UINTPTR_MAX == UINT64_MAX && SIZE_MAX == UINT64_MAX
#define CEDRAT_VIEW_INLINE 1
/* Programs store other types to the same words plainly. */
typedef uint64_t __attribute__((__may_alias__)) cedrat_view_word;
#endif

#ifdef CEDRAT_VIEW_INLINE
/* Returns the number of a word in the view, or a larger one than any: one compare checks the range and the alignment. */
static inline uint64_t cedrat_view_number(const cedrat_view *view, const void *address) {
  uint64_t offset = (uint64_t)(uintptr_t)address - view->from;
  return offset >> 3 | offset << 61;
}

static inline uint64_t cedrat_view_stripe(const cedrat_view *view, uint64_t word) {
  return ((word >> view->stripe_words_log2) + view->salt) & view->mask;
}

/* Loads a word that is not among the writes. */
static inline int cedrat_view_load_shared(cedrat_view *view, uint64_t word, const void *address, uint64_t *value) {
  uint64_t stripe = cedrat_view_stripe(view, word);
  const uint64_t *lock = (const uint64_t *)(uintptr_t)view->stripes + stripe;
  uint64_t before = __atomic_load_n(lock, __ATOMIC_SEQ_CST);
  uint64_t loaded = __atomic_load_n((const cedrat_view_word *)address, __ATOMIC_ACQUIRE);
  size_t len = view->reads_len;
  if (before <= view->snapshot && __atomic_load_n(lock, __ATOMIC_RELAXED) == before && len < view->reads_capacity) {
    view->reads[len] = (uint32_t)stripe; /* no compare with the last one: the processor would often guess it wrong */
    view->reads_len = len + 1;
    *value = loaded;
    return 1;
  }
  return 0;
}

/* Appends a write to a word that is not among the writes. */
static inline int cedrat_view_append(cedrat_view *view, uint64_t word, uint64_t value) {
  uint8_t *place = &view->filter[word & 1023];
  size_t len = view->writes_len;
  if (len < view->writes_capacity) {
    cedrat_view_write *write = view->writes + len;
    write->word = word + view->first;
    write->value = value;
    write->heap = view->heap;
    write->stripe = (uint32_t)cedrat_view_stripe(view, word);
    write->bytes = 0xff;
    write->read = 0;
    view->writes_len = len + 1;
    *place = (uint8_t)(*place == 0 && len < 254 ? len + 1 : 255);
    return 1;
  }
  return 0;
}
#endif

/* Loads as cedrat_load_word does, without a call. Returns 1 on success; 0 if it has done nothing: call that function. */
static inline int cedrat_view_load(cedrat_view *view, const void *address, uint64_t *value) {
#ifdef CEDRAT_VIEW_INLINE
  uint64_t word = cedrat_view_number(view, address);
  if (word < view->words && view->filter[word & 1023] == 0) {
    return cedrat_view_load_shared(view, word, address, value);
  }
#else
  (void)view, (void)address, (void)value;
#endif
  return 0;
}

/* Stores as cedrat_store_word does, without a call. Returns 1 on success; 0 if it has done nothing: call that function. */
static inline int cedrat_view_store(cedrat_view *view, void *address, uint64_t value) {
#ifdef CEDRAT_VIEW_INLINE
  uint64_t word = cedrat_view_number(view, address);
  if (word < view->store_words && view->filter[word & 1023] == 0) {
    return cedrat_view_append(view, word, value);
  }
#else
  (void)view, (void)address, (void)value;
#endif
  return 0;
}

/* For the few loads for which cedrat_view_load returns 0: loads a word that the transaction has stored, or one that shares a
 * byte of the filter with it, as cedrat_load_word does, without a call. Returns 1 on success; 0 if it has done nothing: call
 * that function. */
static inline int cedrat_view_load_stored(cedrat_view *view, const void *address, uint64_t *value) {
#ifdef CEDRAT_VIEW_INLINE
  uint64_t word = cedrat_view_number(view, address);
  unsigned at = view->filter[word & 1023] - 1u;
  if (word < view->words && at < 254) {
    const cedrat_view_write *write = view->writes + at;
    if (write->word != word + view->first || write->heap != view->heap) {
      return cedrat_view_load_shared(view, word, address, value);
    }
    if (write->bytes == 0xff) {
      *value = write->value;
      return 1;
    }
  }
#else
  (void)view, (void)address, (void)value;
#endif
  return 0;
}

/* For the few stores for which cedrat_view_store returns 0: stores to such a word as cedrat_store_word does, without a call.
 * Returns 1 on success; 0 if it has done nothing: call that function. */
static inline int cedrat_view_store_stored(cedrat_view *view, void *address, uint64_t value) {
#ifdef CEDRAT_VIEW_INLINE
  uint64_t word = cedrat_view_number(view, address);
  unsigned at = view->filter[word & 1023] - 1u;
  if (word < view->store_words && at < 254) {
    cedrat_view_write *write = view->writes + at;
    if (write->word != word + view->first || write->heap != view->heap) {
      return cedrat_view_append(view, word, value);
    }
    if (write->bytes == 0xff) {
      write->value = value;
      return 1;
    }
  }
#else
  (void)view, (void)address, (void)value;
#endif
  return 0;
}

/* Allocates a block; its address is a multiple of 16. Until the transaction ends, the program may use plain loads and
 * stores in it: the commit logs the whole block. Its initial content is undefined. If a word is written both by a plain
 * store and by cedrat_store_word, the latter wins, in either order.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_HEAP_FULL, CEDRAT_MISUSE (a raw heap, or one of another store). */
cedrat_status cedrat_malloc(cedrat_thread *thread, cedrat_heap *heap, size_t size, void **block);

/* Frees a block when the transaction commits; its space is reused when no running transaction can refer to it. Within this
 * transaction, each later use of it is an error. Transactions that began before the commit and use it are aborted.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_free(cedrat_thread *thread, void *block);

/* Returns the requested size of the allocated block that begins at an address.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_block_size(cedrat_thread *thread, const void *block, size_t *size);

/* Returns the block that a root names; null if there is no such root.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_MISUSE (a raw heap). */
cedrat_status cedrat_get_root(cedrat_thread *thread, cedrat_heap *heap, const char *name, void **block);

/* Names a block, so that the program finds it after the next opening; replaces a root of the same name. A null block
 * removes the root; the block remains.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE, CEDRAT_HEAP_FULL, CEDRAT_UNKNOWN (nothing to
 * remove), CEDRAT_LIMIT (a name of more than 1,024 bytes). */
cedrat_status cedrat_set_root(cedrat_thread *thread, cedrat_heap *heap, const char *name, const void *block);

/* ---- graphs of objects ------------------------------------------------------------------------------------------ */

/* Objects that refer to each other (docs/use/graph.md). docs/formats/graph.md describes the buffers; all numbers in them are
 * little-endian. An object is named by its identity, a number below 2^56 and never 0. */

/* Opens the graph of this name; creates it if there is none. options: null means all defaults; while the store is open,
 * all handles of a graph have those of the first.
 *
 * Errors: CEDRAT_UNKNOWN, CEDRAT_OPTIONS, CEDRAT_MISUSE (other options; the name stands for something else),
 * CEDRAT_LOG_FULL, CEDRAT_DAMAGED, CEDRAT_IO, CEDRAT_STOPPED. The message is returned by cedrat_message. */
cedrat_status cedrat_graph_open(cedrat_store *store, const char *name, const cedrat_graph_options *options,
                                cedrat_graph **graph);

/* Frees the handle; no other call may use it. The store cannot be closed before. Null is allowed. */
void cedrat_graph_close(cedrat_graph *graph);

/* Returns the message of the last failed call with this handle, in any thread: at most message_len bytes, with a zero at the
 * end. Empty before the first failure. */
cedrat_status cedrat_graph_message(cedrat_graph *graph, char *message, size_t message_len);

/* Stores the definition of a class: bytes of the program's own, at most 16 MiB. *class_number receives its number, counted
 * from 1 without gaps. It is a commit of its own, durable no later than any later one; changes may define classes, too.
 *
 * Errors: CEDRAT_LIMIT, CEDRAT_LOG_FULL, CEDRAT_STOPPED. */
cedrat_status cedrat_graph_define_class(cedrat_graph *graph, const void *definition, size_t size,
                                        uint32_t *class_number);

/* Returns the definition of a class. *size receives its size, also if the buffer is too small: CEDRAT_LIMIT.
 *
 * Errors: CEDRAT_UNKNOWN: the class was dropped, and *size receives SIZE_MAX; or no class has this number or a greater one, and
 * *size receives 0. */
cedrat_status cedrat_graph_get_class(cedrat_graph *graph, uint32_t class_number, void *definition, size_t capacity,
                                     size_t *size);

/* Returns the reference of a root: *reference receives the word, 0 if there is no such root. It waits for a commit that is
 * changing the root.
 *
 * Errors: CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_get_root(cedrat_graph *graph, const char *name, uint64_t *reference);

/* Returns all roots in the order of their names, in the form of a buffer of changes. *size receives the size, also if the
 * buffer is too small: CEDRAT_LIMIT.
 *
 * Errors: CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_get_roots(cedrat_graph *graph, void *roots, size_t capacity, size_t *size);

/* Reads the newest committed state of an object, without waiting for commits; it may not be durable yet. *size receives the
 * size, also if the buffer is too small: CEDRAT_LIMIT.
 *
 * Errors: CEDRAT_UNKNOWN: there is no such object. CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_read(cedrat_graph *graph, uint64_t object, void *buffer, size_t capacity, size_t *size);

/* Reads several objects, each as cedrat_graph_read does, one behind the other: object i is from offsets[i] to
 * offsets[i + 1], which are equal if there is no such object. offsets has space for count + 1. *read receives the number
 * that fitted; if it is less than count, offsets[*read + 1] gives the space that the next one needs.
 *
 * Errors: CEDRAT_LIMIT: not even the first one fits. CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_read_many(cedrat_graph *graph, const uint64_t *objects, size_t count, void *buffer,
                                     size_t capacity, size_t *offsets, size_t *read);

/* Applies all changes in a buffer, or none. identities receives the identities of the new objects in their order, and has
 * space for capacity of them. lsn: receives the LSN for cedrat_is_stable; may be null. mode: CEDRAT_SYNC or CEDRAT_ASYNC.
 *
 * All bytes of the buffer are checked. Each root must refer to an existing object. References within objects are checked for
 * their form only: a program must refer to objects that it has added or read, and has named as alive to each garbage
 * collection since. cedrat verify finds other references.
 *
 * Errors: CEDRAT_UNKNOWN: an object to be changed, or that of a root, does not exist. CEDRAT_MISUSE: invalid changes.
 * CEDRAT_LIMIT: more new objects than capacity, or more changed bytes than cache_bytes. CEDRAT_IN_DOUBT: a prepared
 * transaction has changed the same object or root; the message names it. CEDRAT_LOG_FULL, CEDRAT_ABORTED, CEDRAT_DAMAGED,
 * CEDRAT_IO. After these, nothing is changed, and the message names the entry; CEDRAT_MISUSE also if another commit has defined
 * a class of the same number. CEDRAT_CLASS_DROPPED: a class was dropped; define it again. CEDRAT_STOPPED: the next opening
 * decides. */
cedrat_status cedrat_graph_commit(cedrat_graph *graph, const void *changes, size_t size, cedrat_commit_mode mode,
                                  uint64_t *identities, size_t capacity, uint64_t *lsn);

/* Prepares all changes in a buffer, or none, as a branch of a transaction that spans several stores: as cedrat_graph_commit and
 * cedrat_prepare. cedrat_commit_prepared and cedrat_rollback_prepared end it. Until then its changes are invisible, and
 * commits that would change the same objects are CEDRAT_IN_DOUBT, with its identifier in the message. Classes that it defines are
 * defined at once, whatever its outcome. read_only: receives 1 if there was nothing else to change, and nothing is prepared; may
 * be null.
 *
 * Errors: as cedrat_graph_commit, and after the following ones the classes may be defined. CEDRAT_EXISTS: another one is prepared under this identifier; CEDRAT_LIMIT, CEDRAT_MISUSE: a
 * longer identifier than CEDRAT_BRANCH_ID_MAX, or an empty one. */
cedrat_status cedrat_graph_prepare(cedrat_graph *graph, const void *changes, size_t size, const void *id, size_t id_len,
                                   uint64_t *identities, size_t capacity, int *read_only);

/* Returns the objects and roots that an in-doubt branch changes, also one of an earlier opening, in the form of changes: for
 * each existing object a patch of no bytes at offset 0, for each root its name and the word 0. *size receives the size.
 *
 * Errors: CEDRAT_UNKNOWN: no branch of the graph is in doubt under this identifier. CEDRAT_LIMIT: the buffer is too small;
 * call again with *size bytes. */
cedrat_status cedrat_graph_get_branch(cedrat_graph *graph, const void *id, size_t id_len, void *changed, size_t capacity,
                                      size_t *size);

/* Returns the statistics of a graph. */
cedrat_status cedrat_graph_get_statistics(cedrat_graph *graph, cedrat_graph_statistics *statistics);

/* Begins a garbage collection of the objects that are reachable neither from a root nor from alive, an array of count objects
 * that the program holds (zeros are skipped). Objects that are reachable now survive, and so do objects added from now on.
 * The call waits for running commits; afterwards commits and reads continue. A graph has one collection at a time. If the
 * previous one was freed while it was sweeping, this one continues the sweep: the first step returns CEDRAT_GRAPH_SWEEPING
 * or CEDRAT_GRAPH_DONE.
 *
 * Errors: CEDRAT_MISUSE while another one lives; CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_collect_begin(cedrat_graph *graph, const uint64_t *alive, size_t count,
                                         cedrat_graph_collection **collection);

/* Marks at most budget objects, or removes at most budget records; a budget of 0 makes no progress. *stage receives the stage
 * reached. At CEDRAT_GRAPH_MARKED, call cedrat_graph_collect_seal.
 *
 * Errors: CEDRAT_ABORTED: a conflict with a commit. CEDRAT_LIMIT: cache_bytes. CEDRAT_LOG_FULL, CEDRAT_DAMAGED, CEDRAT_IO,
 * CEDRAT_STOPPED. It may be called again. */
cedrat_status cedrat_graph_collect_step(cedrat_graph_collection *collection, size_t budget, cedrat_graph_stage *stage);

/* Ends the mark phase and begins the sweep. alive: the objects that the program holds now without a root, including those
 * found since the beginning. From then on, unmarked objects can be neither read nor referred to. *stage receives
 * CEDRAT_GRAPH_SWEEPING, or CEDRAT_GRAPH_MARKING if there are objects to mark: step until they are marked, and seal again.
 *
 * Errors: CEDRAT_MISUSE unless its stage is CEDRAT_GRAPH_MARKED; CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_collect_seal(cedrat_graph_collection *collection, const uint64_t *alive, size_t count,
                                        cedrat_graph_stage *stage);

/* Returns the numbers of the classes that no object has and no value names (class_tag), among those that were defined when the
 * collection began. *count receives how many there are, also if they do not fit the array: CEDRAT_LIMIT. There are none if a
 * branch was in doubt then or is now.
 *
 * Errors: CEDRAT_MISUSE unless its stage is CEDRAT_GRAPH_DONE. */
cedrat_status cedrat_graph_collect_get_unused_classes(cedrat_graph_collection *collection, uint32_t *classes, size_t capacity,
                                                      size_t *count);

/* Drops such classes, all or none: their definitions are removed, and their numbers stay taken. *dropped receives 1, or 0 if a
 * commit has used one of them meanwhile, or a branch is in doubt; then none is dropped. It is a commit of its own, durable no
 * later than any later one.
 *
 * Errors: CEDRAT_MISUSE unless its stage is CEDRAT_GRAPH_DONE. CEDRAT_ABORTED, CEDRAT_LOG_FULL, CEDRAT_DAMAGED, CEDRAT_IO,
 * CEDRAT_STOPPED. */
cedrat_status cedrat_graph_collect_drop_classes(cedrat_graph_collection *collection, const uint32_t *classes, size_t count,
                                                int *dropped);

/* Returns the progress of a garbage collection. */
cedrat_status cedrat_graph_collect_get(cedrat_graph_collection *collection, cedrat_graph_collected *collected);

/* Frees a collection, and cancels it if it is not done. Removed objects stay removed. If it was sweeping, its unmarked objects
 * stay inaccessible while the graph is open, and the next collection removes them. Null is allowed. */
void cedrat_graph_collect_free(cedrat_graph_collection *collection);

/* ---- transactions over several faces ------------------------------------------------------------------------------ */

/* A transaction that may change records in pages, words of heaps, and at its commit the objects of a graph, with one commit
 * record for all of them. Records are isolated by locks on their pages; heaps as in their own transactions. One thread at a
 * time uses a handle, and may pass it to another. It lives until it is freed, also if its thread ends. A deadlock makes one
 * transaction CEDRAT_ABORTED, and so does, after ten seconds, a wait for another transaction of the same thread.
 *
 * For the calls below: after CEDRAT_ABORTED (a deadlock, or a write conflict of a word) free the transaction and run it again.
 * After CEDRAT_ROLLED_BACK (it kept too much of the log) free it, and run it in smaller steps. After any other error it
 * continues as if the call had not been made. CEDRAT_IN_DOUBT: a prepared transaction holds the data. */

/* Begins a transaction. The store cannot be closed before it is freed.
 *
 * Errors: CEDRAT_NULL. The message is returned by cedrat_message. */
cedrat_status cedrat_txn_begin(cedrat_store *store, cedrat_txn **txn);

/* Rolls back the transaction if it has not ended, and frees the handle. Null is allowed. */
void cedrat_txn_free(cedrat_txn *txn);

/* Returns the message of the last failed call with this transaction; valid until the next call with it. Empty before the
 * first. */
const char *cedrat_txn_error(const cedrat_txn *txn);

/* Sets a savepoint; *savepoint receives its number, counted from 0. */
cedrat_status cedrat_txn_savepoint(cedrat_txn *txn, uint64_t *savepoint);

/* Rolls back to a savepoint, which remains; later ones are removed. Locks are kept.
 *
 * Errors: CEDRAT_MISUSE: there is none of this number. */
cedrat_status cedrat_txn_rollback_to(cedrat_txn *txn, uint64_t savepoint);

/* Commits, with changes of a graph's objects as in cedrat_graph_commit. graph: null if no objects are changed; changes is then
 * ignored, and size is 0. The transaction has ended with every status; free it.
 *
 * mode: CEDRAT_SYNC or CEDRAT_ASYNC. lsn: receives the LSN for cedrat_is_stable; may be null.
 *
 * Errors: those of cedrat_graph_commit; CEDRAT_MISUSE: another mode; CEDRAT_UNKNOWN: a heap was dropped meanwhile, which
 * earlier calls do not report. The transaction is rolled back; after CEDRAT_STOPPED the next opening decides. */
cedrat_status cedrat_txn_commit(cedrat_txn *txn, cedrat_graph *graph, const void *changes, size_t size,
                                cedrat_commit_mode mode, uint64_t *identities, size_t capacity, uint64_t *lsn);

/* Loads or stores the word at an offset of a heap, in bytes, a multiple of 8.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_OUT_OF_RANGE, CEDRAT_MISALIGNED, CEDRAT_NOT_ALLOCATED, CEDRAT_IN_DOUBT. The commit
 * reports a dropped heap. */
cedrat_status cedrat_txn_load_word(cedrat_txn *txn, cedrat_heap *heap, uint64_t offset, uint64_t *value);
cedrat_status cedrat_txn_store_word(cedrat_txn *txn, cedrat_heap *heap, uint64_t offset, uint64_t value);

/* Allocates a block of a heap, filled with zeros; *block receives its offset, never 0. Each word of it is logged.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_HEAP_FULL, CEDRAT_MISUSE (a raw heap). */
cedrat_status cedrat_txn_allocate(cedrat_txn *txn, cedrat_heap *heap, uint64_t size, uint64_t *block);

/* Frees a block, when the transaction commits.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_txn_release(cedrat_txn *txn, cedrat_heap *heap, uint64_t block);

/* Returns the offset of the block that a root names; 0 if there is no such root. */
cedrat_status cedrat_txn_get_root(cedrat_txn *txn, cedrat_heap *heap, const char *name, uint64_t *block);

/* Names a block, or removes the root if block is 0.
 *
 * Errors: as cedrat_set_root. */
cedrat_status cedrat_txn_set_root(cedrat_txn *txn, cedrat_heap *heap, const char *name, uint64_t block);

/* Opens the collection of records of this name, or creates it, in its own transaction. *records receives its number, which
 * never changes.
 *
 * Errors: CEDRAT_MISUSE (the name is of another structure). The message is returned by cedrat_message. */
cedrat_status cedrat_records_open(cedrat_store *store, const char *name, uint64_t *records);

/* Adds a record of at most 3,800 bytes; *place receives its number in this collection, which stays until it is deleted.
 *
 * Errors: CEDRAT_LIMIT (longer), CEDRAT_ABORTED, CEDRAT_LOG_FULL, CEDRAT_UNKNOWN (no such collection). */
cedrat_status cedrat_records_insert(cedrat_txn *txn, uint64_t records, const void *record, size_t size, uint64_t *place);

/* Reads a record. *size receives its length.
 *
 * Errors: CEDRAT_LIMIT: the buffer is too small. CEDRAT_UNKNOWN: there is no such
 * record. CEDRAT_ABORTED. */
cedrat_status cedrat_records_read(cedrat_txn *txn, uint64_t records, uint64_t place, void *buffer, size_t capacity,
                                  size_t *size);

/* Replaces the bytes of a record; a longer one needs space in its page.
 *
 * Errors: CEDRAT_UNKNOWN: there is no such record. CEDRAT_MISUSE: its page has no space for it: delete it, and insert it
 * again. CEDRAT_LIMIT, CEDRAT_ABORTED, CEDRAT_LOG_FULL. */
cedrat_status cedrat_records_update(cedrat_txn *txn, uint64_t records, uint64_t place, const void *record, size_t size);

/* Deletes a record.
 *
 * Errors: CEDRAT_UNKNOWN: there is no such record. CEDRAT_ABORTED, CEDRAT_LOG_FULL. */
cedrat_status cedrat_records_delete(cedrat_txn *txn, uint64_t records, uint64_t place);

/* Returns the places of all records. places has space for capacity of them; *count receives their number.
 *
 * Errors: CEDRAT_LIMIT: there are more. CEDRAT_ABORTED. */
cedrat_status cedrat_records_list(cedrat_txn *txn, uint64_t records, uint64_t *places, size_t capacity, size_t *count);

/* ---- the change stream ------------------------------------------------------------------------------------------ */

/* Opens a stream of the transactions whose commit records have this LSN or a later one, in their order (docs/use/changes.md). The stream does
 * not keep the log: a consumer does. The store cannot be closed while the stream lives.
 *
 * Errors: CEDRAT_CHANGES_LOST: neither the log nor the archive goes back to this LSN. CEDRAT_MISUSE: the store is volatile. CEDRAT_STOPPED,
 * CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_changes(cedrat_store *store, uint64_t from_lsn, cedrat_change_stream **stream);

/* Opens a stream of the transactions that have committed after a position: a token of CEDRAT_TOKEN_SIZE bytes.
 *
 * Errors: CEDRAT_MISUSE: these bytes are no token, or one of another store, or one of a later state than a restored store has. Those of
 * cedrat_changes, also at the first transaction. */
cedrat_status cedrat_changes_after(cedrat_store *store, const void *token, cedrat_change_stream **stream);

/* Moves to the next transaction that has committed durably: *lsn receives the LSN of its commit record, *transaction, which may be null, its
 * number, or 0 for a transaction over heaps alone. *lsn is 0 if there is none now. Changes of the transaction before it that
 * were not read are left out.
 *
 * Errors: CEDRAT_CHANGES_LOST, CEDRAT_STOPPED, CEDRAT_DAMAGED, CEDRAT_IO. The position stays as it was: the next call tries again. */
cedrat_status cedrat_changes_next(cedrat_change_stream *stream, uint64_t *lsn, uint64_t *transaction);

/* Returns the next change of the present transaction; its kind is CEDRAT_CHANGE_END behind the last one. Changes are read on demand, so that a
 * transaction of any length needs little memory.
 *
 * Errors: CEDRAT_MISUSE: there is no present transaction. Those of cedrat_changes_next, which then returns the whole transaction again. */
cedrat_status cedrat_changes_next_change(cedrat_change_stream *stream, cedrat_change *change);

/* Waits until more of the log is durable, for about this time at most; *more is 1 then. cedrat_changes_next then looks whether a
 * transaction has committed: a thread that follows a store calls both in turn. It ends the present transaction.
 *
 * Errors: CEDRAT_STOPPED. */
cedrat_status cedrat_changes_wait(cedrat_change_stream *stream, uint64_t timeout_ms, int *more);

/* Writes the token of the present position to token, which has space for CEDRAT_TOKEN_SIZE bytes: all transactions up to the present one. A
 * program that keeps what it derives in the same store writes the token there, too, in the same transaction. */
cedrat_status cedrat_changes_token(cedrat_change_stream *stream, void *token);

/* Frees a stream. Null is allowed. */
void cedrat_changes_free(cedrat_change_stream *stream);

/* Opens the consumer of this name, and creates it if there is none: then it gets the transactions that commit from now on. The store keeps
 * the log for it, also across openings and crashes, up to limit_bytes (0: 256 MiB), which is fixed when it is created. It gets each transaction
 * at least once. The store cannot be closed while the handle lives.
 *
 * Errors: CEDRAT_LIMIT: a longer name than CEDRAT_CONSUMER_NAME_MAX, or too many consumers. CEDRAT_MISUSE: the store is volatile.
 * CEDRAT_READ_ONLY, CEDRAT_STOPPED, CEDRAT_IO. */
cedrat_status cedrat_consumer_open(cedrat_store *store, const char *name, uint64_t limit_bytes, cedrat_consumer **consumer);

/* Opens the stream of the transactions that have committed after the position of a consumer.
 *
 * Errors: CEDRAT_UNKNOWN: it was dropped. Those of cedrat_changes_after. */
cedrat_status cedrat_consumer_changes(cedrat_consumer *consumer, cedrat_change_stream **stream);

/* Writes the token that was confirmed last to token, which has space for CEDRAT_TOKEN_SIZE bytes.
 *
 * Errors: CEDRAT_UNKNOWN: the consumer was dropped. */
cedrat_status cedrat_consumer_token(cedrat_consumer *consumer, void *token);

/* Confirms, durably, all transactions up to a token: they are not delivered again, and the log is not kept for them. It writes to the disk once:
 * confirm many transactions together. An older token than the last one has no effect.
 *
 * Errors: CEDRAT_MISUSE: no token, or one of another store. CEDRAT_UNKNOWN: the consumer was dropped. CEDRAT_STOPPED, CEDRAT_IO: the position is
 * the old one or the new one. */
cedrat_status cedrat_consumer_confirm(cedrat_consumer *consumer, const void *token);

/* Moves a consumer to the present position, also if it has lost changes: it gets the transactions that commit from now on.
 *
 * Errors: CEDRAT_UNKNOWN: it was dropped. CEDRAT_STOPPED, CEDRAT_IO. */
cedrat_status cedrat_consumer_restart(cedrat_consumer *consumer);

/* Frees the handle of a consumer, which lives on in the store. Null is allowed. No other call with it may run. */
void cedrat_consumer_free(cedrat_consumer *consumer);

/* Returns the state of all consumers. consumers has space for capacity of them; *count receives their number. */
cedrat_status cedrat_consumer_list(cedrat_store *store, cedrat_consumer_status *consumers, size_t capacity, size_t *count);

/* Drops a consumer: the log is not kept for it any more.
 *
 * Errors: CEDRAT_UNKNOWN: there is none of this name. CEDRAT_STOPPED, CEDRAT_IO. */
cedrat_status cedrat_consumer_drop(cedrat_store *store, const char *name);

/* ---- logs alone ------------------------------------------------------------------------------------------------- */

/* Opens and recovers the log in a directory, or creates it. When it returns, the log has each entry that was forced and not
 * truncated. It may have later entries that were appended and not forced, but none without all entries before it; these are
 * durable then.
 *
 * options: null means all defaults. message: receives the text of an error, at most message_len bytes with the zero at the
 * end; may be null. A log can be open once at a time, in one process.
 *
 * Errors: CEDRAT_IN_USE, CEDRAT_UNKNOWN, CEDRAT_DAMAGED, CEDRAT_OPTIONS, CEDRAT_MISUSE (the directory has a store),
 * CEDRAT_IO. A failed opening does not change the log. */
cedrat_status cedrat_log_open(const char *directory, const cedrat_log_options *options, cedrat_log **log, char *message,
                              size_t message_len);

/* Makes all entries durable and closes the log.
 *
 * Errors: CEDRAT_MISUSE while a cursor lives or another call runs: the log stays open, and the handle valid. Any other
 * status invalidates the handle. CEDRAT_STOPPED: the log had stopped; the next opening shows which entries it kept. */
cedrat_status cedrat_log_close(cedrat_log *log);

/* Returns the message of the last failed call with this log or one of its cursors, in any thread: at most message_len bytes,
 * with a zero at the end. Empty before the first failure. */
cedrat_status cedrat_log_message(cedrat_log *log, char *message, size_t message_len);

/* Appends an entry of size bytes, at most 64 MiB; bytes may be null if size is 0. *lsn receives its LSN: later
 * entries have greater ones, not always the next. The entry is durable after a force of its LSN. The call does not wait for
 * durability; it may wait for space on the disk. A crash keeps an entry as a whole or not at all.
 *
 * Errors: CEDRAT_LOG_FULL: log_limit_bytes is reached, or the disk is full; truncate the log, and try again. CEDRAT_LIMIT:
 * the size. CEDRAT_STOPPED. After these, nothing is appended. */
cedrat_status cedrat_log_append(cedrat_log *log, const void *bytes, size_t size, uint64_t *lsn);

/* Returns when the entry with this LSN, and each before it, is durable; UINT64_MAX: each that was appended. Threads that
 * force together share a write.
 *
 * Errors: CEDRAT_STOPPED: a write failed, now or before. No more entries are appended or forced; the next opening
 * shows which entries were kept. */
cedrat_status cedrat_log_force(cedrat_log *log, uint64_t up_to);

/* Writes to *lsn the LSN up to which all entries are durable. It never decreases. */
cedrat_status cedrat_log_durable_lsn(cedrat_log *log, uint64_t *lsn);

/* Truncates the entries up to the one with this LSN, which an append or a cursor has returned: they are not read again, and
 * files without other entries are reused. When it returns, the truncation is durable.
 *
 * Errors: CEDRAT_STOPPED. */
cedrat_status cedrat_log_truncate(cedrat_log *log, uint64_t up_to);

/* Creates a cursor over the durable entries behind the one with the LSN after (0: over all). Truncated entries are skipped.
 * The log cannot be closed while the cursor lives.
 *
 * Errors: CEDRAT_DAMAGED with file and offset, CEDRAT_IO. */
cedrat_status cedrat_log_cursor_create(cedrat_log *log, uint64_t after, cedrat_log_cursor **cursor);

/* Moves to the next entry: *bytes receives its address, *size its size, *lsn its LSN. At the end they are null, 0 and 0. The
 * bytes are valid until the next call with the cursor.
 *
 * Errors: CEDRAT_DAMAGED with file and offset, CEDRAT_IO, CEDRAT_MISUSE (the entries were truncated meanwhile); the cursor
 * must then be freed. */
cedrat_status cedrat_log_cursor_next(cedrat_log_cursor *cursor, const void **bytes, size_t *size, uint64_t *lsn);

/* Frees a cursor. Null is allowed. */
void cedrat_log_cursor_free(cedrat_log_cursor *cursor);

#ifdef __cplusplus
}
#endif

#endif
