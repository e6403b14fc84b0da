#include "api/documents.h"

#include "api/doc.h"

const char *const dfm_mode_words[] = {
    [DFM_MODE_GPU] = "gpu",
    [DFM_MODE_CPU] = "cpu",
    NULL,
};
const char *const dfm_weights_words[] = {
    [DFM_WEIGHTS_NORMALIZED] = "normalized",
    [DFM_WEIGHTS_RAW] = "raw",
    NULL,
};

static void add_names(dfm_doc *doc, cJSON *item, int64_t index, dfm_text name, dfm_text name_en) {
    dfm_doc_add_integer(doc, item, "index", index);
    dfm_doc_add_text(doc, item, "name", name);
    dfm_doc_add_text(doc, item, "name_en", name_en);
}

/* Names of bits, added as booleans. */
struct flag {
    unsigned bit;
    const char *key;
};

static void add_flags(dfm_doc *doc, cJSON *parent, unsigned flags, const struct flag *names,
                      size_t count) {
    for (size_t i = 0; i < count; i++)
        dfm_doc_add_bool(doc, parent, names[i].key, flags & names[i].bit);
}

/* --- the model ------------------------------------------------------------------------------ */

static void add_counts(dfm_doc *doc, cJSON *root, const dfm_pmx *pmx) {
    cJSON *counts = dfm_doc_add_object(doc, root, "counts");
    dfm_doc_add_integer(doc, counts, "vertices", pmx->vertices.count);
    dfm_doc_add_integer(doc, counts, "triangles", pmx->index_count / 3);
    dfm_doc_add_integer(doc, counts, "materials", pmx->material_count);
    dfm_doc_add_integer(doc, counts, "bones", pmx->bone_count);
    dfm_doc_add_integer(doc, counts, "morphs", pmx->morph_count);
    dfm_doc_add_integer(doc, counts, "additional_uvs", pmx->vertices.additional_uv_count);
}

static void add_weight_types(dfm_doc *doc, cJSON *root, const dfm_model *model) {
    static const char *const names[DFM_WEIGHT_TYPE_COUNT] = {"bdef1", "bdef2", "bdef4", "sdef",
                                                             "qdef"};
    cJSON *types = dfm_doc_add_object(doc, root, "weight_types");
    for (int i = 0; i < DFM_WEIGHT_TYPE_COUNT; i++)
        dfm_doc_add_integer(doc, types, names[i], (int64_t)model->weight_type_counts[i]);
}

static void add_bounds(dfm_doc *doc, cJSON *root, const dfm_model *model) {
    cJSON *bounds = dfm_doc_add_object(doc, root, "bounds");
    dfm_doc_add_floats(doc, bounds, "min", model->bounds_min, 3);
    dfm_doc_add_floats(doc, bounds, "max", model->bounds_max, 3);
}

static void add_settings(dfm_doc *doc, cJSON *root, const dfm_resident *resident) {
    dfm_doc_add_string(doc, root, "mode", dfm_mode_words[resident->settings.mode]);
    dfm_doc_add_string(doc, root, "effective_mode", dfm_mode_words[resident->effective_mode]);
    dfm_doc_add_bool(doc, root, "sdef", resident->settings.sdef);
    dfm_doc_add_string(doc, root, "weights", dfm_weights_words[resident->settings.weights]);
}

static void add_all_warnings(dfm_doc *doc, cJSON *root, const dfm_resident *resident,
                             const dfm_skinners *skinners) {
    cJSON *list = dfm_doc_add_array(doc, root, "warnings");
    dfm_doc_add_warnings(doc, list, &resident->target.model->warnings);
    dfm_doc_add_warnings(doc, list, &resident->target.bind->warnings);
    if (resident->settings.mode != resident->effective_mode)
        dfm_doc_add_warning(doc, list, "opencl-unavailable", skinners->opencl_unavailable, 1, -1);
}

