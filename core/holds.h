/* One at a time for each thing: locks by name, of things that are many and seldom contended.
 * Thread safety: any thread. */
#ifndef DFM_CORE_HOLDS_H
#define DFM_CORE_HOLDS_H

#include "core/status.h"

#include <pthread.h>

/* A thing that is held: on the stack of the thread that holds it. `id` is borrowed. */
typedef struct dfm_hold {
    int kind;
    const char *id;
    dfm_error failure; /* for those who wait: what they need not try again. DFM_OK: nothing */
    dfm_error theirs;  /* set by take: the last `failure` of those whom this one waited for */
    struct dfm_hold *next;
} dfm_hold;

typedef struct dfm_holds {
    pthread_mutex_t lock;
    pthread_cond_t let_go;
    dfm_hold *first;   /* each thing once at most */
    dfm_hold *waiting; /* in any order, things many times */
} dfm_holds;

void dfm_holds_init(dfm_holds *holds);
void dfm_holds_destroy(dfm_holds *holds); /* nothing is held */

/* Waits until nobody holds it. A thread must not take what it holds itself. */
void dfm_hold_take(dfm_holds *holds, dfm_hold *hold);

/* False: somebody else holds it. */
bool dfm_hold_try(dfm_holds *holds, dfm_hold *hold);

void dfm_hold_let_go(dfm_holds *holds, dfm_hold *hold);

#endif
