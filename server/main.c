/* deformd: starts the parts, serves until a signal, lets running requests end. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/cpus.h"
#include "server/healthcheck.h"
#include "server/http.h"
#include "server/listen.h"
#include "server/log.h"
#include "server/probe.h"
#include "server/store_folder.h"

/* Some, so that a small change of settings does not wait behind large uploads or a slow store. */
enum { LOAD_THREADS = 4 };

/* A driver that builds its kernels for the first time takes a second or two. */
enum { OPENCL_PROBE_MS = 60000 };

/* How long the connections of streams may take to close once they were cut. */
enum { CUT_STREAMS_MS = 1000 };

enum { EXIT_DRAINED = 0, EXIT_NO_START = 1, EXIT_CUT_OFF = 1, EXIT_USAGE = 2 };

typedef struct server {
    dfm_config config;
    uint32_t worker_count;
    int signal_fd;
    int64_t start_unix_s;
    dfm_listener listener;
    dfm_access *access; /* NULL: no --token-file */
    dfm_store store;    /* without functions where there is none */
    dfm_skinners skinners;
    dfm_parallel parallel;
    dfm_cache *cache;
    dfm_motion_store *motions;
    dfm_buffer_pool *buffers;
    dfm_api *api;
    dfm_pool *compute, *load;
    dfm_http *http;
} server;

#if defined(__clang__)
#define DFM_COMPILER "clang " __clang_version__
#else
#define DFM_COMPILER "gcc " __VERSION__
#endif

/* Per request, libraries allocate small pieces (JSON, headers). Without these settings glibc gives
 * freed pages back to the kernel after each request and faults them in again with the next. */
static void tune_allocator(void) {
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
}

/* Signals are read from a descriptor by the main thread; every thread inherits the mask. */
static int take_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN); /* a client that went away is an error of its connection */
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static bool is_ready(void *context) {
    const server *s = context;
    return !dfm_http_is_leaving(s->http);
}

static void read_gauges(void *context, dfm_gauges *gauges) {
    const server *s = context;
    dfm_pool_stats pool = dfm_pool_get_stats(s->compute);
    dfm_http_stats http = dfm_http_get_stats(s->http);
    dfm_buffer_stats buffers = dfm_buffer_pool_stats(s->buffers);
    *gauges = (dfm_gauges){.workers = pool.threads,
                           .workers_busy = pool.busy,
                           .queued = pool.queued,
                           .queue_capacity = pool.capacity,
                           .connections = http.connections,
                           .active_requests = http.active_requests,
                           .streams = http.streams,
                           .buffer_bytes = buffers.used_bytes,
                           .buffer_budget_bytes = buffers.budget_bytes,
                           .log_lines_dropped = dfm_log_dropped(),
                           .start_unix_s = s->start_unix_s};
}

/* Large models are skinned by all workers that have nothing else to do. */
static void share_work(void *context, void (*part)(void *argument, size_t index), void *argument,
                       size_t parts) {
    const server *s = context;
    dfm_pool_share(s->compute, part, argument, parts);
}

static bool open_skinners(server *s) {
    s->parallel = (dfm_parallel){.share = share_work, .context = s};
    const char *simd = getenv("DEFORMD_SIMD"); /* forces a CPU kernel: for tests and measuring */
    const dfm_skinner_options options = {
        .worker_count = s->worker_count,
        .simd = simd && *simd ? simd : NULL,
        .parallel = &s->parallel,
        .opencl_platform = (uint32_t)s->config.opencl_platform,
        .opencl_device = (uint32_t)s->config.opencl_device,
    };
    dfm_error error;
    dfm_error_clear(&error);
    if (dfm_skinner_open(&dfm_skinner_cpu, &options, &s->skinners.cpu, &error) != DFM_OK) {
        dfm_log(DFM_LOG_ERROR, "the CPU skinner does not open: %s%s", error.info,
                simd ? " (DEFORMD_SIMD)" : "");
        return false;
    }
    dfm_log(DFM_LOG_INFO, "skinner cpu: %s", s->skinners.cpu->description);
    if (dfm_probe_skinner(&dfm_skinner_opencl, &options, OPENCL_PROBE_MS, &error) &&
        dfm_skinner_open(&dfm_skinner_opencl, &options, &s->skinners.opencl, &error) == DFM_OK) {
        dfm_log(DFM_LOG_INFO, "skinner opencl: %s", s->skinners.opencl->description);
        return true;
    }
    s->skinners.opencl = NULL;
    snprintf(s->skinners.opencl_unavailable, sizeof s->skinners.opencl_unavailable, "%s",
             error.info);
    dfm_log(DFM_LOG_WARN, "opencl-unavailable: %s; models set to gpu %s", error.info,
            s->config.strict_mode ? "are refused (--strict-mode)" : "run on the CPU");
    return true;
}

