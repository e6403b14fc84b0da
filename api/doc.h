/* JSON documents by cJSON, made so that neither odd texts nor a lack of memory go unnoticed.
 *
 * cJSON prints strings as they are and ends them at a NUL; names in model files hold NULs, and
 * messages may be cut inside a character. Everything here that adds to a document returns false
 * without memory, and what was not added is freed. Thread safety: no state. */
#ifndef DFM_API_DOC_H
#define DFM_API_DOC_H

#include "core/pmx.h"
#include "core/warnings.h"

#include <cjson/cJSON.h>

/* A document that is being built, and whether anything was lost on the way. */
typedef struct dfm_doc {
    bool failed;
} dfm_doc;

cJSON *dfm_doc_object(dfm_doc *doc);

/* Adds an item to an object under a static key, or, with a NULL key, to an array; takes it over.
 * Returns the item, or NULL where the document has failed. */
cJSON *dfm_doc_add(dfm_doc *doc, cJSON *parent, const char *key, cJSON *item);

cJSON *dfm_doc_add_object(dfm_doc *doc, cJSON *parent, const char *key);
cJSON *dfm_doc_add_array(dfm_doc *doc, cJSON *parent, const char *key);
void dfm_doc_add_bool(dfm_doc *doc, cJSON *parent, const char *key, bool value);
void dfm_doc_add_null(dfm_doc *doc, cJSON *parent, const char *key);
void dfm_doc_add_integer(dfm_doc *doc, cJSON *parent, const char *key, int64_t value);

/* The shortest decimal that reads back as the same float; what is not finite is null. */
void dfm_doc_add_float(dfm_doc *doc, cJSON *parent, const char *key, float value);
void dfm_doc_add_floats(dfm_doc *doc, cJSON *parent, const char *key, const float *values,
                        size_t count);

/* Any bytes: NUL and control characters are escaped, what is not UTF-8 becomes U+FFFD. */
void dfm_doc_add_text(dfm_doc *doc, cJSON *parent, const char *key, dfm_text text);
void dfm_doc_add_string(dfm_doc *doc, cJSON *parent, const char *key, const char *string);

/* Seconds since 1970 as RFC 3339 in UTC. */
void dfm_doc_add_time(dfm_doc *doc, cJSON *parent, const char *key, int64_t unix_s);

/* At most 32 bytes, as hex. */
void dfm_doc_add_hex(dfm_doc *doc, cJSON *parent, const char *key, const uint8_t *bytes,
                     size_t count);

/* An index, or null for -1. */
void dfm_doc_add_index(dfm_doc *doc, cJSON *parent, const char *key, int64_t index);

/* Appends {"code", "message", "count", "first"} to an array. */
void dfm_doc_add_warning(dfm_doc *doc, cJSON *list, const char *code, const char *message,
                         uint64_t count, int64_t first);
void dfm_doc_add_warnings(dfm_doc *doc, cJSON *list, const dfm_warnings *warnings);

/* The document, or NULL (and it is freed) where anything was lost. */
cJSON *dfm_doc_done(dfm_doc *doc, cJSON *document);

/* Writes the shortest decimal that reads back as the same finite float; returns its length, at most
 * DFM_DOC_FLOAT_BYTES - 1. */
enum { DFM_DOC_FLOAT_BYTES = 17 };
size_t dfm_doc_print_float(char *out, float value);

#endif
