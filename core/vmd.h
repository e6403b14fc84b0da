/* A VMD file (Vocaloid Motion Data of MikuMikuDance): keys of bones, morphs and IK switches.
 *
 * Keys are grouped into tracks, one a name, sorted by frame; of keys with the same name and frame
 * the last in the file wins. So the order of a file's keys has no effect otherwise. 30 frames a
 * second. Translations are offsets from rest in PMX units, rotations unit quaternions x, y, z, w.
 * Camera, light and shadow keys are skipped.
 * Thread safety: a document is plain memory, immutable after dfm_vmd_read.
 * Source of the rules: SEMANTICS 6 (README, table of decisions). */
#ifndef DFM_CORE_VMD_H
#define DFM_CORE_VMD_H

#include "core/pmx.h"

enum {
    DFM_VMD_NAME_BYTES = 15,    /* of a bone or morph: longer names are cut there */
    DFM_VMD_IK_NAME_BYTES = 20, /* of an IK bone in a property key */
    DFM_VMD_FRAMES_PER_SECOND = 30
};

/* A name and a range of keys. */
typedef struct dfm_vmd_track {
    dfm_text name;                      /* decoded; a character cut in half is U+FFFD */
    uint8_t raw[DFM_VMD_IK_NAME_BYTES]; /* CP932, as in the file up to the first NUL ... */
    uint8_t raw_length;                 /* ... of this many bytes; 0 is possible */
    uint32_t first_key, key_count;      /* key_count >= 1; frames strictly ascend */
} dfm_vmd_track;

/* Control points of a Bezier curve from (0, 0) to (127, 127), each 0..127. */
typedef struct dfm_vmd_curve {
    uint8_t x1, y1, x2, y2;
} dfm_vmd_curve;

/* The curves lead from the key before to this one. */
typedef struct dfm_vmd_bone_key {
    uint32_t frame;
    float translation[3];
    float rotation[4];
    dfm_vmd_curve translation_curves[3], rotation_curve;
} dfm_vmd_bone_key;

typedef struct dfm_vmd_morph_key {
    uint32_t frame;
    float weight;
} dfm_vmd_morph_key;

typedef struct dfm_vmd_ik_key {
    uint32_t frame;
    bool enabled;
} dfm_vmd_ik_key;

typedef struct dfm_vmd {
    dfm_text model_name; /* of the model that it was made for */
    uint32_t bone_track_count, morph_track_count, ik_track_count;
    dfm_vmd_track *bone_tracks, *morph_tracks, *ik_tracks; /* sorted by raw name */
    uint32_t bone_key_count, morph_key_count, ik_key_count;
    dfm_vmd_bone_key *bone_keys;
    dfm_vmd_morph_key *morph_keys;
    dfm_vmd_ik_key *ik_keys;
    uint32_t last_frame; /* of all these keys; 0 without any */
    uint32_t camera_key_count, light_key_count, shadow_key_count; /* skipped */
} dfm_vmd;

/* Reads a document. All memory comes from `arena`, also on failure: free it in both cases. Sections
 * that are missing at the file's end have no keys. Numbers that are not finite become 0, rotations
 * that are not or that have no length the identity (warning `motion-not-finite`).
 * Failures: DFM_ERROR_TRUNCATED, DFM_ERROR_MALFORMED (with section, item, byte offset),
 * DFM_ERROR_NO_MEMORY, DFM_ERROR_UNAVAILABLE (dfm_cp932_open). */
dfm_status dfm_vmd_read(const uint8_t *bytes, size_t size, dfm_arena *arena, dfm_warnings *warnings,
                        dfm_vmd *vmd, dfm_error *error);

#endif
