#include "core/vpd.h"
#include "core/cp932.h"
#include "core/stream.h"
#include "core/text.h"

#include <ctype.h>
#include <stdlib.h>

static const char SIGNATURE[] = "Vocaloid Pose Data file";
static const char BYTE_ORDER_MARK[] = "\xef\xbb\xbf";

typedef enum block_kind { BLOCK_BONE, BLOCK_MORPH } block_kind;

static const struct {
    const char *word, *section;
    int number_count;
} kinds[] = {
    [BLOCK_BONE] = {"Bone", "bones", 7},
    [BLOCK_MORPH] = {"Morph", "morphs", 1},
};

enum { MAX_NUMBERS = 7 };

typedef struct block {
    block_kind kind;
    dfm_text name;
    double numbers[MAX_NUMBERS];
} block;

/* A cursor over the whole text, which is UTF-8 without a NUL, and ends with one. */
typedef struct parser {
    const char *text, *at;
    dfm_arena *arena;
    dfm_error *error;
    dfm_status status;
    const char *section;
    int64_t item;
} parser;

static bool fail(parser *p, dfm_status status, const char *at, const char *what) {
    p->status = dfm_fail(p->error, status, p->section, p->item, at - p->text, "%s", what);
    return false;
}

/* Blanks, line ends, separators between numbers, and comments to the end of their line. */
static void skip_filling(parser *p, const char *separators) {
    for (;;) {
        if (p->at[0] == '/' && p->at[1] == '/')
            p->at += strcspn(p->at, "\r\n");
        else if (*p->at && (isspace((unsigned char)*p->at) || strchr(separators, *p->at)))
            p->at++;
        else
            return;
    }
}

/* To where the next block begins; what else stands between blocks (the model's file, the count)
 * means nothing. Returns false at the end. */
static bool find_block(parser *p, block_kind *kind) {
    for (;;) {
        skip_filling(p, ";,");
        if (!*p->at)
            return false;
        for (int k = BLOCK_BONE; k <= BLOCK_MORPH; k++) {
            size_t length = strlen(kinds[k].word);
            if (strncmp(p->at, kinds[k].word, length) != 0)
                continue;
            size_t digits = strspn(p->at + length, "0123456789 \t");
            if (p->at[length + digits] != '{')
                continue;
            p->at += length + digits + 1;
            *kind = (block_kind)k;
            return true;
        }
        p->at += strcspn(p->at, " \t\r\n;/");
        if (p->at[0] == '/' && p->at[1] != '/')
            p->at++;
    }
}

/* The rest of the line is the name, without blanks around it and without a comment. */
static bool take_name(parser *p, dfm_text *name) {
    p->at += strspn(p->at, " \t");
    size_t length = strcspn(p->at, "\r\n");
    const char *comment = memmem(p->at, length, "//", 2);
    if (comment)
        length = (size_t)(comment - p->at);
    const char *start = p->at;
    p->at += length;
    while (length > 0 && (start[length - 1] == ' ' || start[length - 1] == '\t'))
        length--;
    *name = (dfm_text){start, (uint32_t)length};
    return length > 0 || fail(p, DFM_ERROR_MALFORMED, start, "a block without a name");
}

static bool take_number(parser *p, double *number) {
    skip_filling(p, ";,");
    if (!*p->at)
        return fail(p, DFM_ERROR_TRUNCATED, p->at, "the file ends inside a block");
    char *end;
    *number = strtod(p->at, &end);
    if (end == p->at)
        return fail(p, DFM_ERROR_MALFORMED, p->at, "a number was expected");
    if (!(fabs(*number) <= (double)DFM_STREAM_MAX_NUMBER))
        return fail(p, DFM_ERROR_MALFORMED, p->at, "a number is not finite, or beyond 1e18");
    p->at = end;
    return true;
}

/* The next block. Returns false at the end and on failure (p->status). */
static bool take_block(parser *p, block *b, uint32_t counts[2]) {
    if (!find_block(p, &b->kind))
        return false;
    p->section = kinds[b->kind].section;
    p->item = counts[b->kind];
    if (!take_name(p, &b->name))
        return false;
    for (int i = 0; i < kinds[b->kind].number_count; i++) {
        if (!take_number(p, &b->numbers[i]))
            return false;
    }
    skip_filling(p, ";,");
    if (*p->at != '}')
        return fail(p, *p->at ? DFM_ERROR_MALFORMED : DFM_ERROR_TRUNCATED, p->at,
                    *p->at ? "a block has more numbers than it should, or no \"}\""
                           : "the file ends inside a block");
    p->at++;
    counts[b->kind]++;
    return true;
}

static void normalize(double q[4]) {
    double length2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    double scale = length2 > 1e-60 ? 1 / sqrt(length2) : 0;
    for (int k = 0; k < 4; k++)
        q[k] *= scale;
    if (scale == 0)
        q[3] = 1;
}

/* Reads all blocks: the first time only to count them, then, with room in the document, for good. A
 * text of nothing but braces must not ask for memory before it has been read. */
