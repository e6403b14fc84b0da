/* A store in memory for tests: it can fail, lose and damage what it holds, and be changed as by
 * another process. Thread safety: any thread, but for the switches. */
#ifndef DFM_TESTS_SUPPORT_STORE_H
#define DFM_TESTS_SUPPORT_STORE_H

#include "api/store.h"

typedef struct fake_store fake_store;

fake_store *fake_store_create(void);
void fake_store_free(fake_store *store);
dfm_store fake_store_interface(fake_store *store);

/* Every call from now on fails with this status; DFM_OK: none does. */
void fake_store_fail(fake_store *store, dfm_status status);

/* Only the `n`th call from now on, counted from 1, fails. */
void fake_store_fail_nth(fake_store *store, unsigned n, dfm_status status);

/* Right before the `n`th call from now on, counted from 1, `act` is called, without a lock: it may
 * do what another process does, through the interface or the functions below. */
void fake_store_meanwhile(fake_store *store, unsigned n, void (*act)(void));

/* How long read_bytes takes. */
void fake_store_slow(fake_store *store, unsigned milliseconds);

typedef struct fake_counts {
    unsigned calls, reads; /* all, and read_bytes, failed ones too */
} fake_counts;
fake_counts fake_store_count(fake_store *store);

/* Of what is stored: how many items, an item's about (NULL: there is none), and damage to one byte
 * of its file, or its whole about. */
size_t fake_store_items(fake_store *store);
const char *fake_store_about(fake_store *store, const char *id);
void fake_store_damage(fake_store *store, const char *id);
void fake_store_set_about(fake_store *store, const char *id, const char *about);
void fake_store_drop(fake_store *store, const char *id);

#endif
