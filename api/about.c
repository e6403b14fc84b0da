#include "api/about.h"

#include "api/doc.h"
#include "api/documents.h"

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

/* The text, or NULL: no memory. */
static char *print(const dfm_about *about, dfm_store_kind kind, cJSON *document) {
    dfm_doc doc = {0};
    cJSON *root = build(&doc, about, kind);
    if (document && root && !cJSON_AddItemReferenceToObject(root, "document", document))
        doc.failed = true;
    root = dfm_doc_done(&doc, root);
    char *text = root ? cJSON_PrintUnformatted(root) : NULL;
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

static const cJSON *member(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A digest that begins as the id does. */
static bool read_digest(const char *text, const dfm_id *id, uint8_t digest[DFM_DIGEST_BYTES]) {
    if (!text || strlen(text) != 2 * DFM_DIGEST_BYTES || memcmp(text, id->text, DFM_ID_DIGITS) != 0)
        return false;
    for (size_t i = 0; i < DFM_DIGEST_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_whole(const cJSON *item, double most, double *number) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= most))
        return false;
    *number = item->valuedouble;
    return *number == (double)(int64_t)*number;
}

/* Index of the word; -1: it is none of them. */
static int read_word(const cJSON *item, const char *const *words) {
    const char *word = cJSON_GetStringValue(item);
    for (int i = 0; word && words[i]; i++) {
        if (strcmp(word, words[i]) == 0)
            return i;
    }
    return -1;
}

static bool read_settings(const cJSON *object, dfm_settings *settings) {
    int mode = read_word(member(object, "mode"), dfm_mode_words);
    int weights = read_word(member(object, "weights"), dfm_weights_words);
    const cJSON *sdef = member(object, "sdef");
    if (mode < 0 || weights < 0 || !cJSON_IsBool(sdef))
        return false;
    *settings = (dfm_settings){
        .mode = (dfm_mode)mode, .sdef = cJSON_IsTrue(sdef), .weights = (dfm_weights_mode)weights};
    return true;
}

static bool read_members(const cJSON *root, dfm_store_kind kind, const dfm_id *id,
                         dfm_about *about) {
    double bytes, created;
    *about = (dfm_about){0};
    if (!read_digest(cJSON_GetStringValue(member(root, "digest")), id, about->digest) ||
        !read_whole(member(root, "bytes"), 0x1p52, &bytes) ||
        !read_whole(member(root, "created_unix_s"), 0x1p40, &created))
        return false;
    about->file_bytes = (uint64_t)bytes;
    about->created_unix_s = (int64_t)created;
    return kind != DFM_STORE_MODEL || read_settings(member(root, "settings"), &about->settings);
}

dfm_status dfm_about_read(const char *text, dfm_store_kind kind, const dfm_id *id, dfm_about *about,
                          cJSON **document, dfm_error *error) {
    cJSON *root = cJSON_ParseWithLengthOpts(text, strlen(text) + 1, NULL, 1);
    bool good = read_members(root, kind, id, about);
    if (document)
        *document = good ? cJSON_DetachItemFromObjectCaseSensitive(root, "document") : NULL;
    if (document && *document && !cJSON_IsObject(*document)) {
        cJSON_Delete(*document);
        *document = NULL;
    }
    cJSON_Delete(root);
    return good ? DFM_OK
                : dfm_fail(error, DFM_ERROR_CORRUPT, NULL, -1, -1,
                           "what the store says about %s is damaged: upload it again", id->text);
}
