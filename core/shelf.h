/* What models and motions are kept on: a table by id with an order of use, a byte budget, and a
 * memory of what had to leave. Private to core (cache.c, motion_store.c).
 *
 * Items are immutable and counted by references; the shelf holds one of each item on it. An item
 * that was taken down while somebody uses it keeps its bytes in `used_bytes` until its owner counts
 * them out. Thread safety: functions marked (locked) are called with `lock` held. */
#ifndef DFM_CORE_SHELF_H
#define DFM_CORE_SHELF_H

#include "core/id.h"
#include "core/status.h"

#include <pthread.h>

enum { DFM_SHELF_EVICTED_REMEMBERED = 1024 };

/* What a shelf must know of its items. All but `release` are called with the lock held. */
typedef struct dfm_shelf_kind {
    const char *name; /* "model": goes into messages */
    const dfm_id *(*id)(const void *item);
    bool (*is_idle)(const void *item);       /* the shelf's reference is the only one */
    size_t (*freed_bytes)(const void *item); /* leave memory with an idle item */
    void (*retain)(void *item);
    void (*release)(void *item); /* may free it, and take the lock for that */
} dfm_shelf_kind;

typedef struct dfm_shelf_stats {
    uint64_t count, used_bytes, budget_bytes;
    uint64_t hits, misses, loads, evictions, deletes;
} dfm_shelf_stats;

typedef struct dfm_shelf {
    pthread_mutex_t lock;
    const dfm_shelf_kind *kind;
    struct dfm_shelf_place **places; /* sorted by id: nobody can unbalance an array of digests */
    size_t place_count, place_capacity;
    struct dfm_shelf_place *newest, *oldest; /* by use */
    size_t used_bytes; /* of everything not freed yet, what was taken down in use included */
    dfm_id evicted[DFM_SHELF_EVICTED_REMEMBERED];
    size_t evicted_next;
    dfm_shelf_stats stats; /* count and used_bytes are filled in by dfm_shelf_get_stats */
} dfm_shelf;

void dfm_shelf_init(dfm_shelf *shelf, const dfm_shelf_kind *kind, size_t budget_bytes);
void dfm_shelf_destroy(dfm_shelf *shelf); /* releases all items */

/* (locked) The item, borrowed, or NULL. */
void *dfm_shelf_find(const dfm_shelf *shelf, const char *id);

/* (locked) The item is the newest by use now; it is on the shelf. */
void dfm_shelf_mark_used(dfm_shelf *shelf, const char *id);

/* (locked) Fails for an id that is not there: EVICTED or NOT_FOUND. */
dfm_status dfm_shelf_fail_missing(const dfm_shelf *shelf, const char *id, dfm_error *error);

/* (locked) Looks up, marks as used, and retains for the caller. Failures: fail_missing's. */
dfm_status dfm_shelf_get(dfm_shelf *shelf, const char *id, void **item, dfm_error *error);

/* (locked) Puts an item up whose id is not there; the shelf takes a reference of its own. Failures:
 * NO_MEMORY. */
dfm_status dfm_shelf_add(dfm_shelf *shelf, void *item, dfm_error *error);

/* (locked) Puts `item` where one of the same id is; the shelf takes a reference, and the old one's
 * goes to the caller. */
void *dfm_shelf_swap(dfm_shelf *shelf, void *item);

/* (locked) Takes an item down; the shelf's reference goes to the caller. */
void *dfm_shelf_take(dfm_shelf *shelf, const char *id);

/* (locked) Makes room for `need` more bytes by evicting idle items, least recently used first;
 * refuses (NO_ROOM) before it evicts any where that could not be enough. Lets the lock go while it
 * frees: *unlocked says that the table may have changed. */
dfm_status dfm_shelf_make_room(dfm_shelf *shelf, size_t need, bool *unlocked, dfm_error *error);

/* Takes the lock, makes room for `need` bytes, and gives the lock back: what is shown to others
 * only after something slow has gone well should not find out then that it does not fit. */
dfm_status dfm_shelf_try_room(dfm_shelf *shelf, size_t need, dfm_error *error);

/* Puts a new item of `bytes` up, unless its id is there by now: then *found. Takes the lock.
 * Failures: NO_ROOM, NO_MEMORY. */
dfm_status dfm_shelf_insert(dfm_shelf *shelf, void *item, size_t bytes, bool *found,
                            dfm_error *error);

/* Up to `limit` items with ids > `after` (NULL: from the first), sorted by id, each retained for
 * the caller, into `items`, an array of pointers to the kind's type. Returns how many; *more tells
 * whether others follow. Takes the lock. */
size_t dfm_shelf_list(dfm_shelf *shelf, const char *after, size_t limit, void *items, bool *more);

/* Looks at every item, with the lock held: `look` is quick. */
void dfm_shelf_each(dfm_shelf *shelf, void (*look)(const void *item, void *context), void *context);

/* Takes the lock. */
dfm_shelf_stats dfm_shelf_get_stats(dfm_shelf *shelf);

#endif
