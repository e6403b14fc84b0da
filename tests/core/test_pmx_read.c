/* Reading PMX: what is read, what is an error and where, what is a warning. */
#include "core/pmx.h"
#include "tests/data/models.h"
#include "tests/data/mutate.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One reading: everything that comes out of it, for one test. */
static dfm_arena arena, source_arena;
static dfm_warnings warnings;
static dfm_pmx pmx;
static dfm_error error;
static uint8_t *file;
static size_t file_size;
static pmx_map map;

static void setup(void) {
    dfm_pmx odd = model_odd(&source_arena, 2.1f, DFM_TEXT_UTF8);
    file = model_bytes(&odd, NULL, &file_size);
    map = pmx_map_make(file, file_size);
}

static void teardown(void) {
    pmx_map_free(&map);
    free(file);
    dfm_arena_free(&arena);
    dfm_arena_free(&source_arena);
}

static dfm_status read_within(const dfm_pmx_limits *limits) {
    dfm_arena_free(&arena);
    warnings = (dfm_warnings){0};
    dfm_error_clear(&error);
    return dfm_pmx_read(file, file_size, limits, &arena, &warnings, &pmx, &error);
}

static dfm_status read_file(void) {
    return read_within(&dfm_pmx_default_limits);
}

static const dfm_warning *warned(const char *code) {
    for (uint32_t i = 0; i < warnings.count; i++) {
        if (strcmp(warnings.items[i].code, code) == 0)
            return &warnings.items[i];
    }
    return NULL;
}

static void expect_warning(const char *code, uint64_t count, int64_t first) {
    ck_assert_msg(warned(code) != NULL, "no warning %s", code);
    ck_assert_uint_eq(warned(code)->count, count);
    ck_assert_int_eq(warned(code)->first, first);
}

/* Reads, expects this failure, and puts the byte back. */
static void expect_malformed(size_t offset, const char *section, int64_t item) {
    ck_assert_int_eq(read_file(), DFM_ERROR_MALFORMED);
    ck_assert_str_eq(error.section, section);
    ck_assert_int_eq(error.item, item);
    ck_assert_int_eq(error.offset, (int64_t)offset);
}

static void reject_byte(size_t offset, uint8_t value, const char *section, int64_t item) {
    uint8_t kept = file[offset];
    file[offset] = value;
    expect_malformed(offset, section, item);
    file[offset] = kept;
}

static void put_float(size_t offset, float value) {
    memcpy(file + offset, &value, sizeof value);
}

static float get_float(size_t offset) {
    float value;
    memcpy(&value, file + offset, sizeof value);
    return value;
}

static size_t offset_of(const char *what, size_t index) {
    return pmx_map_find(&map, what, index)->offset;
}

/* --- a file written by hand --------------------------------------------------------------- */

#define F1 0x00, 0x00, 0x80, 0x3F          /* 1.0 */
#define F2 0x00, 0x00, 0x00, 0x40          /* 2.0 */
#define F0 0x00, 0x00, 0x00, 0x00          /* 0.0 */
#define FH 0x00, 0x00, 0x00, 0x3F          /* 0.5 */
#define N(count) (count), 0x00, 0x00, 0x00 /* a count or length */
#define NONE 0xFF, 0xFF                    /* a bone index of 2 bytes */

