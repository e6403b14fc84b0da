#include "api/attributes.h"
#include "api/call.h"
#include "api/documents.h"
#include "api/json_reader.h"
#include "api/media.h"
#include "api/pointer.h"
#include "api/response.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- settings ------------------------------------------------------------------------------- */

/* Settings that a request names; those it does not name are the fallback's. */
struct wanted {
    dfm_settings settings;
    dfm_settings_given given;
};

static bool read_query_settings(const dfm_query *query, const dfm_settings *fallback,
                                struct wanted *wanted, dfm_problem *problem) {
    static const char *const switch_words[] = {"off", "on", NULL};
    int mode = dfm_query_choice(query, "mode", dfm_mode_words, fallback->mode, problem);
    if (mode < 0)
        return false;
    int sdef = dfm_query_choice(query, "sdef", switch_words, fallback->sdef, problem);
    if (sdef < 0)
        return false;
    int weights = dfm_query_choice(query, "weights", dfm_weights_words, fallback->weights, problem);
    if (weights < 0)
        return false;
    wanted->settings = (dfm_settings){(dfm_mode)mode, sdef, (dfm_weights_mode)weights};
    wanted->given = (dfm_settings_given){.mode = dfm_query_get(query, "mode"),
                                         .sdef = dfm_query_get(query, "sdef"),
                                         .weights = dfm_query_get(query, "weights")};
    return true;
}

bool dfm_models_check_settings(const dfm_query *query, dfm_problem *problem) {
    struct wanted wanted;
    return read_query_settings(query, &(dfm_settings){0}, &wanted, problem);
}

/* --- a model -------------------------------------------------------------------------------- */

static void answer_model(dfm_call *call, int status, const dfm_resident *resident) {
    dfm_call_document(call, status, resident->etag,
                      dfm_document_model(resident, call->api->config.skinners));
}

void dfm_models_upload(dfm_call *call) {
    const dfm_api_config *config = &call->api->config;
    struct wanted wanted;
    dfm_resident *resident;
    bool created;
    dfm_error error = {0};
    if (!read_query_settings(&call->query, &config->defaults, &wanted, &call->problem)) {
        dfm_call_fail(call);
        return;
    }
    if (dfm_library_put_model(call->api->library, call->request->body, call->request->body_bytes,
                              &wanted.settings, wanted.given, &resident, &created,
                              &error) != DFM_OK) {
        dfm_call_fail_core(call, DFM_SUBJECT_MODEL_FILE, &error);
        return;
    }
    answer_model(call, created ? 201 : 200, resident);
    /* Relative to /models, so that it holds behind any prefix. */
    if (call->response->status < 300)
        dfm_response_header(call->response, "Location", "models/%s", resident->id.text);
    dfm_resident_release(resident);
}

void dfm_models_get(dfm_call *call) {
    dfm_resident *resident = dfm_call_resident(call);
    if (!resident)
        return;
    if (!dfm_call_not_modified(call, resident->etag))
        answer_model(call, 200, resident);
    dfm_resident_release(resident);
}

/* The entity tag that a change must find in place: NULL without If-Match. False: answered. */
static bool read_if_match(dfm_call *call, char etag[DFM_ETAG_BYTES], const char **if_match) {
    const char *list = call->request->headers.if_match;
    *if_match = NULL;
    if (!list)
        return true;
    dfm_resident *resident = dfm_call_resident_now(call);
    if (!resident)
        return false;
    bool matches = dfm_etag_matches_strongly(list, resident->etag);
    snprintf(etag, DFM_ETAG_BYTES, "%s", resident->etag);
    dfm_resident_release(resident);
    /* "*" is content with whatever state there is; a tag must still be right at the change. */
    *if_match = list[strspn(list, " \t")] == '*' ? NULL : etag;
    if (matches)
        return true;
    dfm_problem_set(&call->problem, DFM_PROBLEM_PRECONDITION_FAILED, "the model's ETag is %s",
                    etag);
    dfm_call_fail(call);
    return false;
}

void dfm_models_delete(dfm_call *call) {
    char etag[DFM_ETAG_BYTES];
    const char *if_match;
    dfm_error error = {0};
    if (!read_if_match(call, etag, &if_match))
        return;
    if (dfm_library_delete_model(call->api->library, call->id, if_match, &error) == DFM_OK)
        dfm_response_begin(call->response, call->request, 204);
    else
        dfm_call_fail_core(call, DFM_SUBJECT_MODEL, &error);
}

/* --- settings by PATCH ---------------------------------------------------------------------- */

static bool fail_json(dfm_call *call, const dfm_json_reader *json) {
    dfm_problem_from_json(&call->problem, json);
    return false;
}

/* What stands at `key` (NULL: the document) is wrong, unless it is no JSON either. */
static bool fail_setting(dfm_call *call, dfm_json_reader *json, const char *key,
                         const char *expected) {
    if (json->error || !dfm_json_skip(json))
        return fail_json(call, json);
    dfm_problem_set(&call->problem, DFM_PROBLEM_INVALID_SETTINGS, "%s expected", expected);
    dfm_pointer pointer;
    dfm_pointer_begin(&pointer, &call->problem);
    dfm_pointer_add(&pointer, key);
    return false;
}

