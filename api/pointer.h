/* JSON pointers (RFC 6901) to what a problem is about. A part that does not fit is left out, with
 * all that follows: the pointer then is to what the wrong value lies in.
 * Thread safety: belongs to one request. */
#ifndef DFM_API_POINTER_H
#define DFM_API_POINTER_H

#include "api/json_reader.h"
#include "api/problem.h"

typedef struct dfm_pointer {
    char *text; /* the problem's */
    size_t length;
    bool full;
} dfm_pointer;

/* Begins with "", the whole document. */
void dfm_pointer_begin(dfm_pointer *pointer, dfm_problem *problem);

void dfm_pointer_add(dfm_pointer *pointer, const char *part);    /* NULL: nothing */
void dfm_pointer_add_index(dfm_pointer *pointer, int64_t index); /* < 0: nothing */
void dfm_pointer_add_string(dfm_pointer *pointer, const dfm_json_string *string);

#endif
