#include "api/library.h"

#include "api/about.h"
#include "api/doc.h"
#include "api/documents.h"
#include "api/motion_documents.h"
#include "core/holds.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct dfm_library {
    dfm_cache *cache;
    dfm_motion_store *motions;
    const dfm_skinners *skinners;
    const dfm_store *store; /* NULL: none */
    bool strict_mode;
    uint64_t check_ns;
    dfm_buffers buffers;
    void (*note)(void *context, const char *message);
    void *note_context;
    dfm_holds holds; /* of items that are loaded, stored, changed or removed */
    atomic_uint_fast64_t loads, checks, puts, removes, failures;
    atomic_bool failing;
};

/* What models and motions differ in. Items are dfm_resident or dfm_stored_motion, with a reference
 * for the caller. */
typedef struct kind_functions {
    dfm_status (*find)(dfm_library *library, const char *id, void **item, dfm_error *error);
    dfm_status (*restore)(dfm_library *library, const uint8_t *bytes, size_t size,
                          const dfm_about *about, const dfm_consent *consent, void **item,
                          dfm_error *error);
    /* Whether the item is the upload that the store has, and not one of before it was removed and
     * uploaded again. */
    bool (*is_of)(const void *item, const dfm_about *about);
    /* Brings what is in memory to the settings that the store has; takes *item over. */
    dfm_status (*follow)(dfm_library *library, const dfm_about *about, void **item,
                         dfm_error *error);
    void (*forget)(dfm_library *library, const char *id);
    bool (*is_checked)(dfm_library *library, const char *id, uint64_t since_ns);
    _Atomic uint64_t *(*checked_ns)(void *item);
    void (*release)(void *item);
    cJSON *(*document)(dfm_library *library, void *item);
} kind_functions;

/* --- models ------------------------------------------------------------------------------------
 */

static dfm_status find_model(dfm_library *library, const char *id, void **item, dfm_error *error) {
    dfm_resident *resident;
    dfm_status status = dfm_cache_get(library->cache, id, &resident, error);
    *item = resident;
    return status;
}

static dfm_status restore_model(dfm_library *library, const uint8_t *bytes, size_t size,
                                const dfm_about *about, const dfm_consent *consent, void **item,
                                dfm_error *error) {
    dfm_resident *resident;
    dfm_status status = dfm_cache_restore(library->cache, bytes, size, about->created_unix_s,
                                          &about->settings, consent, &resident, error);
    *item = resident;
    return status;
}

static bool is_resident_of(const void *item, const dfm_about *about) {
    const dfm_resident *resident = item;
    return resident->created_unix_s == about->created_unix_s &&
           memcmp(resident->digest, about->digest, DFM_DIGEST_BYTES) == 0;
}

static const dfm_settings_given all_given = {.mode = true, .sdef = true, .weights = true};

static bool same_settings(const dfm_settings *a, const dfm_settings *b) {
    return a->mode == b->mode && a->sdef == b->sdef && a->weights == b->weights;
}

static dfm_status follow_model(dfm_library *library, const dfm_about *about, void **item,
                               dfm_error *error) {
    dfm_resident *old = *item, *now;
    if (same_settings(&old->settings, &about->settings))
        return DFM_OK;
    dfm_status status = dfm_cache_configure(library->cache, old->id.text, NULL, &about->settings,
                                            all_given, &now, error);
    if (status != DFM_OK)
        old->checked_ns = 0; /* whoever comes next is not served what the store has no more */
    dfm_resident_release(old);
    *item = status == DFM_OK ? now : NULL;
    return status;
}

static void forget_model(dfm_library *library, const char *id) {
    dfm_cache_delete(library->cache, id, NULL, NULL);
}

static bool is_model_checked(dfm_library *library, const char *id, uint64_t since_ns) {
    return dfm_cache_is_checked(library->cache, id, since_ns);
}

static _Atomic uint64_t *model_checked_ns(void *item) {
    return &((dfm_resident *)item)->checked_ns;
}

static void release_model(void *item) {
    dfm_resident_release(item);
}

static cJSON *model_document(dfm_library *library, void *item) {
    return dfm_document_model(item, library->skinners);
}

/* --- motions -----------------------------------------------------------------------------------
 */

static dfm_status find_motion(dfm_library *library, const char *id, void **item, dfm_error *error) {
    dfm_stored_motion *stored;
    dfm_status status = dfm_motion_store_get(library->motions, id, &stored, error);
    *item = stored;
    return status;
}

static dfm_status restore_motion(dfm_library *library, const uint8_t *bytes, size_t size,
                                 const dfm_about *about, const dfm_consent *consent, void **item,
                                 dfm_error *error) {
    dfm_stored_motion *stored;
    dfm_status status = dfm_motion_store_restore(library->motions, bytes, size,
                                                 about->created_unix_s, consent, &stored, error);
    *item = stored;
    return status;
}

