#include "tests/support_json.h"

#include <stdlib.h>
#include <string.h>

static bool same_string(const dfm_json_string *string, const char *text) {
    char *decoded = malloc(string->length + 1);
    if (!decoded)
        abort();
    size_t length = dfm_json_string_decode(string, decoded);
    bool same = strlen(text) == length && memcmp(text, decoded, length) == 0;
    free(decoded);
    return same;
}

static bool same_object(dfm_json_reader *reader, const cJSON *item) {
    const cJSON *child = item->child;
    dfm_json_string key;
    if (!dfm_json_enter_object(reader))
        return false;
    for (; dfm_json_next_key(reader, &key); child = child->next) {
        if (!child || !same_string(&key, child->string) || !json_same_value(reader, child))
            return false;
    }
    return !reader->error && !child;
}

/* A run of numbers first, as poses are read. */
static bool same_array(dfm_json_reader *reader, const cJSON *item) {
    enum { RUN = 4 };
    const cJSON *child = item->child;
    double numbers[RUN];
    if (!dfm_json_enter_array(reader))
        return false;
    size_t count = dfm_json_numbers(reader, numbers, RUN);
    for (size_t i = 0; i < count; i++, child = child->next) {
        if (!cJSON_IsNumber(child) || child->valuedouble != numbers[i])
            return false;
    }
    for (; dfm_json_next_item(reader); child = child->next) {
        if (!child || !json_same_value(reader, child))
            return false;
    }
    return !reader->error && !child;
}

bool json_same_value(dfm_json_reader *reader, const cJSON *item) {
    dfm_json_string string;
    double number;
    bool value;
    if (cJSON_IsObject(item))
        return same_object(reader, item);
    if (cJSON_IsArray(item))
        return same_array(reader, item);
    if (cJSON_IsNumber(item))
        return dfm_json_number(reader, &number) && number == item->valuedouble;
    if (cJSON_IsBool(item))
        return dfm_json_bool(reader, &value) && value == cJSON_IsTrue(item);
    if (cJSON_IsNull(item))
        return dfm_json_peek(reader) == DFM_JSON_NULL && dfm_json_skip(reader);
    return dfm_json_text(reader, &string) && same_string(&string, item->valuestring);
}
