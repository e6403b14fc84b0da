#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/cors.h"
#include "core/cache.h"

typedef enum option_type {
    OPTION_TEXT,   /* const char * */
    OPTION_COUNT,  /* a whole number */
    OPTION_BYTES,  /* a whole number, with KiB, MiB or GiB (also K, M, G) behind it */
    OPTION_MS,     /* milliseconds */
    OPTION_CHOICE, /* one of `words`; the value is its index */
    OPTION_SWITCH  /* --name alone is true; in the environment and after '=' true or false */
} option_type;

typedef struct option {
    const char *name; /* without the dashes */
    option_type type;
    size_t offset; /* of the field in dfm_config */
    const char *initial;
    uint64_t min, max;
    bool zero_allowed;    /* 0 lies outside min..max and means what `help` says */
    const char *words[5]; /* OPTION_CHOICE, NULL past the last */
    const char *value;    /* how --help shows the value */
    const char *help;
} option;

#define FIELD(name) offsetof(dfm_config, name)
#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define DAY_MS ((uint64_t)24 * 60 * 60 * 1000)

static const option options[] = {
    {.name = "listen",
     .type = OPTION_TEXT,
     .offset = FIELD(listen),
     .initial = "127.0.0.1:8080",
     .value = "HOST:PORT",
     .help = "where to listen: HOST:PORT, [IPV6]:PORT (port 0 takes a free one) or unix:/path"},
    {.name = "token-file",
     .type = OPTION_TEXT,
     .offset = FIELD(token_file),
     .initial = "",
     .value = "FILE",
     .help = "bearer tokens with their scopes, read again at SIGHUP; none = everybody may do "
             "everything"},
    {.name = "metrics-open",
     .type = OPTION_SWITCH,
     .offset = FIELD(metrics_open),
     .initial = "true",
     .value = "",
     .help = "with --token-file: /metrics needs no token; =false: it takes one of either scope"},
    {.name = "cors-origin",
     .type = OPTION_TEXT,
     .offset = FIELD(cors_origin),
     .initial = "",
     .value = "LIST",
     .help = "origins whose pages may use the service, with commas between, or *"},
    {.name = "store",
     .type = OPTION_TEXT,
     .offset = FIELD(store),
     .initial = "",
     .value = "DIR",
     .help =
         "folder where uploads are kept, which several deformd may share; none = in memory only"},
    {.name = "store-check-ms",
     .type = OPTION_MS,
     .offset = FIELD(store_check_ms),
     .initial = "1000",
     .max = DAY_MS,
     .value = "MS",
     .help = "how long what others did to a model in the store may go unnoticed; 0 = not at all"},
    {.name = "workers",
     .type = OPTION_COUNT,
     .offset = FIELD(workers),
     .initial = "0",
     .min = 1,
     .max = 1024,
     .zero_allowed = true,
     .value = "N",
     .help = "threads that deform; 0 = the CPUs that affinity and the cgroup's quota allow"},
    {.name = "queue",
     .type = OPTION_COUNT,
     .offset = FIELD(queue),
     .initial = "256",
     .min = 1,
     .max = 65536,
     .value = "N",
     .help = "requests that may wait for a worker; one more is answered 503"},
    {.name = "cache-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(cache_bytes),
     .initial = "1GiB",
     .min = MIB,
     .max = 1024 * GIB,
     .value = "SIZE",
     .help = "memory for models; the least recently used ones leave first"},
    {.name = "motion-cache-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(motion_cache_bytes),
     .initial = "256MiB",
     .min = MIB,
     .max = 1024 * GIB,
     .value = "SIZE",
     .help = "memory for motions; the least recently used ones leave first"},
    {.name = "max-upload-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_upload_bytes),
     .initial = "256MiB",
     .min = KIB,
     .max = 4 * GIB,
     .value = "SIZE",
     .help = "largest model or motion file"},
    {.name = "max-json-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_json_bytes),
     .initial = "1MiB",
     .min = KIB,
     .max = 64 * MIB,
     .value = "SIZE",
     .help = "largest JSON body (JSON takes up to 30 times its size while it is read)"},
    {.name = "max-pose-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_pose_bytes),
     .initial = "64MiB",
     .min = KIB,
     .max = 4 * GIB,
     .value = "SIZE",
     .help = "largest binary pose or VPD body"},
    {.name = "max-inflight-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_inflight_bytes),
     .initial = "512MiB",
     .min = MIB,
     .max = 1024 * GIB,
     .value = "SIZE",
     .help = "memory for all bodies and results at one time; a request over it is answered 503"},
    {.name = "max-result-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_result_bytes),
     .initial = "0",
     .min = KIB,
     .max = 1024 * GIB,
     .zero_allowed = true,
     .value = "SIZE",
     .help = "largest result; 0 = no limit for streamed ones, --max-inflight-bytes for others"},
    {.name = "max-frames",
     .type = OPTION_COUNT,
     .offset = FIELD(max_frames),
     .initial = "1000000",
     .min = 1,
     .max = INT64_MAX,
     .zero_allowed = true,
     .value = "N",
     .help = "frames of one deform, of a motion or of poses; 0 = no limit"},
    {.name = "max-json-depth",
     .type = OPTION_COUNT,
     .offset = FIELD(max_json_depth),
     .initial = "64",
     .min = 8,
     .max = 64,
     .value = "N",
     .help = "containers in containers in a JSON body"},
    {.name = "max-json-items",
     .type = OPTION_COUNT,
     .offset = FIELD(max_json_items),
     .initial = "1000000",
     .min = 1000,
     .max = UINT32_MAX,
     .value = "N",
     .help = "members and elements of a JSON body"},
    {.name = "max-vertices",
     .type = OPTION_COUNT,
     .offset = FIELD(max_vertices),
     .initial = "4194304",
     .min = 1,
     .max = 1u << 30,
     .value = "N",
     .help = "vertices of a model"},
    {.name = "max-indices",
     .type = OPTION_COUNT,
     .offset = FIELD(max_indices),
     .initial = "25165824",
     .min = 3,
     .max = 3u << 30,
     .value = "N",
     .help = "vertex indices of a model's faces"},
    {.name = "max-bones",
     .type = OPTION_COUNT,
     .offset = FIELD(max_bones),
     .initial = "65536",
     .min = 1,
     .max = 1u << 24,
     .value = "N",
     .help = "bones of a model"},
    {.name = "max-ik-links",
     .type = OPTION_COUNT,
     .offset = FIELD(max_ik_links),
     .initial = "65536",
     .min = 1,
     .max = 1u << 24,
     .value = "N",
     .help = "IK links of a model, over all bones"},
    {.name = "max-morphs",
     .type = OPTION_COUNT,
     .offset = FIELD(max_morphs),
     .initial = "16384",
     .min = 1,
     .max = 1u << 24,
     .value = "N",
     .help = "morphs of a model"},
    {.name = "max-morph-offsets",
     .type = OPTION_COUNT,
     .offset = FIELD(max_morph_offsets),
     .initial = "16777216",
     .min = 1,
     .max = 1u << 30,
     .value = "N",
     .help = "morph offsets of a model, over all morphs"},
    {.name = "max-materials",
     .type = OPTION_COUNT,
     .offset = FIELD(max_materials),
     .initial = "16384",
     .min = 1,
     .max = 1u << 24,
     .value = "N",
     .help = "materials of a model"},
    {.name = "max-textures",
     .type = OPTION_COUNT,
     .offset = FIELD(max_textures),
     .initial = "16384",
     .min = 1,
     .max = 1u << 24,
     .value = "N",
     .help = "textures of a model"},
    {.name = "max-text-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_text_bytes),
     .initial = "1MiB",
     .min = 64,
     .max = GIB,
     .value = "SIZE",
     .help = "one name or comment in a model"},
    {.name = "default-mode",
     .type = OPTION_CHOICE,
     .offset = FIELD(default_mode),
     .initial = "gpu",
     .words = {"gpu", "cpu"},
     .value = "MODE",
     .help = "mode of models uploaded without one"},
    {.name = "opencl-platform",
     .type = OPTION_COUNT,
     .offset = FIELD(opencl_platform),
     .initial = "0",
     .max = 63,
     .value = "N",
     .help = "OpenCL platform, as clinfo lists them"},
    {.name = "opencl-device",
     .type = OPTION_COUNT,
     .offset = FIELD(opencl_device),
     .initial = "0",
     .max = 63,
     .value = "N",
     .help = "device of that platform"},
    {.name = "strict-mode",
     .type = OPTION_SWITCH,
     .offset = FIELD(strict_mode),
     .initial = "false",
     .value = "",
     .help = "refuse models set to gpu with 503 where OpenCL is missing, in place of running them "
             "on the CPU"},
    {.name = "request-timeout-ms",
     .type = OPTION_MS,
     .offset = FIELD(request_timeout_ms),
     .initial = "30000",
     .min = 1,
     .max = DAY_MS,
     .zero_allowed = true,
     .value = "MS",
     .help = "longest wait for the first byte of an answer, and the cap of Request-Timeout-Ms; "
             "0 = none"},
    {.name = "max-header-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(max_header_bytes),
     .initial = "32KiB",
     .min = 4 * KIB,
     .max = MIB,
     .value = "SIZE",
     .help = "a request's line and headers, and what libmicrohttpd keeps of them"},
    {.name = "max-connections",
     .type = OPTION_COUNT,
     .offset = FIELD(max_connections),
     .initial = "0",
     .min = 1,
     .max = 1000000,
     .zero_allowed = true,
     .value = "N",
     .help = "connections at one time, others wait unanswered; 0 = as many as descriptors allow, "
             "16384 at most"},
    {.name = "max-connections-per-address",
     .type = OPTION_COUNT,
     .offset = FIELD(max_connections_per_address),
     .initial = "0",
     .min = 1,
     .max = 1000000,
     .zero_allowed = true,
     .value = "N",
     .help = "of one client address, others are cut; 0 = no limit, as behind a proxy"},
    {.name = "idle-timeout-ms",
     .type = OPTION_MS,
     .offset = FIELD(idle_timeout_ms),
     .initial = "75000",
     .min = 1,
     .max = DAY_MS,
     .zero_allowed = true,
     .value = "MS",
     .help = "how long a connection may take to the end of its next request's head, in whole "
             "seconds; 0 = any time"},
    {.name = "body-timeout-ms",
     .type = OPTION_MS,
     .offset = FIELD(body_timeout_ms),
     .initial = "300000",
     .min = 1,
     .max = DAY_MS,
     .zero_allowed = true,
     .value = "MS",
     .help = "how long a request's body may take; 0 = any time"},
    {.name = "send-timeout-ms",
     .type = OPTION_MS,
     .offset = FIELD(send_timeout_ms),
     .initial = "60000",
     .min = 1,
     .max = DAY_MS,
     .zero_allowed = true,
     .value = "MS",
     .help = "how long the client of a streamed result may take nothing, in whole seconds, before "
             "it is cut off; 0 = any time"},
    {.name = "drain-delay-ms",
     .type = OPTION_MS,
     .offset = FIELD(drain_delay_ms),
     .initial = "0",
     .max = DAY_MS,
     .value = "MS",
     .help = "how long after SIGTERM /readyz is 503 while requests are still taken, so that a "
             "balancer turns away first"},
    {.name = "drain-timeout-ms",
     .type = OPTION_MS,
     .offset = FIELD(drain_timeout_ms),
     .initial = "30000",
     .max = DAY_MS,
     .value = "MS",
     .help = "how long running requests may take to end once no more are taken"},
    {.name = "log-level",
     .type = OPTION_CHOICE,
     .offset = FIELD(log_level),
     .initial = "info",
     .words = {"error", "warn", "info", "debug"},
     .value = "LEVEL",
     .help = "info and debug write a line for every request"},
    {.name = "log-format",
     .type = OPTION_CHOICE,
     .offset = FIELD(log_format),
     .initial = "text",
     .words = {"text", "json"},
     .value = "FORMAT",
     .help = "form of the lines on stderr"},
};