static cJSON *build_model(dfm_doc *doc, const dfm_resident *resident,
                          const dfm_skinners *skinners) {
    const dfm_model *model = resident->target.model;
    const dfm_pmx *pmx = &model->pmx;
    cJSON *root = dfm_doc_object(doc);
    dfm_doc_add_string(doc, root, "id", resident->id.text);
    dfm_doc_add_hex(doc, root, "digest", resident->digest, DFM_DIGEST_BYTES);
    dfm_doc_add_text(doc, root, "name", pmx->name);
    dfm_doc_add_text(doc, root, "name_en", pmx->name_en);
    dfm_doc_add_text(doc, root, "comment", pmx->comment);
    dfm_doc_add_text(doc, root, "comment_en", pmx->comment_en);
    dfm_doc_add_float(doc, root, "pmx_version", pmx->version);
    dfm_doc_add_string(doc, root, "text_encoding",
                       pmx->encoding == DFM_TEXT_UTF8 ? "utf-8" : "utf-16le");
    add_counts(doc, root, pmx);
    add_weight_types(doc, root, model);
    add_bounds(doc, root, model);
    add_settings(doc, root, resident);
    dfm_doc_add_string(doc, root, "physics", "not simulated");
    dfm_doc_add_integer(doc, root, "file_bytes", (int64_t)resident->file_bytes);
    dfm_doc_add_integer(doc, root, "resident_bytes", (int64_t)resident->resident_bytes);
    dfm_doc_add_time(doc, root, "created", resident->created_unix_s);
    add_all_warnings(doc, root, resident, skinners);
    return root;
}

cJSON *dfm_document_model(const dfm_resident *resident, const dfm_skinners *skinners) {
    dfm_doc doc = {0};
    cJSON *root = build_model(&doc, resident, skinners);
    return dfm_doc_done(&doc, root);
}

/* --- bones ---------------------------------------------------------------------------------- */

static void add_tail(dfm_doc *doc, cJSON *item, const dfm_pmx_bone *bone) {
    cJSON *tail = dfm_doc_add_object(doc, item, "tail");
    if (bone->flags & DFM_BONE_TAIL_IS_BONE)
        dfm_doc_add_index(doc, tail, "bone", bone->tail_bone);
    else
        dfm_doc_add_floats(doc, tail, "offset", bone->tail_offset, 3);
}

static void add_append(dfm_doc *doc, cJSON *item, const dfm_pmx_bone *bone) {
    if (!(bone->flags & (DFM_BONE_APPEND_ROTATION | DFM_BONE_APPEND_TRANSLATION))) {
        dfm_doc_add_null(doc, item, "append");
        return;
    }
    static const struct flag flags[] = {{DFM_BONE_APPEND_ROTATION, "rotation"},
                                        {DFM_BONE_APPEND_TRANSLATION, "translation"},
                                        {DFM_BONE_APPEND_LOCAL, "local"}};
    cJSON *append = dfm_doc_add_object(doc, item, "append");
    dfm_doc_add_index(doc, append, "source", bone->append_source);
    dfm_doc_add_float(doc, append, "ratio", bone->append_ratio);
    add_flags(doc, append, bone->flags, flags, sizeof flags / sizeof *flags);
}

static void add_axes(dfm_doc *doc, cJSON *item, const dfm_pmx_bone *bone) {
    if (bone->flags & DFM_BONE_FIXED_AXIS)
        dfm_doc_add_floats(doc, item, "fixed_axis", bone->fixed_axis, 3);
    else
        dfm_doc_add_null(doc, item, "fixed_axis");
    if (!(bone->flags & DFM_BONE_LOCAL_AXIS)) {
        dfm_doc_add_null(doc, item, "local_axis");
        return;
    }
    cJSON *axis = dfm_doc_add_object(doc, item, "local_axis");
    dfm_doc_add_floats(doc, axis, "x", bone->local_x, 3);
    dfm_doc_add_floats(doc, axis, "z", bone->local_z, 3);
}

