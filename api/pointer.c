#include "api/pointer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void dfm_pointer_begin(dfm_pointer *pointer, dfm_problem *problem) {
    *pointer = (dfm_pointer){.text = problem->pointer};
    problem->pointer[0] = 0;
    problem->has_pointer = true;
}

/* Puts one byte down as a pointer has it; false: there is no room. */
static bool put(dfm_pointer *pointer, size_t *at, char byte) {
    const char *written = byte == '~'   ? "~0"
                          : byte == '/' ? "~1"
                          : byte == 0   ? DFM_PROBLEM_NUL
                                        : (char[2]){byte};
    size_t length = strlen(written);
    if (*at + length + 1 > DFM_PROBLEM_POINTER_BYTES)
        return false;
    memcpy(pointer->text + *at, written, length);
    *at += length;
    return true;
}

static void add_bytes(dfm_pointer *pointer, const char *part, size_t length) {
    size_t at = pointer->length;
    if (pointer->full || at + 2 > DFM_PROBLEM_POINTER_BYTES)
        return;
    pointer->text[at++] = '/';
    for (size_t i = 0; i < length && !pointer->full; i++)
        pointer->full = !put(pointer, &at, part[i]);
    if (!pointer->full)
        pointer->length = at;
    pointer->text[pointer->length] = 0;
}

void dfm_pointer_add(dfm_pointer *pointer, const char *part) {
    if (part)
        add_bytes(pointer, part, strlen(part));
}

void dfm_pointer_add_index(dfm_pointer *pointer, int64_t index) {
    char text[24];
    if (index < 0)
        return;
    snprintf(text, sizeof text, "%" PRId64, index);
    dfm_pointer_add(pointer, text);
}

void dfm_pointer_add_string(dfm_pointer *pointer, const dfm_json_string *string) {
    char text[DFM_PROBLEM_POINTER_BYTES];
    if (string->length > sizeof text)
        pointer->full = true;
    else
        add_bytes(pointer, text, dfm_json_string_decode(string, text));
}
