#include "api/doc.h"

#include "core/id.h"
#include "core/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static cJSON *note(dfm_doc *doc, cJSON *item) {
    doc->failed = doc->failed || !item;
    return item;
}

cJSON *dfm_doc_object(dfm_doc *doc) {
    return note(doc, cJSON_CreateObject());
}

cJSON *dfm_doc_add(dfm_doc *doc, cJSON *parent, const char *key, cJSON *item) {
    note(doc, item);
    cJSON_bool added = !doc->failed && (key ? cJSON_AddItemToObjectCS(parent, key, item)
                                            : cJSON_AddItemToArray(parent, item));
    if (added)
        return item;
    doc->failed = true;
    cJSON_Delete(item);
    return NULL;
}

cJSON *dfm_doc_add_object(dfm_doc *doc, cJSON *parent, const char *key) {
    return dfm_doc_add(doc, parent, key, cJSON_CreateObject());
}

cJSON *dfm_doc_add_array(dfm_doc *doc, cJSON *parent, const char *key) {
    return dfm_doc_add(doc, parent, key, cJSON_CreateArray());
}

void dfm_doc_add_bool(dfm_doc *doc, cJSON *parent, const char *key, bool value) {
    dfm_doc_add(doc, parent, key, cJSON_CreateBool(value));
}

void dfm_doc_add_null(dfm_doc *doc, cJSON *parent, const char *key) {
    dfm_doc_add(doc, parent, key, cJSON_CreateNull());
}

/* --- numbers -------------------------------------------------------------------------------- */

void dfm_doc_add_integer(dfm_doc *doc, cJSON *parent, const char *key, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    dfm_doc_add(doc, parent, key, cJSON_CreateRaw(text));
}

size_t dfm_doc_print_float(char *out, float value) {
    int length = 0;
    for (int digits = 6; digits <= 9; digits++) {
        length = snprintf(out, DFM_DOC_FLOAT_BYTES, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    /* Some locales have a comma; a library that set one must not change what clients get. */
    char *comma = memchr(out, ',', (size_t)length);
    if (comma)
        *comma = '.';
    return (size_t)length;
}

void dfm_doc_add_float(dfm_doc *doc, cJSON *parent, const char *key, float value) {
    char text[DFM_DOC_FLOAT_BYTES] = "null";
    if (isfinite(value))
        dfm_doc_print_float(text, value);
    dfm_doc_add(doc, parent, key, cJSON_CreateRaw(text));
}

void dfm_doc_add_floats(dfm_doc *doc, cJSON *parent, const char *key, const float *values,
                        size_t count) {
    cJSON *array = dfm_doc_add_array(doc, parent, key);
    for (size_t i = 0; i < count; i++)
        dfm_doc_add_float(doc, array, NULL, values[i]);
}

/* --- texts ---------------------------------------------------------------------------------- */

/* Writes a character as it stands in a JSON string; with `out` NULL only measures. */
static size_t put_escaped(char *out, unsigned char c) {
    static const char letters[] = "\"\\\b\f\n\r\t", escapes[] = "\"\\bfnrt";
    const char *letter = c ? strchr(letters, c) : NULL;
    char text[8] = {(char)c};
    size_t length = 1;
    if (letter) {
        text[0] = '\\';
        text[1] = escapes[letter - letters];
        length = 2;
    } else if (c < ' ') {
        length = (size_t)snprintf(text, sizeof text, "\\u%04x", c);
    }
    if (out)
        memcpy(out, text, length);
    return length;
}

static size_t escape(char *out, const char *text, size_t length) {
    size_t at = 0;
    for (size_t i = 0; i < length; i++)
        at += put_escaped(out ? out + at : NULL, (unsigned char)text[i]);
    return at;
}

/* The text in quotes, malloc'ed, or NULL. */
static char *quote(const char *text, size_t length) {
    size_t size = escape(NULL, text, length);
    char *quoted = malloc(size + 3);
    if (!quoted)
        return NULL;
    quoted[0] = '"';
    escape(quoted + 1, text, length);
    quoted[size + 1] = '"';
    quoted[size + 2] = 0;
    return quoted;
}

/* The same for bytes that are not UTF-8. */
static char *repair_and_quote(const char *text, size_t length) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t size = dfm_text_decode_utf8(bytes, length, NULL, NULL);
    char *repaired = malloc(size + 1);
    if (!repaired)
        return NULL;
    dfm_text_decode_utf8(bytes, length, repaired, NULL);
    char *quoted = quote(repaired, size);
    free(repaired);
    return quoted;
}

void dfm_doc_add_text(dfm_doc *doc, cJSON *parent, const char *key, dfm_text text) {
    char *quoted = dfm_text_is_utf8(text.data, text.length)
                       ? quote(text.data, text.length)
                       : repair_and_quote(text.data, text.length);
    dfm_doc_add(doc, parent, key, quoted ? cJSON_CreateRaw(quoted) : NULL);
    free(quoted);
}

void dfm_doc_add_string(dfm_doc *doc, cJSON *parent, const char *key, const char *string) {
    dfm_doc_add_text(doc, parent, key,
                     (dfm_text){.data = string, .length = (uint32_t)strlen(string)});
}

/* --- what several documents have ------------------------------------------------------------ */

void dfm_doc_add_time(dfm_doc *doc, cJSON *parent, const char *key, int64_t unix_s) {
    time_t seconds = (time_t)unix_s;
    struct tm utc;
    char text[32] = "";
    if (gmtime_r(&seconds, &utc))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    dfm_doc_add_string(doc, parent, key, text);
}

void dfm_doc_add_hex(dfm_doc *doc, cJSON *parent, const char *key, const uint8_t *bytes,
                     size_t count) {
    char text[2 * DFM_DIGEST_BYTES + 1];
    dfm_hex(text, bytes, count);
    dfm_doc_add_string(doc, parent, key, text);
}

void dfm_doc_add_index(dfm_doc *doc, cJSON *parent, const char *key, int64_t index) {
    if (index < 0)
        dfm_doc_add_null(doc, parent, key);
    else
        dfm_doc_add_integer(doc, parent, key, index);
}

void dfm_doc_add_warning(dfm_doc *doc, cJSON *list, const char *code, const char *message,
                         uint64_t count, int64_t first) {
    cJSON *item = dfm_doc_add_object(doc, list, NULL);
    dfm_doc_add_string(doc, item, "code", code);
    dfm_doc_add_string(doc, item, "message", message);
    dfm_doc_add_integer(doc, item, "count", (int64_t)count);
    dfm_doc_add_index(doc, item, "first", first);
}

void dfm_doc_add_warnings(dfm_doc *doc, cJSON *list, const dfm_warnings *warnings) {
    for (uint32_t i = 0; i < warnings->count; i++) {
        const dfm_warning *warning = &warnings->items[i];
        dfm_doc_add_warning(doc, list, warning->code, warning->message, warning->count,
                            warning->first);
    }
}

cJSON *dfm_doc_done(dfm_doc *doc, cJSON *document) {
    if (!doc->failed)
        return document;
    cJSON_Delete(document);
    return NULL;
}
