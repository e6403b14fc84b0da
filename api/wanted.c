#include "api/wanted.h"

#include "api/media.h"

#include <string.h>

const char *const dfm_result_media[] = {
    [DFM_RESULT_RAW] = DFM_MEDIA_BYTES,
    [DFM_RESULT_JSON] = DFM_MEDIA_JSON,
    [DFM_RESULT_PC2] = DFM_MEDIA_PC2,
    [DFM_RESULT_MDD] = DFM_MEDIA_MDD,
    NULL,
};
enum { FORMAT_COUNT = 4 };

static bool refuse(dfm_problem *problem, const char *parameter, const char *why) {
    dfm_problem_set(problem, DFM_PROBLEM_INVALID_QUERY, "%s", why);
    problem->parameter = parameter;
    return false;
}

/* The first of the parameters that was given, or NULL. */
static const char *first_given(const dfm_query *query, const char *const *names) {
    while (*names && !dfm_query_get(query, *names))
        names++;
    return *names;
}

static bool is_point_cache(const dfm_wanted *wanted) {
    return wanted->format == DFM_RESULT_PC2 || wanted->format == DFM_RESULT_MDD;
}

static bool check_bones(const dfm_wanted *wanted, const dfm_query *query, dfm_problem *problem) {
    static const char *const of_vertices[] = {"attributes", "layout", "components", NULL};
    const char *given = first_given(query, of_vertices);
    if (given)
        return refuse(problem, given, "attributes, layout and components are of output=vertices");
    return !is_point_cache(wanted) ||
           refuse(problem, "output", "point caches hold vertices, not bones");
}

static bool check_json(const dfm_wanted *wanted, dfm_problem *problem) {
    if (!wanted->layout.planar && wanted->layout.component == DFM_COMPONENT_F32)
        return true;
    return refuse(problem, wanted->layout.planar ? "layout" : "components",
                  "layout=planar and components=f16 are for raw results");
}

/* Point caches hold positions, and in one way. */
static bool check_point_cache(dfm_wanted *wanted, const dfm_query *query, dfm_problem *problem) {
    const char *attributes = dfm_query_get(query, "attributes");
    if (attributes && strcmp(attributes, "position") != 0)
        return refuse(problem, "attributes", "point caches hold positions only");
    if (wanted->layout.planar || wanted->layout.component != DFM_COMPONENT_F32)
        return refuse(problem, wanted->layout.planar ? "layout" : "components",
                      "point caches have a layout of their own");
    wanted->layout.attribute_count = 1;
    wanted->layout.attributes[0] = DFM_ATTRIBUTE_POSITION;
    return true;
}

static bool check_together(dfm_wanted *wanted, const dfm_query *query, dfm_problem *problem) {
    if (dfm_query_get(query, "scale") && !is_point_cache(wanted))
        return refuse(problem, "scale", "scale is for format=pc2 and format=mdd");
    if (wanted->output == DFM_OUTPUT_BONES)
        return check_bones(wanted, query, problem);
    if (is_point_cache(wanted))
        return check_point_cache(wanted, query, problem);
    return wanted->format == DFM_RESULT_RAW || check_json(wanted, problem);
}

bool dfm_wanted_read(dfm_wanted *wanted, const dfm_query *query, const char *accept,
                     dfm_problem *problem) {
    static const char *const formats[] = {"raw", "json", "pc2", "mdd", NULL};
    static const char *const outputs[] = {"vertices", "bones", NULL};
    static const char *const unknowns[] = {"error", "ignore", NULL};
    static const char *const switches[] = {
        [DFM_IK_OFF] = "off", [DFM_IK_ON] = "on", [DFM_IK_AS_POSED] = NULL};
    int chosen = dfm_media_choose(accept, dfm_result_media, FORMAT_COUNT);
    int format = dfm_query_choice(query, "format", formats, chosen, problem);
    int output = format < 0 ? -1 : dfm_query_choice(query, "output", outputs, 0, problem);
    int unknown = output < 0 ? -1 : dfm_query_choice(query, "unknown", unknowns, 0, problem);
    int ik = unknown < 0 ? -1 : dfm_query_choice(query, "ik", switches, DFM_IK_AS_POSED, problem);
    if (ik < 0 || !dfm_query_positive(query, "scale", 1, &wanted->scale, problem) ||
        !dfm_attributes_parse(query, &wanted->layout, problem))
        return false;
    wanted->format = (dfm_result_format)format;
    wanted->output = (dfm_output)output;
    wanted->ignore_unknown = unknown;
    wanted->ik = (dfm_ik_switch)ik;
    return check_together(wanted, query, problem);
}
