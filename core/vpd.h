/* A VPD file (Vocaloid Pose Data of MikuMikuDance): one pose, as text.
 *
 * Values are what a pose holds: a local rotation and an offset from rest. CP932, or UTF-8 with or
 * without a byte order mark. Line ends, blanks, comments (//) and the announced count are taken
 * leniently; blocks "Bone<n>{name ..}" and "Morph<n>{name ..}" in any order. Of equal names the
 * last wins. Thread safety: a document is plain memory, immutable after dfm_vpd_read. Source of the
 * rules: SEMANTICS 6 (README, table of decisions). */
#ifndef DFM_CORE_VPD_H
#define DFM_CORE_VPD_H

#include "core/model.h"

typedef struct dfm_vpd_bone {
    dfm_text name;
    double translation[3];
    double rotation[4]; /* unit length; the identity where the file has zeros */
} dfm_vpd_bone;

typedef struct dfm_vpd_morph {
    dfm_text name;
    double weight;
} dfm_vpd_morph;

typedef struct dfm_vpd {
    uint32_t bone_count, morph_count;
    dfm_vpd_bone *bones;
    dfm_vpd_morph *morphs;
} dfm_vpd;

/* Reads a document. All memory comes from `arena`, also on failure: free it in both cases.
 * Failures: DFM_ERROR_MALFORMED (section "header", "bones" or "morphs", the block's number as item,
 * its byte offset in the file; in a file of CP932 the offset is that of the same place in UTF-8),
 * DFM_ERROR_TRUNCATED (a block that does not end), DFM_ERROR_NO_MEMORY, DFM_ERROR_UNAVAILABLE
 * (dfm_cp932_open). */
dfm_status dfm_vpd_read(const uint8_t *bytes, size_t size, dfm_arena *arena, dfm_vpd *vpd,
                        dfm_error *error);

/* Sets the pose's bones and morphs that the document names, and leaves the others as they are.
 * Returns how many of its names the model lacks. */
uint32_t dfm_vpd_apply(const dfm_vpd *vpd, const dfm_model *model, dfm_pose *pose);

#endif