/* Index of the string that is next in `words`, or -1: it is none of them. */
static int read_word(dfm_json_reader *json, const char *const *words) {
    dfm_json_reader begin = *json;
    dfm_json_string string;
    if (!dfm_json_text(json, &string))
        return -1;
    for (int i = 0; words[i]; i++) {
        if (dfm_json_string_is(&string, words[i]))
            return i;
    }
    *json = begin;
    return -1;
}

static bool read_mode(dfm_call *call, dfm_json_reader *json, struct wanted *wanted) {
    int mode = read_word(json, dfm_mode_words);
    if (mode < 0)
        return fail_setting(call, json, "mode", "\"gpu\" or \"cpu\"");
    wanted->settings.mode = (dfm_mode)mode;
    wanted->given.mode = true;
    return true;
}

static bool read_sdef(dfm_call *call, dfm_json_reader *json, struct wanted *wanted) {
    if (!dfm_json_bool(json, &wanted->settings.sdef))
        return fail_setting(call, json, "sdef", "true or false");
    wanted->given.sdef = true;
    return true;
}

static bool read_weights(dfm_call *call, dfm_json_reader *json, struct wanted *wanted) {
    int weights = read_word(json, dfm_weights_words);
    if (weights < 0)
        return fail_setting(call, json, "weights", "\"normalized\" or \"raw\"");
    wanted->settings.weights = (dfm_weights_mode)weights;
    wanted->given.weights = true;
    return true;
}

static bool fail_key(dfm_call *call, const dfm_json_string *key, const char *why) {
    dfm_problem_set(&call->problem, DFM_PROBLEM_INVALID_SETTINGS, "%s", why);
    dfm_pointer pointer;
    dfm_pointer_begin(&pointer, &call->problem);
    dfm_pointer_add_string(&pointer, key);
    return false;
}

static bool read_setting(dfm_call *call, dfm_json_reader *json, const dfm_json_string *key,
                         struct wanted *wanted) {
    static const struct {
        const char *name;
        size_t given; /* offset of the flag in dfm_settings_given */
        bool (*read)(dfm_call *call, dfm_json_reader *json, struct wanted *wanted);
    } settings[] = {{"mode", offsetof(dfm_settings_given, mode), read_mode},
                    {"sdef", offsetof(dfm_settings_given, sdef), read_sdef},
                    {"weights", offsetof(dfm_settings_given, weights), read_weights}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!dfm_json_string_is(key, settings[i].name))
            continue;
        if (*(const bool *)((const char *)&wanted->given + settings[i].given))
            return fail_key(call, key, "the setting is given twice");
        return settings[i].read(call, json, wanted);
    }
    return fail_key(call, key, "mode, sdef or weights expected");
}

/* The merge patch. A null would remove a setting, and a setting cannot be missing. */
static bool read_patch(dfm_call *call, struct wanted *wanted) {
    dfm_json_reader json;
    dfm_json_string key;
    *wanted = (struct wanted){0};
    if (call->request->body_bytes == 0) {
        dfm_problem_set(&call->problem, DFM_PROBLEM_BAD_REQUEST, "the body is empty");
        return false;
    }
    dfm_json_begin(&json, call->request->body, call->request->body_bytes);
    dfm_json_limit(&json, &call->api->config.json);
    if (!dfm_json_enter_object(&json))
        return fail_setting(call, &json, NULL, "an object");
    while (dfm_json_next_key(&json, &key)) {
        if (!read_setting(call, &json, &key, wanted))
            return false;
    }
    return dfm_json_finish(&json) || fail_json(call, &json);
}

void dfm_models_configure(dfm_call *call) {
    char etag[DFM_ETAG_BYTES];
    const char *if_match;
    struct wanted wanted;
    dfm_resident *resident;
    dfm_error error = {0};
    if (!read_patch(call, &wanted)) {
        dfm_call_fail(call);
        return;
    }
    if (!read_if_match(call, etag, &if_match))
        return;
    if (dfm_library_configure(call->api->library, call->id, if_match, &wanted.settings,
                              wanted.given, &resident, &error) != DFM_OK) {
        dfm_call_fail_core(call, DFM_SUBJECT_MODEL, &error);
        return;
    }
    answer_model(call, 200, resident);
    dfm_resident_release(resident);
}

/* --- the list ------------------------------------------------------------------------------- */

void dfm_models_list(dfm_call *call) {
    dfm_call_list(call, DFM_STORE_MODEL);
}

/* --- what a model consists of --------------------------------------------------------------- */

/* The tag of something that only the file (and this version) decides. */
static void make_part_etag(const dfm_call *call, const dfm_resident *resident, const char *part,
                           char etag[DFM_ETAG_BYTES]) {
    snprintf(etag, DFM_ETAG_BYTES, "\"%s.%.40s.%.16s\"", resident->id.text, part,
             call->api->config.version);
}

