#include "api/stats.h"

#include "api/call.h"
#include "api/doc.h"

#include <time.h>

void dfm_stats_add_times(dfm_model_use *use, const uint64_t stage_ns[DFM_STAGE_COUNT]) {
    use->parse_ns += stage_ns[DFM_STAGE_PARSE];
    use->queue_ns += stage_ns[DFM_STAGE_QUEUE];
    use->solve_ns += stage_ns[DFM_STAGE_SOLVE];
    use->skin_ns += stage_ns[DFM_STAGE_SKIN];
    use->encode_ns += stage_ns[DFM_STAGE_ENCODE];
}

void dfm_stats_count(dfm_model_use *use, const dfm_account *account) {
    use->deforms++;
    use->failures += account->problem != NULL;
    use->frames += account->frames;
    use->last_unix_s = (int64_t)time(NULL);
    dfm_stats_add_times(use, account->stage_ns);
}

static void add_us(dfm_doc *doc, cJSON *parent, dfm_stage stage, uint64_t ns) {
    dfm_doc_add_integer(doc, parent, dfm_stage_names[stage], (int64_t)(ns / 1000));
}

cJSON *dfm_stats_document(const dfm_resident *resident) {
    dfm_model_use *use = resident->use;
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    dfm_doc_add_string(&doc, root, "id", resident->id.text);
    dfm_doc_add_time(&doc, root, "since", use->since_unix_s);
    if (use->last_unix_s)
        dfm_doc_add_time(&doc, root, "last_used", use->last_unix_s);
    else
        dfm_doc_add_null(&doc, root, "last_used");
    dfm_doc_add_integer(&doc, root, "deforms", (int64_t)use->deforms);
    dfm_doc_add_integer(&doc, root, "failures", (int64_t)use->failures);
    dfm_doc_add_integer(&doc, root, "frames", (int64_t)use->frames);
    cJSON *stages = dfm_doc_add_object(&doc, root, "stages_us");
    add_us(&doc, stages, DFM_STAGE_PARSE, use->parse_ns);
    add_us(&doc, stages, DFM_STAGE_QUEUE, use->queue_ns);
    add_us(&doc, stages, DFM_STAGE_SOLVE, use->solve_ns);
    add_us(&doc, stages, DFM_STAGE_SKIN, use->skin_ns);
    add_us(&doc, stages, DFM_STAGE_ENCODE, use->encode_ns);
    return dfm_doc_done(&doc, root);
}

void dfm_models_stats(dfm_call *call) {
    dfm_resident *resident = dfm_call_resident(call);
    if (!resident)
        return;
    dfm_call_document(call, 200, NULL, dfm_stats_document(resident));
    dfm_resident_release(resident);
}