static void note(void *context, const char *message) {
    (void)context;
    dfm_log(DFM_LOG_WARN, "%s", message);
}

enum { TOKEN_FILE_BYTES = 1 << 20 };

/* The file's text; false: `message`. */
static bool read_token_file(const char *path, char *text, size_t *size, char *message,
                            size_t message_bytes) {
    struct stat status;
    FILE *file = fopen(path, "re");
    bool good = file && fstat(fileno(file), &status) == 0;
    if (good) {
        setvbuf(file, NULL, _IONBF, 0); /* or another copy of the tokens stays in memory */
        *size = fread(text, 1, TOKEN_FILE_BYTES, file);
        good = !ferror(file);
    }
    if (!good)
        snprintf(message, message_bytes, "%s", strerror(errno));
    else if (*size == TOKEN_FILE_BYTES)
        snprintf(message, message_bytes, "it is longer than %d bytes", TOKEN_FILE_BYTES);
    else if (status.st_mode & (S_IWGRP | S_IRWXO)) /* a reading group is how secrets are mounted */
        dfm_log(DFM_LOG_WARN, "--token-file %s: others can read or change it (mode %o)", path,
                (unsigned)status.st_mode & 0777);
    if (file)
        fclose(file);
    return good && *size < TOKEN_FILE_BYTES;
}

/* False: it could not be read, or a line is wrong; the tokens that are in force stay. */
static bool load_tokens(server *s) {
    char message[256] = "no memory";
    const char *path = s->config.token_file;
    dfm_access_counts counts;
    size_t size;
    char *text = malloc(TOKEN_FILE_BYTES);
    bool good = text && read_token_file(path, text, &size, message, sizeof message) &&
                dfm_access_load(s->access, text, size, &counts, message, sizeof message);
    if (text)
        explicit_bzero(text, TOKEN_FILE_BYTES);
    free(text);
    if (good)
        dfm_log(DFM_LOG_INFO, "tokens: %zu for deform, %zu for admin", counts.deform, counts.admin);
    else
        dfm_log(DFM_LOG_ERROR, "--token-file %s: %s", path, message);
    return good;
}

static bool is_local(const char *address) {
    return strncmp(address, "unix:", 5) == 0 || strncmp(address, "http://127.", 11) == 0 ||
           strncmp(address, "http://[::1]", 12) == 0;
}

static bool open_access(server *s) {
    if (!s->config.token_file[0]) {
        if (!is_local(s->listener.address))
            dfm_log(DFM_LOG_WARN, "whoever can connect may upload and delete: no --token-file");
        return true;
    }
    s->access = dfm_access_create();
    if (!s->access)
        dfm_log(DFM_LOG_ERROR, "cannot start: no memory");
    return s->access && load_tokens(s);
}

static bool open_store(server *s) {
    char message[512];
    const char *path = s->config.store;
    if (!path[0]) {
        dfm_log(DFM_LOG_INFO, "models live in memory only, as do motions (--store)");
        return true;
    }
    if (!dfm_store_folder_open(path, &s->store, message, sizeof message)) {
        dfm_log(DFM_LOG_ERROR, "%s", message);
        return false;
    }
    dfm_log(message[0] ? DFM_LOG_WARN : DFM_LOG_INFO, "store %s%s%s", path, message[0] ? ": " : "",
            message);
    return true;
}

static dfm_pmx_limits pmx_limits(const dfm_config *config) {
    return (dfm_pmx_limits){.max_vertices = (uint32_t)config->max_vertices,
                            .max_indices = (uint32_t)config->max_indices,
                            .max_textures = (uint32_t)config->max_textures,
                            .max_materials = (uint32_t)config->max_materials,
                            .max_bones = (uint32_t)config->max_bones,
                            .max_ik_links = (uint32_t)config->max_ik_links,
                            .max_morphs = (uint32_t)config->max_morphs,
                            .max_morph_offsets = (uint32_t)config->max_morph_offsets,
                            .max_text_bytes = (uint32_t)config->max_text_bytes};
}

