#include "server/buffers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)0)
#endif

/* Classes: 4 KiB, then four steps to each doubling (4, 5, 6, 7, 8, 10, 12, 14, 16, ... KiB), so
 * that at most a fifth of a buffer is unused. */
enum { SMALLEST_SHIFT = 12, STEPS = 4, DOUBLINGS = 36, CLASSES = STEPS * DOUBLINGS };

typedef struct node {
    dfm_buffer buffer; /* first, so that a dfm_buffer is its node */
    struct node *next; /* in its class's free list */
    unsigned class;
} node;

struct dfm_buffer_pool {
    pthread_mutex_t lock;
    node *kept[CLASSES]; /* last in, first out: the one whose pages are warm */
    dfm_buffer_stats stats;
};

static size_t class_bytes(unsigned class) {
    return (size_t)(STEPS + class % STEPS) << (class / STEPS + SMALLEST_SHIFT - 2);
}

/* The smallest class that holds `capacity`; CLASSES: none does. */
static unsigned class_of(size_t capacity) {
    unsigned class = 0;
    if (capacity > class_bytes(0)) {
        unsigned shift =
            63u - (unsigned)__builtin_clzll(capacity - 1); /* of the class's doubling */
        class = (shift - SMALLEST_SHIFT) * STEPS;
        while (class < CLASSES && class_bytes(class) < capacity)
            class ++;
    }
    return class < CLASSES ? class : CLASSES;
}

/* A single buffer above an eighth of the budget is not kept: a huge upload is rare, and its pages
 * would be missing elsewhere. */
static bool worth_keeping(const dfm_buffer_pool *pool, size_t bytes) {
    return bytes <= pool->stats.budget_bytes / 8 &&
           pool->stats.kept_bytes + bytes <= pool->stats.budget_bytes / 2;
}

static void unmap(node *n) {
    ASAN_UNPOISON_MEMORY_REGION(n->buffer.data, n->buffer.capacity);
    munmap(n->buffer.data, n->buffer.capacity);
    free(n);
}

static node *map(unsigned class, size_t bytes) {
    node *n = malloc(sizeof *n);
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!n || data == MAP_FAILED) {
        if (data != MAP_FAILED)
            munmap(data, bytes);
        free(n);
        return NULL;
    }
    *n = (node){.buffer = {.data = data, .capacity = bytes}, .class = class};
    return n;
}

/* Called with the lock: takes kept buffers out, the largest first, until `bytes` fit the budget. */
static node *make_room(dfm_buffer_pool *pool, size_t bytes) {
    node *out = NULL;
    dfm_buffer_stats *stats = &pool->stats;
    for (unsigned class = CLASSES; class -- > 0;)
        while (pool->kept[class] &&
               stats->used_bytes + stats->kept_bytes + bytes > stats->budget_bytes) {
            node *n = pool->kept[class];
            pool->kept[class] = n->next;
            stats->kept_bytes -= n->buffer.capacity;
            n->next = out;
            out = n;
        }
    return out;
}

static void unmap_all(node *list) {
    while (list) {
        node *next = list->next;
        unmap(list);
        list = next;
    }
}

dfm_buffer_pool *dfm_buffer_pool_create(size_t budget_bytes) {
    dfm_buffer_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->stats.budget_bytes = budget_bytes;
    return pool;
}

