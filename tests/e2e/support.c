#include "tests/e2e/support.h"

#include <arpa/inet.h>
#include <check.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Ends the test; tools that use these functions outside of a test see the words on stderr. */
__attribute__((format(printf, 2, 3))) static void require(bool good, const char *format, ...) {
    if (good)
        return;
    char message[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", message);
    ck_abort_msg("%s", message);
}

/* --- the daemon --------------------------------------------------------------------------------
 */

static bool names_listen(char *const *arguments) {
    for (; arguments && *arguments; arguments++)
        if (strncmp(*arguments, "--listen", 8) == 0)
            return true;
    return false;
}

_Noreturn static void run_daemon(char *const *arguments, int output, const char *log_path) {
    char *program = getenv("DEFORMD");
    char *all[32] = {program ? program : "build/release/deformd"};
    size_t count = 1;
    if (!names_listen(arguments)) {
        all[count++] = "--listen";
        all[count++] = "127.0.0.1:0";
    }
    while (arguments && *arguments && count < 31)
        all[count++] = *arguments++;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing running */
    FILE *log = freopen(log_path, "w", stderr);
    dup2(output, STDOUT_FILENO);
    if (log)
        execv(all[0], all);
    fprintf(stderr, "%s: %s\n", all[0], strerror(errno));
    _exit(127);
}

/* The one line that it prints, without the newline. */
static void read_line(daemon_process *d, char *line, size_t size) {
    size_t length = 0;
    struct pollfd wait = {.fd = d->output_fd, .events = POLLIN};
    while (length < size - 1 && poll(&wait, 1, 30000) == 1) {
        if (read(d->output_fd, line + length, 1) != 1 || line[length] == '\n')
            break;
        length++;
    }
    line[length] = '\0';
}

daemon_process daemon_start(char *const *arguments) {
    daemon_process d = {.log_path = "/tmp/deformd-e2e-XXXXXX"};
    int log = mkstemp(d.log_path), output[2];
    require(log >= 0 && pipe(output) == 0, "no file or pipe: %s", strerror(errno));
    close(log);
    d.pid = fork();
    require(d.pid >= 0, "fork: %s", strerror(errno));
    if (d.pid == 0)
        run_daemon(arguments, output[1], d.log_path);
    close(output[1]);
    d.output_fd = output[0];
    char line[400];
    read_line(&d, line, sizeof line);
    if (sscanf(line, "listening on %319s", d.url) != 1) {
        char *text = daemon_log(&d);
        require(false, "the daemon did not start: \"%s\"\n%s", line, text);
    }
    const char *port = strrchr(d.url, ':');
    d.port = strncmp(d.url, "http", 4) == 0 ? atoi(port + 1) : 0;
    return d;
}

int daemon_wait(daemon_process *d, int timeout_ms) {
    uint64_t deadline = now_ms() + (uint64_t)timeout_ms;
    int status;
    while (waitpid(d->pid, &status, WNOHANG) == 0) {
        require(now_ms() < deadline, "the daemon did not end within %d ms", timeout_ms);
        usleep(2000);
    }
    d->pid = 0;
    close(d->output_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void daemon_hide_opencl(void) {
    setenv("OCL_ICD_VENDORS", "/nonexistent/", 1);
}

void daemon_stop(daemon_process *d) {
    kill(d->pid, SIGTERM);
    int status = daemon_wait(d, 40000);
    char *log = daemon_log(d);
    require(status == 0, "the daemon ended with %d:\n%s", status, log);
    free(log);
    unlink(d->log_path);
}

char *daemon_log(const daemon_process *d) {
    FILE *file = fopen(d->log_path, "r");
    require(file != NULL, "%s", strerror(errno));
    char *text = calloc(1, 1 << 20);
    size_t length = fread(text, 1, (1 << 20) - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

void expect_logged(const daemon_process *d, const char *words) {
    for (uint64_t end = now_ms() + 2000;; usleep(5000)) {
        char *log = daemon_log(d);
        bool found = strstr(log, words) != NULL;
        require(found || now_ms() < end, "\"%s\" is not in the log:\n%s", words, log);
        free(log);
        if (found)
            return;
    }
}

daemon_usage daemon_get_usage(const daemon_process *d) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)d->pid);
    FILE *file = fopen(path, "r");
    require(file != NULL, "%s", strerror(errno));
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    /* proc(5), from field 3 on: state ppid pgrp session tty tpgid flags minflt ...; 20 threads, 24
     * rss. */
    unsigned long long faults, threads, pages;
    int got =
        sscanf(strrchr(text, ')') + 2,
               "%*c %*d %*d %*d %*d %*d %*u %llu %*u %*u %*u %*u %*u %*d %*d %*d %*d %llu %*d "
               "%*u %*u %llu",
               &faults, &threads, &pages);
    require(got == 3, "cannot read %s", path);
    return (daemon_usage){.minor_faults = faults,
                          .threads = threads,
                          .resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE)};
}

/* --- requests ----------------------------------------------------------------------------------
 */

typedef struct text {
    uint8_t *bytes;
    size_t size, capacity;
} text;

static size_t append(char *data, size_t unit, size_t count, void *context) {
    text *t = context;
    size_t more = unit * count;
    if (t->size + more + 1 > t->capacity) {
        t->capacity = (t->size + more + 1) * 2;
        t->bytes = realloc(t->bytes, t->capacity);
    }
    memcpy(t->bytes + t->size, data, more);
    t->size += more;
    t->bytes[t->size] = '\0';
    return more;
}

typedef struct source {
    const uint8_t *bytes;
    size_t left;
} source;

static size_t supply(char *into, size_t unit, size_t count, void *context) {
    source *s = context;
    size_t size = unit * count < s->left ? unit * count : s->left;
    memcpy(into, s->bytes, size);
    s->bytes += size;
    s->left -= size;
    return size;
}

static void set_target(CURL *curl, const daemon_process *d, const char *path) {
    char url[1024];
    if (d->port == 0)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, d->url + strlen("unix:"));
    snprintf(url, sizeof url, "%s%s", d->port ? d->url : "http://localhost", path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
}

static struct curl_slist *set_headers(CURL *curl, const request *what) {
    struct curl_slist *list = NULL;
    char line[512];
    if (what->content_type) {
        snprintf(line, sizeof line, "Content-Type: %s", what->content_type);
        list = curl_slist_append(list, line);
    } else if (what->body && !what->multipart) {
        list = curl_slist_append(list, "Content-Type:");
    }
    if (what->chunked)
        list = curl_slist_append(list, "Transfer-Encoding: chunked");
    for (const char *const *h = what->headers; h && *h; h++)
        list = curl_slist_append(list, *h);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    return list;
}

static curl_mime *set_body(CURL *curl, const request *what, source *body) {
    if (what->multipart) {
        curl_mime *form = curl_mime_init(curl);
        curl_mimepart *part = curl_mime_addpart(form);
        curl_mime_name(part, "comment");
        curl_mime_data(part, "not the file", CURL_ZERO_TERMINATED);
        part = curl_mime_addpart(form);
        curl_mime_name(part, "file");
        curl_mime_filename(part, "model.pmx");
        curl_mime_data(part, what->body, what->size);
        curl_easy_setopt(curl, CURLOPT_MIMEPOST, form);
        return form;
    }
    if (what->body || what->chunked) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        if (what->chunked) {
            curl_easy_setopt(curl, CURLOPT_READFUNCTION, supply);
            curl_easy_setopt(curl, CURLOPT_READDATA, body);
        } else {
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, what->body);
            curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)what->size);
        }
    }
    return NULL;
}