static bool open_api(server *s) {
    static const char build[] = DFM_CONFIG ", " DFM_COMPILER;
    const dfm_config *config = &s->config;
    const dfm_cache_options cache = {.budget_bytes = config->cache_bytes,
                                     .limits = pmx_limits(config),
                                     .skinners = &s->skinners};
    s->buffers = dfm_buffer_pool_create(config->max_inflight_bytes);
    if (!s->buffers || dfm_cache_create(&cache, &s->cache, NULL) != DFM_OK ||
        dfm_motion_store_create(config->motion_cache_bytes, &s->motions, NULL) != DFM_OK)
        return false;
    s->api = dfm_api_create(&(dfm_api_config){
        .version = DFM_VERSION,
        .build = build,
        .defaults = {.mode = (dfm_mode)config->default_mode, .sdef = true},
        .access = s->access,
        .metrics_token = config->metrics_open == 0,
        .cors_origins = config->cors_origin,
        .store = s->store.context ? &s->store : NULL,
        .store_check_ms = config->store_check_ms,
        .note = note,
        .strict_mode = config->strict_mode != 0,
        .max_upload_bytes = config->max_upload_bytes,
        .max_json_bytes = config->max_json_bytes,
        .max_pose_bytes = config->max_pose_bytes,
        .json = {.depth = (uint32_t)config->max_json_depth, .items = config->max_json_items},
        .max_frames = config->max_frames,
        .max_result_bytes = config->max_result_bytes,
        .buffer_bytes = config->max_inflight_bytes,
        .request_timeout_ms = config->request_timeout_ms,
        .worker_count = s->worker_count,
        .cache = s->cache,
        .motions = s->motions,
        .skinners = &s->skinners,
        .buffers = dfm_buffer_pool_interface(s->buffers),
        .read_gauges = read_gauges,
        .gauges_context = s,
        .ready = is_ready,
        .ready_context = s,
    });
    return s->api != NULL;
}

/* libmicrohttpd counts in seconds. */
static unsigned send_timeout_s(const server *s) {
    return (unsigned)((s->config.send_timeout_ms + 999) / 1000);
}

static bool start_serving(server *s) {
    const dfm_config *config = &s->config;
    uint32_t queue = (uint32_t)s->config.queue;
    s->compute = dfm_pool_create("deformd-worker", s->worker_count, queue);
    s->load = dfm_pool_create("deformd-load", LOAD_THREADS, queue);
    return s->compute && s->load &&
           dfm_http_start(s->http,
                          &(dfm_http_options){.api = s->api,
                                              .buffers = s->buffers,
                                              .compute = s->compute,
                                              .load = s->load,
                                              .worker_count = s->worker_count,
                                              .send_timeout_s = send_timeout_s(s),
                                              .idle_timeout_ms = config->idle_timeout_ms,
                                              .body_timeout_ms = config->body_timeout_ms,
                                              .max_connections = (unsigned)config->max_connections,
                                              .max_connections_per_address =
                                                  (unsigned)config->max_connections_per_address,
                                              .max_header_bytes = config->max_header_bytes,
                                              .listen_fd = s->listener.fd});
}

static bool start(server *s, const char *config_note) {
    char message[512];
    s->http = dfm_http_create();
    if (s->signal_fd < 0 || !s->http) {
        dfm_log(DFM_LOG_ERROR, "cannot start: %s", strerror(errno));
        return false;
    }
    if (!dfm_listen(&s->listener, s->config.listen, message, sizeof message)) {
        dfm_log(DFM_LOG_ERROR, "%s", message);
        return false;
    }
    s->worker_count = s->config.workers ? (uint32_t)s->config.workers : dfm_cpus_available();
    dfm_log(DFM_LOG_INFO, "deformd %s (%s, %s)", DFM_VERSION, DFM_CONFIG, DFM_COMPILER);
    if (config_note[0])
        dfm_log(DFM_LOG_INFO, "%s", config_note);
    if (!open_access(s) || !open_store(s) || !open_skinners(s))
        return false;
    if (!open_api(s) || !start_serving(s)) {
        dfm_log(DFM_LOG_ERROR, "cannot start: no memory, or no threads");
        return false;
    }
    dfm_log(DFM_LOG_INFO, "workers %u, queue %llu", s->worker_count,
            (unsigned long long)s->config.queue);
    printf("listening on %s\n", s->listener.address);
    fflush(stdout);
    return true;
}

/* Waits for a signal. SIGTERM and SIGINT are returned; 0: it was a SIGHUP, and is dealt with. */
static int read_signal(server *s) {
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) != sizeof info)
        continue;
    if (info.ssi_signo != SIGHUP)
        return (int)info.ssi_signo;
    if (s->access)
        load_tokens(s);
    else
        dfm_log(DFM_LOG_INFO, "SIGHUP: there is no --token-file to read again");
    return 0;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Ends the process with requests still running: they own memory and a suspended connection, and
 * stopping libmicrohttpd with one of those aborts. So does closing the listening socket, which its
 * thread may be taking out of the epoll set; a Unix socket's file went when the draining began. */
_Noreturn static void leave_at_once(int status) {
    dfm_log_close();
    _exit(status);
}

