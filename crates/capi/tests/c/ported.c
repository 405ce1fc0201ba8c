/* A typical program for word-based STMs: a sorted list as a set, changed by threads. It uses only the macros of its `tm.h`. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tm.h"

cedrat_store *tm_store;
cedrat_heap *tm_heap;

typedef struct list_node {
  intptr_t key;
  struct list_node *next;
} list_node_t;

static list_node_t *head;
static long sizes[4];

static int list_insert(TM_ARGDECL intptr_t key) {
  list_node_t *previous = head, *node = (list_node_t *)TM_SHARED_READ_P(previous->next), *created;
  while (node != NULL && (intptr_t)TM_SHARED_READ(node->key) < key) {
    previous = node;
    node = (list_node_t *)TM_SHARED_READ_P(node->next);
  }
  if (node != NULL && (intptr_t)TM_SHARED_READ(node->key) == key) {
    return 0;
  }
  created = (list_node_t *)TM_MALLOC(sizeof *created);
  created->key = key;
  created->next = node;
  TM_SHARED_WRITE_P(previous->next, created);
  return 1;
}

static int list_remove(TM_ARGDECL intptr_t key) {
  list_node_t *previous = head, *node = (list_node_t *)TM_SHARED_READ_P(previous->next);
  while (node != NULL && (intptr_t)TM_SHARED_READ(node->key) < key) {
    previous = node;
    node = (list_node_t *)TM_SHARED_READ_P(node->next);
  }
  if (node == NULL || (intptr_t)TM_SHARED_READ(node->key) != key) {
    return 0;
  }
  TM_SHARED_WRITE_P(previous->next, TM_SHARED_READ_P(node->next));
  TM_FREE(node);
  return 1;
}

static int change(TM_ARGDECL intptr_t key, int inserts) {
  volatile int changed = 0;
  TM_BEGIN();
  changed = inserts ? list_insert(TM_ARG key) : list_remove(TM_ARG key);
  TM_END();
  return changed;
}

static void *client(void *number) {
  unsigned long random = 17 + (unsigned long)(uintptr_t)number;
  int i;
  TM_THREAD_ENTER();
  tm_self->mode = CEDRAT_ASYNC;
  for (i = 0; i < 3000; i++) {
    intptr_t key;
    random = random * 6364136223846793005ul + 1442695040888963407ul;
    key = (intptr_t)(random >> 33) % 100 - 50;
    if (random >> 62 & 1) {
      sizes[(uintptr_t)number] += change(TM_ARG key, 1);
    } else {
      sizes[(uintptr_t)number] -= change(TM_ARG key, 0);
    }
  }
  TM_THREAD_EXIT();
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t threads[4];
  uintptr_t i;
  long size = 0, counted = 0;
  list_node_t *node;
  if (count != 2) {
    return 2;
  }
  TM_STARTUP(arguments[1]);
  head = (list_node_t *)P_MALLOC(sizeof *head);
  head->next = NULL;
  TM_START_PARALLEL();
  for (i = 0; i < 4; i++) {
    if (pthread_create(&threads[i], NULL, client, (void *)i) != 0) {
      return 1;
    }
  }
  for (i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    size += sizes[i];
  }
  for (node = head->next; node != NULL; node = node->next) {
    counted++;
    if (node->next != NULL && node->key >= node->next->key) {
      fprintf(stderr, "not sorted\n");
      return 1;
    }
  }
  if (counted != size) {
    fprintf(stderr, "%ld nodes, %ld expected\n", counted, size);
    return 1;
  }
  TM_SHUTDOWN();
  return 0;
}
