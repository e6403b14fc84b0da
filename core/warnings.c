#include "core/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message that was too long may end inside a character of a name: it must stay UTF-8. */
static void drop_cut_character(char *message) {
    size_t end = strlen(message);
    while (end > 0 && ((unsigned char)message[end - 1] & 0xc0) == 0x80)
        end--;
    if (end > 0 && (unsigned char)message[end - 1] >= 0xc0)
        end--;
    message[end] = 0;
}

void dfm_warn(dfm_warnings *warnings, const char *code, int64_t first, const char *format, ...) {
    for (uint32_t i = 0; i < warnings->count; i++) {
        if (strcmp(warnings->items[i].code, code) == 0) {
            warnings->items[i].count++;
            return;
        }
    }
    if (warnings->count == DFM_MAX_WARNINGS) {
        warnings->items[DFM_MAX_WARNINGS - 1].count++;
        return;
    }
    dfm_warning *warning = &warnings->items[warnings->count++];
    *warning = (dfm_warning){.code = code, .count = 1, .first = first};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(warning->message, sizeof warning->message, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof warning->message)
        drop_cut_character(warning->message);
}