/* Returns where the signal that is there is none that ends a process. */
static void end_by_second_signal(server *s) {
    int number = read_signal(s);
    if (number == 0)
        return;
    dfm_log(DFM_LOG_WARN, "second signal (%s): ending at once", strsignal(number));
    leave_at_once(EXIT_CUT_OFF);
}

/* --drain-delay-ms: not ready any more, and still at work. */
static void linger(server *s) {
    int64_t end_ms = now_ms() + (int64_t)s->config.drain_delay_ms, left_ms;
    dfm_http_leave(s->http);
    while ((left_ms = end_ms - now_ms()) > 0) {
        struct pollfd wait = {.fd = s->signal_fd, .events = POLLIN};
        if (poll(&wait, 1, (int)left_ms) > 0)
            end_by_second_signal(s);
    }
}

/* False: the deadline passed with requests still running. */
static bool wait_until_idle(server *s, int64_t deadline_ms) {
    while (dfm_http_active(s->http) > 0) {
        struct pollfd wait[] = {{.fd = s->signal_fd, .events = POLLIN},
                                {.fd = dfm_http_idle_fd(s->http), .events = POLLIN}};
        int64_t left_ms = deadline_ms - now_ms();
        int ready = left_ms > 0 ? poll(wait, 2, (int)left_ms) : 0;
        if (ready == 0)
            return false;
        if (ready > 0 && (wait[0].revents & POLLIN)) {
            end_by_second_signal(s);
        }
    }
    return true;
}

/* Returns, with the exit status, when nothing is active any more. */
static int drain(server *s) {
    linger(s);
    dfm_http_drain(s->http);
    dfm_listen_shut(&s->listener);
    if (wait_until_idle(s, now_ms() + (int64_t)s->config.drain_timeout_ms)) {
        dfm_log(DFM_LOG_INFO, "drained: all requests have ended");
        return EXIT_DRAINED;
    }
    dfm_log(DFM_LOG_ERROR, "--drain-timeout-ms passed: %u requests are cut off",
            dfm_http_active(s->http));
    if (dfm_http_cut_streams(s->http) == 0 || !wait_until_idle(s, now_ms() + CUT_STREAMS_MS))
        leave_at_once(EXIT_CUT_OFF);
    return EXIT_CUT_OFF;
}

static void stop(server *s, int status) {
    /* First: every answer gives its buffer back. */
    if (s->http && dfm_http_is_draining(s->http) && !dfm_http_stop(s->http))
        leave_at_once(status);
    dfm_pool_free(s->compute);
    dfm_pool_free(s->load);
    dfm_http_free(s->http);
    dfm_api_free(s->api);
    if (s->cache)
        dfm_cache_free(s->cache);
    dfm_motion_store_free(s->motions);
    dfm_skinner_close(s->skinners.opencl);
    dfm_skinner_close(s->skinners.cpu);
    dfm_buffer_pool_free(s->buffers);
    dfm_store_folder_close(&s->store);
    dfm_access_free(s->access);
    dfm_listen_close(&s->listener);
    if (s->signal_fd >= 0)
        close(s->signal_fd);
}

int main(int argument_count, char **arguments) {
    static server s = {.signal_fd = -1, .listener = {.fd = -1}};
    char message[DFM_CONFIG_MESSAGE_BYTES];
    if (!dfm_config_parse(&s.config, argument_count, arguments, environ, message)) {
        fprintf(stderr, "deformd: %s\n", message);
        return EXIT_USAGE;
    }
    if (s.config.healthcheck) {
        const char *where = s.config.healthcheck[0] ? s.config.healthcheck : s.config.listen;
        bool healthy = dfm_healthcheck(where, message, sizeof message);
        return fprintf(healthy ? stdout : stderr, "%s\n", message), healthy ? 0 : 1;
    }
    if (s.config.show_help)
        return dfm_config_help(stdout), EXIT_DRAINED;
    if (s.config.show_version)
        return printf("deformd %s (%s, %s)\n", DFM_VERSION, DFM_CONFIG, DFM_COMPILER), EXIT_DRAINED;
    tune_allocator();
    s.start_unix_s = (int64_t)time(NULL);
    s.signal_fd = take_signals(); /* before there is any thread */
    dfm_log_open((dfm_log_level)s.config.log_level, (dfm_log_format)s.config.log_format);
    bool started = start(&s, message);
    int status = EXIT_NO_START;
    if (started) {
        int number;
        while ((number = read_signal(&s)) == 0)
            continue;
        dfm_log(DFM_LOG_INFO, "%s: draining", strsignal(number));
        status = drain(&s);
    }
    stop(&s, status);
    dfm_log_close();
    return status;
}
