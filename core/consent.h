/* The last word on an item that is complete, and that nobody else sees yet: a cache asks for it
 * right before it shows the item, with no lock held, and drops the item where it is refused.
 * Whoever keeps items elsewhere too is through with that before anybody can rely on them.
 * Thread safety: the owner's. */
#ifndef DFM_CORE_CONSENT_H
#define DFM_CORE_CONSENT_H

#include "core/status.h"

typedef struct dfm_consent {
    dfm_status (*ask)(void *context, void *item, dfm_error *error);
    void *context;
} dfm_consent;

/* NULL consents to everything. */
static inline dfm_status dfm_consent_ask(const dfm_consent *consent, void *item, dfm_error *error) {
    return consent ? consent->ask(consent->context, item, error) : DFM_OK;
}

#endif
