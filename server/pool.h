/* A bounded queue with a fixed number of threads behind it.
 *
 * Thread safety: any thread may reserve, submit and add. Jobs run in the order they came, each on
 * one thread; a thread's index (0 .. threads - 1) goes with the call, for per-thread scratch. */
#ifndef DFM_SERVER_POOL_H
#define DFM_SERVER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in what is to be done. Of no interest to the pool any more once `run` is called: the job
 * may be freed, or queued again, from there. */
typedef struct dfm_job {
    void (*run)(struct dfm_job *job, uint32_t thread);
    struct dfm_job *next; /* the pool's, while queued; as is the next */
    bool takes_place;
} dfm_job;

typedef struct dfm_pool dfm_pool;

/* `name` (15 bytes at most) shows in ps -L. NULL: no memory, or a thread could not be started. */
dfm_pool *dfm_pool_create(const char *name, uint32_t threads, uint32_t queue);

/* Takes a place in the queue for one submit to come; false: the queue is full. Two steps, so that
 * a connection is suspended only when its job is certain to be taken. */
bool dfm_pool_reserve(dfm_pool *pool);
void dfm_pool_submit(dfm_pool *pool, dfm_job *job);

/* Queues a job that takes no place: for work of requests that were let in before, whose number its
 * owner bounds. */
void dfm_pool_add(dfm_pool *pool, dfm_job *job);

typedef struct dfm_pool_stats {
    uint32_t threads, busy;
    uint32_t queued, capacity; /* places in the queue */
} dfm_pool_stats;

dfm_pool_stats dfm_pool_get_stats(dfm_pool *pool);

/* A hint: true where reserve would most likely fail now. */
bool dfm_pool_is_full(dfm_pool *pool);

/* Calls part(argument, i) once for each i < parts, on the calling thread and on those of the pool
 * that have nothing to do; returns when all are done. Nothing is queued: a busy pool leaves all to
 * the caller. Parts do not block, and do not share in turn. */
void dfm_pool_share(dfm_pool *pool, void (*part)(void *argument, size_t index), void *argument,
                    size_t parts);

/* Runs what is queued, then joins the threads. NULL is allowed. */
void dfm_pool_free(dfm_pool *pool);

#endif
