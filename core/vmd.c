#include "core/vmd.h"
#include "core/cp932.h"
#include "core/stream.h"

#include <stdlib.h>

enum {
    MAGIC_BYTES = 30,
    MODEL_NAME_BYTES = 20,
    OLD_MODEL_NAME_BYTES = 10,
    CURVE_BYTES = 64,
    BONE_RECORD_BYTES = DFM_VMD_NAME_BYTES + 4 + 12 + 16 + CURVE_BYTES,
    MORPH_RECORD_BYTES = DFM_VMD_NAME_BYTES + 4 + 4,
    CAMERA_RECORD_BYTES = 61,
    LIGHT_RECORD_BYTES = 28,
    SHADOW_RECORD_BYTES = 9,
    PROPERTY_RECORD_BYTES = 9, /* without its IK switches */
    IK_RECORD_BYTES = DFM_VMD_IK_NAME_BYTES + 1
};

/* A key on its way from the file to a track. */
typedef struct entry {
    uint8_t name[DFM_VMD_IK_NAME_BYTES]; /* zeros from the first NUL on */
    uint32_t frame;
    const uint8_t *record; /* also the order in the file */
} entry;

typedef struct reader {
    dfm_stream stream;
    dfm_arena *arena;
    dfm_warnings *warnings;
    dfm_vmd *vmd;
    dfm_cp932 cp932;
} reader;

static size_t name_length(const uint8_t *name, size_t capacity) {
    const uint8_t *end = memchr(name, 0, capacity);
    return end ? (size_t)(end - name) : capacity;
}

static bool no_memory(reader *r) {
    dfm_stream_fail(&r->stream, DFM_ERROR_NO_MEMORY, r->stream.at,
                    "no memory for the %s of a motion", r->stream.section);
    return false;
}

static dfm_text decode(reader *r, const uint8_t *bytes, size_t size) {
    char *text = dfm_arena_alloc(r->arena, 3 * size + 1, 1);
    if (!text) {
        no_memory(r);
        return (dfm_text){"", 0};
    }
    size_t length = dfm_cp932_decode(&r->cp932, bytes, size, text);
    return (dfm_text){text, (uint32_t)length};
}

static void read_header(reader *r) {
    /* Programs write "0002" behind it, or nothing; the first version wrote "file". */
    static const char magic[] = "Vocaloid Motion Data", old_magic[] = "Vocaloid Motion Data file";
    r->stream.section = "header";
    r->stream.item = -1;
    const uint8_t *bytes = dfm_stream_take(&r->stream, MAGIC_BYTES, "the signature");
    if (!bytes)
        return;
    bool old = memcmp(bytes, old_magic, sizeof old_magic - 1) == 0;
    if (!old && memcmp(bytes, magic, sizeof magic - 1) != 0) {
        dfm_stream_fail(&r->stream, DFM_ERROR_MALFORMED, 0,
                        "a VMD file begins with \"%s\", and this one does not", magic);
        return;
    }
    size_t capacity = old ? OLD_MODEL_NAME_BYTES : MODEL_NAME_BYTES;
    const uint8_t *name = dfm_stream_take(&r->stream, capacity, "the model's name");
    if (name)
        r->vmd->model_name = decode(r, name, name_length(name, capacity));
}

/* The number of records in a section, each of at least `record_bytes`: more than the bytes that
 * remain can hold is an error here, before anything is allocated. A section that the file ends
 * before has none. */
static uint32_t read_count(reader *r, const char *section, size_t record_bytes) {
    r->stream.section = section;
    r->stream.item = -1;
    if (r->stream.status != DFM_OK || dfm_stream_remaining(&r->stream) == 0)
        return 0;
    size_t at = r->stream.at;
    uint32_t count = (uint32_t)dfm_stream_i32(&r->stream, "a count");
    if (r->stream.status == DFM_OK && count > dfm_stream_remaining(&r->stream) / record_bytes) {
        dfm_stream_fail(&r->stream, DFM_ERROR_TRUNCATED, at,
                        "%u keys take at least %zu bytes each, and %zu remain", count, record_bytes,
                        dfm_stream_remaining(&r->stream));
        return 0;
    }
    return count;
}

static void take_entry(entry *e, const uint8_t *name, size_t name_capacity, const uint8_t *frame,
                       const uint8_t *record) {
    memset(e->name, 0, sizeof e->name);
    memcpy(e->name, name, name_length(name, name_capacity));
    memcpy(&e->frame, frame, sizeof e->frame);
    e->record = record;
}

static int compare_entries(const void *a, const void *b) {
    const entry *i = a, *k = b;
    int names = memcmp(i->name, k->name, sizeof i->name);
    if (names != 0)
        return names;
    if (i->frame != k->frame)
        return i->frame < k->frame ? -1 : 1;
    return i->record < k->record ? -1 : i->record > k->record;
}

