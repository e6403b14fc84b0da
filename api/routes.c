#include "api/routes.h"

#include "api/call.h"
#include "api/media.h"

#include <string.h>

/* Lists of names, each with a NULL past the last. */
#define LIST(...)                                                                                  \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }
#define DOCUMENT LIST(DFM_MEDIA_JSON)
#define TAGGED LIST("ETag")
#define BYTES LIST(DFM_MEDIA_BYTES)

static const dfm_body_type uploads[] = {
    {DFM_MEDIA_BYTES, DFM_BODY_UPLOAD},
    {DFM_MEDIA_MULTIPART, DFM_BODY_UPLOAD},
    {DFM_MEDIA_FORM, DFM_BODY_UPLOAD}, /* what curl --data-binary says of any file */
    {NULL, DFM_BODY_NONE},
};
static const dfm_body_type patches[] = {
    {DFM_MEDIA_MERGE_PATCH, DFM_BODY_JSON},
    {DFM_MEDIA_JSON, DFM_BODY_JSON},
    {NULL, DFM_BODY_NONE},
};
static const dfm_body_type poses[] = {
    {DFM_MEDIA_JSON, DFM_BODY_JSON},
    {DFM_MEDIA_POSE, DFM_BODY_POSE},
    {DFM_MEDIA_MATRICES, DFM_BODY_POSE},
    {DFM_MEDIA_VPD, DFM_BODY_POSE},
    {NULL, DFM_BODY_NONE},
};

const dfm_route dfm_routes[] = {
    {.name = "GET /",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .handle = dfm_service_index,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /livez",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .scope = DFM_SCOPE_OPEN,
     .handle = dfm_service_live,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /readyz",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .scope = DFM_SCOPE_OPEN,
     .handle = dfm_service_ready,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /openapi.yaml",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .scope = DFM_SCOPE_OPEN,
     .handle = dfm_service_openapi,
     .media = LIST(DFM_MEDIA_YAML),
     .headers = TAGGED},
    {.name = "GET /metrics",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE, /* answered when all workers are busy, too: then it matters most */
     .handle = dfm_service_metrics,
     .media = LIST(DFM_MEDIA_TEXT),
     .headers = TAGGED},
    {.name = "POST /models",
     .method = DFM_METHOD_POST,
     .lane = DFM_LANE_LOAD,
     .scope = DFM_SCOPE_ADMIN,
     .handle = dfm_models_upload,
     .check_query = dfm_models_check_settings,
     .query = LIST("mode", "sdef", "weights"),
     .media = DOCUMENT,
     .headers = LIST("ETag", "Location"),
     .body_types = uploads},
    {.name = "GET /models",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_LOAD,
     .handle = dfm_models_list,
     .check_query = dfm_query_check_page,
     .query = LIST("limit", "cursor"),
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /models/{id}",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .handle = dfm_models_get,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "PATCH /models/{id}",
     .method = DFM_METHOD_PATCH,
     .lane = DFM_LANE_LOAD,
     .scope = DFM_SCOPE_ADMIN,
     .handle = dfm_models_configure,
     .media = DOCUMENT,
     .headers = TAGGED,
     .body_types = patches},
    {.name = "DELETE /models/{id}",
     .method = DFM_METHOD_DELETE,
     .lane = DFM_LANE_LOAD,
     .scope = DFM_SCOPE_ADMIN,
     .handle = dfm_models_delete},
    {.name = "GET /models/{id}/stats",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .handle = dfm_models_stats,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /models/{id}/bones",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_models_bones,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /models/{id}/morphs",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_models_morphs,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /models/{id}/materials",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_models_materials,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /models/{id}/indices",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_models_indices,
     .media = BYTES,
     .headers = LIST("ETag", "Deformd-Index-Type")},
    {.name = "GET /models/{id}/vertices",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_models_vertices,
     .check_query = dfm_models_check_attributes,
     .query = LIST("attributes", "layout", "components"),
     .media = BYTES,
     .headers =
         LIST("ETag", "Deformd-Frames", "Deformd-Vertices", "Deformd-Stride", "Deformd-Layout")},
    {.name = "POST /motions",
     .method = DFM_METHOD_POST,
     .lane = DFM_LANE_LOAD,
     .scope = DFM_SCOPE_ADMIN,
     .handle = dfm_motions_upload,
     .media = DOCUMENT,
     .headers = LIST("ETag", "Location"),
     .body_types = uploads},
    {.name = "GET /motions",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_LOAD,
     .handle = dfm_motions_list,
     .check_query = dfm_query_check_page,
     .query = LIST("limit", "cursor"),
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "GET /motions/{id}",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_INLINE,
     .handle = dfm_motions_get,
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "DELETE /motions/{id}",
     .method = DFM_METHOD_DELETE,
     .lane = DFM_LANE_LOAD,
     .scope = DFM_SCOPE_ADMIN,
     .handle = dfm_motions_delete},
    {.name = "GET /motions/{id}/match",
     .method = DFM_METHOD_GET,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_motions_match,
     .check_query = dfm_motions_check_match,
     .query = LIST("model"),
     .media = DOCUMENT,
     .headers = TAGGED},
    {.name = "POST /models/{id}/deform",
     .method = DFM_METHOD_POST,
     .lane = DFM_LANE_COMPUTE,
     .handle = dfm_deform_handle,
     .check_query = dfm_deform_check,
     .query =
         LIST("attributes", "layout", "components", "format", "unknown", "ik", "output", "scale"),
     .media = LIST(DFM_MEDIA_BYTES, DFM_MEDIA_JSON, DFM_MEDIA_PC2, DFM_MEDIA_MDD),
     .headers = LIST("Deformd-Frames", "Deformd-Vertices", "Deformd-Bones", "Deformd-Stride",
                     "Deformd-Layout", "Deformd-Skinner", "Deformd-Unmatched", "Server-Timing"),
     .body_types = poses},
};
const size_t dfm_route_count = sizeof dfm_routes / sizeof *dfm_routes;