static bool is_motion_of(const void *item, const dfm_about *about) {
    const dfm_stored_motion *stored = item;
    return stored->created_unix_s == about->created_unix_s &&
           memcmp(stored->digest, about->digest, DFM_DIGEST_BYTES) == 0;
}

static dfm_status follow_motion(dfm_library *library, const dfm_about *about, void **item,
                                dfm_error *error) {
    (void)library, (void)about, (void)item, (void)error;
    return DFM_OK; /* it has no settings */
}

static void forget_motion(dfm_library *library, const char *id) {
    dfm_motion_store_delete(library->motions, id, NULL);
}

static bool is_motion_checked(dfm_library *library, const char *id, uint64_t since_ns) {
    return dfm_motion_store_is_checked(library->motions, id, since_ns);
}

static _Atomic uint64_t *motion_checked_ns(void *item) {
    return &((dfm_stored_motion *)item)->checked_ns;
}

static void release_motion(void *item) {
    dfm_stored_motion_release(item);
}

static cJSON *motion_document(dfm_library *library, void *item) {
    (void)library;
    return dfm_document_motion(item);
}

static const kind_functions kinds[] = {
    [DFM_STORE_MODEL] = {find_model, restore_model, is_resident_of, follow_model, forget_model,
                         is_model_checked, model_checked_ns, release_model, model_document},
    [DFM_STORE_MOTION] = {find_motion, restore_motion, is_motion_of, follow_motion, forget_motion,
                          is_motion_checked, motion_checked_ns, release_motion, motion_document},
};

/* --- the store, and what becomes of it ---------------------------------------------------------
 */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void say(dfm_library *library, const char *what, const char *why) {
    char message[512];
    if (!library->note)
        return;
    snprintf(message, sizeof message, "%s%s", what, why);
    library->note(library->note_context, message);
}

static bool is_store_failure(dfm_status status) {
    return status == DFM_ERROR_STORE || status == DFM_ERROR_STORE_FULL ||
           status == DFM_ERROR_CORRUPT;
}

/* A failure of this process says nothing about the store. */
static bool is_own_failure(dfm_status status) {
    return status == DFM_ERROR_NO_MEMORY || status == DFM_ERROR_NO_ROOM;
}

/* Counts the result of a call to the store. The log hears of damaged items each time, and of a
 * store that fails once, until it works again. */
static dfm_status heard(dfm_library *library, dfm_status status, const dfm_error *error) {
    if (is_own_failure(status))
        return status;
    if (!is_store_failure(status)) {
        if (atomic_load(&library->failing) && atomic_exchange(&library->failing, false))
            say(library, "the store works again", "");
        return status;
    }
    atomic_fetch_add(&library->failures, 1);
    if (status == DFM_ERROR_CORRUPT)
        say(library, "store-corrupt: ", error->info);
    else if (!atomic_exchange(&library->failing, true))
        say(library, "store-failed: ", error->info);
    return status;
}

/* Hands a failure on to the caller, whose first one wins. */
static dfm_status pass_on(dfm_status status, const dfm_error *own, dfm_error *error) {
    if (status != DFM_OK && error && error->status == DFM_OK)
        *error = *own;
    return status;
}

static dfm_status read_about(dfm_library *library, dfm_store_kind kind, const dfm_id *id,
                             dfm_about *about, cJSON **document, dfm_error *error) {
    static _Thread_local char text[DFM_STORE_ABOUT_BYTES];
    dfm_error own = {.status = DFM_OK};
    const dfm_store *store = library->store;
    if (document)
        *document = NULL;
    dfm_status status = store->read_about(store->context, kind, id, text, &own);
    if (status == DFM_OK)
        status = dfm_about_read(text, kind, id, about, document, &own);
    heard(library, status, &own);
    return pass_on(status, &own, error);
}

static bool make_id(const char *text, dfm_id *id) {
    if (strlen(text) != DFM_ID_DIGITS)
        return false;
    memcpy(id->text, text, sizeof id->text);
    return true;
}

static dfm_status fail_no_id(const char *text, dfm_error *error) {
    return dfm_fail(error, DFM_ERROR_NOT_FOUND, NULL, -1, -1, "nothing has the id %.40s", text);
}

/* --- loading -----------------------------------------------------------------------------------
 */

/* Pooled memory for a file on its way from the store. */
typedef struct landing {
    const dfm_buffers *buffers;
    dfm_buffer *buffer;
} landing;

static uint8_t *take_memory(void *taker, size_t size) {
    landing *l = taker;
    l->buffer = l->buffers->acquire(l->buffers->context, size ? size : 1);
    if (!l->buffer)
        return NULL;
    l->buffer->size = size;
    return l->buffer->data;
}

