/* A strict pull reader of JSON (RFC 8259) over bytes in memory. It allocates nothing.
 *
 * The caller asks for what it expects, and looks at `error` when a call returns false:
 *
 *     dfm_json_key key;
 *     if (dfm_json_enter_object(&reader))
 *         while (dfm_json_next_key(&reader, &key))
 *             ... read or skip exactly one value ...
 *
 * What is not JSON sets `error`, and from then on every call returns false: invalid UTF-8, lone
 * surrogates, control characters in strings, leading zeros, NaN, comments, trailing commas, text
 * behind the document. So does what is over the limits. Duplicate keys are the caller's
 * business: it knows which keys there are.
 * Thread safety: a reader belongs to one thread; the bytes are borrowed. */
#ifndef DFM_API_JSON_READER_H
#define DFM_API_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DFM_JSON_MAX_DEPTH = 64 };

/* What a document may be at most; 0: DFM_JSON_MAX_DEPTH, and any number of items. */
typedef struct dfm_json_limits {
    uint32_t depth; /* of containers in containers; up to DFM_JSON_MAX_DEPTH */
    uint64_t items; /* members and elements in all, plain numbers of a list of numbers aside */
} dfm_json_limits;

typedef enum dfm_json_type {
    DFM_JSON_NOTHING, /* the end, or a byte that no value begins with */
    DFM_JSON_NULL,
    DFM_JSON_BOOL,
    DFM_JSON_NUMBER,
    DFM_JSON_STRING,
    DFM_JSON_ARRAY,
    DFM_JSON_OBJECT
} dfm_json_type;

/* A string or key as it lies in the document, between its quotes. Valid UTF-8. */
typedef struct dfm_json_string {
    const char *data;
    size_t length;
    bool escaped; /* holds a backslash: see dfm_json_string_decode */
} dfm_json_string;

typedef struct dfm_json_reader {
    const char *begin, *at, *end;
    uint32_t depth;
    bool fresh; /* a container was just opened: no comma is due */
    dfm_json_limits limits;
    uint64_t items;      /* so far */
    const char *error;   /* static text, "expected ..."; NULL = none */
    size_t error_offset; /* byte that `error` is about */
    uint64_t limit;      /* the one that `error` is about; 0 = of syntax */
} dfm_json_reader;

void dfm_json_begin(dfm_json_reader *reader, const void *bytes, size_t size);
void dfm_json_limit(dfm_json_reader *reader, const dfm_json_limits *limits);

/* Type of the value that follows, by its first byte. Consumes white space only. */
dfm_json_type dfm_json_peek(dfm_json_reader *reader);

/* A word for a type: "an object", "a number", ... */
const char *dfm_json_type_name(dfm_json_type type);

/* Consume the opening bracket. False and no error set: the value is of another type. */
bool dfm_json_enter_object(dfm_json_reader *reader);
bool dfm_json_enter_array(dfm_json_reader *reader);

/* Moves to the next member, before its value, or over the closing bracket (false, no error). */
bool dfm_json_next_key(dfm_json_reader *reader, dfm_json_string *key);
bool dfm_json_next_item(dfm_json_reader *reader);

/* Right behind dfm_json_enter_array: consumes the numbers the array begins with, `count` at most,
 * as far as they are written as most are, and returns how many. The rest, whatever it is, is for
 * dfm_json_next_item. */
size_t dfm_json_numbers(dfm_json_reader *reader, double *numbers, size_t count);

/* Consume one scalar. False and no error set: the value is of another type. A number is rounded
 * correctly to the nearest double, to infinity where it is too large. */
bool dfm_json_number(dfm_json_reader *reader, double *number);
bool dfm_json_bool(dfm_json_reader *reader, bool *value);
bool dfm_json_text(dfm_json_reader *reader, dfm_json_string *string);

/* Consumes one value of any type; false: it is not JSON. */
bool dfm_json_skip(dfm_json_reader *reader);

/* Checks that nothing but white space is left. */
bool dfm_json_finish(dfm_json_reader *reader);

/* Resolves escapes into `out` (at least string->length bytes) and returns the length; the result
 * may hold NULs. */
size_t dfm_json_string_decode(const dfm_json_string *string, char *out);

/* Whether the string, escapes resolved, is this text (ASCII, without a NUL). The first is the way
 * of the second for a string that is escaped. */
bool dfm_json_escaped_is(const dfm_json_string *string, const char *text);
static inline bool dfm_json_string_is(const dfm_json_string *string, const char *text) {
    size_t length = strlen(text);
    if (string->escaped)
        return dfm_json_escaped_is(string, text);
    return string->length == length && memcmp(string->data, text, length) == 0;
}

/* Line and column (both from 1, columns in bytes) of a byte. */
void dfm_json_position(const dfm_json_reader *reader, size_t offset, size_t *line, size_t *column);

#endif