/* Sorts, and keeps the last of each name and frame. Returns how many are left. */
static uint32_t sort_entries(entry *entries, uint32_t count) {
    if (count == 0)
        return 0;
    qsort(entries, count, sizeof *entries, compare_entries);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool again = i + 1 < count && entries[i].frame == entries[i + 1].frame &&
                     memcmp(entries[i].name, entries[i + 1].name, sizeof entries[i].name) == 0;
        if (!again)
            entries[kept++] = entries[i];
    }
    return kept;
}

static bool starts_track(const entry *entries, uint32_t i) {
    return i == 0 || memcmp(entries[i].name, entries[i - 1].name, sizeof entries[i].name) != 0;
}

/* One track for each name of the sorted entries. Returns NULL when out of memory. */
static dfm_vmd_track *make_tracks(reader *r, const entry *entries, uint32_t count,
                                  uint32_t *track_count) {
    *track_count = 0;
    for (uint32_t i = 0; i < count; i++)
        *track_count += starts_track(entries, i);
    dfm_vmd_track *tracks = dfm_arena_alloc(r->arena, *track_count, sizeof *tracks);
    if (!tracks) {
        no_memory(r);
        return NULL;
    }
    dfm_vmd_track *track = tracks - 1;
    for (uint32_t i = 0; i < count; i++) {
        if (starts_track(entries, i)) {
            track++;
            track->first_key = i;
            track->raw_length = (uint8_t)name_length(entries[i].name, sizeof entries[i].name);
            memcpy(track->raw, entries[i].name, sizeof track->raw);
            track->name = decode(r, track->raw, track->raw_length);
        }
        track->key_count++;
        if (r->vmd->last_frame < entries[i].frame)
            r->vmd->last_frame = entries[i].frame;
    }
    return tracks;
}

static void warn_not_finite(reader *r, const entry *e) {
    dfm_warn(r->warnings, "motion-not-finite", e->frame,
             "numbers of keys that are not finite count as none (%s, frame %u)", r->stream.section,
             e->frame);
}

static void read_numbers(reader *r, const entry *e, size_t offset, float *numbers, size_t count) {
    dfm_stream record = {.bytes = e->record + offset, .size = count * sizeof *numbers};
    dfm_stream_floats(&record, numbers, count, "numbers");
    for (size_t i = 0; i < count; i++) {
        if (isnan(numbers[i])) {
            numbers[i] = 0;
            warn_not_finite(r, e);
        }
    }
}

static void normalize(float q[4]) {
    double length2 = 0;
    for (int k = 0; k < 4; k++)
        length2 += (double)q[k] * (double)q[k];
    double scale = length2 > 0 ? 1 / sqrt(length2) : 0;
    for (int k = 0; k < 4; k++)
        q[k] = (float)((double)q[k] * scale);
    if (scale == 0)
        q[3] = 1;
}

/* Of each curve the file has four copies, shifted by a byte: the one that begins at 16 k has the
 * points of curve k at every fourth byte, and keeps clear of bytes 2 and 3, where MMD stores its
 * physics toggle. */
static dfm_vmd_curve read_curve(const uint8_t *curves, int index) {
    const uint8_t *bytes = curves + 16 * index;
    uint8_t points[4];
    for (int k = 0; k < 4; k++)
        points[k] = bytes[4 * k] > 127 ? 127 : bytes[4 * k];
    return (dfm_vmd_curve){points[0], points[1], points[2], points[3]};
}

static void make_bone_key(reader *r, const entry *e, dfm_vmd_bone_key *key) {
    size_t at = DFM_VMD_NAME_BYTES + sizeof e->frame;
    key->frame = e->frame;
    read_numbers(r, e, at, key->translation, 3);
    read_numbers(r, e, at + 12, key->rotation, 4);
    normalize(key->rotation);
    for (int k = 0; k < 3; k++)
        key->translation_curves[k] = read_curve(e->record + at + 28, k);
    key->rotation_curve = read_curve(e->record + at + 28, 3);
}

/* Entries of a section whose records all have the size that they announce. */
static entry *read_entries(reader *r, uint32_t count, size_t record_bytes) {
    entry *entries = calloc((size_t)count + 1, sizeof *entries);
    if (!entries) {
        no_memory(r);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *record = dfm_stream_take(&r->stream, record_bytes, "a key");
        take_entry(&entries[i], record, DFM_VMD_NAME_BYTES, record + DFM_VMD_NAME_BYTES, record);
    }
    return entries;
}

static void read_bones(reader *r) {
    uint32_t count = read_count(r, "bones", BONE_RECORD_BYTES);
    entry *entries = r->stream.status == DFM_OK ? read_entries(r, count, BONE_RECORD_BYTES) : NULL;
    if (!entries)
        return;
    dfm_vmd *vmd = r->vmd;
    vmd->bone_key_count = count = sort_entries(entries, count);
    vmd->bone_tracks = make_tracks(r, entries, count, &vmd->bone_track_count);
    vmd->bone_keys = dfm_arena_alloc(r->arena, count, sizeof *vmd->bone_keys);
    if (!vmd->bone_keys)
        no_memory(r);
    for (uint32_t i = 0; i < count && r->stream.status == DFM_OK; i++)
        make_bone_key(r, &entries[i], &vmd->bone_keys[i]);
    free(entries);
}