static dfm_status check_digest(const dfm_buffer *buffer, const dfm_id *id, const dfm_about *about,
                               dfm_error *error) {
    uint8_t digest[DFM_DIGEST_BYTES];
    char found[2 * DFM_DIGEST_BYTES + 1], stored[2 * DFM_DIGEST_BYTES + 1];
    dfm_id ignored;
    dfm_digest(buffer->data, buffer->size, digest, &ignored);
    if (memcmp(digest, about->digest, sizeof digest) == 0)
        return DFM_OK;
    dfm_hex(found, digest, DFM_DIGEST_BYTES);
    dfm_hex(stored, about->digest, DFM_DIGEST_BYTES);
    return dfm_fail(error, DFM_ERROR_CORRUPT, NULL, -1, -1,
                    "the stored file of %s is damaged: upload it again; its SHA-256 is %s in place "
                    "of %s",
                    id->text, found, stored);
}

/* The item is held. */
static dfm_status load(dfm_library *library, dfm_store_kind kind, const dfm_id *id, void **item,
                       dfm_error *error) {
    const dfm_store *store = library->store;
    uint64_t asked_ns = now_ns();
    dfm_about about;
    dfm_error own = {.status = DFM_OK};
    landing l = {.buffers = &library->buffers};
    *item = NULL;
    dfm_status status = read_about(library, kind, id, &about, NULL, error);
    if (status != DFM_OK)
        return status;
    status = store->read_bytes(store->context, kind, id, take_memory, &l, &own);
    if (status == DFM_OK)
        status = check_digest(l.buffer, id, &about, &own);
    heard(library, status, &own);
    if (status == DFM_OK) {
        atomic_fetch_add(&library->loads, 1);
        status =
            kinds[kind].restore(library, l.buffer->data, l.buffer->size, &about, NULL, item, &own);
    }
    if (l.buffer)
        l.buffers->release(l.buffers->context, l.buffer);
    if (status == DFM_OK)
        *kinds[kind].checked_ns(*item) = asked_ns;
    return pass_on(status, &own, error);
}

/* Somebody may have loaded it while this waited, or have failed to, which need not be repeated.
 * That it was not there is another matter: it may be by now. The item is held. */
static dfm_status load_or_share(dfm_library *library, dfm_store_kind kind, const dfm_id *id,
                                dfm_hold *hold, void **item, dfm_error *error) {
    if (kinds[kind].is_checked(library, id->text, 0) &&
        kinds[kind].find(library, id->text, item, NULL) == DFM_OK)
        return DFM_OK;
    *item = NULL;
    if (hold->theirs.status != DFM_OK)
        return pass_on(hold->theirs.status, &hold->theirs, error);
    dfm_error own = {.status = DFM_OK};
    dfm_status status = load(library, kind, id, item, &own);
    if (status != DFM_ERROR_NOT_FOUND)
        hold->failure = own;
    return pass_on(status, &own, error);
}

static dfm_status load_once(dfm_library *library, dfm_store_kind kind, const dfm_id *id,
                            void **item, dfm_error *error) {
    dfm_hold own = {.kind = kind, .id = id->text};
    dfm_hold_take(&library->holds, &own);
    dfm_status status = load_or_share(library, kind, id, &own, item, error);
    dfm_hold_let_go(&library->holds, &own);
    return status;
}

/* --- looking again -----------------------------------------------------------------------------
 */

static bool is_due(const dfm_library *library, void *item, dfm_store_kind kind) {
    uint64_t last = atomic_load(kinds[kind].checked_ns(item));
    return last == 0 || now_ns() - last >= library->check_ns;
}

/* Brings an item from memory to what the store says; it is held. `must`: it fails where the store
 * does, else what is in memory is served on. Takes *item over where it fails. */
static dfm_status refresh(dfm_library *library, dfm_store_kind kind, const dfm_id *id, bool must,
                          void **item, dfm_error *error) {
    const kind_functions *functions = &kinds[kind];
    uint64_t asked_ns = now_ns();
    dfm_about about;
    dfm_error own = {.status = DFM_OK};
    atomic_fetch_add(&library->checks, 1);
    dfm_status status = read_about(library, kind, id, &about, NULL, &own);
    if (status == DFM_OK && functions->is_of(*item, &about)) {
        status = functions->follow(library, &about, item, error);
        if (status == DFM_OK)
            *functions->checked_ns(*item) = asked_ns;
        return status;
    }
    bool known = status == DFM_OK || status == DFM_ERROR_NOT_FOUND;
    if (!known && !must)
        return DFM_OK;
    if (known)
        functions->forget(library, id->text);
    functions->release(*item);
    *item = NULL;
    return status == DFM_OK ? load(library, kind, id, item, error) : pass_on(status, &own, error);
}

/* One of those who ask looks, the others need not wait for it. What is being changed needs no look.
 */
