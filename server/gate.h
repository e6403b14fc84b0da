/* Holds workers back while too many bytes of finished answers wait for the HTTP thread.
 *
 * Without it a worker that is faster than the sending piles up results: each takes memory that was
 * never touched before, and is out of the CPU's cache by the time it is sent. Answers that were
 * handed to the kernel, or wait for a slow reader, do not count. Thread safety: any thread. */
#ifndef DFM_SERVER_GATE_H
#define DFM_SERVER_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

typedef struct dfm_gate {
    atomic_size_t inside; /* bytes */
    atomic_uint waiting;
    size_t limit;
    pthread_mutex_t lock; /* only taken where somebody waits */
    pthread_cond_t left;
} dfm_gate;

void dfm_gate_init(dfm_gate *gate, size_t limit);
void dfm_gate_destroy(dfm_gate *gate);

/* Waits until fewer bytes than the limit are inside. Callers at the same time may pass together,
 * and what they bring may exceed it. */
void dfm_gate_wait(dfm_gate *gate);
void dfm_gate_enter(dfm_gate *gate, size_t bytes);
void dfm_gate_leave(dfm_gate *gate, size_t bytes); /* as many as entered */

#endif
