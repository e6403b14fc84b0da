#include "api/about.h"

#include "api/doc.h"
#include "api/documents.h"
#include "api/json_reader.h"

#include <stdlib.h>
#include <string.h>

static cJSON *build(dfm_doc *doc, const dfm_about *about, dfm_store_kind kind) {
    cJSON *root = dfm_doc_object(doc);
    dfm_doc_add_hex(doc, root, "digest", about->digest, DFM_DIGEST_BYTES);
    dfm_doc_add_integer(doc, root, "bytes", (int64_t)about->file_bytes);
    dfm_doc_add_integer(doc, root, "created_unix_s", about->created_unix_s);
    if (kind == DFM_STORE_MODEL) {
        cJSON *settings = dfm_doc_add_object(doc, root, "settings");
        dfm_doc_add_string(doc, settings, "mode", dfm_mode_words[about->settings.mode]);
        dfm_doc_add_bool(doc, settings, "sdef", about->settings.sdef);
        dfm_doc_add_string(doc, settings, "weights", dfm_weights_words[about->settings.weights]);
    }
    return root;
}

/* The text, or NULL: no memory. The document is lent under a key that need not be copied: cJSON
 * 1.7.15 leaks a reference whose key it has no memory for. */
static char *print(const dfm_about *about, dfm_store_kind kind, cJSON *document) {
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_done(&doc, build(&doc, about, kind));
    if (!root)
        return NULL;
    bool lent = document && cJSON_AddItemToObjectCS(root, "document", document);
    char *text = lent || !document ? cJSON_PrintUnformatted(root) : NULL;
    if (lent)
        cJSON_DetachItemViaPointer(root, document);
    cJSON_Delete(root);
    return text;
}

char *dfm_about_write(const dfm_about *about, dfm_store_kind kind, cJSON *document) {
    char *text = print(about, kind, document);
    if (!text || strlen(text) < DFM_STORE_ABOUT_BYTES)
        return text;
    free(text);
    return print(about, kind, NULL);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* By the strict reader, which allocates nothing: what is read well once is at any time. */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A digest that begins as the id does. */
static bool read_digest(dfm_json_reader *json, const dfm_id *id, uint8_t digest[DFM_DIGEST_BYTES]) {
    dfm_json_string text;
    if (!dfm_json_text(json, &text) || text.length != 2 * DFM_DIGEST_BYTES ||
        memcmp(text.data, id->text, DFM_ID_DIGITS) != 0)
        return false;
    for (size_t i = 0; i < DFM_DIGEST_BYTES; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_whole(dfm_json_reader *json, double most, int64_t *number) {
    double value;
    if (!dfm_json_number(json, &value) || !(value >= 0 && value <= most))
        return false;
    *number = (int64_t)value;
    return value == (double)*number;
}

/* Index of the word; -1: it is none of them. */
static int read_word(dfm_json_reader *json, const char *const *words) {
    dfm_json_string word;
    if (!dfm_json_text(json, &word))
        return -1;
    for (int i = 0; words[i]; i++) {
        if (dfm_json_string_is(&word, words[i]))
            return i;
    }
    return -1;
}

static bool read_settings(dfm_json_reader *json, dfm_settings *settings) {
    enum { MODE = 1, SDEF = 2, WEIGHTS = 4 };
    dfm_json_string key;
    int seen = 0, word;
    if (!dfm_json_enter_object(json))
        return false;
    while (dfm_json_next_key(json, &key)) {
        if (dfm_json_string_is(&key, "mode") && (word = read_word(json, dfm_mode_words)) >= 0) {
            settings->mode = (dfm_mode)word;
            seen |= MODE;
        } else if (dfm_json_string_is(&key, "sdef") && dfm_json_bool(json, &settings->sdef)) {
            seen |= SDEF;
        } else if (dfm_json_string_is(&key, "weights") &&
                   (word = read_word(json, dfm_weights_words)) >= 0) {
            settings->weights = (dfm_weights_mode)word;
            seen |= WEIGHTS;
        } else {
            return false;
        }
    }
    return !json->error && seen == (MODE | SDEF | WEIGHTS);
}

/* Where an object lies in the text; length 0: there is none. */
typedef struct span {
    const char *data;
    size_t length;
} span;

static bool skip_object(dfm_json_reader *json, span *object) {
    bool is_object = dfm_json_peek(json) == DFM_JSON_OBJECT;
    const char *begin = json->at;
    if (!dfm_json_skip(json))
        return false;
    *object = is_object ? (span){begin, (size_t)(json->at - begin)} : (span){0};
    return true;
}

static bool read_members(dfm_json_reader *json, dfm_store_kind kind, const dfm_id *id,
                         dfm_about *about, span *document) {
    enum { DIGEST = 1, BYTES = 2, CREATED = 4, SETTINGS = 8 };
    dfm_json_string key;
    int64_t bytes = 0;
    int seen = kind == DFM_STORE_MODEL ? 0 : SETTINGS;
    bool good = dfm_json_enter_object(json);
    while (good && dfm_json_next_key(json, &key)) {
        if (dfm_json_string_is(&key, "digest")) {
            good = read_digest(json, id, about->digest);
            seen |= DIGEST;
        } else if (dfm_json_string_is(&key, "bytes")) {
            good = read_whole(json, 0x1p52, &bytes);
            seen |= BYTES;
        } else if (dfm_json_string_is(&key, "created_unix_s")) {
            good = read_whole(json, 0x1p40, &about->created_unix_s);
            seen |= CREATED;
        } else if (dfm_json_string_is(&key, "settings") && kind == DFM_STORE_MODEL) {
            good = read_settings(json, &about->settings);
            seen |= SETTINGS;
        } else if (dfm_json_string_is(&key, "document")) {
            good = skip_object(json, document);
        } else {
            good = dfm_json_skip(json); /* of a later version */
        }
    }
    about->file_bytes = (uint64_t)bytes;
    return good && seen == (DIGEST | BYTES | CREATED | SETTINGS) && dfm_json_finish(json);
}

dfm_status dfm_about_read(const char *text, dfm_store_kind kind, const dfm_id *id, dfm_about *about,
                          cJSON **document, dfm_error *error) {
    dfm_json_reader json;
    span found = {0};
    *about = (dfm_about){0};
    if (document)
        *document = NULL;
    dfm_json_begin(&json, text, strlen(text));
    if (!read_members(&json, kind, id, about, &found))
        return dfm_fail(error, DFM_ERROR_CORRUPT, NULL, -1, -1,
                        "what the store says about %s is damaged: upload it again", id->text);
    if (document && found.length > 0)
        *document = cJSON_ParseWithLengthOpts(found.data, found.length, NULL, false);
    return DFM_OK;
}
