/* Any text as what a store says about an item: it is refused, or is the same again when it is
 * written and read. The first byte chooses between a model and a motion. */
#include "api/about.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const dfm_id id = {.text = "0123456789abcdef0123456789abcdef"};
    if (size == 0)
        return 0;
    dfm_store_kind kind = data[0] & 1 ? DFM_STORE_MOTION : DFM_STORE_MODEL;
    char *text = malloc(size);
    REQUIRE(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    dfm_about about, again;
    cJSON *document;
    dfm_error error = {0};
    if (dfm_about_read(text, kind, &id, &about, &document, &error) == DFM_OK) {
        char *written = dfm_about_write(&about, kind, document);
        REQUIRE(written);
        REQUIRE(dfm_about_read(written, kind, &id, &again, NULL, NULL) == DFM_OK);
        REQUIRE(memcmp(about.digest, again.digest, sizeof about.digest) == 0);
        REQUIRE(about.file_bytes == again.file_bytes);
        REQUIRE(about.created_unix_s == again.created_unix_s);
        REQUIRE(about.settings.mode == again.settings.mode &&
                about.settings.sdef == again.settings.sdef &&
                about.settings.weights == again.settings.weights);
        free(written);
        cJSON_Delete(document);
    } else {
        REQUIRE(error.status == DFM_ERROR_CORRUPT && strstr(error.info, id.text));
    }
    free(text);
    return 0;
}
