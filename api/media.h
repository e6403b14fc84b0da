/* Media types: what a Content-Type says, and which form an Accept header wants (RFC 9110, 12.5.1).
 * Thread safety: no state. */
#ifndef DFM_API_MEDIA_H
#define DFM_API_MEDIA_H

#include <stdbool.h>
#include <stddef.h>

#define DFM_MEDIA_JSON "application/json"
#define DFM_MEDIA_MERGE_PATCH "application/merge-patch+json"
#define DFM_MEDIA_BYTES "application/octet-stream"
#define DFM_MEDIA_FORM "application/x-www-form-urlencoded"
#define DFM_MEDIA_MULTIPART "multipart/form-data"
#define DFM_MEDIA_POSE "application/x-deformd-pose"
#define DFM_MEDIA_MATRICES "application/x-deformd-matrices"
#define DFM_MEDIA_VPD "text/x-vpd"
#define DFM_MEDIA_PC2 "application/x-pc2"
#define DFM_MEDIA_MDD "application/x-mdd"
#define DFM_MEDIA_TEXT "text/plain"
#define DFM_MEDIA_METRICS "text/plain; version=0.0.4; charset=utf-8"
#define DFM_MEDIA_YAML "application/yaml"

/* Whether a Content-Type is `type` ("application/json"), parameters and case aside. */
bool dfm_media_is(const char *content_type, const char *type);

/* Which of `offers` an Accept header likes best: the highest quality, of equals the first. -1:
 * none. NULL or empty: the first. What cannot be read as a range is passed over. */
int dfm_media_choose(const char *accept, const char *const *offers, size_t count);

#endif
