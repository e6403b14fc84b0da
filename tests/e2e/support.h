/* What end-to-end tests share: the real daemon as a child process, and an HTTP client.
 *
 * Everything here ends the running test (Check) when it fails. The daemon is the one that the
 * variable DEFORMD names, build/release/deformd without it; it dies with the test's process. */
#ifndef DFM_TESTS_E2E_SUPPORT_H
#define DFM_TESTS_E2E_SUPPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/data/models.h"

/* --- the daemon --------------------------------------------------------------------------------
 */

typedef struct daemon_process {
    pid_t pid;
    char url[320]; /* "http://127.0.0.1:PORT" or "unix:/path" */
    int port;      /* 0: Unix socket */
    int output_fd; /* its stdout, read up to the first line */
    char log_path[64];
} daemon_process;

/* Starts it with these arguments (a NULL-terminated list, or NULL), on a free port of 127.0.0.1
 * unless one of them is --listen, and waits until it listens. */
daemon_process daemon_start(char *const *arguments);
#define ARGUMENTS(...) ((char *[]){__VA_ARGS__, NULL})

/* From now on daemons find no OpenCL driver, start at once and run everything on the CPU. */
void daemon_hide_opencl(void);

/* Sends SIGTERM and expects exit status 0. */
void daemon_stop(daemon_process *d);

/* Waits for the end; returns the exit status, or 1000 + N when signal N ended it. */
int daemon_wait(daemon_process *d, int timeout_ms);

/* What it has logged so far; free() it. */
char *daemon_log(const daemon_process *d);
void expect_logged(const daemon_process *d, const char *words); /* within two seconds */

typedef struct daemon_usage {
    uint64_t minor_faults, resident_bytes, threads;
} daemon_usage;
daemon_usage daemon_get_usage(const daemon_process *d);

/* --- requests ----------------------------------------------------------------------------------
 */

typedef struct reply {
    long status;     /* 0: no answer came */
    char error[256]; /* curl's words, where none came */
    char *headers;   /* as received */
    uint8_t *body;   /* NUL-terminated behind `size` bytes */
    size_t size;
} reply;

typedef struct request {
    const char *method;         /* NULL: GET, or POST with a body */
    const char *path;           /* with query */
    const char *content_type;   /* NULL: none */
    const char *const *headers; /* further ones, "Name: value", NULL past the last; or NULL */
    const void *body;
    size_t size;
    bool chunked;    /* send the body without a length */
    bool multipart;  /* as field "file" of a form, beside another field */
    long timeout_ms; /* 0: 30 s */
} request;

reply http(const daemon_process *d, const request *what);
reply http_get(const daemon_process *d, const char *path);
reply http_json(const daemon_process *d, const char *method, const char *path, const char *json);
void reply_free(reply *r);

/* A header's value, in a static buffer; NULL: not there. */
const char *reply_header(const reply *r, const char *name);

/* The value of the first `"key": "text"` or `"key": number` in a JSON body, in a static buffer. */
const char *reply_field(const reply *r, const char *key);

/* Ends the test unless the status is this; shows the body. */
void expect_status(const reply *r, long status);

/* Uploads a model and returns its id (static buffer). `query` is "?mode=cpu" or "". */
const char *upload(const daemon_process *d, const dfm_pmx *pmx, const char *query);
const char *upload_bytes(const daemon_process *d, const uint8_t *bytes, size_t size,
                         const char *query);

/* A request on a thread of its own. `what` and what it points to stay until the join. */
typedef struct background {
    pthread_t thread;
    const daemon_process *daemon;
    request what;
    reply reply; /* after the join; reply_free it */
    uint64_t started_ms, ended_ms;
} background;
void background_start(background *b, const daemon_process *d, const request *what);
void background_join(background *b);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Large deforms on the model that upload_heavy made: a millisecond or more and 1.2 MB a pose; with
 * HEAVY_POSES more than sockets hold. Static buffers. */
enum { HEAVY_FRAME_BYTES = 200000 * 6, HEAVY_POSES = 20 };
const char *upload_heavy(const daemon_process *d);
request heavy_deform(const char *id, unsigned poses);

/* --- raw sockets -------------------------------------------------------------------------------
 */

int raw_connect(const daemon_process *d);
int raw_connect_narrow(const daemon_process *d, int receive_bytes); /* with a small window */
void raw_send(int fd, const char *text);
bool raw_send_bytes(int fd, const void *bytes, size_t size); /* false: not all of them */

/* Reads until the other side closes or `timeout_ms` pass without a byte. Returns a malloc'ed,
 * NUL-terminated text; *closed tells whether the end came. */
char *raw_read(int fd, int timeout_ms, bool *closed);

uint64_t now_ms(void);

#endif
