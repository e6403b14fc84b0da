/* The daemon's settings: one table names every flag with its type, default, range and help, and
 * parsing, checking and --help all read it (config.c).
 *
 * A flag `--max-json-bytes 2MiB` is also `DEFORMD_MAX_JSON_BYTES=2MiB` in the environment; the flag
 * wins, and an empty variable is none. Thread safety: filled once at start, read-only afterwards.
 */
#ifndef DFM_SERVER_CONFIG_H
#define DFM_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum dfm_log_level {
    DFM_LOG_ERROR,
    DFM_LOG_WARN,
    DFM_LOG_INFO,
    DFM_LOG_DEBUG
} dfm_log_level;

typedef enum dfm_log_format { DFM_LOG_TEXT, DFM_LOG_JSON } dfm_log_format;

/* Every number is 64 bits wide, so that one parser serves them all. */
typedef struct dfm_config {
    const char *listen; /* borrowed from argv or the environment */
    const char *store;  /* a folder; "" = none */
    uint64_t store_check_ms;
    const char *token_file, *cors_origin; /* "" = none */
    uint64_t metrics_open;                /* 0 or 1 */
    uint64_t workers;                     /* 0 = as many as there are CPUs */
    uint64_t queue;
    uint64_t cache_bytes, motion_cache_bytes;
    uint64_t max_upload_bytes, max_json_bytes, max_pose_bytes;
    uint64_t max_inflight_bytes;
    uint64_t max_result_bytes; /* 0 = no limit of its own */
    uint64_t max_frames;       /* 0 = no limit */
    uint64_t max_json_depth, max_json_items;
    uint64_t max_vertices, max_indices, max_textures, max_materials, max_bones, max_ik_links;
    uint64_t max_morphs, max_morph_offsets, max_text_bytes; /* as dfm_pmx_limits */
    uint64_t max_header_bytes;
    uint64_t max_connections,
        max_connections_per_address;           /* 0 = as many as descriptors allow; any */
    uint64_t idle_timeout_ms, body_timeout_ms; /* 0 = none */
    uint64_t default_mode;                     /* dfm_mode */
    uint64_t opencl_platform, opencl_device;
    uint64_t strict_mode;        /* 0 or 1 */
    uint64_t request_timeout_ms; /* 0 = none */
    uint64_t send_timeout_ms;    /* 0 = none */
    uint64_t drain_delay_ms, drain_timeout_ms;
    uint64_t log_level;  /* dfm_log_level */
    uint64_t log_format; /* dfm_log_format */
    bool show_help, show_version;
    const char *healthcheck; /* where to ask; "" = at `listen`; NULL = serve */
} dfm_config;

enum { DFM_CONFIG_MESSAGE_BYTES = 512 };

/* Defaults, the environment (`NAME=value` strings, NULL past the last), the arguments. False:
 * something is wrong, and `message` says what in one sentence that names the flag or the variable,
 * what it was set to and what it takes. True: `message` is empty, or says which defaults were made
 * smaller to fit what was given. */
bool dfm_config_parse(dfm_config *config, int argument_count, char *const *arguments,
                      char *const *environment, char message[DFM_CONFIG_MESSAGE_BYTES]);

/* What --help prints: every flag with its default and its range. */
void dfm_config_help(FILE *stream);

#endif