static const uint8_t
    handmade[] =
        {
            'P',  'M',  'X',   ' ',  F2,   8,   0,  1,    1,    1,    4,    2,
            1,    1,                                                  /* UTF-16, one UV, bones 2 */
            N(2), 0xFF, 0x98,  N(0), N(4), 'a', 0,  'b',  0,    N(0), /* U+98FF */
            N(1), F1,   F2,    FH,   F0,   F1,  F0, FH,   FH,   F1,   F2,   F0,
            FH, /* position, normal, UVs */
            3,    0x00, 0x00,  NONE, FH,   F1,  F0, F0,   F2,   F0,   F0,   F0,
            F2,   F0,   F2,       /* SDEF */
            N(3), 0,    0,     0, /* indices */
            N(1), N(2), 't',   0, /* texture */
            N(1), N(0), N(0),  F1,   FH,   F0,  F1, F0,   F0,   F0,   F2,   FH,
            FH,   FH,   0x11,  F0,   F0,   F0,  F1, F1,   0,    0xFF, 2,    1,
            9,    N(0), N(3), /* material, shared toon 9 */
            N(2), N(2), 'r',   0,    N(0), F0,  F1, F0,   NONE, N(5), 0x1F, 0x00,
            1,    0, /* tail is bone 1 */
            N(0), N(0), F0,    F2,   F0,   0,   0,  0xFE, 0xFF, 0xFF, 0xFF, 0xA0,
            0x3F,                              /* all flags, layer -2 */
            F1,   F2,   FH,                    /* tail offset */
            0,    0,    FH,                    /* append */
            F0,   F0,   F1,                    /* fixed axis */
            F1,   F0,   F0,    F0,   F0,   F1, /* local axes */
            N(7),                              /* external parent */
            0,    0,    N(40), FH,   N(2), 0,   0,  0,    1,    0,    1,    F0,
            F0,   F0,   F1,    F1,   F2, /* IK, links 0 and 1 */
            N(1), N(2), 'm',   0,    N(0), 3,   1,  N(1), 0,    F0,   F1,   F2, /* vertex morph */
};