static dfm_status check(dfm_library *library, dfm_store_kind kind, const dfm_id *id, void **item,
                        dfm_error *error) {
    dfm_hold own = {.kind = kind, .id = id->text};
    dfm_status status = DFM_OK;
    if (!is_due(library, *item, kind) || !dfm_hold_try(&library->holds, &own))
        return DFM_OK;
    if (is_due(library, *item, kind)) { /* not even by now */
        *kinds[kind].checked_ns(*item) = now_ns();
        status = refresh(library, kind, id, false, item, error);
    }
    dfm_hold_let_go(&library->holds, &own);
    return status;
}

static dfm_status get(dfm_library *library, dfm_store_kind kind, const char *text, void **item,
                      dfm_error *error) {
    dfm_id id;
    if (!library->store || !make_id(text, &id))
        return kinds[kind].find(library, text, item, error);
    if (kinds[kind].find(library, text, item, NULL) == DFM_OK)
        return check(library, kind, &id, item, error);
    return load_once(library, kind, &id, item, error);
}

/* As the store has it now, whenever it was looked at last; it is held. */
static dfm_status get_held(dfm_library *library, dfm_store_kind kind, const dfm_id *id, void **item,
                           dfm_error *error) {
    return kinds[kind].find(library, id->text, item, NULL) == DFM_OK
               ? refresh(library, kind, id, true, item, error)
               : load(library, kind, id, item, error);
}

static dfm_status get_now(dfm_library *library, dfm_store_kind kind, const char *text, void **item,
                          dfm_error *error) {
    dfm_id id;
    if (!library->store || !make_id(text, &id))
        return kinds[kind].find(library, text, item, error);
    dfm_hold own = {.kind = kind, .id = id.text};
    dfm_hold_take(&library->holds, &own);
    dfm_status status = get_held(library, kind, &id, item, error);
    dfm_hold_let_go(&library->holds, &own);
    return status;
}

static dfm_status get_at_once(dfm_library *library, dfm_store_kind kind, const char *text,
                              void **item, dfm_error *error) {
    dfm_error own = {.status = DFM_OK};
    dfm_status status = kinds[kind].find(library, text, item, &own);
    if (library->store && status == DFM_ERROR_EVICTED)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1,
                        "%s has just made room for others: ask again, and it is loaded", text);
    return pass_on(status, &own, error);
}

typedef dfm_status getter(dfm_library *library, dfm_store_kind kind, const char *text, void **item,
                          dfm_error *error);
static getter *const getters[] = {
    [DFM_LIBRARY_CHECKED] = get, [DFM_LIBRARY_NOW] = get_now, [DFM_LIBRARY_AT_ONCE] = get_at_once};

dfm_status dfm_library_get_model(dfm_library *library, const char *id, dfm_library_freshness how,
                                 dfm_resident **resident, dfm_error *error) {
    void *item;
    dfm_status status = getters[how](library, DFM_STORE_MODEL, id, &item, error);
    *resident = item;
    return status;
}

dfm_status dfm_library_get_motion(dfm_library *library, const char *id, dfm_library_freshness how,
                                  dfm_stored_motion **stored, dfm_error *error) {
    void *item;
    dfm_status status = getters[how](library, DFM_STORE_MOTION, id, &item, error);
    *stored = item;
    return status;
}

bool dfm_library_must_ask(dfm_library *library, dfm_store_kind kind, const char *id) {
    if (!library->store)
        return false;
    uint64_t now = now_ns(), since = now > library->check_ns ? now - library->check_ns : 1;
    return !kinds[kind].is_checked(library, id, since);
}

/* --- uploads -----------------------------------------------------------------------------------
 */

static dfm_settings merge(dfm_settings settings, const dfm_settings *wanted,
                          dfm_settings_given given) {
    if (given.mode)
        settings.mode = wanted->mode;
    if (given.sdef)
        settings.sdef = wanted->sdef;
    if (given.weights)
        settings.weights = wanted->weights;
    return settings;
}

/* strict_mode: a model must not be set to gpu where no kernel is to be had. */
static dfm_status check_mode(const dfm_library *library, dfm_mode mode, dfm_error *error) {
    if (!library->strict_mode || mode != DFM_MODE_GPU || library->skinners->opencl)
        return DFM_OK;
    return dfm_fail(error, DFM_ERROR_UNAVAILABLE, NULL, -1, -1, "%s",
                    library->skinners->opencl_unavailable);
}

static dfm_status no_memory(dfm_error *error) {
    return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for what a store keeps");
}

static char *write_about(dfm_library *library, dfm_store_kind kind, const dfm_about *about,
                         void *item) {
    cJSON *document = kinds[kind].document(library, item);
    char *text = document ? dfm_about_write(about, kind, document) : NULL;
    cJSON_Delete(document);
    return text;
}

