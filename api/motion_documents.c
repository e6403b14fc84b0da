#include "api/motion_documents.h"

#include "api/doc.h"

/* --- the motion ----------------------------------------------------------------------------- */

static void add_counts(dfm_doc *doc, cJSON *root, const dfm_vmd *vmd) {
    cJSON *counts = dfm_doc_add_object(doc, root, "counts");
    dfm_doc_add_integer(doc, counts, "bones", vmd->bone_track_count);
    dfm_doc_add_integer(doc, counts, "morphs", vmd->morph_track_count);
    dfm_doc_add_integer(doc, counts, "ik", vmd->ik_track_count);
    dfm_doc_add_integer(doc, counts, "bone_keys", vmd->bone_key_count);
    dfm_doc_add_integer(doc, counts, "morph_keys", vmd->morph_key_count);
    dfm_doc_add_integer(doc, counts, "ik_keys", vmd->ik_key_count);
}

static void add_skipped(dfm_doc *doc, cJSON *root, const dfm_vmd *vmd) {
    cJSON *skipped = dfm_doc_add_object(doc, root, "skipped");
    dfm_doc_add_integer(doc, skipped, "camera_keys", vmd->camera_key_count);
    dfm_doc_add_integer(doc, skipped, "light_keys", vmd->light_key_count);
    dfm_doc_add_integer(doc, skipped, "shadow_keys", vmd->shadow_key_count);
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* 0 for a motion without keys. */
static uint32_t first_frame(const dfm_vmd *vmd) {
    uint32_t first = vmd->last_frame;
    for (uint32_t i = 0; i < vmd->bone_track_count; i++)
        first = smaller(first, vmd->bone_keys[vmd->bone_tracks[i].first_key].frame);
    for (uint32_t i = 0; i < vmd->morph_track_count; i++)
        first = smaller(first, vmd->morph_keys[vmd->morph_tracks[i].first_key].frame);
    for (uint32_t i = 0; i < vmd->ik_track_count; i++)
        first = smaller(first, vmd->ik_keys[vmd->ik_tracks[i].first_key].frame);
    return first;
}

static cJSON *build_motion(dfm_doc *doc, const dfm_stored_motion *stored) {
    const dfm_vmd *vmd = &stored->motion->vmd;
    cJSON *root = dfm_doc_object(doc);
    dfm_doc_add_string(doc, root, "id", stored->id.text);
    dfm_doc_add_hex(doc, root, "digest", stored->digest, DFM_DIGEST_BYTES);
    dfm_doc_add_text(doc, root, "name", vmd->model_name);
    add_counts(doc, root, vmd);
    add_skipped(doc, root, vmd);
    dfm_doc_add_integer(doc, root, "first_frame", first_frame(vmd));
    dfm_doc_add_integer(doc, root, "last_frame", vmd->last_frame);
    dfm_doc_add_integer(doc, root, "frames_per_second", DFM_VMD_FRAMES_PER_SECOND);
    dfm_doc_add_integer(doc, root, "file_bytes", (int64_t)stored->file_bytes);
    dfm_doc_add_integer(doc, root, "resident_bytes", (int64_t)stored->resident_bytes);
    dfm_doc_add_time(doc, root, "created", stored->created_unix_s);
    cJSON *warnings = dfm_doc_add_array(doc, root, "warnings");
    dfm_doc_add_warnings(doc, warnings, &stored->motion->warnings);
    return root;
}

cJSON *dfm_document_motion(const dfm_stored_motion *stored) {
    dfm_doc doc = {0};
    cJSON *root = build_motion(&doc, stored);
    return dfm_doc_done(&doc, root);
}

/* --- what a model has of it ----------------------------------------------------------------- */

static void add_targets(dfm_doc *doc, cJSON *root, const char *key, const dfm_vmd_track *tracks,
                        const dfm_motion_targets *targets) {
    cJSON *item = dfm_doc_add_object(doc, root, key);
    cJSON *has = dfm_doc_add_array(doc, item, "has");
    cJSON *lacks = dfm_doc_add_array(doc, item, "lacks");
    for (uint32_t i = 0; i < targets->track_count && !doc->failed; i++) {
        bool found = targets->target[i] >= 0;
        cJSON *name = dfm_doc_add_object(doc, found ? has : lacks, NULL);
        dfm_doc_add_text(doc, name, "name", tracks[i].name);
        dfm_doc_add_integer(doc, name, "keys", tracks[i].key_count);
        if (found)
            dfm_doc_add_integer(doc, name, "index", targets->target[i]);
    }
}

cJSON *dfm_document_match(const dfm_stored_motion *stored, const dfm_id *model,
                          const dfm_motion_binding *binding) {
    const dfm_vmd *vmd = &stored->motion->vmd;
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    dfm_doc_add_string(&doc, root, "motion", stored->id.text);
    dfm_doc_add_string(&doc, root, "model", model->text);
    uint32_t matched =
        binding->bones.matched_count + binding->morphs.matched_count + binding->iks.matched_count;
    dfm_doc_add_integer(&doc, root, "matched", matched);
    dfm_doc_add_integer(&doc, root, "unmatched", dfm_motion_unmatched_count(binding));
    add_targets(&doc, root, "bones", vmd->bone_tracks, &binding->bones);
    add_targets(&doc, root, "morphs", vmd->morph_tracks, &binding->morphs);
    add_targets(&doc, root, "ik", vmd->ik_tracks, &binding->iks);
    return dfm_doc_done(&doc, root);
}