START_TEST(a_file_written_by_hand_is_read_as_its_bytes_say) {
    free(file);
    file_size = sizeof handmade;
    file = malloc(file_size);
    memcpy(file, handmade, file_size);
    ck_assert_msg(read_file() == DFM_OK, "%s", error.info);
    ck_assert_uint_eq(warnings.count, 0);
    ck_assert_float_eq(pmx.version, 2.0f);
    ck_assert_int_eq(pmx.encoding, DFM_TEXT_UTF16LE);
    ck_assert_str_eq(pmx.name.data, "\xE9\xA3\xBF");
    ck_assert_str_eq(pmx.comment.data, "ab");

    const dfm_pmx_vertices *v = &pmx.vertices;
    ck_assert_uint_eq(v->count, 1);
    ck_assert_float_eq(v->position[0][1], 2);
    ck_assert_float_eq(v->normal[0][1], 1);
    ck_assert_float_eq(v->uv[0][0], 0.5f);
    ck_assert_uint_eq(v->additional_uv_count, 1);
    ck_assert_float_eq(v->additional_uv[0][0][1], 2);
    ck_assert_ptr_null(v->additional_uv[1]);
    ck_assert_int_eq(v->weight_type[0], DFM_WEIGHT_SDEF);
    ck_assert_int_eq(v->bone[0][0], 0);
    ck_assert_int_eq(v->bone[0][1], -1);
    ck_assert_int_eq(v->bone[0][2], -1);
    ck_assert_float_eq(v->weight[0][0], 0.5f);
    ck_assert_float_eq(v->weight[0][1], 0.5f);
    ck_assert_uint_eq(v->sdef_count, 1);
    ck_assert_float_eq(v->sdef[0][0][0], 1); /* C */
    ck_assert_float_eq(v->sdef[0][1][0], 2); /* R0 */
    ck_assert_float_eq(v->sdef[0][2][1], 2); /* R1 */
    ck_assert_float_eq(v->edge_scale[0], 2);

    ck_assert_uint_eq(pmx.index_count, 3);
    ck_assert_str_eq(pmx.textures[0].data, "t");
    const dfm_pmx_material *material = &pmx.materials[0];
    ck_assert_float_eq(material->diffuse[1], 0.5f);
    ck_assert_float_eq(material->specular_power, 2);
    ck_assert_float_eq(material->ambient[2], 0.5f);
    ck_assert_uint_eq(material->flags, 0x11);
    ck_assert_float_eq(material->edge_colour[3], 1);
    ck_assert_int_eq(material->texture, 0);
    ck_assert_int_eq(material->sphere_texture, -1);
    ck_assert_uint_eq(material->sphere_mode, 2);
    ck_assert_uint_eq(material->toon_shared, 1);
    ck_assert_int_eq(material->toon, 9);
    ck_assert_uint_eq(material->index_count, 3);

    ck_assert_uint_eq(pmx.bone_count, 2);
    const dfm_pmx_bone *bone = &pmx.bones[0];
    ck_assert_str_eq(bone->name.data, "r");
    ck_assert_int_eq(bone->parent, -1);
    ck_assert_int_eq(bone->layer, 5);
    ck_assert_int_eq(bone->tail_bone, 1);
    ck_assert_int_eq(bone->append_source, -1);
    ck_assert_int_eq(bone->ik_target, -1);
    bone = &pmx.bones[1];
    ck_assert_uint_eq(bone->flags, 0x3FA0);
    ck_assert_int_eq(bone->layer, -2);
    ck_assert_float_eq(bone->tail_offset[1], 2);
    ck_assert_int_eq(bone->append_source, 0);
    ck_assert_float_eq(bone->append_ratio, 0.5f);
    ck_assert_float_eq(bone->fixed_axis[2], 1);
    ck_assert_float_eq(bone->local_x[0], 1);
    ck_assert_float_eq(bone->local_z[2], 1);
    ck_assert_int_eq(bone->external_key, 7);
    ck_assert_int_eq(bone->ik_target, 0);
    ck_assert_int_eq(bone->ik_loop_count, 40);
    ck_assert_float_eq(bone->ik_limit_rad, 0.5f);
    ck_assert_uint_eq(bone->ik_link_count, 2);
    ck_assert_int_eq(bone->ik_links[0].bone, 0);
    ck_assert_uint_eq(bone->ik_links[0].has_limits, 0);
    ck_assert_int_eq(bone->ik_links[1].bone, 1);
    ck_assert_float_eq(bone->ik_links[1].limit_min[0], 0);
    ck_assert_float_eq(bone->ik_links[1].limit_max[2], 2);

    ck_assert_uint_eq(pmx.morph_count, 1);
    ck_assert_uint_eq(pmx.morphs[0].panel, 3);
    ck_assert_uint_eq(pmx.morphs[0].count, 1);
    ck_assert_uint_eq(pmx.morphs[0].offsets.vertices[0].vertex, 0);
    ck_assert_float_eq(pmx.morphs[0].offsets.vertices[0].offset[2], 2);
}
END_TEST

/* --- errors ------------------------------------------------------------------------------- */

START_TEST(header_bytes_that_mean_nothing_are_named) {
    reject_byte(9, 2, "header", -1);  /* encoding */
    reject_byte(10, 5, "header", -1); /* additional UVs */
    for (size_t offset = 11; offset <= 16; offset++) {
        reject_byte(offset, 0, "header", -1);
        reject_byte(offset, 3, "header", -1);
    }
    reject_byte(8, 7, "header", -1); /* globals count */
    uint8_t kept = file[1];
    file[1] = 'm'; /* Pmd */
    expect_malformed(0, "header", -1);
    file[1] = kept;
    const float versions[] = {0, 1.0f, 2.2f, NAN, -2.0f};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        put_float(4, versions[i]);
        expect_malformed(4, "header", -1);
    }
}
END_TEST

START_TEST(types_that_do_not_exist_are_named) {
    reject_byte(offset_of("weight type", 7), 5, "vertices", 7);
    reject_byte(offset_of("toon kind", 1), 2, "materials", 1);
    reject_byte(offset_of("IK limits switch", 2), 2, "bones", 21);
    reject_byte(offset_of("morph type", 4), 11, "morphs", 4);
}
END_TEST

