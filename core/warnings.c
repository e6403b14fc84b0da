#include "core/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    vsnprintf(warning->message, sizeof warning->message, format, arguments);
    va_end(arguments);
}