enum { OPTION_COUNT_TOTAL = sizeof options / sizeof options[0] };

/* Where a setting came from, for messages: "--queue" or "DEFORMD_QUEUE". */
typedef struct origin {
    char name[64];
} origin;

static origin flag_of(const option *o) {
    origin from;
    snprintf(from.name, sizeof from.name, "--%s", o->name);
    return from;
}

static origin variable_of(const option *o) {
    origin from;
    int length = snprintf(from.name, sizeof from.name, "DEFORMD_%s", o->name);
    for (int i = 0; i < length; i++)
        from.name[i] = from.name[i] == '-' ? '_' : (char)toupper((unsigned char)from.name[i]);
    return from;
}

static void print_number(char *text, size_t size, const option *o, uint64_t value) {
    static const char *const units[] = {"", " KiB", " MiB", " GiB"};
    size_t unit = 0;
    if (o->type == OPTION_BYTES)
        while (unit < 3 && value >= 1024 && value % 1024 == 0) {
            value /= 1024;
            unit++;
        }
    snprintf(text, size, "%llu%s%s", (unsigned long long)value, units[unit],
             o->type == OPTION_MS ? " ms" : "");
}

/* "1..65536", "0 or 1 KiB..4 GiB", "gpu or cpu", "true or false"; empty for texts. */
static void print_range(char *text, size_t size, const option *o) {
    text[0] = '\0';
    if (o->type == OPTION_SWITCH) {
        snprintf(text, size, "true or false");
    } else if (o->type == OPTION_CHOICE) {
        size_t length = 0;
        for (size_t i = 0; o->words[i]; i++)
            length +=
                (size_t)snprintf(text + length, size - length, "%s%s",
                                 i == 0 ? "" : (o->words[i + 1] ? ", " : " or "), o->words[i]);
    } else if (o->type != OPTION_TEXT) {
        char low[32], high[32];
        print_number(low, sizeof low, o, o->min);
        print_number(high, sizeof high, o, o->max);
        snprintf(text, size, "%s%s..%s", o->zero_allowed ? "0 or " : "", low, high);
    }
}