reply http(const daemon_process *d, const request *what) {
    reply r = {0};
    text headers = {0}, bytes = {0};
    source body = {.bytes = what->body, .left = what->size};
    append("", 1, 0, &headers);
    append("", 1, 0, &bytes);
    CURL *curl = curl_easy_init();
    require(curl != NULL, "curl does not start");
    set_target(curl, d, what->path);
    struct curl_slist *list = set_headers(curl, what);
    curl_mime *form = set_body(curl, what, &body);
    if (what->method && strcmp(what->method, "HEAD") == 0)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else if (what->method)
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, what->method);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, what->timeout_ms ? what->timeout_ms : 30000L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, r.error);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, append);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &bytes);
    CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &r.status);
    else if (!r.error[0])
        snprintf(r.error, sizeof r.error, "%s", curl_easy_strerror(code));
    curl_mime_free(form);
    curl_slist_free_all(list);
    curl_easy_cleanup(curl);
    r.headers = (char *)headers.bytes;
    r.body = bytes.bytes;
    r.size = bytes.size;
    return r;
}

reply http_get(const daemon_process *d, const char *path) {
    return http(d, &(request){.path = path});
}

reply http_json(const daemon_process *d, const char *method, const char *path, const char *json) {
    return http(d, &(request){.method = method,
                              .path = path,
                              .content_type = "application/json",
                              .body = json,
                              .size = strlen(json)});
}

void reply_free(reply *r) {
    free(r->headers);
    free(r->body);
    *r = (reply){0};
}

