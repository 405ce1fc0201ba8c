/* cedrat.h: durable transactional memory.
 *
 * A store is a directory; its heaps are regions of memory whose words are read and written in transactions, its graphs
 * have objects that refer to each other, its collections have records. What was committed is found again after a crash,
 * all of it or nothing. docs/use/c.md tells how to begin; cedrat_stm.h turns this interface into the macros of a
 * word-based STM.
 *
 * Of every function holds, unless it says otherwise:
 *
 * - It returns a cedrat_status. Anything but CEDRAT_OK has done nothing; a result that was to be written is then zero
 *   or unchanged. The words for it are told by cedrat_error (calls with a thread descriptor), cedrat_txn_error (calls
 *   with a cedrat_txn), cedrat_message (calls with a store or heap alone, cedrat_graph_open, cedrat_records_open),
 *   cedrat_graph_message (calls with a graph, or with a collection of its objects), cedrat_log_message (calls with a log
 *   or cursor), or the buffer of cedrat_open and cedrat_log_open.
 * - A null pointer is CEDRAT_NULL, except where it is said to mean something.
 * - Calls with a store, a heap, a graph or a log may come from any thread at any time. A thread descriptor belongs to one thread
 *   at a time; it may be handed to another between transactions. A cursor, a collection or a cedrat_txn belongs to one
 *   thread at a time.
 * - It never jumps and never unwinds: neither longjmp nor a C++ exception nor a panic comes out of it, and it calls
 *   nothing of the program. It is not to be called from a signal handler, nor in the child of a fork (heaps are not
 *   mapped there).
 * - Sizes, lengths and offsets are in bytes. Names are UTF-8 that ends with a zero.
 */
#ifndef CEDRAT_H
#define CEDRAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. Numbers stay; new ones may join at the end. */
typedef enum cedrat_status {
  CEDRAT_OK = 0,
  /* Another transaction was quicker, and nothing is left of this one: begin again. */
  CEDRAT_ABORTED = 1,
  /* The address, or some of the bytes, lie in no heap of the store, or in the part that a heap keeps for itself. */
  CEDRAT_OUT_OF_RANGE = 2,
  /* The address of a word is not a multiple of 8; use the calls for bytes. */
  CEDRAT_MISALIGNED = 3,
  /* No allocated block begins there (it was freed before, or never allocated), or the bytes lie in a block that this
   * transaction has freed. */
  CEDRAT_NOT_ALLOCATED = 4,
  /* The heap has no room for the block: free blocks, or cedrat_heap_grow. */
  CEDRAT_HEAP_FULL = 5,
  /* A pointer is null. */
  CEDRAT_NULL = 6,
  /* The call makes no sense here: no transaction runs, or one does; a heap of another store; … */
  CEDRAT_MISUSE = 7,
  /* There is no store, heap or root of this name. */
  CEDRAT_UNKNOWN = 8,
  /* The name is taken. */
  CEDRAT_EXISTS = 9,
  /* An option makes no sense. */
  CEDRAT_OPTIONS = 10,
  /* A limit that is written down: threads, lengths, sizes. */
  CEDRAT_LIMIT = 11,
  /* The log has no room, or the disk; the transaction is aborted. Try again, or raise log_limit_bytes. */
  CEDRAT_LOG_FULL = 12,
  /* The store stopped, because the disk failed: nothing is acknowledged any more. Close it and open it again; only
   * that tells what was kept. */
  CEDRAT_STOPPED = 13,
  /* Bytes of a file make no sense; the message names file and offset. Restore it from a copy. */
  CEDRAT_DAMAGED = 14,
  /* Another process, or another part of this one, has the store open. */
  CEDRAT_IN_USE = 15,
  /* The operating system refused something; the message says what, and why. */
  CEDRAT_IO = 16,
  /* A mistake in the library. The transaction is aborted, the store stopped: close it and open it again. */
  CEDRAT_PANIC = 17,
  /* A transaction that is prepared holds what is needed, and was not told yet whether it commits (cedrat_in_doubt). Abort, and
   * try again when it was. */
  CEDRAT_IN_DOUBT = 18
} cedrat_status;