static void add_ik_link(dfm_doc *doc, cJSON *list, const dfm_pmx_ik_link *link) {
    cJSON *item = dfm_doc_add_object(doc, list, NULL);
    dfm_doc_add_index(doc, item, "bone", link->bone);
    if (!link->has_limits) {
        dfm_doc_add_null(doc, item, "limits_rad");
        return;
    }
    cJSON *limits = dfm_doc_add_object(doc, item, "limits_rad");
    dfm_doc_add_floats(doc, limits, "min", link->limit_min, 3);
    dfm_doc_add_floats(doc, limits, "max", link->limit_max, 3);
}

static void add_ik(dfm_doc *doc, cJSON *item, const dfm_pmx_bone *bone) {
    if (!(bone->flags & DFM_BONE_IK)) {
        dfm_doc_add_null(doc, item, "ik");
        return;
    }
    cJSON *ik = dfm_doc_add_object(doc, item, "ik");
    dfm_doc_add_index(doc, ik, "target", bone->ik_target);
    dfm_doc_add_integer(doc, ik, "loop_count", bone->ik_loop_count);
    dfm_doc_add_float(doc, ik, "limit_rad", bone->ik_limit_rad);
    cJSON *links = dfm_doc_add_array(doc, ik, "links");
    for (uint32_t i = 0; i < bone->ik_link_count; i++)
        add_ik_link(doc, links, &bone->ik_links[i]);
}

static void add_bone(dfm_doc *doc, cJSON *list, uint32_t index, const dfm_pmx_bone *bone) {
    static const struct flag flags[] = {{DFM_BONE_ROTATABLE, "rotatable"},
                                        {DFM_BONE_MOVABLE, "movable"},
                                        {DFM_BONE_VISIBLE, "visible"},
                                        {DFM_BONE_ENABLED, "enabled"},
                                        {DFM_BONE_AFTER_PHYSICS, "after_physics"}};
    cJSON *item = dfm_doc_add_object(doc, list, NULL);
    add_names(doc, item, index, bone->name, bone->name_en);
    dfm_doc_add_floats(doc, item, "position", bone->position, 3);
    dfm_doc_add_index(doc, item, "parent", bone->parent);
    dfm_doc_add_integer(doc, item, "layer", bone->layer);
    add_flags(doc, item, bone->flags, flags, sizeof flags / sizeof *flags);
    add_tail(doc, item, bone);
    add_append(doc, item, bone);
    add_axes(doc, item, bone);
    if (bone->flags & DFM_BONE_EXTERNAL_PARENT)
        dfm_doc_add_integer(doc, item, "external_parent", bone->external_key);
    else
        dfm_doc_add_null(doc, item, "external_parent");
    add_ik(doc, item, bone);
}

cJSON *dfm_document_bones(const dfm_model *model) {
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    cJSON *list = dfm_doc_add_array(&doc, root, "bones");
    for (uint32_t i = 0; i < model->pmx.bone_count && !doc.failed; i++)
        add_bone(&doc, list, i, &model->pmx.bones[i]);
    return dfm_doc_done(&doc, root);
}

/* --- morphs --------------------------------------------------------------------------------- */

static void add_child_offset(dfm_doc *doc, cJSON *item, const dfm_pmx_morph *morph, uint32_t i) {
    dfm_doc_add_index(doc, item, "morph", morph->offsets.children[i].morph);
    dfm_doc_add_float(doc, item, "weight", morph->offsets.children[i].weight);
}

static void add_bone_offset(dfm_doc *doc, cJSON *item, const dfm_pmx_morph *morph, uint32_t i) {
    const dfm_pmx_bone_offset *offset = &morph->offsets.bones[i];
    dfm_doc_add_index(doc, item, "bone", offset->bone);
    dfm_doc_add_floats(doc, item, "translation", offset->translation, 3);
    dfm_doc_add_floats(doc, item, "rotation", offset->rotation, 4);
}