/* A file on its way into the store, and then into memory. */
typedef struct upload {
    dfm_library *owner;
    dfm_store_kind kind;
    dfm_id id;
    const uint8_t *bytes;
    size_t size;
    dfm_about about;    /* what the store is to say of it */
    bool known;         /* the store had it a moment ago ... */
    bool damaged;       /* ... or has something there that makes no sense */
    bool rewrite;       /* `about` is to replace what it says */
    bool created;       /* it was new to the store */
    bool was_overtaken; /* another process uploaded it in between, with settings of its own */
} upload;

/* What the store says of it; nothing, or nonsense: `fresh`. */
static dfm_status look_up(upload *u, const dfm_about *fresh, dfm_error *error) {
    dfm_error own = {.status = DFM_OK};
    dfm_status status = read_about(u->owner, u->kind, &u->id, &u->about, NULL, &own);
    u->known = status == DFM_OK;
    u->damaged = status == DFM_ERROR_CORRUPT;
    if (u->known && memcmp(u->about.digest, fresh->digest, DFM_DIGEST_BYTES) != 0)
        return dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "another file has the id %s",
                        u->id.text);
    if (!u->known)
        u->about = *fresh;
    return u->known || u->damaged || status == DFM_ERROR_NOT_FOUND ? DFM_OK
                                                                   : pass_on(status, &own, error);
}

/* Memory may still have it from before another process removed it. */
static void forget_other(const upload *u) {
    const kind_functions *functions = &kinds[u->kind];
    void *item;
    if (!functions->is_checked(u->owner, u->id.text, 0) ||
        functions->find(u->owner, u->id.text, &item, NULL) != DFM_OK)
        return;
    if (!u->known || !functions->is_of(item, &u->about))
        functions->forget(u->owner, u->id.text);
    functions->release(item);
}

/* The consent to an upload that was read and bound: the store has it. */
static dfm_status store_upload(void *context, void *item, dfm_error *error) {
    upload *u = context;
    const dfm_store *store = u->owner->store;
    uint64_t asked_ns = now_ns();
    dfm_error own = {.status = DFM_OK};
    char *text = write_about(u->owner, u->kind, &u->about, item);
    if (!text)
        return no_memory(error);
    dfm_status status =
        store->put(store->context, u->kind, &u->id, u->bytes, u->size, text, &u->created, &own);
    u->was_overtaken = status == DFM_OK && !u->created && !u->known && !u->damaged;
    if (status == DFM_OK && !u->created && u->rewrite)
        status = store->write_about(store->context, u->kind, &u->id, text, &own);
    free(text);
    heard(u->owner, status, &own);
    /* Removed between the two. */
    u->was_overtaken = u->was_overtaken || status == DFM_ERROR_NOT_FOUND;
    if (u->was_overtaken)
        return DFM_ERROR_CONFLICT;
    if (status == DFM_OK) {
        atomic_fetch_add(&u->owner->puts, 1);
        *kinds[u->kind].checked_ns(item) = asked_ns;
    }
    return pass_on(status, &own, error);
}

static dfm_status try_upload(upload *u, const dfm_about *fresh, const dfm_settings *wanted,
                             dfm_settings_given given, void **item, dfm_error *error) {
    const dfm_consent consent = {store_upload, u};
    u->was_overtaken = false;
    dfm_status status = look_up(u, fresh, error);
    if (status != DFM_OK)
        return status;
    dfm_settings before = u->about.settings;
    u->about.settings = merge(before, wanted, given);
    u->rewrite = u->damaged || !same_settings(&before, &u->about.settings);
    forget_other(u);
    if (u->kind == DFM_STORE_MODEL)
        status = check_mode(u->owner, u->about.settings.mode, error);
    return status != DFM_OK ? status
                            : kinds[u->kind].restore(u->owner, u->bytes, u->size, &u->about,
                                                     &consent, item, error);
}

/* An upload with a store: read and bound first, so that only good files are stored; then stored, so
 * that nobody sees what could still be lost; then shown. */
static dfm_status put_through(dfm_library *library, dfm_store_kind kind, const uint8_t *bytes,
                              size_t size, const dfm_settings *wanted, dfm_settings_given given,
                              void **item, bool *created, dfm_error *error) {
    enum { TRIES = 8 };
    dfm_about fresh = {
        .file_bytes = size, .created_unix_s = (int64_t)time(NULL), .settings = *wanted};
    upload u = {.owner = library, .kind = kind, .bytes = bytes, .size = size};
    *item = NULL;
    dfm_digest(bytes, size, fresh.digest, &u.id);
    dfm_hold own = {.kind = kind, .id = u.id.text};
    dfm_hold_take(&library->holds, &own);
    dfm_status status = try_upload(&u, &fresh, wanted, given, item, error);
    for (int i = 1; u.was_overtaken && i < TRIES; i++)
        status = try_upload(&u, &fresh, wanted, given, item, error);
    dfm_hold_let_go(&library->holds, &own);
    *created = u.created;
    return u.was_overtaken ? dfm_fail(error, DFM_ERROR_STORE, NULL, -1, -1,
                                      "others upload and remove %s all the time", u.id.text)
                           : status;
}

