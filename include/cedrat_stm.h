/* cedrat_stm.h: cedrat.h as the macros of a word-based STM.
 *
 *     STM_THREAD self;
 *     STM_THREAD_INIT(&self, store);
 *     STM_BEGIN(&self);                          // comes back to here after a conflict
 *     STM_STORE(&self, &account->balance, STM_LOAD(&self, &account->balance) + 1);
 *     STM_COMMIT(&self);
 *     STM_THREAD_FREE(&self);
 *
 * STM_BEGIN calls sigsetjmp in the function where it stands, and the others jump back to there: from C code of this file,
 * compiled with the program, and across no frame but the program's own. So
 *
 * - the function with STM_BEGIN must not return before the transaction has ended;
 * - its local variables that are changed between STM_BEGIN and STM_COMMIT, and looked at after a restart or behind the
 *   transaction, have to be `volatile`; better, what happens in a transaction is a function of its own, called between
 *   the two, whose locals begin anew each time;
 * - what is done in a transaction to anything but heaps is done again in each attempt;
 * - in C++, no object with a destructor may live in a frame that is jumped over.
 *
 * An error other than a conflict (a bad address, a full heap, a stopped store) is given to STM_ERROR, which a program may
 * define before it includes this file. It must not return. By default it prints the error and calls abort().
 *
 * Transactions may be nested: an inner one is a part of the outer one. All words have 8 bytes; STM_LOAD gives a uint64_t.
 */
#ifndef CEDRAT_STM_H
#define CEDRAT_STM_H

#if !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE) && !defined(_XOPEN_SOURCE)
/* For sigsetjmp under -std=c99; too late if setjmp.h was included before without. */
#define _POSIX_C_SOURCE 200809L
#endif

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cedrat.h"

#ifndef sigsetjmp
#error "cedrat_stm.h needs sigsetjmp: define _POSIX_C_SOURCE as 200809L before the first #include"
#endif

/* A thread descriptor, and where to jump back to. */
typedef struct cedrat_stm {
  cedrat_thread *thread;
  cedrat_commit_mode mode; /* of its commits: CEDRAT_SYNC at first */
  uint64_t lsn;            /* of its last commit */
  unsigned depth;          /* transactions that have begun and not ended */
  cedrat_view *view;       /* for loads and stores without a call */
  cedrat_view no_view;     /* of a library that has none of this version: it shows nothing */
  sigjmp_buf back;
} cedrat_stm;

#define STM_THREAD cedrat_stm

/* What to do about a status that is neither CEDRAT_OK nor CEDRAT_ABORTED. */
#ifndef STM_ERROR
#define STM_ERROR(stm, status)                                                                  \
  do {                                                                                          \
    fprintf(stderr, "cedrat: %s: %s\n", cedrat_status_name(status), cedrat_error((stm)->thread)); \
    abort();                                                                                    \
  } while (0)
#endif

/* Kept out of the functions that call it. */
#ifdef __GNUC__
#define CEDRAT_STM_COLD __attribute__((__noinline__, __unused__))
#else
#define CEDRAT_STM_COLD inline
#endif

/* A thread's descriptor is made, and freed. STM_COMMIT returns when the mode says. */
#define STM_THREAD_INIT(stm, store) cedrat_stm_init((stm), (store))
#define STM_THREAD_FREE(stm) cedrat_stm_free(stm)
#define STM_MODE(stm, commit_mode) ((void)((stm)->mode = (commit_mode)))

/* A transaction begins, commits, or begins again. STM_LSN: the LSN of the last commit, for cedrat_is_stable. */
#define STM_BEGIN(stm)                    \
  do {                                    \
    if ((stm)->depth == 0) {              \
      (void)sigsetjmp((stm)->back, 0);    \
    }                                     \
    cedrat_stm_begin(stm);                \
  } while (0)
#define STM_COMMIT(stm) cedrat_stm_commit(stm)
#define STM_RESTART(stm) cedrat_stm_judge((stm), cedrat_restart((stm)->thread))
#define STM_LSN(stm) ((stm)->lsn)

/* Nothing is left of the transaction, inner and outer, and it is not run again: go on behind STM_COMMIT. */
#define STM_CANCEL(stm) cedrat_stm_cancel(stm)

/* Words. */
#define STM_LOAD(stm, address) cedrat_stm_load((stm), (address))
#define STM_STORE(stm, address, value) cedrat_stm_store((stm), (address), (uint64_t)(value))
#define STM_LOAD_PTR(stm, address) ((void *)(uintptr_t)cedrat_stm_load((stm), (address)))
#define STM_STORE_PTR(stm, address, pointer) cedrat_stm_store((stm), (address), (uint64_t)(uintptr_t)(pointer))

