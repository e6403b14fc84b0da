/* openapi.yaml against the program: routes, parameters, headers, media types and problems both
 * ways, and every example against the real daemon with the sample figure in it.
 *
 * An example of a parameter is sent with what its `x-beside` says, if anything. An example of a
 * request body or parameter must be answered with 2xx, unless an error response of the operation
 * has an example of the same name: then that is the answer, member by member (request_id aside).
 * Every such response example must have its request. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "api/routes.h"
#include "tests/e2e/support.h"
#include "tests/support_vmd.h"

static cJSON *contract;
static daemon_process d;
static uint8_t *figure;
static size_t figure_bytes;
static char id[64];
static vmd_writer vmd;
static char motion_id[64];

/* --- the document ------------------------------------------------------------------------------
 */

/* build/<config>/gen/openapi.json, beside the daemon: the Makefile makes it of openapi.yaml. */
static void load_contract(void) {
    const char *program = getenv("DEFORMD") ? getenv("DEFORMD") : "build/release/deformd";
    char path[512];
    const char *slash = strrchr(program, '/');
    ck_assert_ptr_nonnull(slash);
    snprintf(path, sizeof path, "%.*s/gen/openapi.json", (int)(slash - program), program);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is missing: run make check", path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    fclose(file);
    contract = cJSON_ParseWithLength(text, size);
    free(text);
    ck_assert_msg(contract != NULL, "%s is no JSON", path);
}

static cJSON *member(const cJSON *object, const char *name) {
    return object ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}

/* Follows a $ref, "#/components/<kind>/<name>". */
static cJSON *resolve(cJSON *node) {
    const char *reference = cJSON_GetStringValue(member(node, "$ref"));
    if (!reference)
        return node;
    ck_assert_msg(strncmp(reference, "#/", 2) == 0, "%s", reference);
    char path[256];
    snprintf(path, sizeof path, "%s", reference + 2);
    node = contract;
    for (char *rest, *part = strtok_r(path, "/", &rest); part; part = strtok_r(NULL, "/", &rest))
        node = member(node, part);
    ck_assert_msg(node != NULL, "%s leads nowhere", reference);
    return node;
}

/* --- lists of names ----------------------------------------------------------------------------
 */

typedef struct names {
    char items[128][96];
    size_t count;
} names;

