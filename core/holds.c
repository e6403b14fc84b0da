#include "core/holds.h"

#include <string.h>

void dfm_holds_init(dfm_holds *holds) {
    pthread_mutex_init(&holds->lock, NULL);
    pthread_cond_init(&holds->let_go, NULL);
    holds->first = NULL;
}

void dfm_holds_destroy(dfm_holds *holds) {
    pthread_mutex_destroy(&holds->lock);
    pthread_cond_destroy(&holds->let_go);
}

/* With the lock. */
static bool is_held(const dfm_holds *holds, const dfm_hold *hold) {
    const dfm_hold *h = holds->first;
    while (h && (h->kind != hold->kind || strcmp(h->id, hold->id) != 0))
        h = h->next;
    return h != NULL;
}

static bool take(dfm_holds *holds, dfm_hold *hold, bool wait) {
    pthread_mutex_lock(&holds->lock);
    while (wait && is_held(holds, hold))
        pthread_cond_wait(&holds->let_go, &holds->lock);
    bool taken = !is_held(holds, hold);
    if (taken) {
        hold->next = holds->first;
        holds->first = hold;
    }
    pthread_mutex_unlock(&holds->lock);
    return taken;
}

void dfm_hold_take(dfm_holds *holds, dfm_hold *hold) {
    take(holds, hold, true);
}

bool dfm_hold_try(dfm_holds *holds, dfm_hold *hold) {
    return take(holds, hold, false);
}

void dfm_hold_let_go(dfm_holds *holds, dfm_hold *hold) {
    pthread_mutex_lock(&holds->lock);
    dfm_hold **link = &holds->first;
    while (*link != hold)
        link = &(*link)->next;
    *link = hold->next;
    pthread_cond_broadcast(&holds->let_go);
    pthread_mutex_unlock(&holds->lock);
}
