#include "server/gate.h"

#include <stdbool.h>

void dfm_gate_init(dfm_gate *gate, size_t limit) {
    atomic_init(&gate->inside, 0);
    atomic_init(&gate->waiting, 0);
    gate->limit = limit;
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->left, NULL);
}

void dfm_gate_destroy(dfm_gate *gate) {
    pthread_cond_destroy(&gate->left);
    pthread_mutex_destroy(&gate->lock);
}

/* `waiting` rises before `inside` is read again, and leave lowers `inside` before it reads
 * `waiting`: one of the two sees the other, so no wake-up is lost. */
void dfm_gate_wait(dfm_gate *gate) {
    if (atomic_load(&gate->inside) < gate->limit)
        return;
    pthread_mutex_lock(&gate->lock);
    atomic_fetch_add(&gate->waiting, 1);
    while (atomic_load(&gate->inside) >= gate->limit)
        pthread_cond_wait(&gate->left, &gate->lock);
    atomic_fetch_sub(&gate->waiting, 1);
    pthread_mutex_unlock(&gate->lock);
}

void dfm_gate_enter(dfm_gate *gate, size_t bytes) {
    atomic_fetch_add(&gate->inside, bytes);
}

void dfm_gate_leave(dfm_gate *gate, size_t bytes) {
    size_t before = atomic_fetch_sub(&gate->inside, bytes);
    bool opens = before >= gate->limit && before - bytes < gate->limit;
    if (!opens || atomic_load(&gate->waiting) == 0)
        return;
    pthread_mutex_lock(&gate->lock);
    pthread_cond_broadcast(&gate->left);
    pthread_mutex_unlock(&gate->lock);
}