/* The mode that an upload without a store would leave the model in. */
static dfm_mode mode_after(dfm_library *library, const uint8_t *bytes, size_t size,
                           const dfm_settings *settings, dfm_settings_given given) {
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_id id;
    dfm_resident *resident;
    if (given.mode || !library->strict_mode)
        return settings->mode;
    dfm_digest(bytes, size, digest, &id);
    if (dfm_cache_get(library->cache, id.text, &resident, NULL) != DFM_OK)
        return settings->mode;
    dfm_mode mode = resident->settings.mode;
    dfm_resident_release(resident);
    return mode;
}

dfm_status dfm_library_put_model(dfm_library *library, const uint8_t *bytes, size_t size,
                                 const dfm_settings *settings, dfm_settings_given given,
                                 dfm_resident **resident, bool *created, dfm_error *error) {
    if (library->store) {
        void *item;
        dfm_status status = put_through(library, DFM_STORE_MODEL, bytes, size, settings, given,
                                        &item, created, error);
        *resident = item;
        return status;
    }
    *resident = NULL;
    dfm_status status =
        check_mode(library, mode_after(library, bytes, size, settings, given), error);
    return status != DFM_OK ? status
                            : dfm_cache_put(library->cache, bytes, size, settings, given, resident,
                                            created, error);
}

dfm_status dfm_library_put_motion(dfm_library *library, const uint8_t *bytes, size_t size,
                                  dfm_stored_motion **stored, bool *created, dfm_error *error) {
    if (!library->store)
        return dfm_motion_store_put(library->motions, bytes, size, stored, created, error);
    void *item;
    dfm_status status = put_through(library, DFM_STORE_MOTION, bytes, size, &(dfm_settings){0},
                                    (dfm_settings_given){0}, &item, created, error);
    *stored = item;
    return status;
}

/* --- changes -----------------------------------------------------------------------------------
 */

/* New settings on their way into the store, and then into memory. */
typedef struct change {
    dfm_library *owner;
    const dfm_id *id;
    dfm_about about;
} change;

/* The consent to settings with which the model was bound: the store has them. */
static dfm_status store_change(void *context, void *item, dfm_error *error) {
    const change *c = context;
    const dfm_store *store = c->owner->store;
    uint64_t asked_ns = now_ns();
    dfm_error own = {.status = DFM_OK};
    char *text = write_about(c->owner, DFM_STORE_MODEL, &c->about, item);
    if (!text)
        return no_memory(error);
    dfm_status status = store->write_about(store->context, DFM_STORE_MODEL, c->id, text, &own);
    free(text);
    heard(c->owner, status, &own);
    if (status == DFM_OK)
        *model_checked_ns(item) = asked_ns;
    return pass_on(status, &own, error);
}

static dfm_status configure_held(dfm_library *library, const dfm_id *id, const char *if_match,
                                 const dfm_settings *settings, dfm_settings_given given,
                                 dfm_resident **resident, dfm_error *error) {
    void *item;
    dfm_status status = get_held(library, DFM_STORE_MODEL, id, &item, error);
    if (status != DFM_OK)
        return status;
    dfm_resident *now = item;
    change c = {.owner = library,
                .id = id,
                .about = {.file_bytes = now->file_bytes,
                          .created_unix_s = now->created_unix_s,
                          .settings = merge(now->settings, settings, given)}};
    const dfm_consent consent = {store_change, &c};
    memcpy(c.about.digest, now->digest, sizeof c.about.digest);
    bool changes = !same_settings(&c.about.settings, &now->settings);
    status = dfm_cache_configure_asking(library->cache, id->text, if_match, &c.about.settings,
                                        all_given, changes ? &consent : NULL, resident, error);
    if (status == DFM_ERROR_NOT_FOUND) /* removed in between */
        forget_model(library, id->text);
    dfm_resident_release(now);
    return status;
}

dfm_status dfm_library_configure(dfm_library *library, const char *id, const char *if_match,
                                 const dfm_settings *settings, dfm_settings_given given,
                                 dfm_resident **resident, dfm_error *error) {
    *resident = NULL;
    if (given.mode) {
        dfm_status status = check_mode(library, settings->mode, error);
        if (status != DFM_OK)
            return status;
    }
    if (!library->store)
        return dfm_cache_configure(library->cache, id, if_match, settings, given, resident, error);
    dfm_id held_id;
    if (!make_id(id, &held_id))
        return fail_no_id(id, error);
    dfm_hold own = {.kind = DFM_STORE_MODEL, .id = held_id.text};
    dfm_hold_take(&library->holds, &own);
    dfm_status status =
        configure_held(library, &held_id, if_match, settings, given, resident, error);
    dfm_hold_let_go(&library->holds, &own);
    return status;
}

