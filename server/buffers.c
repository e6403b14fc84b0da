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

/* What a buffer is rounded up to. */
typedef struct extent {
    unsigned class;
    size_t bytes;
} extent;

/* A size over an eighth of the budget is never kept, so it needs no class: whole pages. */
static extent extent_of(const dfm_buffer_pool *pool, size_t capacity) {
    unsigned class = class_of(capacity);
    size_t bytes = class < CLASSES ? class_bytes(class) : SIZE_MAX;
    if (bytes <= pool->stats.budget_bytes / 8)
        return (extent){.class = class, .bytes = bytes};
    size_t page = (size_t)1 << SMALLEST_SHIFT;
    bytes = capacity > SIZE_MAX - page ? SIZE_MAX : (capacity + page - 1) & ~(page - 1);
    return (extent){.class = CLASSES, .bytes = bytes};
}

static bool fits(const dfm_buffer_pool *pool, size_t bytes) {
    return bytes <= pool->stats.budget_bytes - pool->stats.used_bytes;
}

/* With the lock. One of the class that is kept, where it fits; NULL: none. */
static node *take_kept(dfm_buffer_pool *pool, extent e) {
    node *n = e.class < CLASSES && fits(pool, e.bytes) ? pool->kept[e.class] : NULL;
    if (!n)
        return NULL;
    pool->kept[e.class] = n->next;
    pool->stats.kept_bytes -= e.bytes;
    pool->stats.used_bytes += e.bytes;
    return n;
}

/* With the lock. Counts bytes that are about to be mapped; false: they do not fit. What had to go
 * is added to *out, to be unmapped. */
static bool take_new(dfm_buffer_pool *pool, size_t bytes, node **out) {
    if (!fits(pool, bytes))
        return false;
    *out = make_room(pool, bytes);
    pool->stats.used_bytes += bytes;
    pool->stats.maps++;
    return true;
}

static void give_back_new(dfm_buffer_pool *pool, size_t bytes) {
    pthread_mutex_lock(&pool->lock);
    pool->stats.used_bytes -= bytes;
    pthread_mutex_unlock(&pool->lock);
}

dfm_buffer *dfm_buffer_acquire(dfm_buffer_pool *pool, size_t capacity) {
    extent e = extent_of(pool, capacity);
    node *out = NULL;
    pthread_mutex_lock(&pool->lock);
    node *n = take_kept(pool, e);
    bool new = !n &&take_new(pool, e.bytes, &out);
    pthread_mutex_unlock(&pool->lock);
    unmap_all(out);
    if (new && !(n = map(e.class, e.bytes)))
        give_back_new(pool, e.bytes);
    if (!n)
        return NULL;
    n->buffer.size = 0;
    ASAN_UNPOISON_MEMORY_REGION(n->buffer.data, n->buffer.capacity);
    return &n->buffer;
}

static void copy(dfm_buffer *to, const dfm_buffer *from) {
    ASAN_UNPOISON_MEMORY_REGION(to->data, to->capacity);
    memcpy(to->data, from->data, from->size);
    to->size = from->size;
}

/* The kernel moves the pages, so that a buffer of half the budget and more can grow. */
static bool remap(node *n, extent e) {
    void *data = mremap(n->buffer.data, n->buffer.capacity, e.bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED)
        return false;
    n->buffer.data = data;
    n->buffer.capacity = e.bytes;
    n->class = e.class;
    ASAN_UNPOISON_MEMORY_REGION(data, e.bytes);
    return true;
}

bool dfm_buffer_grow(dfm_buffer_pool *pool, dfm_buffer **buffer, size_t capacity) {
    size_t held = (*buffer)->capacity;
    if (capacity <= held)
        return true;
    extent e = extent_of(pool, capacity);
    node *out = NULL;
    pthread_mutex_lock(&pool->lock);
    node *kept = take_kept(pool, e);
    bool more = !kept && take_new(pool, e.bytes - held, &out);
    pthread_mutex_unlock(&pool->lock);
    unmap_all(out);
    if (kept) {
        copy(&kept->buffer, *buffer);
        dfm_buffer_release(pool, *buffer);
        *buffer = &kept->buffer;
        return true;
    }
    if (more && !remap((node *)*buffer, e)) {
        give_back_new(pool, e.bytes - held);
        return false;
    }
    return more;
}

void dfm_buffer_release(dfm_buffer_pool *pool, dfm_buffer *buffer) {
    if (!buffer)
        return;
    node *n = (node *)buffer;
    size_t bytes = buffer->capacity;
    ASAN_POISON_MEMORY_REGION(buffer->data, bytes); /* a use after release is seen */
    pthread_mutex_lock(&pool->lock);
    pool->stats.used_bytes -= bytes;
    bool keep = n->class < CLASSES && worth_keeping(pool, bytes);
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

static uint64_t footprint(void *context, uint64_t capacity) {
    return capacity ? extent_of(context, capacity).bytes : 0;
}

dfm_buffers dfm_buffer_pool_interface(dfm_buffer_pool *pool) {
    return (dfm_buffers){
        .acquire = acquire, .release = release, .footprint = footprint, .context = pool};
}