START_TEST(positions_that_are_not_finite_are_errors) {
    const float values[] = {NAN, INFINITY, -INFINITY, 1e30f};
    size_t vertex_y = offset_of("vertex count", 0) + 4 + 4;
    size_t bone_z = offset_of("English bone name", 0) + 4 + strlen("手") + 8;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        put_float(vertex_y, values[i]);
        expect_malformed(vertex_y, "vertices", 0);
        put_float(vertex_y, 0);
        put_float(bone_z, values[i]);
        expect_malformed(bone_z, "bones", 0);
        put_float(bone_z, 0);
    }
    ck_assert_int_eq(read_file(), DFM_OK);
}
END_TEST

START_TEST(a_vertex_index_beyond_the_vertices_is_named) {
    size_t tenth = offset_of("index count", 0) + 4 + 10;
    reject_byte(tenth, 48, "indices", 10);
    ck_assert_ptr_nonnull(strstr(error.info, "48"));
    reject_byte(tenth, 255, "indices", 10);
}
END_TEST

START_TEST(an_index_count_that_is_no_triangles_is_named) {
    size_t offset = offset_of("index count", 0);
    reject_byte(offset, file[offset] - 1, "indices", -1);
}
END_TEST

START_TEST(negative_counts_are_named_with_their_value) {
    for (size_t i = 0; i < map.field_count; i++) {
        const pmx_field *field = &map.fields[i];
        if (field->size != 4 || strcmp(field->what, "IK loop count") == 0)
            continue;
        uint8_t kept[4];
        memcpy(kept, file + field->offset, 4);
        memset(file + field->offset, 0xFF, 4);
        ck_assert_int_eq(read_file(), DFM_ERROR_MALFORMED);
        ck_assert_str_eq(error.section, pmx_section_names[field->section]);
        ck_assert_int_eq(error.offset, (int64_t)field->offset);
        ck_assert_ptr_nonnull(strstr(error.info, "-1"));
        memcpy(file + field->offset, kept, 4);
    }
}
END_TEST

START_TEST(the_first_error_wins_and_no_error_is_needed) {
    file[9] = 2;
    dfm_error_clear(&error);
    dfm_fail(&error, DFM_ERROR_CONFLICT, "earlier", 1, 2, "kept");
    dfm_pmx_read(file, file_size, &dfm_pmx_default_limits, &arena, &warnings, &pmx, &error);
    ck_assert_str_eq(error.section, "earlier");
    ck_assert_int_eq(
        dfm_pmx_read(file, file_size, &dfm_pmx_default_limits, &arena, &warnings, &pmx, NULL),
        DFM_ERROR_MALFORMED);
}
END_TEST

/* --- limits ------------------------------------------------------------------------------- */

static void expect_limit(uint32_t *limit, const dfm_pmx_limits *limits, uint32_t value,
                         const char *section) {
    *limit = value;
    ck_assert_msg(read_within(limits) == DFM_OK, "%s", error.info);
    *limit = value - 1;
    ck_assert_int_eq(read_within(limits), DFM_ERROR_LIMIT);
    ck_assert_str_eq(error.section, section);
    ck_assert_uint_eq(error.limit, value - 1);
    ck_assert_uint_ge(error.received, 1);
    ck_assert_int_ge(error.offset, 0);
    *limit = value;
}

START_TEST(every_limit_holds_exactly) {
    dfm_pmx_limits limits = dfm_pmx_default_limits;
    ck_assert_int_eq(read_file(), DFM_OK);
    uint32_t links = 0, offsets = 0;
    for (uint32_t i = 0; i < pmx.bone_count; i++)
        links += pmx.bones[i].ik_link_count;
    for (uint32_t i = 0; i < pmx.morph_count; i++)
        offsets += pmx.morphs[i].count;
    const dfm_pmx seen = pmx;
    expect_limit(&limits.max_vertices, &limits, seen.vertices.count, "vertices");
    expect_limit(&limits.max_indices, &limits, seen.index_count, "indices");
    expect_limit(&limits.max_textures, &limits, seen.texture_count, "textures");
    expect_limit(&limits.max_materials, &limits, seen.material_count, "materials");
    expect_limit(&limits.max_bones, &limits, seen.bone_count, "bones");
    expect_limit(&limits.max_ik_links, &limits, links, "bones");
    expect_limit(&limits.max_morphs, &limits, seen.morph_count, "morphs");
    expect_limit(&limits.max_morph_offsets, &limits, offsets, "morphs");
    expect_limit(&limits.max_text_bytes, &limits, (uint32_t)strlen("everything is in here"),
                 "header");
}
END_TEST