static bool has(const names *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

static void add(names *list, const char *name) {
    if (has(list, name))
        return;
    ck_assert_uint_lt(list->count, 128);
    int length = snprintf(list->items[list->count++], sizeof *list->items, "%s", name);
    ck_assert_int_lt(length, (int)sizeof *list->items);
}

static void add_list(names *list, const char *const *items) {
    for (; items && *items; items++)
        add(list, *items);
}

static void expect_same(const names *program, const names *document, const char *what,
                        const char *where) {
    for (size_t i = 0; i < program->count; i++)
        ck_assert_msg(has(document, program->items[i]), "openapi.yaml lacks the %s %s of %s", what,
                      program->items[i], where);
    for (size_t i = 0; i < document->count; i++)
        ck_assert_msg(has(program, document->items[i]), "the program lacks the %s %s of %s", what,
                      document->items[i], where);
}

/* --- operations --------------------------------------------------------------------------------
 */

typedef struct operation {
    const char *path, *method; /* "/models/{id}", "get" */
    char name[128];            /* "GET /models/{id}" */
    cJSON *node, *path_node;
} operation;

static void for_each_operation(void (*visit)(const operation *o, void *context), void *context) {
    cJSON *path_node;
    cJSON_ArrayForEach(path_node, member(contract, "paths")) {
        cJSON *node;
        cJSON_ArrayForEach(node, path_node) {
            if (strcmp(node->string, "parameters") == 0)
                continue;
            operation o = {.path = path_node->string,
                           .method = node->string,
                           .node = node,
                           .path_node = path_node};
            snprintf(o.name, sizeof o.name, "%s %s", o.method, o.path);
            for (char *c = o.name; *c != ' '; c++)
                *c = (char)(*c - 'a' + 'A');
            visit(&o, context);
        }
    }
}

static void for_each_parameter(const operation *o,
                               void (*visit)(const operation *o, cJSON *parameter, void *context),
                               void *context) {
    cJSON *lists[] = {member(o->path_node, "parameters"), member(o->node, "parameters")};
    for (size_t i = 0; i < 2; i++) {
        cJSON *parameter;
        cJSON_ArrayForEach(parameter, lists[i]) visit(o, resolve(parameter), context);
    }
}

static const dfm_route *route_of(const operation *o) {
    for (size_t i = 0; i < dfm_route_count; i++)
        if (strcmp(dfm_routes[i].name, o->name) == 0)
            return &dfm_routes[i];
    ck_abort_msg("the program has no route %s", o->name);
    return NULL;
}

/* --- what must be the same ---------------------------------------------------------------------
 */

static void collect_name(const operation *o, void *context) {
    add(context, o->name);
}

START_TEST(routes_are_the_same_both_ways) {
    names program = {0}, document = {0};
    for (size_t i = 0; dfm_api_route_name(i); i++)
        add(&program, dfm_api_route_name(i));
    for_each_operation(collect_name, &document);
    ck_assert_uint_gt(document.count, 10);
    expect_same(&program, &document, "route", "the table");
}
END_TEST

static void collect_query(const operation *o, cJSON *parameter, void *context) {
    (void)o;
    if (strcmp(cJSON_GetStringValue(member(parameter, "in")), "query") == 0)
        add(context, cJSON_GetStringValue(member(parameter, "name")));
}

static void compare_query(const operation *o, void *context) {
    (void)context;
    names program = {0}, document = {0};
    add_list(&program, route_of(o)->query);
    for_each_parameter(o, collect_query, &document);
    expect_same(&program, &document, "query parameter", o->name);
}

START_TEST(query_parameters_are_the_same_both_ways) {
    for_each_operation(compare_query, NULL);
}
END_TEST

static void collect_header(const operation *o, cJSON *parameter, void *context) {
    (void)o;
    if (strcmp(cJSON_GetStringValue(member(parameter, "in")), "header") == 0)
        add(context, cJSON_GetStringValue(member(parameter, "name")));
}

static void collect_headers(const operation *o, void *context) {
    for_each_parameter(o, collect_header, context);
}

START_TEST(request_headers_are_the_same_both_ways) {
    /* dfm_api_headers, less the ones that OpenAPI says by content types. */
    names program = {.items = {"X-Request-Id", "Request-Timeout-Ms", "Content-Encoding", "If-Match",
                               "If-None-Match"},
                     .count = 5};
    names document = {0};
    for_each_operation(collect_headers, &document);
    expect_same(&program, &document, "request header", "the contract");
}
END_TEST

static bool is_good(const char *status) {
    return status[0] == '2';
}

static void compare_responses(const operation *o, void *context) {
    (void)context;
    const dfm_route *route = route_of(o);
    names headers = {0}, media = {0}, document_headers = {0}, document_media = {0};
    add(&headers, "X-Request-Id");
    add_list(&headers, route->headers);
    add_list(&media, route->media);
    cJSON *response, *part;
    bool not_modified = false, unauthorized = false, forbidden = false;
    cJSON_ArrayForEach(response, member(o->node, "responses")) {
        not_modified |= strcmp(response->string, "304") == 0;
        unauthorized |= strcmp(response->string, "401") == 0;
        forbidden |= strcmp(response->string, "403") == 0;
        if (!is_good(response->string))
            continue;
        cJSON *node = resolve(response);
        cJSON_ArrayForEach(part, member(node, "headers")) add(&document_headers, part->string);
        cJSON_ArrayForEach(part, member(node, "content")) add(&document_media, part->string);
    }
    expect_same(&headers, &document_headers, "response header", o->name);
    expect_same(&media, &document_media, "response type", o->name);
    ck_assert_msg(member(member(o->node, "responses"), "default") != NULL, "%s: no problem",
                  o->name);
    bool health = strcmp(o->path, "/livez") == 0 || strcmp(o->path, "/readyz") == 0;
    ck_assert_msg(not_modified == (route->method == DFM_METHOD_GET && !health), "%s: 304", o->name);
    cJSON *security = member(o->node, "security"); /* an empty list: everybody; none: a token */
    ck_assert_msg((security != NULL) == (route->scope == DFM_SCOPE_OPEN) &&
                      cJSON_GetArraySize(security) == 0,
                  "%s: security", o->name);
    ck_assert_msg(unauthorized == (route->scope != DFM_SCOPE_OPEN), "%s: 401", o->name);
    ck_assert_msg(forbidden == (route->scope == DFM_SCOPE_ADMIN), "%s: 403", o->name);
}

START_TEST(response_headers_and_types_are_the_same_both_ways) {
    for_each_operation(compare_responses, NULL);
}
END_TEST

static void compare_bodies(const operation *o, void *context) {
    (void)context;
    names program = {0}, document = {0};
    const dfm_body_type *type = route_of(o)->body_types;
    for (; type && type->media_type; type++)
        add(&program, type->media_type);
    cJSON *content;
    cJSON_ArrayForEach(content, member(member(o->node, "requestBody"), "content"))
        add(&document, content->string);
    expect_same(&program, &document, "body type", o->name);
}

START_TEST(body_types_are_the_same_both_ways) {
    for_each_operation(compare_bodies, NULL);
}
END_TEST

START_TEST(problems_are_the_same_both_ways) {
    names program = {0}, document = {0};
    for (int i = 0; i < DFM_PROBLEM_COUNT; i++) {
        char type[128];
        snprintf(type, sizeof type, "/problems/%s", dfm_problem_kinds[i].code);
        add(&program, type);
    }
    cJSON *schema = member(member(member(contract, "components"), "schemas"), "Problem"), *value;
    cJSON_ArrayForEach(value, member(member(member(schema, "properties"), "type"), "enum"))
        add(&document, cJSON_GetStringValue(value));
    expect_same(&program, &document, "problem", "the catalogue");
}
END_TEST

/* The README's table of problems, and its table of flags, are written by hand. */
START_TEST(readme_names_every_problem) {
    FILE *file = fopen("README.md", "rb");
    ck_assert_ptr_nonnull(file);
    static char text[1 << 18];
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (int i = 0; i < DFM_PROBLEM_COUNT; i++) {
        char row[128];
        snprintf(row, sizeof row, "| `%s` | %d |", dfm_problem_kinds[i].code,
                 dfm_problem_kinds[i].status);
        ck_assert_msg(strstr(text, row) != NULL, "README.md lacks the row %s", row);
    }
}
END_TEST

/* --- examples ----------------------------------------------------------------------------------
 */

/* A motion of two of the figure's bones and of one that it lacks. */
static void make_motion(void) {
    static const float still[3], raised[3] = {0, 2, 0}, no_turn[4] = {0, 0, 0, 1};
    vmd_begin(&vmd);
    vmd_section(&vmd);
    vmd_bone(&vmd, "\x83\x5a\x83\x93\x83\x5e\x81\x5b", 0, still, no_turn, NULL); /* センター */
    vmd_bone(&vmd, "\x83\x5a\x83\x93\x83\x5e\x81\x5b", 30, raised, no_turn, NULL);
    vmd_bone(&vmd, "nobody", 0, still, no_turn, NULL);
}

static void upload_motion(void) {
    reply r = http(&d, &(request){.path = "/motions", .body = vmd.bytes, .size = vmd.size});
    ck_assert_int_eq(r.status / 100, 2);
    snprintf(motion_id, sizeof motion_id, "%s", reply_field(&r, "id"));
    reply_free(&r);
}

static void set_up(void) {
    load_contract();
    daemon_hide_opencl();
    d = daemon_start(NULL);
    dfm_arena arena = {0};
    dfm_pmx pmx = model_figure(&arena);
    figure = model_bytes(&pmx, NULL, &figure_bytes);
    dfm_arena_free(&arena);
    snprintf(id, sizeof id, "%s", upload_bytes(&d, figure, figure_bytes, ""));
    make_motion();
    upload_motion();
}

static void tear_down(void) {
    free(figure);
    cJSON_Delete(contract);
    daemon_stop(&d);
}

static bool is_of_motions(const operation *o) {
    return strncmp(o->path, "/motions", 8) == 0;
}

static void put_path(char *to, size_t size, const operation *o) {
    const char *mark = strstr(o->path, "{id}");
    if (mark)
        snprintf(to, size, "%.*s%s%s", (int)(mark - o->path), o->path,
                 is_of_motions(o) ? motion_id : id, mark + 4);
    else
        snprintf(to, size, "%s", o->path);
}

/* --- bodies against their schemas ---------------------------------------------------------------
 */

static const char *json_type(const cJSON *value) {
    return cJSON_IsObject(value)   ? "object"
           : cJSON_IsArray(value)  ? "array"
           : cJSON_IsString(value) ? "string"
           : cJSON_IsBool(value)   ? "boolean"
                                   : "number";
}

static bool is_in_enum(const cJSON *values, const cJSON *value) {
    const cJSON *allowed;
    cJSON_ArrayForEach(allowed, values) {
        if (cJSON_Compare(allowed, value, true))
            return true;
    }
    return values == NULL;
}

static void expect_described(cJSON *schema, const cJSON *value, const char *where);

static void expect_members_described(cJSON *schema, const cJSON *value, const char *where) {
    char path[256];
    cJSON *item;
    cJSON_ArrayForEach(item, member(schema, "required"))
        ck_assert_msg(member(value, cJSON_GetStringValue(item)) != NULL, "%s lacks %s", where,
                      cJSON_GetStringValue(item));
    cJSON_ArrayForEach(item, value) {
        cJSON *described = member(member(schema, "properties"), item->string);
        if (!described)
            described = member(schema, "additionalProperties");
        snprintf(path, sizeof path, "%s/%s", where, item->string);
        ck_assert_msg(described != NULL, "openapi.yaml does not describe %s", path);
        expect_described(described, item, path);
    }
}

static void expect_items_described(cJSON *schema, const cJSON *value, const char *where) {
    int count = cJSON_GetArraySize(value);
    cJSON *least = member(schema, "minItems"), *most = member(schema, "maxItems"), *item;
    ck_assert_msg((!least || count >= least->valueint) && (!most || count <= most->valueint),
                  "%s has %d items", where, count);
    cJSON_ArrayForEach(item, value) expect_described(member(schema, "items"), item, where);
}

/* A member that the schema does not know, a type or a word that it does not allow, ends the test.
 */
static void expect_described(cJSON *schema, const cJSON *value, const char *where) {
    schema = resolve(schema);
    if (cJSON_IsNull(value)) {
        ck_assert_msg(cJSON_IsTrue(member(schema, "nullable")), "%s is null", where);
        return;
    }
    const char *type = cJSON_GetStringValue(member(schema, "type")), *is = json_type(value);
    bool integer = type && strcmp(type, "integer") == 0;
    ck_assert_msg(type && strcmp(integer ? "number" : type, is) == 0, "%s is %s", where, is);
    ck_assert_msg(!integer || value->valuedouble == (double)(long long)value->valuedouble,
                  "%s is no integer", where);
    ck_assert_msg(is_in_enum(member(schema, "enum"), value), "%s has another value", where);
    if (cJSON_IsObject(value))
        expect_members_described(schema, value, where);
    else if (cJSON_IsArray(value))
        expect_items_described(schema, value, where);
}

static void expect_body_described(const operation *o, const reply *r) {
    const char *given = reply_header(r, "Content-Type");
    if (!given || !strstr(given, "json"))
        return;
    char type[64], status[8];
    snprintf(type, sizeof type, "%.*s", (int)strcspn(given, ";"), given);
    snprintf(status, sizeof status, "%ld", r->status);
    cJSON *responses = member(o->node, "responses"), *response = member(responses, status);
    if (!response)
        response = member(responses, "default");
    cJSON *schema = member(member(member(resolve(response), "content"), type), "schema");
    ck_assert_msg(schema != NULL, "%s: no schema of %s %s", o->name, status, type);
    cJSON *body = cJSON_ParseWithLength((const char *)r->body, r->size);
    expect_described(schema, body, o->name);
    cJSON_Delete(body);
}

/* The error response's example of this name, or NULL; *status is its status then. */
static cJSON *expected_problem(const operation *o, const char *name, int *status) {
    cJSON *response;
    cJSON_ArrayForEach(response, member(o->node, "responses")) {
        if (is_good(response->string) || strcmp(response->string, "default") == 0)
            continue;
        cJSON *content = member(member(resolve(response), "content"), "application/problem+json");
        cJSON *example = member(member(content, "examples"), name);
        if (example) {
            *status = atoi(response->string);
            return member(example, "value");
        }
    }
    return NULL;
}

static void expect_reply(const operation *o, const char *name, const reply *r) {
    int status = 0;
    expect_body_described(o, r);
    cJSON *expected = expected_problem(o, name, &status);
    if (!expected) {
        ck_assert_msg(r->status / 100 == 2, "%s, example %s: %ld %s", o->name, name, r->status,
                      r->body);
        return;
    }
    ck_assert_msg(r->status == status, "%s, example %s: %ld %s", o->name, name, r->status, r->body);
    cJSON *got = cJSON_ParseWithLength((const char *)r->body, r->size);
    cJSON_ReplaceItemInObjectCaseSensitive(
        got, "request_id",
        cJSON_CreateString(cJSON_GetStringValue(member(expected, "request_id"))));
    ck_assert_msg(cJSON_Compare(got, expected, true), "%s, example %s: %s", o->name, name, r->body);
    cJSON_Delete(got);
}

static void send_example(const operation *o, const char *name, request *what) {
    char method[16];
    snprintf(method, sizeof method, "%.*s", (int)strcspn(o->name, " "), o->name);
    what->method = method;
    reply r = http(&d, what);
    expect_reply(o, name, &r);
    reply_free(&r);
    if (strcmp(method, "DELETE") == 0) {
        upload_bytes(&d, figure, figure_bytes, "");
        upload_motion();
    }
}

/* The plainest body that an operation takes. */
static void put_body(const operation *o, request *what) {
    const dfm_body_type *types = route_of(o)->body_types;
    if (!types)
        return;
    what->content_type = types[0].media_type;
    what->body = "{}";
    what->size = 2;
    if (strcmp(o->path, "/models") == 0) {
        what->body = figure;
        what->size = figure_bytes;
    } else if (strcmp(o->path, "/motions") == 0) {
        what->body = vmd.bytes;
        what->size = vmd.size;
    }
}

/* Adds the query parameters that must be given, but for `given`: they are all ids of the model. */
static void put_required(const operation *o, char *path, size_t size, const char *given) {
    cJSON *parameter;
    cJSON_ArrayForEach(parameter, member(o->node, "parameters")) {
        cJSON *resolved = resolve(parameter);
        const char *name = cJSON_GetStringValue(member(resolved, "name"));
        if (!cJSON_IsTrue(member(resolved, "required")) || (given && strcmp(given, name) == 0))
            continue;
        size_t at = strlen(path);
        snprintf(path + at, size - at, "%c%s=%s", strchr(path, '?') ? '&' : '?', name, id);
    }
}

/* Examples name a motion by an id that nobody can know: it is the one that was uploaded, unless it
 * is all zeros, which none has. */
static char *print_example(cJSON *value) {
    cJSON *motion = cJSON_GetObjectItemCaseSensitive(value, "motion");
    if (motion && strspn(cJSON_GetStringValue(motion), "0") != strlen(motion_id))
        cJSON_SetValuestring(motion, motion_id);
    return cJSON_PrintUnformatted(value);
}

static void run_body_examples(const operation *o, void *context) {
    size_t *count = context;
    cJSON *content, *example;
    cJSON_ArrayForEach(content, member(member(o->node, "requestBody"), "content")) {
        cJSON_ArrayForEach(example, member(content, "examples")) {
            char path[256], *text = print_example(member(example, "value"));
            put_path(path, sizeof path, o);
            request what = {
                .path = path, .content_type = content->string, .body = text, .size = strlen(text)};
            send_example(o, example->string, &what);
            free(text);
            ++*count;
        }
    }
}

static void run_parameter_example(const operation *o, cJSON *parameter, void *context) {
    size_t *count = context;
    const char *name = cJSON_GetStringValue(member(parameter, "name"));
    const char *in = cJSON_GetStringValue(member(parameter, "in"));
    cJSON *example = member(parameter, "example");
    if (strcmp(in, "path") == 0)
        return;
    ck_assert_msg(example != NULL, "%s: the parameter %s has no example", o->name, name);
    char value[128], path[512], header[256];
    if (cJSON_IsNumber(example))
        snprintf(value, sizeof value, "%g", example->valuedouble);
    else
        snprintf(value, sizeof value, "%s", cJSON_GetStringValue(example));
    if (cJSON_IsTrue(member(parameter, "required")))
        snprintf(value, sizeof value, "%s", id); /* nobody can have the example's */
    put_path(path, sizeof path, o);
    put_required(o, path, sizeof path, name);
    const char *headers[] = {header, NULL};
    request what = {.path = path};
    if (strcmp(in, "query") == 0) {
        const char *beside = cJSON_GetStringValue(member(parameter, "x-beside"));
        size_t at = strlen(path);
        snprintf(path + at, sizeof path - at, "%c%s=%s%s%s", strchr(path, '?') ? '&' : '?', name,
                 value, beside ? "&" : "", beside ? beside : "");
    } else {
        snprintf(header, sizeof header, "%s: %s", name, value);
        what.headers = headers;
    }
    put_body(o, &what);
    send_example(o, name, &what);
    ++*count;
}

static void run_parameter_examples(const operation *o, void *context) {
    for_each_parameter(o, run_parameter_example, context);
}

static void expect_request_of_each_problem(const operation *o, void *context) {
    (void)context;
    cJSON *response, *media, *example, *content;
    cJSON_ArrayForEach(response, member(o->node, "responses")) {
        cJSON_ArrayForEach(media, member(resolve(response), "content")) {
            cJSON_ArrayForEach(example, member(media, "examples")) {
                bool found = false;
                cJSON_ArrayForEach(content, member(member(o->node, "requestBody"), "content"))
                    found |= member(member(content, "examples"), example->string) != NULL;
                ck_assert_msg(found, "%s: nothing asks for the answer %s", o->name,
                              example->string);
            }
        }
    }
}

START_TEST(examples_are_answered_as_the_contract_says) {
    size_t count = 0;
    for_each_operation(expect_request_of_each_problem, NULL);
    for_each_operation(run_body_examples, &count);
    for_each_operation(run_parameter_examples, &count);
    printf("cases: %zu examples of openapi.yaml\n", count);
    ck_assert_uint_gt(count, 30);
}
END_TEST

/* A GET of every path, so that those without any example are run too. */
static void get_plain(const operation *o, void *context) {
    (void)context;
    if (strcmp(o->method, "get") != 0)
        return;
    char path[256];
    put_path(path, sizeof path, o);
    put_required(o, path, sizeof path, NULL);
    reply r = http_get(&d, path);
    expect_status(&r, 200);
    const dfm_route *route = route_of(o);
    for (const char *const *header = route->headers; header && *header; header++)
        ck_assert_msg(reply_header(&r, *header) != NULL, "%s: no %s", o->name, *header);
    expect_body_described(o, &r);
    reply_free(&r);
}

START_TEST(every_get_is_answered_with_its_headers) {
    for_each_operation(get_plain, NULL);
}
END_TEST

static void deform_as_json(const operation *o, void *context) {
    static const char *const queries[] = {"attributes=edge_scale,uv,position,normal",
                                          "output=bones", "attributes=uv1"};
    if (strcmp(o->path, "/models/{id}/deform") != 0)
        return;
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        char path[256];
        put_path(path, sizeof path, o);
        snprintf(path + strlen(path), sizeof path - strlen(path), "?format=json&%s", queries[i]);
        reply r = http_json(&d, "POST", path, "{\"poses\":[{},{}]}");
        ck_assert_msg(r.status == 200 || r.status == 422, "%s: %ld", path, r.status);
        expect_body_described(o, &r);
        reply_free(&r);
        ++*(int *)context;
    }
}

