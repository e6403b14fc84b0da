#include "server/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct worker {
    dfm_pool *pool;
    pthread_t thread;
    uint32_t index;
};

/* Work that a thread shares with idle ones; lies on that thread's stack. */
struct share {
    void (*part)(void *argument, size_t index);
    void *argument;
    size_t parts;
    atomic_size_t next;      /* part that nobody has taken up yet */
    uint32_t helpers;        /* threads at work on it besides its owner */
    pthread_cond_t deserted; /* helpers is 0 */
    struct share *other;     /* the next in pool->shares */
};

struct dfm_pool {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    dfm_job *first, **end; /* the queue, and where its next job is linked in */
    uint32_t capacity;
    uint32_t places; /* taken: promised, or of jobs that wait */
    uint32_t idle;   /* threads that wait */
    struct share *shares;
    bool stopping;
    struct worker *workers;
    uint32_t worker_count; /* started */
};

static void do_parts(struct share *share) {
    for (size_t i; (i = atomic_fetch_add(&share->next, 1)) < share->parts;)
        share->part(share->argument, i);
}

/* With the lock held, which is let go meanwhile. */
static void help(dfm_pool *pool, struct share *share) {
    share->helpers++;
    pthread_mutex_unlock(&pool->lock);
    do_parts(share);
    pthread_mutex_lock(&pool->lock);
    if (--share->helpers == 0)
        pthread_cond_signal(&share->deserted);
}

static struct share *find_share(const dfm_pool *pool) {
    struct share *share = pool->shares;
    while (share && atomic_load(&share->next) >= share->parts)
        share = share->other;
    return share;
}

static dfm_job *next_job(dfm_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    while (!pool->first && !pool->stopping) {
        struct share *share = find_share(pool);
        if (share) {
            help(pool, share);
            continue;
        }
        pool->idle++;
        pthread_cond_wait(&pool->filled, &pool->lock);
        pool->idle--;
    }
    dfm_job *job = pool->first;
    if (job) {
        pool->first = job->next;
        if (!pool->first)
            pool->end = &pool->first;
        pool->places -= job->takes_place;
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    for (dfm_job *job; (job = next_job(worker->pool)) != NULL;)
        job->run(job, worker->index);
    return NULL;
}

static bool start_workers(dfm_pool *pool, const char *name, uint32_t threads) {
    for (uint32_t i = 0; i < threads; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .index = i};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            return false;
        pthread_setname_np(worker->thread, name);
        pool->worker_count++;
    }
    return true;
}

dfm_pool *dfm_pool_create(const char *name, uint32_t threads, uint32_t queue) {
    dfm_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->filled, NULL);
    pool->capacity = queue;
    pool->end = &pool->first;
    pool->workers = calloc(threads, sizeof *pool->workers);
    if (!pool->workers || !start_workers(pool, name, threads)) {
        dfm_pool_free(pool);
        return NULL;
    }
    return pool;
}

bool dfm_pool_reserve(dfm_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    bool room = pool->places < pool->capacity;
    pool->places += room;
    pthread_mutex_unlock(&pool->lock);
    return room;
}

static void append(dfm_pool *pool, dfm_job *job, bool takes_place) {
    job->next = NULL;
    job->takes_place = takes_place;
    pthread_mutex_lock(&pool->lock);
    *pool->end = job;
    pool->end = &job->next;
    pthread_cond_signal(&pool->filled);
    pthread_mutex_unlock(&pool->lock);
}

void dfm_pool_submit(dfm_pool *pool, dfm_job *job) {
    append(pool, job, true);
}

void dfm_pool_add(dfm_pool *pool, dfm_job *job) {
    append(pool, job, false);
}

bool dfm_pool_is_full(dfm_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    bool full = pool->places >= pool->capacity;
    pthread_mutex_unlock(&pool->lock);
    return full;
}

dfm_pool_stats dfm_pool_get_stats(dfm_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    dfm_pool_stats stats = {.threads = pool->worker_count,
                            .busy = pool->worker_count - pool->idle,
                            .queued = pool->places,
                            .capacity = pool->capacity};
    pthread_mutex_unlock(&pool->lock);
    return stats;
}

static void offer(dfm_pool *pool, struct share *share) {
    share->other = pool->shares;
    pool->shares = share;
    for (size_t i = 1; i < share->parts && i <= pool->idle; i++)
        pthread_cond_signal(&pool->filled);
}

static void withdraw(dfm_pool *pool, struct share *share) {
    struct share **link = &pool->shares;
    while (*link != share)
        link = &(*link)->other;
    *link = share->other;
    while (share->helpers > 0)
        pthread_cond_wait(&share->deserted, &pool->lock);
}

void dfm_pool_share(dfm_pool *pool, void (*part)(void *argument, size_t index), void *argument,
                    size_t parts) {
    struct share share = {.part = part, .argument = argument, .parts = parts};
    pthread_mutex_lock(&pool->lock);
    bool offered = pool->idle > 0;
    if (offered) {
        pthread_cond_init(&share.deserted, NULL);
        offer(pool, &share);
    }
    pthread_mutex_unlock(&pool->lock);
    do_parts(&share);
    if (!offered)
        return;
    pthread_mutex_lock(&pool->lock);
    withdraw(pool, &share);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&share.deserted);
}

void dfm_pool_free(dfm_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->filled);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->worker_count; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->filled);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}