/* --- what is accepted with a warning ------------------------------------------------------ */

START_TEST(another_fourth_byte_of_the_signature_is_accepted) {
    file[3] = 0;
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("signature", 1, -1);
}
END_TEST

START_TEST(further_globals_are_skipped) {
    uint8_t *longer = malloc(file_size + 3);
    memcpy(longer, file, 17);
    memset(longer + 17, 0xAB, 3);
    memcpy(longer + 20, file + 17, file_size - 17);
    longer[8] = 11;
    free(file);
    file = longer;
    file_size += 3;
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("header-globals", 1, -1);
    ck_assert_uint_eq(pmx.morph_count, 15);
}
END_TEST

START_TEST(numbers_that_are_not_finite_are_read_as_zero_and_counted) {
    size_t uv_x = offset_of("weight type", 0) - 4 * 16 - 8,
           edge = offset_of("weight type", 1) - 96 - 4;
    size_t loop = offset_of("IK loop count", 0);
    put_float(uv_x, NAN);
    put_float(edge, INFINITY);
    put_float(loop + 4, -INFINITY); /* limit angle */
    put_float(offset_of("morph offset count", 0) + 4 + 1, 2e18f);
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("number-not-finite", 4, 0);
    ck_assert_float_eq(pmx.vertices.uv[0][0], 0);
    ck_assert_float_eq(pmx.vertices.edge_scale[0], 0);
    ck_assert_float_eq(pmx.bones[20].ik_limit_rad, 0);
    ck_assert_float_eq(pmx.morphs[0].offsets.vertices[0].offset[0], 0);
}
END_TEST

START_TEST(normals_and_weights_are_kept_as_they_are) {
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("normal-zero", 1, 11);
    expect_warning("normal-not-finite", 1, 12);
    ck_assert(isnan(pmx.vertices.normal[12][1]));
    size_t weight = offset_of("weight type", 1) + 3;
    ck_assert_float_eq(get_float(weight), pmx.vertices.weight[1][0]);
    put_float(weight, -3.5f);
    ck_assert_int_eq(read_file(), DFM_OK);
    ck_assert_float_eq(pmx.vertices.weight[1][0], -3.5f);
    ck_assert_float_eq(pmx.vertices.weight[1][1], 4.5f);
}
END_TEST

START_TEST(unknown_bone_flags_are_kept_and_counted) {
    size_t flags = offset_of("English bone name", 3) + 4 + strlen("腕") + 12 + 1 + 4;
    file[flags] |= 0x40;
    file[flags + 1] |= 0x80;
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("bone-flags", 1, 3);
    ck_assert_uint_eq(pmx.bones[3].flags & 0x8040, 0x8040);
}
END_TEST

START_TEST(textures_that_do_not_exist_are_none) {
    size_t toon = offset_of("toon kind", 1);
    file[toon - 2] = 2;    /* sphere texture; there are two textures */
    file[toon - 3] = 0xFE; /* texture -2 */
    file[toon + 1] = 100;  /* toon texture */
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("texture-index-invalid", 3, 1);
    ck_assert_int_eq(pmx.materials[1].texture, -1);
    ck_assert_int_eq(pmx.materials[1].sphere_texture, -1);
    ck_assert_int_eq(pmx.materials[1].toon, -1);
}
END_TEST