/* With a store the tag may have been changed by another process. */
static dfm_status check_tag(dfm_library *library, const dfm_id *id, const char *if_match,
                            dfm_error *error) {
    void *item;
    dfm_status status = get_held(library, DFM_STORE_MODEL, id, &item, error);
    if (status != DFM_OK)
        return status;
    dfm_resident *now = item;
    if (strcmp(now->etag, if_match) != 0)
        status = dfm_fail(error, DFM_ERROR_CONFLICT, NULL, -1, -1, "the model's ETag is %s, not %s",
                          now->etag, if_match);
    dfm_resident_release(now);
    return status;
}

/* From the store, then from memory; it is held. */
static dfm_status remove_held(dfm_library *library, dfm_store_kind kind, const dfm_id *id,
                              dfm_error *error) {
    const dfm_store *store = library->store;
    dfm_error own = {.status = DFM_OK};
    dfm_status status = store->remove(store->context, kind, id, &own);
    heard(library, status, &own);
    if (status == DFM_OK || status == DFM_ERROR_NOT_FOUND)
        kinds[kind].forget(library, id->text);
    if (status == DFM_OK)
        atomic_fetch_add(&library->removes, 1);
    return pass_on(status, &own, error);
}

static dfm_status remove_item(dfm_library *library, dfm_store_kind kind, const char *text,
                              const char *if_match, dfm_error *error) {
    dfm_id id;
    if (!make_id(text, &id))
        return fail_no_id(text, error);
    dfm_hold own = {.kind = kind, .id = id.text};
    dfm_hold_take(&library->holds, &own);
    dfm_status status = if_match ? check_tag(library, &id, if_match, error) : DFM_OK;
    if (status == DFM_OK)
        status = remove_held(library, kind, &id, error);
    dfm_hold_let_go(&library->holds, &own);
    return status;
}

dfm_status dfm_library_delete_model(dfm_library *library, const char *id, const char *if_match,
                                    dfm_error *error) {
    return library->store ? remove_item(library, DFM_STORE_MODEL, id, if_match, error)
                          : dfm_cache_delete(library->cache, id, if_match, error);
}

dfm_status dfm_library_delete_motion(dfm_library *library, const char *id, dfm_error *error) {
    return library->store ? remove_item(library, DFM_STORE_MOTION, id, NULL, error)
                          : dfm_motion_store_delete(library->motions, id, error);
}

/* --- lists -------------------------------------------------------------------------------------
 */

/* False: no memory. */
static bool set(cJSON *document, const char *key, cJSON *value) {
    bool held = value && cJSON_ReplaceItemInObjectCaseSensitive(document, key, value);
    if (!held && value)
        held = cJSON_AddItemToObject(document, key, value);
    if (!held)
        cJSON_Delete(value);
    return held && value->string;
}

/* The document that was stored, with what can differ by now: the settings, what runs in this
 * process, and that it is not in memory. False: no memory. */
static bool freshen(const dfm_library *library, dfm_store_kind kind, const dfm_about *about,
                    cJSON *document) {
    if (!set(document, "resident_bytes", cJSON_CreateNumber(0)))
        return false;
    if (kind == DFM_STORE_MOTION)
        return true;
    const dfm_settings *settings = &about->settings;
    bool gpu = settings->mode == DFM_MODE_GPU && library->skinners->opencl;
    const char *effective = dfm_mode_words[gpu ? DFM_MODE_GPU : DFM_MODE_CPU];
    return set(document, "mode", cJSON_CreateString(dfm_mode_words[settings->mode])) &&
           set(document, "effective_mode", cJSON_CreateString(effective)) &&
           set(document, "sdef", cJSON_CreateBool(settings->sdef)) &&
           set(document, "weights", cJSON_CreateString(dfm_weights_words[settings->weights]));
}

/* The document of what is not in memory; *document stays NULL where the store has none. */
static dfm_status describe_stored(dfm_library *library, dfm_store_kind kind, const dfm_id *id,
                                  cJSON **document, dfm_error *error) {
    dfm_about about;
    dfm_status status = read_about(library, kind, id, &about, document, error);
    if (status != DFM_OK || !*document || freshen(library, kind, &about, *document))
        return status;
    cJSON_Delete(*document);
    *document = NULL;
    return no_memory(error);
}

/* The others are listed all the same. */
static bool is_left_out(dfm_status status) {
    return status == DFM_ERROR_NOT_FOUND || status == DFM_ERROR_CORRUPT;
}

