#include "server/form.h"

#include <stdlib.h>
#include <string.h>

/* Also the most that one part's headers may take. */
enum { WINDOW_BYTES = 32 * 1024 };

struct dfm_form {
    struct MHD_PostProcessor *processor;
    dfm_body *file;
    unsigned files;
    bool malformed;
};

/* Called for every piece of every field; `offset` is 0 for the first piece of one. */
static enum MHD_Result take_piece(void *context, enum MHD_ValueKind kind, const char *field,
                                  const char *file_name, const char *content_type,
                                  const char *transfer_encoding, const char *data, uint64_t offset,
                                  size_t size) {
    (void)kind, (void)file_name, (void)content_type, (void)transfer_encoding;
    dfm_form *form = context;
    if (!field || strcmp(field, "file") != 0)
        return MHD_YES;
    form->files += offset == 0;
    if (form->files == 1)
        dfm_body_append(form->file, data, size);
    return MHD_YES;
}

dfm_form *dfm_form_begin(struct MHD_Connection *connection, dfm_body *file) {
    dfm_form *form = calloc(1, sizeof *form);
    if (!form)
        return NULL;
    form->file = file;
    form->processor = MHD_create_post_processor(connection, WINDOW_BYTES, take_piece, form);
    if (!form->processor) {
        free(form);
        return NULL;
    }
    return form;
}

void dfm_form_append(dfm_form *form, const char *data, size_t size) {
    if (!form->malformed)
        form->malformed = MHD_post_process(form->processor, data, size) != MHD_YES;
}

const char *dfm_form_end(dfm_form *form) {
    bool whole = MHD_destroy_post_processor(form->processor) == MHD_YES && !form->malformed;
    unsigned files = form->files;
    free(form);
    if (!whole)
        return "the multipart/form-data body is malformed or ends before its last boundary";
    if (files == 0)
        return "the multipart/form-data body has no field \"file\"";
    return files == 1 ? NULL : "the multipart/form-data body has more than one field \"file\"";
}

void dfm_form_free(dfm_form *form) {
    if (form)
        (void)dfm_form_end(form);
}
