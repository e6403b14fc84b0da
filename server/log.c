#include "server/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/text.h"

enum {
    CLOSE_TIMEOUT_S = 1,
    BUFFER_BYTES = 256 * 1024,
    LINE_BYTES = 2048,
    TAIL_BYTES = 512, /* of a line: kept for what follows the texts that others chose */
    /* The most that is taken of such a text. */
    MESSAGE_BYTES = 1024,
    METHOD_BYTES = 32,
    PATH_BYTES = 512
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    dfm_log_level level;
    dfm_log_format format;
    bool running, stopping;
    pthread_t thread;
    char *buffer, *spare; /* BUFFER_BYTES each; the writer swaps them */
    size_t used;
    uint64_t dropped, dropped_in_all;
} state = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .level = DFM_LOG_INFO};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

/* A line under construction; the last byte is kept for the newline. */
typedef struct line {
    char text[LINE_BYTES];
    size_t length;
} line;

static void put(line *out, const char *text) {
    size_t length = strlen(text);
    if (length > LINE_BYTES - 1 - out->length)
        length = LINE_BYTES - 1 - out->length;
    memcpy(out->text + out->length, text, length);
    out->length += length;
}

static void __attribute__((format(printf, 2, 3))) putf(line *out, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(out, text);
}

/* How one character of one or two bytes is written; 0: as it is. Control characters of both sets
 * are not: they would forge lines, or move a terminal's cursor. */
static size_t escape(const char *at, char escaped[8]) {
    unsigned char c = (unsigned char)at[0], next = c ? (unsigned char)at[1] : 0;
    if (c == '"' || c == '\\')
        return (size_t)snprintf(escaped, 8, "\\%c", c);
    if (c < 0x20 || c == 0x7f)
        return (size_t)snprintf(escaped, 8, "\\u%04x", c);
    if (c == 0xc2 && next < 0xa0)
        return (size_t)snprintf(escaped, 8, "\\u%04x", next);
    return 0;
}

/* Anything that a client, a file or a driver had a hand in, at most `most` bytes of it: as inside
 * of a JSON string in both forms of a line, with U+FFFD for what is not UTF-8. */
static void put_safe(line *out, const char *text, size_t most) {
    char utf8[3 * MESSAGE_BYTES + 1], escaped[8];
    size_t size = strnlen(text, most < MESSAGE_BYTES ? most : MESSAGE_BYTES);
    size_t length = dfm_text_decode_utf8((const uint8_t *)text, size, utf8, NULL);
    utf8[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        bool begins = ((unsigned char)utf8[i] & 0xc0) != 0x80;
        if (begins && out->length + TAIL_BYTES > LINE_BYTES)
            return;
        size_t changed = escape(utf8 + i, escaped);
        put(out, changed ? escaped : (char[2]){utf8[i], '\0'});
        i += changed && (unsigned char)utf8[i] == 0xc2;
    }
}

/* "2026-01-31T12:00:00.123Z info " or the JSON of it. */
static void put_head(line *out, dfm_log_level level) {
    struct timespec now;
    struct tm utc;
    char seconds[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
    const char *form = state.format == DFM_LOG_JSON
                           ? "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":\""
                           : "%s.%03ldZ %s ";
    char head[96];
    snprintf(head, sizeof head, form, seconds, now.tv_nsec / 1000000, level_names[level]);
    put(out, head);
}

static void write_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody reads: there is no one left to tell */
        text += written;
        length -= (size_t)written;
    }
}

static void push(line *out) {
    out->text[out->length++] = '\n';
    pthread_mutex_lock(&state.lock);
    if (!state.running) {
        write_all(out->text, out->length);
    } else if (state.used + out->length > BUFFER_BYTES) {
        state.dropped++;
        state.dropped_in_all++;
    } else {
        memcpy(state.buffer + state.used, out->text, out->length);
        if (state.used == 0)
            pthread_cond_signal(&state.filled);
        state.used += out->length;
    }
    pthread_mutex_unlock(&state.lock);
}

bool dfm_log_enabled(dfm_log_level level) {
    return level <= state.level;
}