static void answer_part(dfm_call *call, const char *part,
                        cJSON *(*document)(const dfm_model *model)) {
    char etag[DFM_ETAG_BYTES];
    dfm_resident *resident = dfm_call_resident(call);
    if (!resident)
        return;
    make_part_etag(call, resident, part, etag);
    if (!dfm_call_not_modified(call, etag))
        dfm_call_document(call, 200, etag, document(resident->target.model));
    dfm_resident_release(resident);
}

void dfm_models_bones(dfm_call *call) {
    answer_part(call, "bones", dfm_document_bones);
}

void dfm_models_morphs(dfm_call *call) {
    answer_part(call, "morphs", dfm_document_morphs);
}

void dfm_models_materials(dfm_call *call) {
    answer_part(call, "materials", dfm_document_materials);
}

/* Takes the caller's reference over. */
static void answer_u32_indices(dfm_call *call, dfm_resident *resident) {
    const dfm_pmx *pmx = &resident->target.model->pmx;
    dfm_response_begin(call->response, call->request, 200);
    dfm_response_borrowed(call->response, DFM_MEDIA_BYTES, pmx->indices,
                          (size_t)pmx->index_count * sizeof(uint32_t), resident);
}

static bool answer_u16_indices(dfm_call *call, const dfm_pmx *pmx) {
    size_t size = (size_t)pmx->index_count * sizeof(uint16_t);
    dfm_buffer *buffer = dfm_call_result(call, size);
    if (!buffer) {
        dfm_call_fail(call);
        return false;
    }
    uint16_t *indices = (uint16_t *)(void *)buffer->data;
    for (uint32_t i = 0; i < pmx->index_count; i++)
        indices[i] = (uint16_t)pmx->indices[i];
    dfm_response_begin(call->response, call->request, 200);
    dfm_response_buffer(call->response, DFM_MEDIA_BYTES, &call->api->config.buffers, buffer, size);
    return true;
}

void dfm_models_indices(dfm_call *call) {
    char etag[DFM_ETAG_BYTES];
    dfm_resident *resident = dfm_call_resident(call);
    if (!resident)
        return;
    make_part_etag(call, resident, "indices", etag);
    if (dfm_call_not_modified(call, etag)) {
        dfm_resident_release(resident);
        return;
    }
    const dfm_pmx *pmx = &resident->target.model->pmx;
    bool small = pmx->vertices.count <= UINT16_MAX + 1;
    bool good = true;
    if (small) {
        good = answer_u16_indices(call, pmx);
        dfm_resident_release(resident);
    } else {
        answer_u32_indices(call, resident);
    }
    if (!good)
        return;
    dfm_response_header(call->response, "ETag", "%s", etag);
    dfm_response_header(call->response, "Deformd-Index-Type", small ? "u16" : "u32");
}

bool dfm_models_check_attributes(const dfm_query *query, dfm_problem *problem) {
    dfm_layout layout;
    return dfm_attributes_parse(query, &layout, problem);
}

/* What a tag says of a layout: "vertices.f32i01" is f32, interleaved, attributes 0 and 1. */
static void name_vertices(const dfm_layout *layout, char part[48]) {
    int at =
        snprintf(part, 48, "vertices.%s%c", layout->component == DFM_COMPONENT_F16 ? "f16" : "f32",
                 layout->planar ? 'p' : 'i');
    for (uint32_t i = 0; i < layout->attribute_count; i++)
        at += snprintf(part + at, (size_t)(48 - at), "%d", (int)layout->attributes[i]);
}

static void answer_vertices(dfm_call *call, const dfm_model *model, const dfm_layout *layout,
                            const char *etag) {
    dfm_buffer *buffer = dfm_call_result(call, layout->frame_bytes);
    if (!buffer) {
        dfm_call_fail(call);
        return;
    }
    for (uint32_t i = 0; i < layout->attribute_count; i++)
        dfm_layout_write_bind(layout, i, &model->pmx.vertices, buffer->data);
    dfm_response_begin(call->response, call->request, 200);
    dfm_response_buffer(call->response, DFM_MEDIA_BYTES, &call->api->config.buffers, buffer,
                        (size_t)layout->frame_bytes);
    dfm_response_header(call->response, "ETag", "%s", etag);
    dfm_attributes_add_headers(layout, 1, model, call->response);
}

void dfm_models_vertices(dfm_call *call) {
    char etag[DFM_ETAG_BYTES], part[48];
    dfm_layout layout;
    dfm_resident *resident = dfm_call_resident(call);
    if (!resident)
        return;
    const dfm_model *model = resident->target.model;
    if (!dfm_attributes_parse(&call->query, &layout, &call->problem) ||
        !dfm_attributes_finish(&layout, model, &call->problem)) {
        dfm_call_fail(call);
    } else {
        name_vertices(&layout, part);
        make_part_etag(call, resident, part, etag);
        if (!dfm_call_not_modified(call, etag))
            answer_vertices(call, model, &layout, etag);
    }
    dfm_resident_release(resident);
}
