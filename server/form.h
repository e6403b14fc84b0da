/* multipart/form-data taken apart while it arrives: the field "file" goes into a body, others are
 * skipped. libmicrohttpd's post processor does the parsing. Thread safety: none. */
#ifndef DFM_SERVER_FORM_H
#define DFM_SERVER_FORM_H

#include <microhttpd.h>

#include "server/body.h"

typedef struct dfm_form dfm_form;

/* NULL: the Content-Type has no usable boundary, or no memory. `file` is borrowed. */
dfm_form *dfm_form_begin(struct MHD_Connection *connection, dfm_body *file);

void dfm_form_append(dfm_form *form, const char *data, size_t size);

/* Ends the form and frees it. Returns NULL where the form was whole and had one field "file", else
 * what is wrong with it, in one sentence. */
const char *dfm_form_end(dfm_form *form);

void dfm_form_free(dfm_form *form); /* NULL allowed */

#endif