static dfm_pmx odd_model(dfm_arena *arena) {
    return model_odd(arena, 2.1f, DFM_TEXT_UTF16LE);
}

/* Models with all kinds of what the lists describe, and results as JSON. */
START_TEST(documents_are_what_the_schemas_say) {
    static dfm_pmx (*const models[])(dfm_arena *) = {odd_model, model_legs440, model_figure};
    int count = 0;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        dfm_arena arena = {0};
        dfm_pmx pmx = models[i](&arena);
        snprintf(id, sizeof id, "%s", upload(&d, &pmx, ""));
        dfm_arena_free(&arena);
        for_each_operation(get_plain, NULL);
        for_each_operation(deform_as_json, &count);
    }
    ck_assert_int_eq(count, 9);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("contract");
    TCase *table = tcase_create("tables");
    tcase_add_checked_fixture(table, load_contract, NULL);
    tcase_add_test(table, routes_are_the_same_both_ways);
    tcase_add_test(table, query_parameters_are_the_same_both_ways);
    tcase_add_test(table, request_headers_are_the_same_both_ways);
    tcase_add_test(table, response_headers_and_types_are_the_same_both_ways);
    tcase_add_test(table, body_types_are_the_same_both_ways);
    tcase_add_test(table, problems_are_the_same_both_ways);
    tcase_add_test(table, readme_names_every_problem);
    suite_add_tcase(suite, table);
    TCase *live = tcase_create("examples");
    tcase_set_timeout(live, 120);
    tcase_add_checked_fixture(live, set_up, tear_down);
    tcase_add_test(live, examples_are_answered_as_the_contract_says);
    tcase_add_test(live, documents_are_what_the_schemas_say);
    tcase_add_test(live, every_get_is_answered_with_its_headers);
    suite_add_tcase(suite, live);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