static void take_blocks(parser *p, dfm_vpd *vpd) {
    block b;
    uint32_t counts[2] = {0};
    while (take_block(p, &b, counts)) {
        if (b.kind == BLOCK_MORPH && vpd->morphs) {
            vpd->morphs[counts[BLOCK_MORPH] - 1] = (dfm_vpd_morph){b.name, b.numbers[0]};
        } else if (b.kind == BLOCK_BONE && vpd->bones) {
            dfm_vpd_bone *bone = &vpd->bones[counts[BLOCK_BONE] - 1];
            bone->name = b.name;
            memcpy(bone->translation, b.numbers, sizeof bone->translation);
            memcpy(bone->rotation, b.numbers + 3, sizeof bone->rotation);
            normalize(bone->rotation);
        }
    }
    vpd->bone_count = counts[BLOCK_BONE];
    vpd->morph_count = counts[BLOCK_MORPH];
}

/* Names are cut out of the text, which has no NUL behind them: dfm_text wants one. */
static bool own_name(dfm_arena *arena, dfm_text *name) {
    char *copy = dfm_arena_alloc(arena, (size_t)name->length + 1, 1);
    if (!copy)
        return false;
    memcpy(copy, name->data, name->length);
    name->data = copy;
    return true;
}

static bool own_names(dfm_arena *arena, dfm_vpd *vpd) {
    bool good = true;
    for (uint32_t i = 0; good && i < vpd->bone_count; i++)
        good = own_name(arena, &vpd->bones[i].name);
    for (uint32_t i = 0; good && i < vpd->morph_count; i++)
        good = own_name(arena, &vpd->morphs[i].name);
    return good;
}

/* The file as UTF-8 with a NUL behind it; a NUL inside is a blank. UTF-8 is taken for such where it
 * is it throughout: text in CP932 practically never is. */
static dfm_status decode(const uint8_t *bytes, size_t size, char **decoded, dfm_error *error) {
    size_t mark = sizeof BYTE_ORDER_MARK - 1, length;
    bool marked = size >= mark && memcmp(bytes, BYTE_ORDER_MARK, mark) == 0;
    char *text = *decoded = malloc(3 * size + 1);
    if (!text)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for a pose file");
    if (marked || dfm_text_is_utf8((const char *)bytes, size)) {
        length = dfm_text_decode_utf8(bytes, size, text, NULL);
    } else {
        dfm_cp932 cp932;
        dfm_status status = dfm_cp932_open(&cp932, error);
        if (status != DFM_OK)
            return status;
        length = dfm_cp932_decode(&cp932, bytes, size, text);
        dfm_cp932_close(&cp932);
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == 0)
            text[i] = ' ';
    }
    text[length] = 0;
    return DFM_OK;
}

static bool take_signature(parser *p) {
    p->section = "header";
    p->item = -1;
    if (strncmp(p->at, BYTE_ORDER_MARK, sizeof BYTE_ORDER_MARK - 1) == 0)
        p->at += sizeof BYTE_ORDER_MARK - 1;
    if (strncmp(p->at, SIGNATURE, sizeof SIGNATURE - 1) != 0)
        return fail(p, DFM_ERROR_MALFORMED, p->at,
                    "a VPD file begins with \"Vocaloid Pose Data file\", and this one does not");
    p->at += sizeof SIGNATURE - 1;
    return true;
}

static dfm_status parse(parser *p, dfm_vpd *vpd) {
    if (!take_signature(p))
        return p->status;
    const char *start = p->at;
    take_blocks(p, vpd);
    if (p->status != DFM_OK)
        return p->status;
    vpd->bones = dfm_arena_alloc(p->arena, vpd->bone_count, sizeof *vpd->bones);
    vpd->morphs = dfm_arena_alloc(p->arena, vpd->morph_count, sizeof *vpd->morphs);
    if (vpd->bones && vpd->morphs) {
        p->at = start;
        take_blocks(p, vpd);
        if (own_names(p->arena, vpd))
            return DFM_OK;
    }
    return dfm_fail(p->error, DFM_ERROR_NO_MEMORY, NULL, -1, -1, "no memory for a pose file");
}

dfm_status dfm_vpd_read(const uint8_t *bytes, size_t size, dfm_arena *arena, dfm_vpd *vpd,
                        dfm_error *error) {
    *vpd = (dfm_vpd){0};
    char *text;
    dfm_status status = decode(bytes, size, &text, error);
    if (status == DFM_OK) {
        parser p = {.text = text, .at = text, .arena = arena, .error = error};
        status = parse(&p, vpd);
    }
    free(text);
    return status;
}

uint32_t dfm_vpd_apply(const dfm_vpd *vpd, const dfm_model *model, dfm_pose *pose) {
    uint32_t lacking = 0;
    for (uint32_t i = 0; i < vpd->bone_count; i++) {
        const dfm_vpd_bone *bone = &vpd->bones[i];
        int32_t index = dfm_names_find(&model->bone_names, bone->name.data, bone->name.length);
        lacking += index < 0;
        if (index < 0)
            continue;
        memcpy(pose->bones[index].rotation, bone->rotation, sizeof bone->rotation);
        memcpy(pose->bones[index].translation, bone->translation, sizeof bone->translation);
    }
    for (uint32_t i = 0; i < vpd->morph_count; i++) {
        const dfm_vpd_morph *morph = &vpd->morphs[i];
        int32_t index = dfm_names_find(&model->morph_names, morph->name.data, morph->name.length);
        lacking += index < 0;
        if (index >= 0)
            pose->morph_weights[index] = morph->weight;
    }
    return lacking;
}
