/* Whether two PMX documents are the same, field by field. */
#ifndef DFM_TESTS_DATA_COMPARE_H
#define DFM_TESTS_DATA_COMPARE_H

#include "core/pmx.h"

/* NULL when both hold the same, or where they first differ ("bone 3: parent"), in a static buffer.
 * Floats are the same when their bits are, or when both are NaN. Encodings are not compared. */
const char *pmx_difference(const dfm_pmx *a, const dfm_pmx *b);

#endif