/* When cedrat_commit returns. */
typedef enum cedrat_commit_mode {
  /* When the commit, and all that the transaction read, is durable. */
  CEDRAT_SYNC = 0,
  /* At once; cedrat_is_stable tells when it is durable. A crash before loses the transaction as a whole, and only
   * together with all that are newer. */
  CEDRAT_ASYNC = 1,
  /* As CEDRAT_ASYNC, and nobody is asked to hurry. */
  CEDRAT_NO_FLUSH = 2,
  /* When its own partition of the log is durable. For transactions that are independent of those of other threads; one
   * that is not becomes CEDRAT_SYNC by itself. */
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

/* A collection of objects that nobody reaches, under way. From cedrat_graph_collect_begin to cedrat_graph_collect_free. */
typedef struct cedrat_graph_collection cedrat_graph_collection;

/* A transaction over records, heaps and a graph at once. From cedrat_txn_begin to cedrat_txn_free. */
typedef struct cedrat_txn cedrat_txn;

/* An open log alone, without a store around it. From cedrat_log_open to cedrat_log_close. */
typedef struct cedrat_log cedrat_log;

/* A place in a log from which it is read. From cedrat_log_cursor_create to cedrat_log_cursor_free. */
typedef struct cedrat_log_cursor cedrat_log_cursor;

/* Choices for a store. Begin with `cedrat_options options = {0};`: zero is the default of each. Those marked fixed are
 * made when the store is created, and ignored later. */
typedef struct cedrat_options {
  int must_exist;                  /* not 0: a missing store is CEDRAT_UNKNOWN, and not created */
  int no_background;               /* not 0: no threads of its own; then call cedrat_checkpoint before the log is full */
  int encounter_locking;           /* not 0: words are locked when they are first stored to, not at the commit */
  int no_huge_pages;               /* not 0: the system is not asked for huge pages */
  int check_blocks;                /* not 0: each load and store outside of an allocated block is CEDRAT_NOT_ALLOCATED; to
                                    * find mistakes: it is slower, and conflicts more often */
  int reserved_int;                /* zero */
  uint32_t partitions;             /* of the log; 1; fixed */
  uint32_t threads_max;            /* thread descriptors at a time; 1,024 */
  uint64_t log_limit_bytes;        /* the log's size on disk; 1 GiB */
  uint64_t segment_bytes;          /* the length of one of its files; fixed */
  uint64_t checkpoint_every_bytes; /* a checkpoint is taken when the log has grown by so much; 256 MiB */
  uint64_t page_pool_bytes;        /* memory for pages, which heaps do not use; 256 MiB */
  uint64_t reserved[8];            /* zero */
} cedrat_options;

/* Choices for a heap, made when it is created. Begin with `cedrat_heap_options options = {0};`. */
typedef struct cedrat_heap_options {
  uint64_t size;        /* its size; there is no default */
  uint64_t size_max;    /* what it may grow to: so much address space is set aside; eight times size, or size if raw */
  uint64_t address;     /* where it begins in memory, so that pointers in it survive a restart: a multiple of 2 MiB where
                         * nothing else is ever mapped, such as 0x500000000000; 0: anywhere, and not always the same */
  uint64_t chunk_bytes; /* a checkpoint copies so much at a time; a multiple of 4,096; 1 MiB */
  int raw;              /* not 0: no blocks and no roots; all of it is the program's to divide */
  int reserved_int;     /* zero */
  uint64_t reserved[4]; /* zero */
} cedrat_heap_options;

/* Choices for a graph. Begin with `cedrat_graph_options options = {0};`. */
typedef struct cedrat_graph_options {
  int must_exist;       /* not 0: a missing graph is CEDRAT_UNKNOWN, and not created */
  int reserved_int;     /* zero */
  uint64_t cache_bytes; /* memory for objects that were changed, all that one commit changes included; 64 MiB */
  uint64_t reserved[6]; /* zero */
} cedrat_graph_options;

/* What cedrat_graph_get_statistics tells, counted since the store was opened. */
typedef struct cedrat_graph_statistics {
  uint64_t classes;         /* classes defined, ever */
  uint64_t cache_hits;      /* records that were to be changed, and were in the cache */
  uint64_t cache_misses;    /* … and were read from their pages */
  uint64_t cache_evictions; /* records let go to make room */
  uint64_t cache_flushes;   /* records written to their pages */
  uint64_t cache_records;   /* records in the cache now */
  uint64_t cache_bytes;     /* memory that they take */
  uint64_t newest_lsn;      /* the newest record of the log */
  uint64_t stable_lsn;      /* everything up to here is durable */
  uint64_t reserved[7];
} cedrat_graph_statistics;

/* How far a collection is. */
typedef enum cedrat_graph_stage {
  /* Some of what is reached has not been looked at. */
  CEDRAT_GRAPH_MARKING = 0,
  /* All of it was looked at: cedrat_graph_collect_seal is next. */
  CEDRAT_GRAPH_MARKED = 1,
  /* What is not reached is being removed. */
  CEDRAT_GRAPH_SWEEPING = 2,
  /* All of it was removed. */
  CEDRAT_GRAPH_DONE = 3
} cedrat_graph_stage;

/* What a collection has done so far. */
typedef struct cedrat_graph_collected {
  uint64_t marked;     /* objects and pieces of objects that stay */
  uint64_t objects;    /* objects that were removed */
  uint64_t pieces;     /* pieces of objects that were removed */
  uint64_t mark_bytes; /* memory for marks: some 100 bytes for each page with objects, and at most 512 KiB */
  uint64_t reserved[4];
} cedrat_graph_collected;

/* Choices for a log alone. Begin with `cedrat_log_options options = {0};`: zero is the default of each. */
typedef struct cedrat_log_options {
  int must_exist;           /* not 0: a missing log is CEDRAT_UNKNOWN, and not created */
  int reserved_int;         /* zero */
  uint64_t log_limit_bytes; /* its size on disk, of which about three quarters hold entries; at least four segments; 1 GiB */
  uint64_t segment_bytes;   /* the length of one of its files, a multiple of 4,096; made when the log is created, and
                             * ignored later; 16 MiB */
  uint64_t reserved[5];     /* zero */
} cedrat_log_options;

/* The longest identifier of a prepared transaction: for one of XA, its format, the lengths of its two parts, and these. */
#define CEDRAT_BRANCH_ID_MAX 140

/* A transaction that is prepared, and was not told yet whether it commits. */
typedef struct cedrat_branch {
  size_t id_len;                          /* how long its identifier is */
  unsigned char id[CEDRAT_BRANCH_ID_MAX]; /* the identifier under which it prepared */
  uint32_t reserved;                      /* zero */
  uint64_t transaction;                   /* its number */
  uint64_t since_lsn;                     /* when it prepared */
} cedrat_branch;

/* What happened, counted since the store was opened. */
typedef struct cedrat_statistics {
  uint64_t conflicts;                   /* transactions that were aborted because another was quicker */
  uint64_t partition_commits_made_sync; /* CEDRAT_PARTITION commits that depended on others */
  uint64_t newest_lsn;                  /* of the log: a count of commits and other records */
  uint64_t stable_lsn;                  /* everything up to here is durable */
  uint64_t recovered_records;           /* records that the opening read */
  uint64_t recovered_words;             /* words that it wrote again behind the checkpoint */
  uint64_t recovery_nanoseconds;        /* time that it took */
  uint64_t created;                     /* 1 if the opening created the store */
  uint64_t checkpoint_failed;           /* 1 while the last checkpoint that was tried, by whomever, has failed: log is not given
                                         * up, and may become full; cedrat_get_checkpoint_failure says why */
  uint64_t reserved[7];
} cedrat_statistics;

/* How much of a heap is in use. */
typedef struct cedrat_usage {
  uint64_t blocks;        /* allocated blocks, those of roots included */
  uint64_t bytes;         /* their bytes, as they were asked for */
  uint64_t taken_bytes;   /* bytes that they take */
  uint64_t free_bytes;    /* bytes of ranges in which no block lies */
  uint64_t account_bytes; /* bytes of the account itself */
} cedrat_usage;

/* The library's version, such as "0.1.0". Lives for ever. */
const char *cedrat_version(void);

/* The name of a status, such as "CEDRAT_OK". Lives for ever. */
const char *cedrat_status_name(cedrat_status status);

/* ---- stores ----------------------------------------------------------------------------------------------------- */

/* Opens the store in a directory, which is recovering it; creates it if there is none. When it returns, exactly what
 * was committed is there.
 *
 * options: null means all defaults. message: gets the text of an error, at most message_len bytes with the zero at the
 * end; null if it is not wanted. One process has a store open at a time, once.
 *
 * Errors: CEDRAT_IN_USE, CEDRAT_UNKNOWN, CEDRAT_DAMAGED, CEDRAT_OPTIONS, CEDRAT_IO (also where a heap's fixed address is
 * taken by something else). A store that is refused is not changed. */
cedrat_status cedrat_open(const char *directory, const cedrat_options *options, cedrat_store **store, char *message,
                          size_t message_len);

/* Closes the store: what was committed asynchronously becomes durable, a checkpoint is taken. Plain blocks that no
 * checkpoint has made durable vanish. Heaps of the store, and addresses in them, are invalid afterwards.
 *
 * Errors: CEDRAT_MISUSE while thread descriptors, graphs, collections of their objects or transactions (cedrat_txn) live,
 * or another call runs: then the store stays open, and so does the handle. After anything else the handle is gone;
 * CEDRAT_STOPPED: the store had stopped. */
cedrat_status cedrat_close(cedrat_store *store);

/* Takes a checkpoint: what heaps hold is copied to the disk, and the log before is given up. Transactions go on. When it
 * returns, the plain blocks allocated before it are durable with what lies in them, and so are their roots (see
 * cedrat_plain_alloc); nobody may store to them plainly during the call, nor after it.
 *
 * Errors: CEDRAT_STOPPED; CEDRAT_MISUSE: another thread's transactions collided with plain blocks, which are gone. */
cedrat_status cedrat_checkpoint(cedrat_store *store);

/* Whether the commit with this LSN, and each before it, will be found after any crash: writes 1 or 0 to *stable. With
 * wait not 0, returns when it is so.
 *
 * Errors: CEDRAT_STOPPED: it was not durable when the store stopped, and never will be for sure. */
cedrat_status cedrat_is_stable(cedrat_store *store, uint64_t lsn, int wait, int *stable);

/* Counts. */
cedrat_status cedrat_get_statistics(cedrat_store *store, cedrat_statistics *statistics);

/* Why the last checkpoint that was tried has failed, of those too that are taken in the background: at most message_len bytes,
 * with a zero at the end. Empty if it has not. Until one succeeds the log is not given up, or not all of it. */
cedrat_status cedrat_get_checkpoint_failure(cedrat_store *store, char *message, size_t message_len);

/* The text of the last failure of a call with this store or one of its heaps, by any thread: at most message_len bytes,
 * with a zero at the end. Empty before the first failure. */
cedrat_status cedrat_message(cedrat_store *store, char *message, size_t message_len);

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

/* Creates a heap, all zero. When it returns it is durable that there is one.
 *
 * Errors: CEDRAT_EXISTS, CEDRAT_OPTIONS, CEDRAT_IO (no memory, no room on the disk, or the address is taken),
 * CEDRAT_STOPPED. */
cedrat_status cedrat_heap_create(cedrat_store *store, const char *name, const cedrat_heap_options *options,
                                 cedrat_heap **heap);

/* The heap of this name; always the same handle.
 *
 * Errors: CEDRAT_UNKNOWN. */
cedrat_status cedrat_heap_open(cedrat_store *store, const char *name, cedrat_heap **heap);

/* Removes a heap for good. Transactions that store to it fail from now on; its memory stays mapped until the store is
 * closed.
 *
 * Errors: CEDRAT_UNKNOWN, CEDRAT_STOPPED, CEDRAT_MISUSE while there are plain blocks. */
cedrat_status cedrat_heap_drop(cedrat_store *store, const char *name);

/* Makes a heap larger, to at most its size_max. When it returns it is durable.
 *
 * Errors: CEDRAT_LIMIT, CEDRAT_IO, CEDRAT_STOPPED. */
cedrat_status cedrat_heap_grow(cedrat_heap *heap, uint64_t size);

/* Where the heap begins in memory; null for a null heap. */
void *cedrat_heap_address(const cedrat_heap *heap);

/* Its size; 0 for a null heap. */
uint64_t cedrat_heap_size(const cedrat_heap *heap);

/* The first offset that programs may use: 0 in a raw heap, behind the account of blocks in others. */
uint64_t cedrat_heap_first_offset(const cedrat_heap *heap);

/* Walks over all blocks and judges the account; tells how much is in use. Exact while nothing is allocated or freed.
 *
 * Errors: CEDRAT_DAMAGED with the place; CEDRAT_MISUSE for a raw heap. */
cedrat_status cedrat_heap_verify(cedrat_heap *heap, cedrat_usage *usage);

/* ---- before the threads start ----------------------------------------------------------------------------------- */

/* Allocates a block outside of any transaction, for a program's first data. It is filled with plain stores, by any
 * threads, as long as no transaction runs; then cedrat_checkpoint makes all such blocks and their roots durable at once.
 * A crash before that has returned leaves none of them, or all. What lies in the block at first is undefined.
 *
 * Blocks are freed, like any others, in transactions after the checkpoint.
 *
 * Errors: CEDRAT_HEAP_FULL, CEDRAT_LIMIT, CEDRAT_STOPPED, CEDRAT_MISUSE (a raw heap; or a transaction collided, and all
 * plain blocks since the last checkpoint are gone). */
cedrat_status cedrat_plain_alloc(cedrat_heap *heap, size_t size, void **block);

/* Names a plain block, together with which it becomes durable; replaces a root of the same name.
 *
 * Errors: CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE, and those of cedrat_plain_alloc. */
cedrat_status cedrat_plain_set_root(cedrat_heap *heap, const char *name, const void *block);

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* Makes a thread descriptor. Descriptors are numbered round the log's partitions: the first few have each their own.
 *
 * Errors: CEDRAT_LIMIT. */
cedrat_status cedrat_thread_create(cedrat_store *store, cedrat_thread **thread);

/* Frees a thread descriptor, from any thread. A transaction that runs is aborted. Null is allowed. */
void cedrat_thread_free(cedrat_thread *thread);

/* The text of the last failure of a call with this descriptor; valid until the next call with it. Empty before the
 * first. */
const char *cedrat_error(cedrat_thread *thread);

/* ---- transactions ----------------------------------------------------------------------------------------------- */

/* Begins a transaction. All its loads see one state of all heaps: that of now, or a later one. After CEDRAT_ABORTED and
 * cedrat_restart it waits a little at first, longer each time.
 *
 * A transaction whose thread ends, or whose process does, is aborted.
 *
 * Errors: CEDRAT_MISUSE if one runs with this descriptor; CEDRAT_STOPPED. */
cedrat_status cedrat_begin(cedrat_thread *thread);

/* Commits. lsn: gets the LSN that cedrat_is_stable is asked with; null if it is not wanted. Whatever it returns, the
 * transaction has ended, except CEDRAT_MISUSE for a mode that does not exist.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_LOG_FULL: nothing is left of it. CEDRAT_STOPPED: only reopening the store tells.
 * CEDRAT_UNKNOWN: a heap was dropped. CEDRAT_MISUSE: none runs. */
cedrat_status cedrat_commit(cedrat_thread *thread, cedrat_commit_mode mode, uint64_t *lsn);

/* Aborts the transaction, if one runs: nothing is left of it. */
cedrat_status cedrat_abort(cedrat_thread *thread);

/* Aborts, to begin again. Returns CEDRAT_ABORTED, as a conflict does. */
cedrat_status cedrat_restart(cedrat_thread *thread);

/* Whether a transaction runs; 0 for a null descriptor. */
int cedrat_is_running(const cedrat_thread *thread);

/* ---- transactions in two phases --------------------------------------------------------------------------------- */

/* Prepares: when this returns, all that the transaction has done and read is durable, and it can be committed as well as
 * rolled back, after any crash too. The descriptor is free for another; the transaction is in doubt, and keeps what it has
 * written from all others, until the store is told its outcome. Loads and stores that meet it are CEDRAT_IN_DOUBT.
 *
 * id: how it is found again, 1 to CEDRAT_BRANCH_ID_MAX bytes. read_only: gets 1 if it has changed nothing, and so has ended;
 * null if it is not wanted.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_LOG_FULL, CEDRAT_EXISTS (another one is prepared under this identifier), CEDRAT_LIMIT (a
 * longer identifier, or too many transactions at a time), CEDRAT_MISUSE (an empty one; none runs). Nothing is left of it.
 * CEDRAT_STOPPED: only reopening the store tells whether it is prepared. */
cedrat_status cedrat_prepare(cedrat_thread *thread, const void *id, size_t len, int *read_only);

/* Commits a prepared transaction. After any mode but CEDRAT_SYNC a crash may lose the outcome, never the transaction: it is
 * in doubt again.
 *
 * Errors: CEDRAT_UNKNOWN: there is none of this identifier. CEDRAT_IN_USE: another call is ending it. CEDRAT_MISUSE for
 * CEDRAT_PARTITION. CEDRAT_STOPPED: only reopening the store tells. */
cedrat_status cedrat_commit_prepared(cedrat_store *store, const void *id, size_t len, cedrat_commit_mode mode);

/* Rolls a prepared transaction back: nothing of it remains, and that is durable.
 *
 * Errors: as cedrat_commit_prepared. */
cedrat_status cedrat_rollback_prepared(cedrat_store *store, const void *id, size_t len);

/* All transactions that are prepared and were not told their outcome, the oldest first: also those of earlier openings.
 * branches has room for capacity of them; *count gets how many there are. */
cedrat_status cedrat_in_doubt(cedrat_store *store, cedrat_branch *branches, size_t capacity, size_t *count);

/* ---- words and blocks in transactions --------------------------------------------------------------------------- */

/* Of the following calls holds: after CEDRAT_ABORTED the transaction has ended, and nothing is left of it. After any
 * other error it runs on, as if the call had not been. CEDRAT_MISUSE if none runs. */

/* Loads the 8 bytes at an address, in the machine's own order.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_OUT_OF_RANGE, CEDRAT_MISALIGNED, CEDRAT_NOT_ALLOCATED. */
cedrat_status cedrat_load_word(cedrat_thread *thread, const void *address, uint64_t *value);

/* Stores 8 bytes at an address. The program's memory changes at the commit, and this transaction's loads see it now.
 *
 * Errors: as cedrat_load_word. */
cedrat_status cedrat_store_word(cedrat_thread *thread, void *address, uint64_t value);

/* Loads bytes of any place and length. After an error what lies in bytes is undefined.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_OUT_OF_RANGE, CEDRAT_NOT_ALLOCATED. */
cedrat_status cedrat_load_bytes(cedrat_thread *thread, const void *address, void *bytes, size_t len);

/* Stores bytes of any place and length.
 *
 * Errors: as cedrat_load_bytes. */
cedrat_status cedrat_store_bytes(cedrat_thread *thread, void *address, const void *bytes, size_t len);

/* Allocates a block; its address is a multiple of 16. Until the transaction ends, the program may fill it with plain
 * stores, and read it so: it is logged whole when the transaction commits. What lies in it at first is undefined. Where
 * a word of it is stored to both plainly and by cedrat_store_word, the latter counts, whichever came first.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_HEAP_FULL, CEDRAT_MISUSE (a raw heap, or one of another store). */
cedrat_status cedrat_malloc(cedrat_thread *thread, cedrat_heap *heap, size_t size, void **block);

/* Frees a block, when the transaction commits; it is used again when no transaction can know it any more. Within this
 * transaction each use of it is an error from now on. Transactions that began before the commit and come to it are
 * aborted.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_free(cedrat_thread *thread, void *block);

/* The size of the allocated block that begins at an address, as it was asked for.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_block_size(cedrat_thread *thread, const void *block, size_t *size);

/* The block that a root names; null where there is no such root.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_MISUSE (a raw heap). */
cedrat_status cedrat_get_root(cedrat_thread *thread, cedrat_heap *heap, const char *name, void **block);

/* Names a block, so that it is found when the store is opened again; replaces a root of the same name. A null block
 * removes the root; the block that it named stays.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE, CEDRAT_HEAP_FULL, CEDRAT_UNKNOWN (nothing to
 * remove), CEDRAT_LIMIT (a name of more than 1,024 bytes). */
cedrat_status cedrat_set_root(cedrat_thread *thread, cedrat_heap *heap, const char *name, const void *block);

/* ---- graphs of objects ------------------------------------------------------------------------------------------ */

/* Objects that refer to each other (docs/use/graph.md). What lies in buffers, docs/formats/graph.md draws; all numbers in
 * them are little-endian. An object is known by its identity, a number below 2^56 and never 0. */

/* Opens the graph of this name; creates it if there is none. options: null means all defaults; while the store is open,
 * all handles of a graph have those of the first.
 *
 * Errors: CEDRAT_UNKNOWN, CEDRAT_OPTIONS, CEDRAT_MISUSE (other options; the name stands for something else),
 * CEDRAT_LOG_FULL, CEDRAT_DAMAGED, CEDRAT_IO, CEDRAT_STOPPED; told by cedrat_message. */
cedrat_status cedrat_graph_open(cedrat_store *store, const char *name, const cedrat_graph_options *options,
                                cedrat_graph **graph);

/* Gives the handle back, when no other call uses it any more. The store cannot be closed before. Null is allowed. */
void cedrat_graph_close(cedrat_graph *graph);

/* The text of the last failure of a call with this handle, by any thread: at most message_len bytes, with a zero at the
 * end. Empty before the first failure. */
cedrat_status cedrat_graph_message(cedrat_graph *graph, char *message, size_t message_len);

/* Keeps the definition of a class: bytes that mean nothing to the graph, at most 16 MiB. *class_number gets its number:
 * from 1 up, without gaps. It is durable no later than any commit that comes after it.
 *
 * Errors: CEDRAT_LIMIT, CEDRAT_LOG_FULL, CEDRAT_STOPPED. */
cedrat_status cedrat_graph_define_class(cedrat_graph *graph, const void *definition, size_t size,
                                        uint32_t *class_number);

/* The definition of a class. *size gets its size, also where there is no room for it: CEDRAT_LIMIT.
 *
 * Errors: CEDRAT_UNKNOWN: there is none of this number, nor of a greater one. */
cedrat_status cedrat_graph_get_class(cedrat_graph *graph, uint32_t class_number, void *definition, size_t capacity,
                                     size_t *size);

/* What a root leads to: *reference gets the word, 0 where there is no such root. It waits for a commit that is just
 * changing it.
 *
 * Errors: CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_get_root(cedrat_graph *graph, const char *name, uint64_t *reference);

/* All roots in the order of their names, as a buffer of changes has them. *size gets its size, also where there is no
 * room for it: CEDRAT_LIMIT.
 *
 * Errors: CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_get_roots(cedrat_graph *graph, void *roots, size_t capacity, size_t *size);

/* Reads an object as it was committed last: whole, without waiting for anybody, right beside commits; it may not be
 * durable yet. *size gets its size, also where there is no room for it: CEDRAT_LIMIT.
 *
 * Errors: CEDRAT_UNKNOWN: there is no such object. CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_read(cedrat_graph *graph, uint64_t object, void *buffer, size_t capacity, size_t *size);

/* Reads several objects, each as cedrat_graph_read does, one behind the other: number i lies from offsets[i] to
 * offsets[i + 1], where there is nothing if there is no such object. offsets has room for count + 1. *read gets how many
 * there was room for; offsets[*read + 1], if it is not behind all, tells how much the next one would have taken.
 *
 * Errors: CEDRAT_LIMIT: not even the first one fits. CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_read_many(cedrat_graph *graph, const uint64_t *objects, size_t count, void *buffer,
                                     size_t capacity, size_t *offsets, size_t *read);

/* Makes all changes in a buffer, or none. identities gets those of the new objects in their order; capacity is how many
 * there is room for. lsn: gets the LSN that cedrat_is_stable is asked with; null if it is not wanted. mode: CEDRAT_SYNC or
 * CEDRAT_ASYNC. Any bytes are refused or made; but whether there is an object where a reference leads is not looked at.
 *
 * Each root that is set leads to an object, or this is refused. Whether references within objects do is not asked, beyond
 * their form: a program refers to objects that it has made or read, and has named as alive to each collection since;
 * cedrat verify tells of others.
 *
 * Errors: CEDRAT_UNKNOWN: an object to be changed, or that of a root, is not there. CEDRAT_MISUSE: changes that make no
 * sense. CEDRAT_LIMIT: more new objects than capacity, or more changed bytes than cache_bytes. CEDRAT_IN_DOUBT: a prepared
 * transaction has changed the same object or root; the message names it. CEDRAT_LOG_FULL, CEDRAT_ABORTED, CEDRAT_DAMAGED,
 * CEDRAT_IO. Nothing has happened then, and the message names the entry. CEDRAT_STOPPED: only reopening the store tells. */
cedrat_status cedrat_graph_commit(cedrat_graph *graph, const void *changes, size_t size, cedrat_commit_mode mode,
                                  uint64_t *identities, size_t capacity, uint64_t *lsn);

/* Prepares all changes in a buffer, or none, as a branch of a transaction that spans several stores: as cedrat_graph_commit and
 * cedrat_prepare. cedrat_commit_prepared and cedrat_rollback_prepared end it; until then nobody sees what it has changed, and
 * commits that would change the same are CEDRAT_IN_DOUBT, with its identifier in the message. read_only: gets 1 if there was
 * nothing to change, and so nothing is prepared; null if it is not wanted.
 *
 * Errors: as cedrat_graph_commit; CEDRAT_EXISTS: another one is prepared under this identifier; CEDRAT_LIMIT, CEDRAT_MISUSE: a
 * longer identifier than CEDRAT_BRANCH_ID_MAX, or an empty one. */
cedrat_status cedrat_graph_prepare(cedrat_graph *graph, const void *changes, size_t size, const void *id, size_t id_len,
                                   uint64_t *identities, size_t capacity, int *read_only);

/* What a branch in doubt changes, also one of an earlier opening, in the form of changes: for each object that was there
 * before a patch at 0 of no bytes, for each root its name and the word 0. *size gets how many bytes that takes.
 *
 * Errors: CEDRAT_UNKNOWN: no branch of the graph is in doubt under this identifier. CEDRAT_LIMIT: it takes more than capacity;
 * call again with more. */
cedrat_status cedrat_graph_get_branch(cedrat_graph *graph, const void *id, size_t id_len, void *changed, size_t capacity,
                                      size_t *size);

/* Counts. */
cedrat_status cedrat_graph_get_statistics(cedrat_graph *graph, cedrat_graph_statistics *statistics);

/* Begins to collect objects that nobody reaches: neither a root, nor one of alive, count objects that the program holds
 * otherwise; zeros among them are passed over. What is reached now stays, and so does what comes from now on. It waits
 * for commits under way; then commits and reads go on. One collection of a graph runs at a time. After one that was given
 * up while it was sweeping, it goes on with that: the first step says CEDRAT_GRAPH_SWEEPING, or CEDRAT_GRAPH_DONE.
 *
 * Errors: CEDRAT_MISUSE while another one lives; CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_collect_begin(cedrat_graph *graph, const uint64_t *alive, size_t count,
                                         cedrat_graph_collection **collection);

/* Goes on: looks at so many objects at most, or removes so many records; with a budget of 0 it never gets on. *stage gets
 * how far it is then. Where that is CEDRAT_GRAPH_MARKED, it waits for cedrat_graph_collect_seal.
 *
 * Errors: CEDRAT_ABORTED: a commit was quicker. CEDRAT_LIMIT: cache_bytes. CEDRAT_LOG_FULL, CEDRAT_DAMAGED, CEDRAT_IO,
 * CEDRAT_STOPPED. It may be called again. */
cedrat_status cedrat_graph_collect_step(cedrat_graph_collection *collection, size_t budget, cedrat_graph_stage *stage);

/* Turns from marking to sweeping. alive: what the program holds now beside what roots reach, what it has found since the
 * beginning among it. From then on what is not marked is gone: it is neither read nor referred to. *stage gets
 * CEDRAT_GRAPH_SWEEPING, or CEDRAT_GRAPH_MARKING where something has come up: then step until it is marked, and seal
 * again.
 *
 * Errors: CEDRAT_MISUSE unless its stage is CEDRAT_GRAPH_MARKED; CEDRAT_DAMAGED, CEDRAT_IO. */
cedrat_status cedrat_graph_collect_seal(cedrat_graph_collection *collection, const uint64_t *alive, size_t count,
                                        cedrat_graph_stage *stage);

/* What it has done so far. */
cedrat_status cedrat_graph_collect_get(cedrat_graph_collection *collection, cedrat_graph_collected *collected);

/* Frees a collection; one that is not done is given up. What it has removed stays so; what it was about to remove, once it
 * sweeps, is gone as long as the graph is open, and the next collection goes on with it. Null is allowed. */
void cedrat_graph_collect_free(cedrat_graph_collection *collection);

/* ---- transactions over several faces ------------------------------------------------------------------------------ */

/* A transaction that may change records in pages, words of heaps, and at its commit the objects of a graph: one commit
 * record decides all of it. Records are isolated by locks on their pages; heaps as in transactions of their own. A handle is
 * used by one thread at a time, and may be handed to another: so it lives until it is freed, also if its thread ends. Of
 * transactions that wait for each other one is CEDRAT_ABORTED; but one that waits for another of the same thread waits for
 * ever, for that thread cannot end it.
 *
 * Of the calls below holds: after CEDRAT_ABORTED (a deadlock, or another transaction was quicker with a word) free the
 * transaction, and do it again; after CEDRAT_LOG_FULL it may have been rolled back, and says so when it is used. After any
 * other error it goes on, as if the call had not been. CEDRAT_IN_DOUBT: a transaction that is in doubt has it. */

/* Begins. The store cannot be closed before the transaction was freed.
 *
 * Errors: CEDRAT_NULL; told by cedrat_message. */
cedrat_status cedrat_txn_begin(cedrat_store *store, cedrat_txn **txn);

/* Frees the handle. What was not committed is rolled back. Null is allowed. */
void cedrat_txn_free(cedrat_txn *txn);

/* The text of the last failure of a call with this transaction; valid until the next call with it. Empty before the
 * first. */
const char *cedrat_txn_error(const cedrat_txn *txn);

/* Marks a place that cedrat_txn_rollback_to returns to; *savepoint gets its number, counted from 0. */
cedrat_status cedrat_txn_savepoint(cedrat_txn *txn, uint64_t *savepoint);

/* Takes back what was done since a savepoint, which stays; those after it are gone. Locks stay.
 *
 * Errors: CEDRAT_MISUSE: there is none of this number. */
cedrat_status cedrat_txn_rollback_to(cedrat_txn *txn, uint64_t savepoint);

/* Commits, with the changes of a graph's objects as cedrat_graph_commit takes them. graph: null if none are changed; then
 * changes is not looked at, and size is 0. Whatever this returns, the transaction has ended, and is to be freed.
 *
 * mode: CEDRAT_SYNC or CEDRAT_ASYNC, with a graph and without. lsn: gets the LSN that cedrat_is_stable is asked with; null
 * if it is not wanted.
 *
 * Errors: those of cedrat_graph_commit; CEDRAT_MISUSE: another mode; CEDRAT_UNKNOWN also for a heap that was dropped meanwhile,
 * which no call before has told. Of none but CEDRAT_STOPPED anything is left. */
cedrat_status cedrat_txn_commit(cedrat_txn *txn, cedrat_graph *graph, const void *changes, size_t size,
                                cedrat_commit_mode mode, uint64_t *identities, size_t capacity, uint64_t *lsn);

/* Loads the word at an offset of a heap, in bytes and a multiple of 8; or stores it.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_OUT_OF_RANGE, CEDRAT_MISALIGNED, CEDRAT_NOT_ALLOCATED, CEDRAT_IN_DOUBT. That the heap was
 * dropped is told by the commit. */
cedrat_status cedrat_txn_load_word(cedrat_txn *txn, cedrat_heap *heap, uint64_t offset, uint64_t *value);
cedrat_status cedrat_txn_store_word(cedrat_txn *txn, cedrat_heap *heap, uint64_t offset, uint64_t value);

/* Allocates a block of a heap, of zeros; *block gets its offset, never 0. Each word of it is logged.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_HEAP_FULL, CEDRAT_MISUSE (a raw heap). */
cedrat_status cedrat_txn_allocate(cedrat_txn *txn, cedrat_heap *heap, uint64_t size, uint64_t *block);

/* Frees a block, when the transaction commits.
 *
 * Errors: CEDRAT_ABORTED, CEDRAT_NOT_ALLOCATED, CEDRAT_OUT_OF_RANGE. */
cedrat_status cedrat_txn_release(cedrat_txn *txn, cedrat_heap *heap, uint64_t block);

/* The offset of the block that a root names; 0 where there is no such root. */
cedrat_status cedrat_txn_get_root(cedrat_txn *txn, cedrat_heap *heap, const char *name, uint64_t *block);

/* Names a block, or removes the name where block is 0.
 *
 * Errors: as cedrat_set_root. */
cedrat_status cedrat_txn_set_root(cedrat_txn *txn, cedrat_heap *heap, const char *name, uint64_t block);

/* Opens the collection of records of this name, in a transaction of its own; makes it if there is none. *records gets its
 * number, which stays.
 *
 * Errors: CEDRAT_MISUSE (the name stands for something else); told by cedrat_message. */
cedrat_status cedrat_records_open(cedrat_store *store, const char *name, uint64_t *records);

/* Adds a record, at most 3,800 bytes; *place gets the number by which it is found in this collection, as long as it lives.
 *
 * Errors: CEDRAT_LIMIT (longer), CEDRAT_ABORTED, CEDRAT_LOG_FULL, CEDRAT_UNKNOWN: of these calls, no such collection. */
cedrat_status cedrat_records_insert(cedrat_txn *txn, uint64_t records, const void *record, size_t size, uint64_t *place);

/* Reads a record. *size gets its length.
 *
 * Errors: CEDRAT_LIMIT: the buffer has too little room, and *size says how much it takes. CEDRAT_UNKNOWN: there is no such
 * record. CEDRAT_ABORTED. */
cedrat_status cedrat_records_read(cedrat_txn *txn, uint64_t records, uint64_t place, void *buffer, size_t capacity,
                                  size_t *size);

/* Gives a record other bytes; a longer one needs room in its page.
 *
 * Errors: CEDRAT_UNKNOWN: there is no such record. CEDRAT_MISUSE: its page has no room for it: delete it, and insert it
 * anew. CEDRAT_LIMIT, CEDRAT_ABORTED, CEDRAT_LOG_FULL. */
cedrat_status cedrat_records_update(cedrat_txn *txn, uint64_t records, uint64_t place, const void *record, size_t size);

/* Deletes a record.
 *
 * Errors: CEDRAT_UNKNOWN: there is no such record. CEDRAT_ABORTED, CEDRAT_LOG_FULL. */
cedrat_status cedrat_records_delete(cedrat_txn *txn, uint64_t records, uint64_t place);

/* The places of all records. places has room for capacity of them; *count gets how many there are.
 *
 * Errors: CEDRAT_LIMIT: there are more. CEDRAT_ABORTED. */
cedrat_status cedrat_records_list(cedrat_txn *txn, uint64_t records, uint64_t *places, size_t capacity, size_t *count);

/* ---- logs alone ------------------------------------------------------------------------------------------------- */

/* Opens the log in a directory, which is recovering it; creates it if there is none. When it returns, each entry that
 * was ever forced, and not given up, is there; entries that were appended and not forced are there or not, but none
 * without all that were appended before it. What is there then stays.
 *
 * options: null means all defaults. message: gets the text of an error, at most message_len bytes with the zero at the
 * end; null if it is not wanted. One process has a log open at a time, once.
 *
 * Errors: CEDRAT_IN_USE, CEDRAT_UNKNOWN, CEDRAT_DAMAGED, CEDRAT_OPTIONS, CEDRAT_MISUSE (a store lies in the directory),
 * CEDRAT_IO. A log that is refused is not changed. */
cedrat_status cedrat_log_open(const char *directory, const cedrat_log_options *options, cedrat_log **log, char *message,
                              size_t message_len);

/* Closes the log; what was appended is durable then.
 *
 * Errors: CEDRAT_MISUSE while a cursor lives or another call runs: then the log stays open, and so does the handle.
 * After anything else the handle is gone; CEDRAT_STOPPED: the log had stopped, and only opening it tells what was kept. */
cedrat_status cedrat_log_close(cedrat_log *log);

/* The text of the last failure of a call with this log or one of its cursors, by any thread: at most message_len bytes,
 * with a zero at the end. Empty before the first failure. */
cedrat_status cedrat_log_message(cedrat_log *log, char *message, size_t message_len);

/* Appends an entry of size bytes, at most 64 MiB; bytes may be null if size is 0. *lsn gets its LSN: later entries have
 * greater ones, not always the next. It is durable when that was forced; it does not wait for that, only, at times, for
 * room to be made on the disk. An entry is kept whole or not at all.
 *
 * Errors: CEDRAT_LOG_FULL: log_limit_bytes, or the disk; truncate it, and try again. CEDRAT_LIMIT: the size.
 * CEDRAT_STOPPED. Nothing was appended then. */
cedrat_status cedrat_log_append(cedrat_log *log, const void *bytes, size_t size, uint64_t *lsn);

/* Returns when the entry with this LSN, and each before it, is durable; UINT64_MAX: each that was appended. Threads that
 * force together share a write.
 *
 * Errors: CEDRAT_STOPPED: a write failed, now or before. Nothing is appended or forced any more; only opening the log
 * again tells what was kept. */
cedrat_status cedrat_log_force(cedrat_log *log, uint64_t up_to);

/* Writes to *lsn up to which LSN all entries are durable. It never gets smaller. */
cedrat_status cedrat_log_durable_lsn(cedrat_log *log, uint64_t *lsn);

/* Gives up the entries up to the one with this LSN, which is one that an append or a cursor has given: they are not read
 * again, and files in which nothing else lies are used again for new entries. When it returns this is durable.
 *
 * Errors: CEDRAT_STOPPED. */
cedrat_status cedrat_log_truncate(cedrat_log *log, uint64_t up_to);

/* Makes a cursor over the entries behind the one with the LSN after (0: over all) that are durable now. Those that were
 * given up are passed over. The log cannot be closed while it lives.
 *
 * Errors: CEDRAT_DAMAGED with file and offset, CEDRAT_IO. */
cedrat_status cedrat_log_cursor_create(cedrat_log *log, uint64_t after, cedrat_log_cursor **cursor);

/* Goes on to the next entry: *bytes gets its address, *size its size, *lsn its LSN. At the end they are null, 0 and 0. The
 * bytes are there until the next call with the cursor.
 *
 * Errors: CEDRAT_DAMAGED with file and offset, CEDRAT_IO, CEDRAT_MISUSE (the entries were given up meanwhile); the cursor
 * is of no use then. */
cedrat_status cedrat_log_cursor_next(cedrat_log_cursor *cursor, const void **bytes, size_t *size, uint64_t *lsn);

/* Frees a cursor. Null is allowed. */
void cedrat_log_cursor_free(cedrat_log_cursor *cursor);

#ifdef __cplusplus
}
#endif

#endif
