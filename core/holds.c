#include "core/holds.h"

#include <string.h>

void dfm_holds_init(dfm_holds *holds) {
    pthread_mutex_init(&holds->lock, NULL);
    pthread_cond_init(&holds->let_go, NULL);
    holds->first = holds->waiting = NULL;
}

void dfm_holds_destroy(dfm_holds *holds) {
    pthread_mutex_destroy(&holds->lock);
    pthread_cond_destroy(&holds->let_go);
}

static bool is_same(const dfm_hold *a, const dfm_hold *b) {
    return a->kind == b->kind && strcmp(a->id, b->id) == 0;
}

/* --- with the lock -------------------------------------------------------------------------- */

static bool is_held(const dfm_holds *holds, const dfm_hold *hold) {
    const dfm_hold *h = holds->first;
    while (h && !is_same(h, hold))
        h = h->next;
    return h != NULL;
}

static void push(dfm_hold **list, dfm_hold *hold) {
    hold->next = *list;
    *list = hold;
}

static void remove_from(dfm_hold **list, const dfm_hold *hold) {
    while (*list != hold)
        list = &(*list)->next;
    *list = hold->next;
}

static void wait_for(dfm_holds *holds, dfm_hold *hold) {
    push(&holds->waiting, hold);
    while (is_held(holds, hold))
        pthread_cond_wait(&holds->let_go, &holds->lock);
    remove_from(&holds->waiting, hold);
}

static void pass_on(const dfm_holds *holds, const dfm_hold *hold) {
    for (dfm_hold *w = holds->waiting; w; w = w->next) {
        if (is_same(w, hold))
            w->theirs = hold->failure;
    }
}

/* --- public --------------------------------------------------------------------------------- */

void dfm_hold_take(dfm_holds *holds, dfm_hold *hold) {
    dfm_error_clear(&hold->failure);
    dfm_error_clear(&hold->theirs);
    pthread_mutex_lock(&holds->lock);
    if (is_held(holds, hold))
        wait_for(holds, hold);
    push(&holds->first, hold);
    pthread_mutex_unlock(&holds->lock);
}

bool dfm_hold_try(dfm_holds *holds, dfm_hold *hold) {
    dfm_error_clear(&hold->failure);
    dfm_error_clear(&hold->theirs);
    pthread_mutex_lock(&holds->lock);
    bool taken = !is_held(holds, hold);
    if (taken)
        push(&holds->first, hold);
    pthread_mutex_unlock(&holds->lock);
    return taken;
}

void dfm_hold_let_go(dfm_holds *holds, dfm_hold *hold) {
    pthread_mutex_lock(&holds->lock);
    remove_from(&holds->first, hold);
    if (hold->failure.status != DFM_OK)
        pass_on(holds, hold);
    pthread_cond_broadcast(&holds->let_go);
    pthread_mutex_unlock(&holds->lock);
}