const char *reply_header(const reply *r, const char *name) {
    static char value[512];
    size_t length = strlen(name);
    for (const char *line = r->headers; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            sscanf(line + length + 1, " %511[^\r\n]", value);
            return value;
        }
    }
    return NULL;
}

const char *reply_field(const reply *r, const char *key) {
    static char value[512];
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = strstr((const char *)r->body, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    at += strspn(at, " \t\r\n:");
    bool text_value = *at == '"';
    at += text_value;
    size_t length = strcspn(at, text_value ? "\"" : ",}] \r\n");
    snprintf(value, sizeof value, "%.*s", (int)length, at);
    return value;
}

void expect_status(const reply *r, long status) {
    require(r->status == status, "status %ld, expected %ld (%s)\n%s%.400s", r->status, status,
            r->error, r->headers, (const char *)r->body);
}

const char *upload_bytes(const daemon_process *d, const uint8_t *bytes, size_t size,
                         const char *query) {
    static char id[64];
    char path[128];
    snprintf(path, sizeof path, "/models%s", query);
    reply r = http(d, &(request){.path = path,
                                 .content_type = "application/octet-stream",
                                 .body = bytes,
                                 .size = size});
    require(r.status == 201 || r.status == 200, "upload: status %ld (%s)\n%s", r.status, r.error,
            (const char *)r.body);
    snprintf(id, sizeof id, "%s", reply_field(&r, "id"));
    require(strlen(id) == 32, "an odd id: \"%s\"", id);
    reply_free(&r);
    return id;
}

const char *upload(const daemon_process *d, const dfm_pmx *pmx, const char *query) {
    size_t size;
    uint8_t *bytes = model_bytes(pmx, NULL, &size);
    const char *id = upload_bytes(d, bytes, size, query);
    free(bytes);
    return id;
}

static void *run_background(void *argument) {
    background *b = argument;
    b->started_ms = now_ms();
    b->reply = http(b->daemon, &b->what);
    b->ended_ms = now_ms();
    return NULL;
}

void background_start(background *b, const daemon_process *d, const request *what) {
    *b = (background){.daemon = d, .what = *what};
    require(pthread_create(&b->thread, NULL, run_background, b) == 0, "no thread");
}

void background_join(background *b) {
    pthread_join(b->thread, NULL);
}

enum { HEAVY_VERTICES = HEAVY_FRAME_BYTES / 6 };

const char *upload_heavy(const daemon_process *d) {
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(HEAVY_VERTICES, 100);
    dfm_pmx model = model_grid(&arena, &grid);
    const char *id = upload(d, &model, "?mode=cpu");
    dfm_arena_free(&arena);
    return id;
}

request heavy_deform(const char *id, unsigned poses) {
    static char path[128], json[4096];
    snprintf(path, sizeof path, "/models/%s/deform?attributes=position&components=f16", id);
    size_t length = (size_t)sprintf(json, "{\"poses\":[");
    for (unsigned i = 0; i < poses; i++)
        length += (size_t)sprintf(json + length, "%s{}", i ? "," : "");
    sprintf(json + length, "]}");
    return (request){
        .path = path, .content_type = "application/json", .body = json, .size = strlen(json)};
}

/* --- raw sockets -------------------------------------------------------------------------------
 */

static int open_socket(int family, int receive_bytes) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    return fd;
}

int raw_connect_narrow(const daemon_process *d, int receive_bytes) {
    int fd, problem;
    if (d->port) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)d->port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fd = open_socket(AF_INET, receive_bytes);
        problem = connect(fd, (struct sockaddr *)&address, sizeof address);
    } else {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", d->url + strlen("unix:"));
        fd = open_socket(AF_UNIX, receive_bytes);
        problem = connect(fd, (struct sockaddr *)&address, sizeof address);
    }
    require(problem == 0, "connect: %s", strerror(errno));
    return fd;
}

int raw_connect(const daemon_process *d) {
    return raw_connect_narrow(d, 0);
}

bool raw_send_bytes(int fd, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false; /* the other side has closed: what it answered is read next */
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

void raw_send(int fd, const char *string) {
    raw_send_bytes(fd, string, strlen(string));
}

char *raw_read(int fd, int timeout_ms, bool *closed) {
    text t = {0};
    char piece[65536];
    append("", 1, 0, &t);
    *closed = false;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (poll(&wait, 1, timeout_ms) == 1) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0) {
            *closed = true;
            break;
        }
        append(piece, 1, (size_t)got, &t);
    }
    return (char *)t.bytes;
}
