/* A small model and a pose of it, for tests of what reads poses: bones 左ひじ, b (IK), "a/b~c", 右
 * (and a second 右), "nul\0in"; morphs あ, い. Ends the process with a message where it
 * cannot be made: fuzzers, which know no Check, use it too. */
#ifndef DFM_TESTS_SUPPORT_POSE_H
#define DFM_TESTS_SUPPORT_POSE_H

#include "core/model.h"
#include "core/pose.h"

enum { POSE_BONES = 6, POSE_MORPHS = 2, POSE_IK_BONE = 1 };

uint8_t *pose_model_bytes(size_t *size); /* free() it */
dfm_model *pose_model(void);             /* dfm_model_release */
dfm_pose *pose_create(void);             /* at rest; free() it: one block */

#endif