static void read_morphs(reader *r) {
    uint32_t count = read_count(r, "morphs", MORPH_RECORD_BYTES);
    entry *entries = r->stream.status == DFM_OK ? read_entries(r, count, MORPH_RECORD_BYTES) : NULL;
    if (!entries)
        return;
    dfm_vmd *vmd = r->vmd;
    vmd->morph_key_count = count = sort_entries(entries, count);
    vmd->morph_tracks = make_tracks(r, entries, count, &vmd->morph_track_count);
    vmd->morph_keys = dfm_arena_alloc(r->arena, count, sizeof *vmd->morph_keys);
    if (!vmd->morph_keys)
        no_memory(r);
    for (uint32_t i = 0; i < count && r->stream.status == DFM_OK; i++) {
        vmd->morph_keys[i].frame = entries[i].frame;
        read_numbers(r, &entries[i], DFM_VMD_NAME_BYTES + 4, &vmd->morph_keys[i].weight, 1);
    }
    free(entries);
}

static uint32_t skip_section(reader *r, const char *section, size_t record_bytes) {
    uint32_t count = read_count(r, section, record_bytes);
    dfm_stream_take(&r->stream, count * record_bytes, "the section");
    return count;
}

/* Property keys: each has a frame, whether the model shows, and switches of any number of IK bones.
 * Reads them into `entries`, or, where that is NULL, only counts the switches. */
static size_t walk_properties(reader *r, uint32_t count, entry *entries) {
    size_t switches = 0;
    for (uint32_t i = 0; i < count && r->stream.status == DFM_OK; i++) {
        r->stream.item = i;
        const uint8_t *head = dfm_stream_take(&r->stream, PROPERTY_RECORD_BYTES, "a key");
        if (!head)
            break;
        uint32_t ik_count;
        memcpy(&ik_count, head + 5, sizeof ik_count);
        const uint8_t *record =
            dfm_stream_take(&r->stream, (size_t)ik_count * IK_RECORD_BYTES, "its IK switches");
        if (!record)
            break;
        for (uint32_t k = 0; entries && k < ik_count; k++, record += IK_RECORD_BYTES)
            take_entry(&entries[switches + k], record, DFM_VMD_IK_NAME_BYTES, head, record);
        switches += ik_count;
    }
    return switches;
}

static void read_properties(reader *r) {
    uint32_t properties = read_count(r, "properties", PROPERTY_RECORD_BYTES);
    size_t start = r->stream.at, switches = walk_properties(r, properties, NULL);
    if (r->stream.status != DFM_OK)
        return;
    entry *entries = switches <= UINT32_MAX ? calloc(switches + 1, sizeof *entries) : NULL;
    if (!entries) {
        no_memory(r);
        return;
    }
    r->stream.at = start;
    walk_properties(r, properties, entries);
    dfm_vmd *vmd = r->vmd;
    uint32_t count = vmd->ik_key_count = sort_entries(entries, (uint32_t)switches);
    vmd->ik_tracks = make_tracks(r, entries, count, &vmd->ik_track_count);
    vmd->ik_keys = dfm_arena_alloc(r->arena, count, sizeof *vmd->ik_keys);
    if (!vmd->ik_keys)
        no_memory(r);
    for (uint32_t i = 0; i < count && r->stream.status == DFM_OK; i++)
        vmd->ik_keys[i] =
            (dfm_vmd_ik_key){entries[i].frame, entries[i].record[DFM_VMD_IK_NAME_BYTES] != 0};
    free(entries);
}

dfm_status dfm_vmd_read(const uint8_t *bytes, size_t size, dfm_arena *arena, dfm_warnings *warnings,
                        dfm_vmd *vmd, dfm_error *error) {
    *vmd = (dfm_vmd){.model_name = {"", 0}};
    reader r = {.stream = {.bytes = bytes, .size = size, .error = error},
                .arena = arena,
                .warnings = warnings,
                .vmd = vmd};
    dfm_status status = dfm_cp932_open(&r.cp932, error);
    if (status != DFM_OK)
        return status;
    read_header(&r);
    read_bones(&r);
    read_morphs(&r);
    vmd->camera_key_count = skip_section(&r, "cameras", CAMERA_RECORD_BYTES);
    vmd->light_key_count = skip_section(&r, "lights", LIGHT_RECORD_BYTES);
    vmd->shadow_key_count = skip_section(&r, "shadows", SHADOW_RECORD_BYTES);
    read_properties(&r);
    dfm_cp932_close(&r.cp932);
    return r.stream.status;
}