void dfm_log(dfm_log_level level, const char *format, ...) {
    if (!dfm_log_enabled(level))
        return;
    char message[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    line out = {.length = 0};
    put_head(&out, level);
    put_safe(&out, message, sizeof message);
    if (state.format == DFM_LOG_JSON)
        put(&out, "\"}");
    push(&out);
}

/* Model, frames, stages in milliseconds: what a request came to, and nothing of its content. */
static void put_account(line *out, bool json, const dfm_account *account) {
    if (account->model[0])
        putf(out, json ? ",\"model\":\"%s\"" : " model=%s", account->model);
    if (account->problem)
        putf(out, json ? ",\"problem\":\"%s\"" : " problem=%s", account->problem);
    if (account->frames == 0)
        return;
    putf(out, json ? ",\"frames\":%llu,\"stages_ms\":{" : " frames=%llu",
         (unsigned long long)account->frames);
    for (size_t i = 0; i < DFM_STAGE_COUNT; i++)
        putf(out, json ? "%s\"%s\":%.3f" : "%s%s=%.3f", json ? (i ? "," : "") : " ",
             dfm_stage_names[i], (double)account->stage_ns[i] * 1e-6);
    put(out, json ? "}" : "");
}

void dfm_log_request(const dfm_log_exchange *exchange) {
    if (!dfm_log_enabled(DFM_LOG_INFO))
        return;
    bool json = state.format == DFM_LOG_JSON;
    line out = {.length = 0};
    put_head(&out, DFM_LOG_INFO);
    put(&out, json ? "request\",\"method\":\"" : "");
    put_safe(&out, exchange->method, METHOD_BYTES);
    put(&out, json ? "\",\"path\":\"" : " ");
    size_t path_bytes = strcspn(exchange->path, "?");
    put_safe(&out, exchange->path, path_bytes < PATH_BYTES ? path_bytes : PATH_BYTES);
    putf(&out,
         json ? "\",\"status\":%d,\"bytes\":%llu,\"ms\":%.3f,\"id\":\""
              : " status=%d bytes=%llu ms=%.3f id=",
         exchange->status, (unsigned long long)exchange->bytes,
         (double)exchange->duration_ns * 1e-6);
    put(&out, exchange->id); /* ours, or a client's that is letters, digits, '.', '_' and '-' */
    put(&out, json ? "\"" : "");
    if (exchange->account)
        put_account(&out, json, exchange->account);
    put(&out, json ? "}" : "");
    push(&out);
}

uint64_t dfm_log_dropped(void) {
    pthread_mutex_lock(&state.lock);
    uint64_t dropped = state.dropped_in_all;
    pthread_mutex_unlock(&state.lock);
    return dropped;
}

static void report_dropped(uint64_t dropped) {
    line out = {.length = 0};
    put_head(&out, DFM_LOG_WARN);
    putf(&out, "%llu log lines were dropped: stderr is too slow", (unsigned long long)dropped);
    put(&out, state.format == DFM_LOG_JSON ? "\"}\n" : "\n");
    write_all(out.text, out.length);
}

static void *write_lines(void *unused) {
    (void)unused;
    pthread_mutex_lock(&state.lock);
    while (state.used > 0 || !state.stopping) {
        if (state.used == 0) {
            pthread_cond_wait(&state.filled, &state.lock);
            continue;
        }
        char *text = state.buffer;
        size_t length = state.used;
        uint64_t dropped = state.dropped;
        state.buffer = state.spare;
        state.spare = text;
        state.used = 0;
        state.dropped = 0;
        pthread_mutex_unlock(&state.lock);
        write_all(text, length);
        if (dropped)
            report_dropped(dropped);
        pthread_mutex_lock(&state.lock);
    }
    pthread_mutex_unlock(&state.lock);
    return NULL;
}

bool dfm_log_open(dfm_log_level level, dfm_log_format format) {
    state.level = level;
    state.format = format;
    state.buffer = malloc(BUFFER_BYTES);
    state.spare = malloc(BUFFER_BYTES);
    bool good = state.buffer && state.spare;
    if (good) {
        pthread_mutex_lock(&state.lock);
        state.stopping = false;
        state.running = pthread_create(&state.thread, NULL, write_lines, NULL) == 0;
        good = state.running;
        pthread_mutex_unlock(&state.lock);
    }
    if (!good) {
        free(state.buffer);
        free(state.spare);
    }
    return good;
}

void dfm_log_close(void) {
    pthread_mutex_lock(&state.lock);
    bool was_running = state.running;
    state.stopping = true;
    pthread_cond_signal(&state.filled);
    pthread_mutex_unlock(&state.lock);
    if (!was_running)
        return;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_TIMEOUT_S;
    if (pthread_timedjoin_np(state.thread, NULL, &until) != 0)
        return; /* stderr is stuck, and the end must not be: the thread and its buffers stay */
    pthread_mutex_lock(&state.lock);
    state.running = false;
    pthread_mutex_unlock(&state.lock);
    free(state.buffer);
    free(state.spare);
}
