/* Holds workers back while too many finished answers wait for the HTTP thread.
 *
 * Without it a worker that is faster than the sending piles up results: each takes memory that was
 * never touched before, and is out of the CPU's cache by the time it is sent. Answers that were
 * handed to the kernel, or wait for a slow reader, do not count. Thread safety: any thread. */
#ifndef DFM_SERVER_GATE_H
#define DFM_SERVER_GATE_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct dfm_gate {
    atomic_uint inside, waiting;
    unsigned limit;
    pthread_mutex_t lock; /* only taken where somebody waits */
    pthread_cond_t left;
} dfm_gate;

void dfm_gate_init(dfm_gate *gate, unsigned limit);
void dfm_gate_destroy(dfm_gate *gate);

/* Waits until fewer than the limit are inside. Callers at the same time may pass together. */
void dfm_gate_wait(dfm_gate *gate);
void dfm_gate_enter(dfm_gate *gate);
void dfm_gate_leave(dfm_gate *gate);

#endif