static bool suffix_shift(const char *suffix, unsigned *shift) {
    static const char *const words[] = {"K", "KiB", "M", "MiB", "G", "GiB"};
    *shift = 0;
    if (*suffix == '\0')
        return true;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(suffix, words[i]) == 0) {
            *shift = 10 * (unsigned)(i / 2 + 1);
            return true;
        }
    return false;
}

static bool read_number(const option *o, const char *text, uint64_t *value) {
    if (!isdigit((unsigned char)text[0]))
        return false; /* strtoull takes signs and blanks */
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    while (*end == ' ' && o->type == OPTION_BYTES)
        end++;
    unsigned shift = 0;
    if (errno || (o->type == OPTION_BYTES ? !suffix_shift(end, &shift) : *end != '\0'))
        return false;
    if (number > UINT64_MAX >> shift)
        return false;
    *value = (uint64_t)number << shift;
    return (*value >= o->min && *value <= o->max) || (o->zero_allowed && *value == 0);
}

static bool read_word(const char *const *words, const char *text, uint64_t *value) {
    for (size_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static bool read_switch(const char *text, uint64_t *value) {
    static const char *const words[] = {"false", "true", "0", "1", NULL};
    if (!read_word(words, text, value))
        return false;
    *value &= 1;
    return true;
}

static bool set(dfm_config *config, const option *o, const char *from, const char *text,
                char *message) {
    void *field = (char *)config + o->offset;
    bool good = false;
    switch (o->type) {
    case OPTION_TEXT:
        *(const char **)field = text;
        good = text[0] != '\0' || !o->initial[0];
        break;
    case OPTION_COUNT:
    case OPTION_BYTES:
    case OPTION_MS:
        good = read_number(o, text, field);
        break;
    case OPTION_CHOICE:
        good = read_word(o->words, text, field);
        break;
    case OPTION_SWITCH:
        good = read_switch(text, field);
        break;
    }
    if (good)
        return true;
    char range[128];
    print_range(range, sizeof range, o);
    snprintf(message, DFM_CONFIG_MESSAGE_BYTES, "%s: \"%.100s\" is not %s", from, text,
             range[0] ? range : o->value);
    return false;
}

static bool set_defaults(dfm_config *config, char *message) {
    for (size_t i = 0; i < OPTION_COUNT_TOTAL; i++)
        if (!set(config, &options[i], options[i].name, options[i].initial, message))
            return false;
    return true;
}

static const char *find_variable(char *const *environment, const char *name) {
    size_t length = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

/* By option: it was set by a flag or a variable. */
typedef bool given_options[OPTION_COUNT_TOTAL];

/* A variable whose flag was given is not even looked at. */
static bool set_from_environment(dfm_config *config, char *const *environment, given_options given,
                                 char *message) {
    for (size_t i = 0; i < OPTION_COUNT_TOTAL; i++) {
        origin from = variable_of(&options[i]);
        const char *text = find_variable(environment, from.name);
        /* Set but empty is how shells and compose files say "not set". */
        if (given[i] || !text || !text[0])
            continue;
        if (!set(config, &options[i], from.name, text, message))
            return false;
        given[i] = true;
    }
    return true;
}

/* Who sets one of these believes the door to be locked. */
static bool refuse_token_variables(char *const *environment, char *message) {
    static const char *const names[] = {"DEFORMD_TOKEN", "DEFORMD_TOKENS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = find_variable(environment, names[i]);
        if (!text || !text[0])
            continue;
        snprintf(message, DFM_CONFIG_MESSAGE_BYTES,
                 "%s: tokens are not taken from the environment: DEFORMD_TOKEN_FILE names a file "
                 "of them",
                 names[i]);
        return false;
    }
    return true;
}

static bool check_origins(const dfm_config *config, char *message) {
    char why[256];
    if (dfm_cors_check(config->cors_origin, why, sizeof why))
        return true;
    snprintf(message, DFM_CONFIG_MESSAGE_BYTES, "--cors-origin: %s", why);
    return false;
}

static const option *find_option(const char *name, size_t length) {
    for (size_t i = 0; i < OPTION_COUNT_TOTAL; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

/* A switch takes a value behind '=' only: "--strict-mode maybe" is no flag and a word. */
static bool check_switch(const option *o, char *const *arguments, int left, char *message) {
    if (left < 2 || arguments[1][0] == '-')
        return true;
    snprintf(message, DFM_CONFIG_MESSAGE_BYTES,
             "--%s %.100s: it takes no value behind a blank; --%s=true and --%s=false are possible",
             o->name, arguments[1], o->name, o->name);
    return false;
}

/* "--healthcheck", with or without where to ask behind it. */
static int take_healthcheck(dfm_config *config, char *const *arguments, int left) {
    bool told = left > 1 && arguments[1][0] != '-';
    config->healthcheck = told ? arguments[1] : "";
    return told ? 2 : 1;
}

/* Without what stands behind '=', which may be a secret. */
static int fail_unknown(const char *argument, char *message) {
    int length = (int)strcspn(argument, "=");
    bool of_tokens = memmem(argument, (size_t)length, "token", 5) != NULL;
    snprintf(message, DFM_CONFIG_MESSAGE_BYTES,
             of_tokens ? "%.*s: tokens do not belong on a command line, where others see them: "
                         "--token-file names a file of them"
                       : "%.*s: no such flag (--help lists them all)",
             length < 100 ? length : 100, argument);
    return 0;
}

/* One argument, with the one behind it where it is the value. Returns how many were used; 0: wrong.
 */
static int take_argument(dfm_config *config, char *const *arguments, int left, given_options given,
                         char *message) {
    const char *argument = arguments[0];
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        return config->show_help = true;
    if (strcmp(argument, "--version") == 0)
        return config->show_version = true;
    if (strcmp(argument, "--healthcheck") == 0)
        return take_healthcheck(config, arguments, left);
    const option *o = NULL;
    size_t length = 0;
    if (strncmp(argument, "--", 2) == 0) {
        length = strcspn(argument + 2, "=");
        o = find_option(argument + 2, length);
    }
    if (!o)
        return fail_unknown(argument, message);
    origin from = flag_of(o);
    given[o - options] = true;
    if (argument[2 + length] == '=')
        return set(config, o, from.name, argument + 2 + length + 1, message);
    if (o->type == OPTION_SWITCH)
        return check_switch(o, arguments, left, message) &&
               set(config, o, from.name, "true", message);
    if (left < 2) {
        snprintf(message, DFM_CONFIG_MESSAGE_BYTES, "%s: %s is missing", from.name, o->value);
        return 0;
    }
    return set(config, o, from.name, arguments[1], message) ? 2 : 0;
}

/* A single body over the common budget could never be served: a limit that nobody gave shrinks to
 * it, which goes to `note`. Results may be larger: streams are. */
static bool fit_limit(dfm_config *config, const option *o, bool given, char *note, char *message) {
    uint64_t *value = (uint64_t *)(void *)((char *)config + o->offset);
    uint64_t budget_bytes = config->max_inflight_bytes;
    if (*value <= budget_bytes)
        return true;
    char has[32], budget[32];
    print_number(has, sizeof has, o, *value);
    print_number(budget, sizeof budget, o, budget_bytes);
    if (given) {
        snprintf(message, DFM_CONFIG_MESSAGE_BYTES,
                 "--%s is %s, which --max-inflight-bytes (%s) has no room for", o->name, has,
                 budget);
        return false;
    }
    size_t length = strlen(note);
    snprintf(note + length, DFM_CONFIG_MESSAGE_BYTES - length,
             "%s--%s is %s in place of %s, to fit --max-inflight-bytes", length ? "; " : "",
             o->name, budget, has);
    *value = budget_bytes;
    return true;
}

static bool fit_limits(dfm_config *config, const given_options given, char *message) {
    static const char *const names[] = {"max-upload-bytes", "max-json-bytes", "max-pose-bytes"};
    char note[DFM_CONFIG_MESSAGE_BYTES] = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const option *o = find_option(names[i], strlen(names[i]));
        if (!fit_limit(config, o, given[o - options], note, message))
            return false;
    }
    memcpy(message, note, sizeof note);
    return true;
}

bool dfm_config_parse(dfm_config *config, int argument_count, char *const *arguments,
                      char *const *environment, char message[DFM_CONFIG_MESSAGE_BYTES]) {
    given_options given = {false};
    *config = (dfm_config){0};
    message[0] = '\0';
    if (!set_defaults(config, message))
        return false;
    for (int i = 1; i < argument_count;) {
        int used = take_argument(config, arguments + i, argument_count - i, given, message);
        if (used == 0)
            return false;
        i += used;
    }
    return config->show_help || config->show_version ||
           (set_from_environment(config, environment, given, message) &&
            refuse_token_variables(environment, message) && check_origins(config, message) &&
            fit_limits(config, given, message));
}

static void help_option(FILE *stream, const option *o) {
    char range[128], note[256];
    print_range(range, sizeof range, o);
    snprintf(note, sizeof note, "%s%sdefault %s; %s", range, range[0] ? "; " : "",
             o->initial[0] ? o->initial : "none", variable_of(o).name);
    int width = fprintf(stream, "  --%s%s%s", o->name, o->value[0] ? " " : "", o->value);
    fprintf(stream, "%*s%s\n%31s(%s)\n", width < 30 ? 31 - width : 1, "", o->help, "", note);
}

void dfm_config_help(FILE *stream) {
    fputs("Usage: deformd [FLAG]...\n\n"
          "Keeps uploaded PMX models and answers bone poses with deformed vertex buffers.\n"
          "Every flag is also a variable of the environment; the flag wins, and an empty variable\n"
          "is none. SIZE is a number of bytes, or has KiB, MiB or GiB behind it.\n\n",
          stream);
    for (size_t i = 0; i < OPTION_COUNT_TOTAL; i++)
        help_option(stream, &options[i]);
    fputs(
        "  --healthcheck [URL]          asks a running deformd (default: /readyz at --listen) and "
        "ends:\n"
        "                               0 ready, 1 not\n"
        "  --version                    version and build\n"
        "  --help                       this text\n\n"
        "Exit status: 0 all requests ended; 1 cannot start, or requests were cut off by the drain\n"
        "timeout or a second signal; 2 wrong flags.\n",
        stream);
}