void dfm_buffer_pool_free(dfm_buffer_pool *pool) {
    if (!pool)
        return;
    for (unsigned class = 0; class < CLASSES; class ++)
        unmap_all(pool->kept[class]);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Sizes over an eighth of the budget are never kept, so they need no class: whole pages. */
static size_t rounded(const dfm_buffer_pool *pool, size_t capacity, unsigned class) {
    size_t bytes = class < CLASSES ? class_bytes(class) : SIZE_MAX;
    if (bytes <= pool->stats.budget_bytes / 8)
        return bytes;
    size_t page = (size_t)1 << SMALLEST_SHIFT;
    return capacity > SIZE_MAX - page ? SIZE_MAX : (capacity + page - 1) & ~(page - 1);
}

dfm_buffer *dfm_buffer_acquire(dfm_buffer_pool *pool, size_t capacity) {
    unsigned class = class_of(capacity);
    size_t bytes = rounded(pool, capacity, class);
    dfm_buffer_stats *stats = &pool->stats;
    pthread_mutex_lock(&pool->lock);
    if (bytes > stats->budget_bytes || stats->used_bytes > stats->budget_bytes - bytes) {
        pthread_mutex_unlock(&pool->lock);
        return NULL;
    }
    node *n = class < CLASSES ? pool->kept[class] : NULL;
    node *out = NULL;
    if (n) {
        pool->kept[class] = n->next;
        stats->kept_bytes -= bytes;
    } else {
        out = make_room(pool, bytes);
        stats->maps++;
    }
    stats->used_bytes += bytes;
    pthread_mutex_unlock(&pool->lock);
    unmap_all(out);
    if (!n && !(n = map(class, bytes))) {
        pthread_mutex_lock(&pool->lock);
        stats->used_bytes -= bytes;
        pthread_mutex_unlock(&pool->lock);
        return NULL;
    }
    n->buffer.size = 0;
    ASAN_UNPOISON_MEMORY_REGION(n->buffer.data, n->buffer.capacity);
    return &n->buffer;
}

/* One of the class that is kept, where it fits the budget beside the old one; NULL: none. */
static node *take_kept(dfm_buffer_pool *pool, unsigned class, size_t bytes) {
    dfm_buffer_stats *stats = &pool->stats;
    node *n = class < CLASSES ? pool->kept[class] : NULL;
    if (!n || n->buffer.capacity != bytes || stats->used_bytes > stats->budget_bytes - bytes)
        return NULL;
    pool->kept[class] = n->next;
    stats->kept_bytes -= bytes;
    stats->used_bytes += bytes;
    return n;
}

static void copy(dfm_buffer *to, const dfm_buffer *from) {
    ASAN_UNPOISON_MEMORY_REGION(to->data, to->capacity);
    memcpy(to->data, from->data, from->size);
    to->size = from->size;
}

/* The kernel moves the pages, so that a buffer of half the budget and more can grow. */
static bool remap(node *n, unsigned class, size_t bytes) {
    void *data = mremap(n->buffer.data, n->buffer.capacity, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED)
        return false;
    n->buffer.data = data;
    n->buffer.capacity = bytes;
    n->class = class;
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    return true;
}

bool dfm_buffer_grow(dfm_buffer_pool *pool, dfm_buffer **buffer, size_t capacity) {
    unsigned class = class_of(capacity);
    size_t bytes = rounded(pool, capacity, class), old_bytes = (*buffer)->capacity;
    if (bytes <= old_bytes)
        return true;
    size_t more = bytes - old_bytes;
    dfm_buffer_stats *stats = &pool->stats;
    pthread_mutex_lock(&pool->lock);
    node *kept = take_kept(pool, class, bytes);
    bool room = kept || stats->used_bytes + more <= stats->budget_bytes;
    node *out = NULL;
    if (!kept && room) {
        out = make_room(pool, more);
        stats->used_bytes += more;
        stats->maps++;
    }
    pthread_mutex_unlock(&pool->lock);
    unmap_all(out);
    if (kept) {
        copy(&kept->buffer, *buffer);
        dfm_buffer_release(pool, *buffer);
        *buffer = &kept->buffer;
        return true;
    }
    if (!room)
        return false;
    if (remap((node *)*buffer, class, bytes))
        return true;
    pthread_mutex_lock(&pool->lock);
    stats->used_bytes -= more;
    pthread_mutex_unlock(&pool->lock);
    return false;
}

void dfm_buffer_release(dfm_buffer_pool *pool, dfm_buffer *buffer) {
    if (!buffer)
        return;
    node *n = (node *)buffer;
    size_t bytes = buffer->capacity;
    ASAN_POISON_MEMORY_REGION(buffer->data, bytes); /* a use after release is seen */
    pthread_mutex_lock(&pool->lock);
    pool->stats.used_bytes -= bytes;
    bool keep = worth_keeping(pool, bytes);
    if (keep) {
        n->next = pool->kept[n->class];
        pool->kept[n->class] = n;
        pool->stats.kept_bytes += bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep)
        unmap(n);
}

dfm_buffer_stats dfm_buffer_pool_stats(dfm_buffer_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    dfm_buffer_stats stats = pool->stats;
    pthread_mutex_unlock(&pool->lock);
    return stats;
}

static dfm_buffer *acquire(void *context, size_t capacity) {
    return dfm_buffer_acquire(context, capacity);
}

static void release(void *context, dfm_buffer *buffer) {
    dfm_buffer_release(context, buffer);
}

dfm_buffers dfm_buffer_pool_interface(dfm_buffer_pool *pool) {
    return (dfm_buffers){.acquire = acquire, .release = release, .context = pool};
}
