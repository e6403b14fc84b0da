#include "tests/support_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ITEMS_MAX = 64 };

typedef struct item {
    dfm_store_kind kind;
    dfm_id id;
    uint8_t *bytes;
    size_t size;
    char *about;
} item;

struct fake_store {
    pthread_mutex_t lock;
    item items[ITEMS_MAX];
    size_t count;
    dfm_status failure, nth_failure;
    unsigned nth, meanwhile, slow_ms;
    void (*act)(void);
    fake_counts counts;
};

/* Not strdup: what counts allocations does not see into libc. NULL: no memory. */
static char *copy_text(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

fake_store *fake_store_create(void) {
    fake_store *store = calloc(1, sizeof *store);
    if (store)
        pthread_mutex_init(&store->lock, NULL);
    return store;
}

static void clear_item(item *one) {
    free(one->bytes);
    free(one->about);
}

void fake_store_free(fake_store *store) {
    for (size_t i = 0; i < store->count; i++)
        clear_item(&store->items[i]);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static item *find(fake_store *store, dfm_store_kind kind, const char *id) {
    for (size_t i = 0; i < store->count; i++)
        if (store->items[i].kind == kind && strcmp(store->items[i].id.text, id) == 0)
            return &store->items[i];
    return NULL;
}

/* With the lock, which is given back where the call fails. */
static dfm_status begin(fake_store *store, dfm_error *error) {
    pthread_mutex_lock(&store->lock);
    if (store->meanwhile > 0 && --store->meanwhile == 0) {
        pthread_mutex_unlock(&store->lock);
        store->act();
        pthread_mutex_lock(&store->lock);
    }
    store->counts.calls++;
    dfm_status status = store->failure;
    if (store->nth > 0 && --store->nth == 0)
        status = store->nth_failure;
    if (status == DFM_OK)
        return DFM_OK;
    pthread_mutex_unlock(&store->lock);
    return dfm_fail(error, status, NULL, -1, -1, "the store was made to fail");
}

static dfm_status end(fake_store *store, dfm_status status, dfm_error *error) {
    pthread_mutex_unlock(&store->lock);
    return status == DFM_OK ? DFM_OK
                            : dfm_fail(error, status, NULL, -1, -1, "the store has no such item");
}

static dfm_status put(void *context, dfm_store_kind kind, const dfm_id *id, const uint8_t *bytes,
                      size_t size, const char *about, bool *created, dfm_error *error) {
    fake_store *store = context;
    *created = false;
    dfm_status status = begin(store, error);
    if (status != DFM_OK)
        return status;
    item *one = find(store, kind, id->text);
    uint8_t *copy = malloc(size ? size : 1);
    char *text = one ? NULL : copy_text(about);
    if (!copy || (!one && !text)) {
        free(copy);
        free(text);
        return end(store, DFM_ERROR_NO_MEMORY, error);
    }
    if (!one) {
        if (store->count == ITEMS_MAX)
            abort();
        one = &store->items[store->count++];
        *one = (item){.kind = kind, .id = *id, .about = text};
        *created = true;
    }
    memcpy(copy, bytes, size);
    free(one->bytes);
    one->bytes = copy;
    one->size = size;
    return end(store, DFM_OK, error);
}

static dfm_status read_about(void *context, dfm_store_kind kind, const dfm_id *id,
                             char about[DFM_STORE_ABOUT_BYTES], dfm_error *error) {
    fake_store *store = context;
    dfm_status status = begin(store, error);
    if (status != DFM_OK)
        return status;
    const item *one = find(store, kind, id->text);
    if (one)
        snprintf(about, DFM_STORE_ABOUT_BYTES, "%s", one->about);
    return end(store, one ? DFM_OK : DFM_ERROR_NOT_FOUND, error);
}

static dfm_status write_about(void *context, dfm_store_kind kind, const dfm_id *id,
                              const char *about, dfm_error *error) {
    fake_store *store = context;
    dfm_status status = begin(store, error);
    if (status != DFM_OK)
        return status;
    item *one = find(store, kind, id->text);
    char *text = one ? copy_text(about) : NULL;
    if (text) {
        free(one->about);
        one->about = text;
    }
    return end(store, !one ? DFM_ERROR_NOT_FOUND : text ? DFM_OK : DFM_ERROR_NO_MEMORY, error);
}

static dfm_status read_bytes(void *context, dfm_store_kind kind, const dfm_id *id,
                             uint8_t *(*take)(void *taker, size_t size), void *taker,
                             dfm_error *error) {
    fake_store *store = context;
    usleep(1000 * store->slow_ms);
    pthread_mutex_lock(&store->lock);
    store->counts.reads++;
    pthread_mutex_unlock(&store->lock);
    dfm_status status = begin(store, error);
    if (status != DFM_OK)
        return status;
    const item *one = find(store, kind, id->text);
    uint8_t *bytes = one ? take(taker, one->size) : NULL;
    if (bytes)
        memcpy(bytes, one->bytes, one->size);
    return end(store, !one ? DFM_ERROR_NOT_FOUND : bytes ? DFM_OK : DFM_ERROR_NO_MEMORY, error);
}

static dfm_status remove_item(void *context, dfm_store_kind kind, const dfm_id *id,
                              dfm_error *error) {
    fake_store *store = context;
    dfm_status status = begin(store, error);
    if (status != DFM_OK)
        return status;
    item *one = find(store, kind, id->text);
    if (one) {
        clear_item(one);
        *one = store->items[--store->count];
    }
    return end(store, one ? DFM_OK : DFM_ERROR_NOT_FOUND, error);
}

static int compare_ids(const void *a, const void *b) {
    return strcmp(((const dfm_id *)a)->text, ((const dfm_id *)b)->text);
}

static dfm_status list(void *context, dfm_store_kind kind, const char *after, size_t limit,
                       dfm_id *ids, size_t *count, bool *more, dfm_error *error) {
    fake_store *store = context;
    dfm_id all[ITEMS_MAX];
    size_t found = 0;
    *count = 0;
    *more = false;
    dfm_status status = begin(store, error);
    if (status != DFM_OK)
        return status;
    for (size_t i = 0; i < store->count; i++)
        if (store->items[i].kind == kind && (!after || strcmp(store->items[i].id.text, after) > 0))
            all[found++] = store->items[i].id;
    qsort(all, found, sizeof *all, compare_ids);
    *count = found < limit ? found : limit;
    *more = found > limit;
    memcpy(ids, all, *count * sizeof *ids);
    return end(store, DFM_OK, error);
}

dfm_store fake_store_interface(fake_store *store) {
    return (dfm_store){.context = store,
                       .put = put,
                       .read_about = read_about,
                       .write_about = write_about,
                       .read_bytes = read_bytes,
                       .remove = remove_item,
                       .list = list};
}

void fake_store_fail(fake_store *store, dfm_status status) {
    store->failure = status;
}

void fake_store_fail_nth(fake_store *store, unsigned n, dfm_status status) {
    store->nth = n;
    store->nth_failure = status;
}

void fake_store_meanwhile(fake_store *store, unsigned n, void (*act)(void)) {
    store->meanwhile = n;
    store->act = act;
}

void fake_store_slow(fake_store *store, unsigned milliseconds) {
    store->slow_ms = milliseconds;
}

fake_counts fake_store_count(fake_store *store) {
    return store->counts;
}

size_t fake_store_items(fake_store *store) {
    return store->count;
}

/* Of either kind. */
static item *find_any(fake_store *store, const char *id) {
    item *one = find(store, DFM_STORE_MODEL, id);
    return one ? one : find(store, DFM_STORE_MOTION, id);
}

const char *fake_store_about(fake_store *store, const char *id) {
    const item *one = find_any(store, id);
    return one ? one->about : NULL;
}

void fake_store_damage(fake_store *store, const char *id) {
    item *one = find_any(store, id);
    one->bytes[one->size / 2] ^= 1;
}

void fake_store_set_about(fake_store *store, const char *id, const char *about) {
    item *one = find_any(store, id);
    free(one->about);
    one->about = copy_text(about);
}

void fake_store_drop(fake_store *store, const char *id) {
    item *one = find_any(store, id);
    clear_item(one);
    *one = store->items[--store->count];
}