static void add_material_offset(dfm_doc *doc, cJSON *item, const dfm_pmx_morph *morph, uint32_t i) {
    const dfm_pmx_material_offset *offset = &morph->offsets.materials[i];
    dfm_doc_add_index(doc, item, "material", offset->material);
    dfm_doc_add_string(doc, item, "operation", offset->operation ? "add" : "multiply");
    dfm_doc_add_floats(doc, item, "diffuse", offset->diffuse, 4);
    dfm_doc_add_floats(doc, item, "specular", offset->specular, 3);
    dfm_doc_add_float(doc, item, "specular_power", offset->specular_power);
    dfm_doc_add_floats(doc, item, "ambient", offset->ambient, 3);
    dfm_doc_add_floats(doc, item, "edge_colour", offset->edge_colour, 4);
    dfm_doc_add_float(doc, item, "edge_size", offset->edge_size);
    dfm_doc_add_floats(doc, item, "texture", offset->texture, 4);
    dfm_doc_add_floats(doc, item, "sphere", offset->sphere, 4);
    dfm_doc_add_floats(doc, item, "toon", offset->toon, 4);
}

static void add_impulse(dfm_doc *doc, cJSON *item, const dfm_pmx_morph *morph, uint32_t i) {
    const dfm_pmx_impulse *impulse = &morph->offsets.impulses[i];
    dfm_doc_add_index(doc, item, "rigid_body", impulse->rigid_body);
    dfm_doc_add_bool(doc, item, "local", impulse->local);
    dfm_doc_add_floats(doc, item, "velocity", impulse->velocity, 3);
    dfm_doc_add_floats(doc, item, "torque", impulse->torque, 3);
}

/* What a morph type is called, and how its offsets are listed; NULL: they are only counted. */
static const struct morph_kind {
    const char *name;
    void (*add_offset)(dfm_doc *doc, cJSON *item, const dfm_pmx_morph *morph, uint32_t i);
} morph_kinds[DFM_MORPH_TYPE_COUNT] = {
    [DFM_MORPH_GROUP] = {"group", add_child_offset},
    [DFM_MORPH_VERTEX] = {"vertex", NULL},
    [DFM_MORPH_BONE] = {"bone", add_bone_offset},
    [DFM_MORPH_UV] = {"uv", NULL},
    [DFM_MORPH_UV1] = {"uv1", NULL},
    [DFM_MORPH_UV2] = {"uv2", NULL},
    [DFM_MORPH_UV3] = {"uv3", NULL},
    [DFM_MORPH_UV4] = {"uv4", NULL},
    [DFM_MORPH_MATERIAL] = {"material", add_material_offset},
    [DFM_MORPH_FLIP] = {"flip", add_child_offset},
    [DFM_MORPH_IMPULSE] = {"impulse", add_impulse},
};

/* `room`: how many offsets may still be listed. */
static void add_offsets(dfm_doc *doc, cJSON *item, const dfm_pmx_morph *morph, uint32_t *room) {
    const struct morph_kind *kind = &morph_kinds[morph->type];
    dfm_doc_add_integer(doc, item, "offset_count", morph->count);
    if (!kind->add_offset || morph->count > *room) {
        dfm_doc_add_null(doc, item, "offsets");
        return;
    }
    *room -= morph->count;
    cJSON *list = dfm_doc_add_array(doc, item, "offsets");
    for (uint32_t i = 0; i < morph->count && !doc->failed; i++)
        kind->add_offset(doc, dfm_doc_add_object(doc, list, NULL), morph, i);
}

