#include "core/shelf.h"

#include <stdlib.h>
#include <string.h>

struct dfm_shelf_place {
    void *item; /* the shelf's reference */
    struct dfm_shelf_place *newer, *older;
};

void dfm_shelf_init(dfm_shelf *shelf, const dfm_shelf_kind *kind, size_t budget_bytes) {
    memset(shelf, 0, sizeof *shelf);
    shelf->kind = kind;
    shelf->stats.budget_bytes = budget_bytes;
    pthread_mutex_init(&shelf->lock, NULL);
}

static const char *id_of(const dfm_shelf *shelf, const void *item) {
    return shelf->kind->id(item)->text;
}

void dfm_shelf_destroy(dfm_shelf *shelf) {
    while (shelf->newest)
        shelf->kind->release(dfm_shelf_take(shelf, id_of(shelf, shelf->newest->item)));
    pthread_mutex_destroy(&shelf->lock);
    free(shelf->places);
}

/* --- table and order of use ----------------------------------------------------------------- */

/* Where `id` is, or where it would go. */
static size_t lower_bound(const dfm_shelf *shelf, const char *id) {
    size_t first = 0, count = shelf->place_count;
    while (count > 0) {
        size_t half = count / 2;
        if (strcmp(id_of(shelf, shelf->places[first + half]->item), id) < 0) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

static struct dfm_shelf_place *find_place(const dfm_shelf *shelf, const char *id) {
    size_t at = lower_bound(shelf, id);
    if (at == shelf->place_count || strcmp(id_of(shelf, shelf->places[at]->item), id) != 0)
        return NULL;
    return shelf->places[at];
}

void *dfm_shelf_find(const dfm_shelf *shelf, const char *id) {
    const struct dfm_shelf_place *place = find_place(shelf, id);
    return place ? place->item : NULL;
}

static void unlink_place(dfm_shelf *shelf, struct dfm_shelf_place *place) {
    *(place->newer ? &place->newer->older : &shelf->newest) = place->older;
    *(place->older ? &place->older->newer : &shelf->oldest) = place->newer;
}

static void link_newest(dfm_shelf *shelf, struct dfm_shelf_place *place) {
    place->newer = NULL;
    place->older = shelf->newest;
    *(shelf->newest ? &shelf->newest->newer : &shelf->oldest) = place;
    shelf->newest = place;
}

void dfm_shelf_mark_used(dfm_shelf *shelf, const char *id) {
    struct dfm_shelf_place *place = find_place(shelf, id);
    unlink_place(shelf, place);
    link_newest(shelf, place);
}

static bool grow(dfm_shelf *shelf) {
    if (shelf->place_count < shelf->place_capacity)
        return true;
    size_t capacity = shelf->place_capacity ? shelf->place_capacity * 2 : 64;
    struct dfm_shelf_place **places = realloc(shelf->places, capacity * sizeof(*places));
    if (!places)
        return false;
    shelf->places = places;
    shelf->place_capacity = capacity;
    return true;
}

dfm_status dfm_shelf_add(dfm_shelf *shelf, void *item, dfm_error *error) {
    struct dfm_shelf_place *place = grow(shelf) ? malloc(sizeof *place) : NULL;
    if (!place)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory to keep a %s",
                        shelf->kind->name);
    place->item = item;
    shelf->kind->retain(item);
    size_t at = lower_bound(shelf, id_of(shelf, item));
    memmove(&shelf->places[at + 1], &shelf->places[at],
            (shelf->place_count - at) * sizeof *shelf->places);
    shelf->places[at] = place;
    shelf->place_count++;
    link_newest(shelf, place);
    return DFM_OK;
}

void *dfm_shelf_swap(dfm_shelf *shelf, void *item) {
    struct dfm_shelf_place *place = find_place(shelf, id_of(shelf, item));
    void *old = place->item;
    place->item = item;
    shelf->kind->retain(item);
    return old;
}

void *dfm_shelf_take(dfm_shelf *shelf, const char *id) {
    size_t at = lower_bound(shelf, id);
    struct dfm_shelf_place *place = shelf->places[at];
    void *item = place->item;
    memmove(&shelf->places[at], &shelf->places[at + 1],
            (shelf->place_count - at - 1) * sizeof *shelf->places);
    shelf->place_count--;
    unlink_place(shelf, place);
    free(place);
    return item;
}

/* --- what is not there ---------------------------------------------------------------------- */

static void remember_evicted(dfm_shelf *shelf, const dfm_id *id) {
    shelf->evicted[shelf->evicted_next] = *id;
    shelf->evicted_next = (shelf->evicted_next + 1) % DFM_SHELF_EVICTED_REMEMBERED;
}

static size_t find_evicted(const dfm_shelf *shelf, const char *id) {
    size_t i = 0;
    while (i < DFM_SHELF_EVICTED_REMEMBERED && strcmp(shelf->evicted[i].text, id) != 0)
        i++;
    return i;
}

static void forget_evicted(dfm_shelf *shelf, const char *id) {
    size_t i = find_evicted(shelf, id);
    if (i < DFM_SHELF_EVICTED_REMEMBERED)
        shelf->evicted[i].text[0] = 0;
}

dfm_status dfm_shelf_fail_missing(const dfm_shelf *shelf, const char *id, dfm_error *error) {
    if (find_evicted(shelf, id) < DFM_SHELF_EVICTED_REMEMBERED)
        return dfm_fail(error, DFM_ERROR_EVICTED, NULL, -1, -1,
                        "%s %s had to make room for others: upload it again", shelf->kind->name,
                        id);
    return dfm_fail(error, DFM_ERROR_NOT_FOUND, NULL, -1, -1, "no %s %s", shelf->kind->name, id);
}

dfm_status dfm_shelf_get(dfm_shelf *shelf, const char *id, void **item, dfm_error *error) {
    struct dfm_shelf_place *place = find_place(shelf, id);
    *item = NULL;
    if (!place) {
        shelf->stats.misses++;
        return dfm_shelf_fail_missing(shelf, id, error);
    }
    unlink_place(shelf, place);
    link_newest(shelf, place);
    shelf->kind->retain(place->item);
    shelf->stats.hits++;
    *item = place->item;
    return DFM_OK;
}

/* --- room ----------------------------------------------------------------------------------- */

static size_t idle_bytes(const dfm_shelf *shelf) {
    size_t bytes = 0;
    for (const struct dfm_shelf_place *place = shelf->newest; place; place = place->older) {
        if (shelf->kind->is_idle(place->item))
            bytes += shelf->kind->freed_bytes(place->item);
    }
    return bytes;
}

static struct dfm_shelf_place *oldest_idle(const dfm_shelf *shelf) {
    struct dfm_shelf_place *place = shelf->oldest;
    while (place && !shelf->kind->is_idle(place->item))
        place = place->newer;
    return place;
}

static void evict(dfm_shelf *shelf, const void *victim) {
    remember_evicted(shelf, shelf->kind->id(victim));
    shelf->stats.evictions++;
    void *item = dfm_shelf_take(shelf, id_of(shelf, victim));
    pthread_mutex_unlock(&shelf->lock);
    shelf->kind->release(item);
    pthread_mutex_lock(&shelf->lock);
}

dfm_status dfm_shelf_make_room(dfm_shelf *shelf, size_t need, bool *unlocked, dfm_error *error) {
    size_t budget = shelf->stats.budget_bytes;
    *unlocked = false;
    while (need > budget || shelf->used_bytes > budget - need) {
        size_t idle = idle_bytes(shelf);
        const struct dfm_shelf_place *victim = oldest_idle(shelf);
        if (need > budget || !victim || shelf->used_bytes - idle > budget - need)
            return dfm_fail(error, DFM_ERROR_NO_ROOM, NULL, -1, -1,
                            "the %s takes %zu bytes of a cache of %zu, of which %ss in use hold "
                            "%zu",
                            shelf->kind->name, need, budget, shelf->kind->name,
                            shelf->used_bytes - idle);
        evict(shelf, victim->item);
        *unlocked = true;
    }
    return DFM_OK;
}

dfm_status dfm_shelf_try_room(dfm_shelf *shelf, size_t need, dfm_error *error) {
    bool unlocked = true;
    dfm_status status = DFM_OK;
    pthread_mutex_lock(&shelf->lock);
    while (status == DFM_OK && unlocked)
        status = dfm_shelf_make_room(shelf, need, &unlocked, error);
    pthread_mutex_unlock(&shelf->lock);
    return status;
}

dfm_status dfm_shelf_insert(dfm_shelf *shelf, void *item, size_t bytes, bool *found,
                            dfm_error *error) {
    dfm_status status = DFM_OK;
    bool unlocked = true;
    pthread_mutex_lock(&shelf->lock);
    while (status == DFM_OK && unlocked) {
        *found = find_place(shelf, id_of(shelf, item)) != NULL;
        if (*found)
            break;
        status = dfm_shelf_make_room(shelf, bytes, &unlocked, error);
    }
    if (status == DFM_OK && !*found)
        status = dfm_shelf_add(shelf, item, error);
    if (status == DFM_OK && !*found) {
        shelf->used_bytes += bytes;
        forget_evicted(shelf, id_of(shelf, item));
        shelf->stats.loads++;
    }
    pthread_mutex_unlock(&shelf->lock);
    return status;
}

/* --- looking at all of it ------------------------------------------------------------------- */

size_t dfm_shelf_list(dfm_shelf *shelf, const char *after, size_t limit, void *items, bool *more) {
    pthread_mutex_lock(&shelf->lock);
    size_t at = after ? lower_bound(shelf, after) : 0;
    if (after && at < shelf->place_count &&
        strcmp(id_of(shelf, shelf->places[at]->item), after) == 0)
        at++;
    size_t left = shelf->place_count - at, count = left < limit ? left : limit;
    for (size_t i = 0; i < count; i++) {
        void *item = shelf->places[at + i]->item;
        shelf->kind->retain(item);
        memcpy((char *)items + i * sizeof item, &item, sizeof item);
    }
    *more = count < left;
    pthread_mutex_unlock(&shelf->lock);
    return count;
}

void dfm_shelf_each(dfm_shelf *shelf, void (*look)(const void *item, void *context),
                    void *context) {
    pthread_mutex_lock(&shelf->lock);
    for (size_t i = 0; i < shelf->place_count; i++)
        look(shelf->places[i]->item, context);
    pthread_mutex_unlock(&shelf->lock);
}

dfm_shelf_stats dfm_shelf_get_stats(dfm_shelf *shelf) {
    pthread_mutex_lock(&shelf->lock);
    dfm_shelf_stats stats = shelf->stats;
    stats.count = shelf->place_count;
    stats.used_bytes = shelf->used_bytes;
    pthread_mutex_unlock(&shelf->lock);
    return stats;
}