START_TEST(materials_never_ask_for_more_indices_than_there_are) {
    size_t second = offset_of("material index count", 1);
    file[second] = 3;
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("material-indices", 1, 2);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < pmx.material_count; i++)
        sum += pmx.materials[i].index_count;
    ck_assert_uint_eq(sum, pmx.index_count);
    file[second] = 0;
    file[offset_of("material index count", 2)] -= 6;
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("material-indices", 1, -1);
}
END_TEST

START_TEST(bytes_that_are_no_text_are_replaced_and_counted) {
    size_t name = offset_of("bone name", 2) + 4;
    file[name] = 0xFF;
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("text-replaced", 1, 2);
    ck_assert_int_eq(strncmp(pmx.bones[2].name.data, "\xEF\xBF\xBD", 3), 0);
}
END_TEST

START_TEST(qdef_in_version_2_0_is_accepted) {
    put_float(4, 2.0f);
    ck_assert_int_eq(read_file(), DFM_OK);
    expect_warning("qdef-version", 9, 4);
}
END_TEST

START_TEST(bone_indices_of_any_value_are_left_to_their_users) {
    ck_assert_int_eq(read_file(), DFM_OK);
    ck_assert_int_eq(pmx.bones[4].parent, 100);
    ck_assert_int_eq(pmx.bones[16].append_source, 100);
    ck_assert_int_eq(pmx.bones[23].ik_target, -1);
    ck_assert_int_eq(pmx.bones[23].ik_loop_count, -5);
    ck_assert_int_eq(pmx.bones[21].ik_links[2].bone, 100);
    ck_assert_uint_eq(pmx.morphs[0].offsets.vertices[3].vertex, 200);
}
END_TEST

START_TEST(four_byte_vertex_indices_read_minus_1_as_the_largest) {
    dfm_pmx odd = model_odd(&source_arena, 2.0f, DFM_TEXT_UTF16LE);
    odd.morphs[0].offsets.vertices[1].vertex = UINT32_MAX;
    free(file);
    file = model_bytes(&odd, &(dfm_pmx_write_options){.vertex_index_size = 4}, &file_size);
    ck_assert_int_eq(read_file(), DFM_OK);
    ck_assert_uint_eq(pmx.morphs[0].offsets.vertices[1].vertex, UINT32_MAX);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pmx_read");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_file_written_by_hand_is_read_as_its_bytes_say);
    tcase_add_test(tests, header_bytes_that_mean_nothing_are_named);
    tcase_add_test(tests, types_that_do_not_exist_are_named);
    tcase_add_test(tests, positions_that_are_not_finite_are_errors);
    tcase_add_test(tests, a_vertex_index_beyond_the_vertices_is_named);
    tcase_add_test(tests, an_index_count_that_is_no_triangles_is_named);
    tcase_add_test(tests, negative_counts_are_named_with_their_value);
    tcase_add_test(tests, the_first_error_wins_and_no_error_is_needed);
    tcase_add_test(tests, every_limit_holds_exactly);
    tcase_add_test(tests, another_fourth_byte_of_the_signature_is_accepted);
    tcase_add_test(tests, further_globals_are_skipped);
    tcase_add_test(tests, numbers_that_are_not_finite_are_read_as_zero_and_counted);
    tcase_add_test(tests, normals_and_weights_are_kept_as_they_are);
    tcase_add_test(tests, unknown_bone_flags_are_kept_and_counted);
    tcase_add_test(tests, textures_that_do_not_exist_are_none);
    tcase_add_test(tests, materials_never_ask_for_more_indices_than_there_are);
    tcase_add_test(tests, bytes_that_are_no_text_are_replaced_and_counted);
    tcase_add_test(tests, qdef_in_version_2_0_is_accepted);
    tcase_add_test(tests, bone_indices_of_any_value_are_left_to_their_users);
    tcase_add_test(tests, four_byte_vertex_indices_read_minus_1_as_the_largest);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