static void add_morph(dfm_doc *doc, cJSON *list, uint32_t index, const dfm_pmx_morph *morph,
                      uint32_t *room) {
    static const char *const panels[] = {"none", "eyebrow", "eye", "lip", "other"};
    cJSON *item = dfm_doc_add_object(doc, list, NULL);
    add_names(doc, item, index, morph->name, morph->name_en);
    dfm_doc_add_string(doc, item, "panel", morph->panel < 5 ? panels[morph->panel] : "unknown");
    dfm_doc_add_string(doc, item, "type", morph_kinds[morph->type].name);
    add_offsets(doc, item, morph, room);
}

cJSON *dfm_document_morphs(const dfm_model *model) {
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    cJSON *list = dfm_doc_add_array(&doc, root, "morphs");
    uint32_t room = DFM_DOCUMENT_MAX_OFFSETS;
    for (uint32_t i = 0; i < model->pmx.morph_count && !doc.failed; i++)
        add_morph(&doc, list, i, &model->pmx.morphs[i], &room);
    return dfm_doc_done(&doc, root);
}

/* --- materials ------------------------------------------------------------------------------ */

static void add_toon(dfm_doc *doc, cJSON *item, const dfm_pmx_material *material) {
    cJSON *toon = dfm_doc_add_object(doc, item, "toon");
    dfm_doc_add_index(doc, toon, material->toon_shared ? "shared" : "texture", material->toon);
}

static void add_material(dfm_doc *doc, cJSON *list, uint32_t index, uint32_t first_index,
                         const dfm_pmx_material *material) {
    static const char *const sphere_modes[] = {"off", "multiply", "add", "additional_uv"};
    static const struct flag flags[] = {{0x01, "double_sided"}, {0x02, "ground_shadow"},
                                        {0x04, "casts_shadow"}, {0x08, "receives_shadow"},
                                        {0x10, "edge"},         {0x20, "vertex_colour"},
                                        {0x40, "points"},       {0x80, "lines"}};
    cJSON *item = dfm_doc_add_object(doc, list, NULL);
    add_names(doc, item, index, material->name, material->name_en);
    dfm_doc_add_floats(doc, item, "diffuse", material->diffuse, 4);
    dfm_doc_add_floats(doc, item, "specular", material->specular, 3);
    dfm_doc_add_float(doc, item, "specular_power", material->specular_power);
    dfm_doc_add_floats(doc, item, "ambient", material->ambient, 3);
    add_flags(doc, item, material->flags, flags, sizeof flags / sizeof *flags);
    dfm_doc_add_floats(doc, item, "edge_colour", material->edge_colour, 4);
    dfm_doc_add_float(doc, item, "edge_size", material->edge_size);
    dfm_doc_add_index(doc, item, "texture", material->texture);
    dfm_doc_add_index(doc, item, "sphere_texture", material->sphere_texture);
    dfm_doc_add_string(doc, item, "sphere_mode",
                       material->sphere_mode < 4 ? sphere_modes[material->sphere_mode] : "unknown");
    add_toon(doc, item, material);
    dfm_doc_add_text(doc, item, "memo", material->memo);
    dfm_doc_add_integer(doc, item, "first_index", first_index);
    dfm_doc_add_integer(doc, item, "index_count", material->index_count);
}

cJSON *dfm_document_materials(const dfm_model *model) {
    const dfm_pmx *pmx = &model->pmx;
    dfm_doc doc = {0};
    cJSON *root = dfm_doc_object(&doc);
    cJSON *textures = dfm_doc_add_array(&doc, root, "textures");
    for (uint32_t i = 0; i < pmx->texture_count && !doc.failed; i++)
        dfm_doc_add_text(&doc, textures, NULL, pmx->textures[i]);
    cJSON *list = dfm_doc_add_array(&doc, root, "materials");
    uint32_t first_index = 0;
    for (uint32_t i = 0; i < pmx->material_count && !doc.failed; i++) {
        add_material(&doc, list, i, first_index, &pmx->materials[i]);
        first_index += pmx->materials[i].index_count;
    }
    return dfm_doc_done(&doc, root);
}
