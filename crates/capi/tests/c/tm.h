/* The file that a program written for word-based STMs, with the usual TM_ macros, includes as its `tm.h`: the whole port. */
#ifndef TM_H
#define TM_H

#include "cedrat_stm.h"

extern cedrat_store *tm_store;
extern cedrat_heap *tm_heap;

#define TM_ARGDECL STM_THREAD *tm_self,
#define TM_ARGDECL_ALONE STM_THREAD *tm_self
#define TM_ARG tm_self,

#define TM_STARTUP(directory) tm_startup(directory)
#define TM_SHUTDOWN() ((void)cedrat_close(tm_store))
#define TM_START_PARALLEL() ((void)cedrat_checkpoint(tm_store))
#define TM_THREAD_ENTER()        \
  STM_THREAD tm_descriptor;      \
  STM_THREAD *tm_self = &tm_descriptor; \
  STM_THREAD_INIT(tm_self, tm_store)
#define TM_THREAD_EXIT() STM_THREAD_FREE(tm_self)

#define TM_BEGIN() STM_BEGIN(tm_self)
#define TM_END() STM_COMMIT(tm_self)
#define TM_RESTART() STM_RESTART(tm_self)
#define TM_SHARED_READ(variable) STM_LOAD(tm_self, &(variable))
#define TM_SHARED_READ_P(variable) STM_LOAD_PTR(tm_self, &(variable))
#define TM_SHARED_WRITE(variable, value) STM_STORE(tm_self, &(variable), value)
#define TM_SHARED_WRITE_P(variable, value) STM_STORE_PTR(tm_self, &(variable), value)
#define TM_MALLOC(size) STM_MALLOC(tm_self, tm_heap, size)
#define TM_FREE(block) STM_FREE(tm_self, block)
#define P_MALLOC(size) tm_plain(size)

static inline void tm_startup(const char *directory) {
  cedrat_heap_options options = {0};
  options.size = 16 << 20;
  options.address = UINT64_C(0x540000000000);
  if (cedrat_open(directory, NULL, &tm_store, NULL, 0) != CEDRAT_OK ||
      cedrat_heap_create(tm_store, "tm", &options, &tm_heap) != CEDRAT_OK) {
    abort();
  }
}

static inline void *tm_plain(size_t size) {
  void *block;
  if (cedrat_plain_alloc(tm_heap, size, &block) != CEDRAT_OK) {
    abort();
  }
  return block;
}

#endif
