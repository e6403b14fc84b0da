#include "api/query.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte that the escape at `text` means, or -1. */
static int decode_escape(const char *text, size_t left) {
    if (left < 3)
        return -1;
    int high = hex_digit(text[1]), low = hex_digit(text[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

int64_t dfm_percent_decode(const char *text, size_t length, char *out, size_t room) {
    size_t count = 0;
    if (room == 0)
        return -1;
    for (size_t i = 0; i < length; i++) {
        int byte = (unsigned char)text[i];
        if (text[i] == '%') {
            byte = decode_escape(text + i, length - i);
            i += 2;
        }
        /* A NUL would cut the text short for whoever reads it next. */
        if (byte <= 0 || count + 1 >= room)
            return -1;
        out[count++] = (char)byte;
    }
    out[count] = 0;
    return (int64_t)count;
}

static int find_name(const char *const *names, const char *name) {
    for (int i = 0; names && names[i]; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

static bool fail(dfm_problem *problem, const char *parameter, const char *detail) {
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_QUERY, "%s", detail);
    problem->parameter = parameter;
    return false;
}

/* One "name=value" of `length` bytes; *used counts what is taken of query->text. */
static bool take(dfm_query *query, const char *text, size_t length, size_t *used,
                 dfm_problem *problem) {
    char name[64], detail[128];
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals ? (size_t)(equals - text) : length;
    if (dfm_percent_decode(text, name_length, name, sizeof name) < 0)
        return fail(problem, NULL, "a parameter's name is too long or wrongly encoded");
    int index = find_name(query->names, name);
    if (index < 0) {
        snprintf(detail, sizeof detail, "there is no parameter %s here", name);
        return fail(problem, NULL, detail);
    }
    if (query->values[index]) {
        snprintf(detail, sizeof detail, "%s is given twice", name);
        return fail(problem, query->names[index], detail);
    }
    const char *value = equals ? equals + 1 : text + length;
    int64_t decoded = dfm_percent_decode(value, (size_t)(text + length - value),
                                         query->text + *used, sizeof query->text - *used);
    if (decoded < 0) {
        snprintf(detail, sizeof detail, "the value of %s is too long or wrongly encoded", name);
        return fail(problem, query->names[index], detail);
    }
    query->values[index] = query->text + *used;
    *used += (size_t)decoded + 1;
    return true;
}

bool dfm_query_parse(dfm_query *query, const char *const *names, const char *text,
                     dfm_problem *problem) {
    size_t used = 0;
    query->names = names;
    memset(query->values, 0, sizeof query->values);
    while (text && *text) {
        size_t length = strcspn(text, "&");
        if (length > 0 && !take(query, text, length, &used, problem))
            return false;
        text += length + (text[length] == '&');
    }
    return true;
}

const char *dfm_query_get(const dfm_query *query, const char *name) {
    int index = find_name(query->names, name);
    return index < 0 ? NULL : query->values[index];
}

int dfm_query_choice(const dfm_query *query, const char *name, const char *const *words,
                     int fallback, dfm_problem *problem) {
    const char *value = dfm_query_get(query, name);
    if (!value)
        return fallback;
    int index = find_name(words, value);
    if (index >= 0)
        return index;
    char detail[DFM_PROBLEM_DETAIL_BYTES];
    int length = snprintf(detail, sizeof detail, "%s is \"%.64s\", expected is", name, value);
    for (int i = 0; words[i]; i++)
        length += snprintf(detail + length, sizeof detail - (size_t)length, "%s %s",
                           i ? words[i + 1] ? "," : " or" : "", words[i]);
    fail(problem, name, detail);
    return -1;
}

bool dfm_query_integer(const dfm_query *query, const char *name, uint64_t min, uint64_t max,
                       uint64_t fallback, uint64_t *value, dfm_problem *problem) {
    const char *text = dfm_query_get(query, name);
    *value = fallback;
    if (!text)
        return true;
    size_t digits = strspn(text, "0123456789");
    bool good = digits > 0 && digits < 19 && text[digits] == 0 &&
                sscanf(text, "%" SCNu64, value) == 1 && *value >= min && *value <= max;
    if (good)
        return true;
    char detail[160];
    snprintf(detail, sizeof detail,
             "%s is \"%.64s\", expected is a number from %" PRIu64 " to %" PRIu64, name, text, min,
             max);
    return fail(problem, name, detail);
}

bool dfm_query_positive(const dfm_query *query, const char *name, double fallback, double *value,
                        dfm_problem *problem) {
    const char *text = dfm_query_get(query, name);
    *value = fallback;
    if (!text)
        return true;
    char *end = NULL;
    size_t plain = strspn(text, "0123456789.eE+-"); /* no hex, no "nan", no "inf" */
    if (text[0] != 0 && text[plain] == 0) {
        *value = strtod(text, &end);
        if (*end == 0 && isfinite(*value) && *value > 0)
            return true;
    }
    char detail[160];
    snprintf(detail, sizeof detail, "%s is \"%.64s\", expected is a finite number above 0", name,
             text);
    return fail(problem, name, detail);
}

bool dfm_query_is_id(const char *text) {
    return strlen(text) == DFM_ID_DIGITS && strspn(text, "0123456789abcdef") == DFM_ID_DIGITS;
}

bool dfm_query_page(const dfm_query *query, uint64_t *limit, const char **cursor,
                    dfm_problem *problem) {
    if (!dfm_query_integer(query, "limit", 1, DFM_PAGE_MAX, DFM_PAGE_DEFAULT, limit, problem))
        return false;
    *cursor = dfm_query_get(query, "cursor");
    return !*cursor || dfm_query_is_id(*cursor) || fail(problem, "cursor", "cursor is no id");
}

bool dfm_query_check_page(const dfm_query *query, dfm_problem *problem) {
    uint64_t limit;
    const char *cursor;
    return dfm_query_page(query, &limit, &cursor, problem);
}
