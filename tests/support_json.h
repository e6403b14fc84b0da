/* cJSON as the oracle of the JSON reader. */
#ifndef DFM_TESTS_SUPPORT_JSON_H
#define DFM_TESTS_SUPPORT_JSON_H

#include "api/json_reader.h"

#include <cjson/cJSON.h>

/* Whether the value that follows, which it reads, is the same as cJSON's: members and items in
 * their order, numbers to the bit but for the sign of zero. Strings without a NUL only. */
bool json_same_value(dfm_json_reader *reader, const cJSON *item);

#endif