/* *document stays NULL where the item is gone by now, or damaged. */
static dfm_status describe(dfm_library *library, dfm_store_kind kind, const dfm_id *id,
                           cJSON **document, dfm_error *error) {
    const kind_functions *functions = &kinds[kind];
    dfm_status status = DFM_OK;
    dfm_error own = {.status = DFM_OK};
    void *item;
    *document = NULL;
    if (!functions->is_checked(library, id->text, 0)) /* not in memory */
        status = describe_stored(library, kind, id, document, &own);
    if (status == DFM_OK && !*document) {
        status = get(library, kind, id->text, &item, &own);
        if (status == DFM_OK) {
            *document = functions->document(library, item);
            functions->release(item);
            if (!*document)
                return no_memory(error);
        }
    }
    return is_left_out(status) ? DFM_OK : pass_on(status, &own, error);
}

/* What a page is made of. */
typedef struct page {
    dfm_doc doc;
    cJSON *root, *list;
} page;

static page begin_page(dfm_store_kind kind) {
    page p = {0};
    p.root = dfm_doc_object(&p.doc);
    p.list = dfm_doc_add_array(&p.doc, p.root, kind == DFM_STORE_MODEL ? "models" : "motions");
    return p;
}

static dfm_status end_page(page *p, const char *next, cJSON **document, dfm_error *error) {
    if (next)
        dfm_doc_add_string(&p->doc, p->root, "next", next);
    else
        dfm_doc_add_null(&p->doc, p->root, "next");
    *document = dfm_doc_done(&p->doc, p->root);
    return *document ? DFM_OK : no_memory(error);
}

static dfm_status list_stored(dfm_library *library, dfm_store_kind kind, const char *after,
                              size_t limit, cJSON **document, dfm_error *error) {
    const dfm_store *store = library->store;
    size_t count;
    bool more;
    dfm_id *ids = calloc(limit, sizeof *ids);
    if (!ids)
        return no_memory(error);
    dfm_status status = store->list(store->context, kind, after, limit, ids, &count, &more, error);
    heard(library, status, error);
    page p = begin_page(kind);
    for (size_t i = 0; status == DFM_OK && i < count && !p.doc.failed; i++) {
        cJSON *item;
        status = describe(library, kind, &ids[i], &item, error);
        if (item)
            dfm_doc_add(&p.doc, p.list, NULL, item);
    }
    if (status == DFM_OK)
        status = end_page(&p, more && count > 0 ? ids[count - 1].text : NULL, document, error);
    else
        cJSON_Delete(p.root);
    free(ids);
    return status;
}

static dfm_status list_memory(dfm_library *library, dfm_store_kind kind, const char *after,
                              size_t limit, cJSON **document, dfm_error *error) {
    bool more;
    void **items = calloc(limit, sizeof *items);
    if (!items)
        return no_memory(error);
    size_t count = kind == DFM_STORE_MODEL
                       ? dfm_cache_list(library->cache, after, limit, (dfm_resident **)items, &more)
                       : dfm_motion_store_list(library->motions, after, limit,
                                               (dfm_stored_motion **)items, &more);
    char last[DFM_ID_DIGITS + 1] = "";
    page p = begin_page(kind);
    for (size_t i = 0; i < count; i++) {
        if (!p.doc.failed)
            dfm_doc_add(&p.doc, p.list, NULL, kinds[kind].document(library, items[i]));
        if (i + 1 == count)
            memcpy(last,
                   kind == DFM_STORE_MODEL ? ((dfm_resident *)items[i])->id.text
                                           : ((dfm_stored_motion *)items[i])->id.text,
                   sizeof last);
        kinds[kind].release(items[i]);
    }
    free(items);
    return end_page(&p, more && count > 0 ? last : NULL, document, error);
}

dfm_status dfm_library_list(dfm_library *library, dfm_store_kind kind, const char *after,
                            size_t limit, cJSON **document, dfm_error *error) {
    *document = NULL;
    return (library->store ? list_stored : list_memory)(library, kind, after, limit, document,
                                                        error);
}

/* --- life --------------------------------------------------------------------------------------
 */

dfm_library *dfm_library_create(const dfm_api_config *config) {
    dfm_library *library = calloc(1, sizeof *library);
    if (!library)
        return NULL;
    library->cache = config->cache;
    library->motions = config->motions;
    library->skinners = config->skinners;
    library->store = config->store;
    library->strict_mode = config->strict_mode;
    library->check_ns = config->store_check_ms * 1000000;
    library->buffers = config->buffers;
    library->note = config->note;
    library->note_context = config->note_context;
    dfm_holds_init(&library->holds);
    return library;
}

void dfm_library_free(dfm_library *library) {
    if (!library)
        return;
    dfm_holds_destroy(&library->holds);
    free(library);
}

dfm_library_stats dfm_library_get_stats(dfm_library *library) {
    return (dfm_library_stats){.has_store = library->store != NULL,
                               .loads = library->loads,
                               .checks = library->checks,
                               .puts = library->puts,
                               .removes = library->removes,
                               .failures = library->failures,
                               .failing = library->failing};
}