const char *dfm_api_route_name(size_t index) {
    return index < dfm_route_count ? dfm_routes[index].name : NULL;
}

/* --- finding one ---------------------------------------------------------------------------- */

static void take_id(const char *segment, char id[DFM_ID_DIGITS + 1]) {
    bool good =
        strlen(segment) == DFM_ID_DIGITS && strspn(segment, "0123456789abcdef") == DFM_ID_DIGITS;
    memcpy(id, good ? segment : "", good ? DFM_ID_DIGITS + 1 : 1);
}

/* Whether the path is of this pattern, segment by segment; fills in the id where it has one. */
static bool matches(const char *pattern, const char *path, char id[DFM_ID_DIGITS + 1]) {
    while (*pattern == '/' && *path == '/') {
        char segment[64];
        size_t want = strcspn(++pattern, "/"), have = strcspn(++path, "/");
        bool is_id = want == 4 && memcmp(pattern, "{id}", 4) == 0;
        bool decoded = dfm_percent_decode(path, have, segment, sizeof segment) >= 0;
        if (!is_id && (!decoded || strlen(segment) != want || memcmp(segment, pattern, want) != 0))
            return false;
        if (is_id && have == 0)
            return false;
        if (is_id)
            take_id(decoded ? segment : "", id);
        pattern += want;
        path += have;
    }
    return *pattern == 0 && *path == 0;
}

/* /v1/... is the same as without it. */
static const char *without_version(const char *path) {
    if (strncmp(path, "/v1", 3) != 0 || (path[3] != '/' && path[3] != 0))
        return path;
    return path[3] ? path + 3 : "/";
}

static void add_method(char allow[64], const char *name, size_t length) {
    size_t at = strlen(allow);
    memcpy(allow + at, ", ", at ? 2 : 0);
    at += at ? 2 : 0;
    memcpy(allow + at, name, length);
    allow[at + length] = 0;
}

dfm_route_match dfm_route_find(dfm_method method, const char *path) {
    dfm_route_match match = {0};
    path = without_version(path);
    if (method == DFM_METHOD_HEAD)
        method = DFM_METHOD_GET;
    for (size_t i = 0; i < dfm_route_count; i++) {
        const dfm_route *route = &dfm_routes[i];
        const char *space = strchr(route->name, ' ');
        if (!matches(space + 1, path, match.id))
            continue;
        if (route->method == method)
            match.route = route;
        add_method(match.allow, route->name, (size_t)(space - route->name));
        if (route->method == DFM_METHOD_GET)
            add_method(match.allow, "HEAD", 4);
    }
    return match;
}