/* Blocks. What STM_MALLOC gives may be filled with plain stores until STM_COMMIT. */
#define STM_MALLOC(stm, heap, size) cedrat_stm_malloc((stm), (heap), (size))
#define STM_FREE(stm, block) cedrat_stm_judge((stm), cedrat_free((stm)->thread, (block)))

/* Roots. */
#define STM_GET_ROOT(stm, heap, name) cedrat_stm_get_root((stm), (heap), (name))
#define STM_SET_ROOT(stm, heap, name, block) \
  cedrat_stm_judge((stm), cedrat_set_root((stm)->thread, (heap), (name), (block)))

static inline void cedrat_stm_judge(cedrat_stm *stm, cedrat_status status) {
  if (status == CEDRAT_OK) {
    return;
  }
  if (status == CEDRAT_ABORTED) {
    stm->depth = 0;
    siglongjmp(stm->back, 1);
  }
  STM_ERROR(stm, status);
}

static inline void cedrat_stm_init(cedrat_stm *stm, cedrat_store *store) {
  stm->thread = NULL;
  stm->mode = CEDRAT_SYNC;
  stm->lsn = 0;
  stm->depth = 0;
  memset(&stm->no_view, 0, sizeof stm->no_view);
  stm->view = &stm->no_view;
  cedrat_stm_judge(stm, cedrat_thread_create(store, &stm->thread));
  if (cedrat_thread_view(stm->thread, CEDRAT_VIEW_VERSION) != NULL) {
    stm->view = cedrat_thread_view(stm->thread, CEDRAT_VIEW_VERSION);
  }
}

static inline void cedrat_stm_free(cedrat_stm *stm) {
  cedrat_thread_free(stm->thread);
  stm->thread = NULL;
  stm->view = &stm->no_view;
  stm->depth = 0;
}

static inline void cedrat_stm_begin(cedrat_stm *stm) {
  if (stm->depth++ == 0) {
    cedrat_stm_judge(stm, cedrat_begin(stm->thread));
  }
}

static inline void cedrat_stm_commit(cedrat_stm *stm) {
  /* 0: it was cancelled. */
  if (stm->depth > 0 && --stm->depth == 0) {
    cedrat_stm_judge(stm, cedrat_commit(stm->thread, stm->mode, &stm->lsn));
  }
}

static inline void cedrat_stm_cancel(cedrat_stm *stm) {
  stm->depth = 0;
  cedrat_stm_judge(stm, cedrat_abort(stm->thread));
}

/* What the view does not show. */
static CEDRAT_STM_COLD uint64_t cedrat_stm_load_slowly(cedrat_stm *stm, const void *address) {
  uint64_t value = 0;
  cedrat_status status;
  if (cedrat_view_load_stored(stm->view, address, &value)) {
    return value;
  }
  status = cedrat_load_word(stm->thread, address, &value);
  if (status != CEDRAT_OK) {
    cedrat_stm_judge(stm, status);
  }
  return value;
}

static CEDRAT_STM_COLD void cedrat_stm_store_slowly(cedrat_stm *stm, void *address, uint64_t value) {
  cedrat_status status;
  if (cedrat_view_store_stored(stm->view, address, value)) {
    return;
  }
  status = cedrat_store_word(stm->thread, address, value);
  if (status != CEDRAT_OK) {
    cedrat_stm_judge(stm, status);
  }
}

static inline uint64_t cedrat_stm_load(cedrat_stm *stm, const void *address) {
  uint64_t value;
  return cedrat_view_load(stm->view, address, &value) ? value : cedrat_stm_load_slowly(stm, address);
}

static inline void cedrat_stm_store(cedrat_stm *stm, void *address, uint64_t value) {
  if (!cedrat_view_store(stm->view, address, value)) {
    cedrat_stm_store_slowly(stm, address, value);
  }
}

static inline void *cedrat_stm_malloc(cedrat_stm *stm, cedrat_heap *heap, size_t size) {
  void *block = NULL;
  cedrat_stm_judge(stm, cedrat_malloc(stm->thread, heap, size, &block));
  return block;
}

static inline void *cedrat_stm_get_root(cedrat_stm *stm, cedrat_heap *heap, const char *name) {
  void *block = NULL;
  cedrat_stm_judge(stm, cedrat_get_root(stm->thread, heap, name, &block));
  return block;
}

#endif
