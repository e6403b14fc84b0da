#include "server/healthcheck.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/listen.h"

typedef struct target {
    char authority[300]; /* "127.0.0.1:8080", or a Unix socket's path */
    char path[256];
    bool is_unix;
} target;

static bool parse(const char *where, target *to) {
    static const char scheme[] = "http://", readiness[] = "/readyz";
    *to = (target){.is_unix = strncmp(where, "unix:", 5) == 0};
    if (to->is_unix) {
        snprintf(to->path, sizeof to->path, "%s", readiness);
        return (size_t)snprintf(to->authority, sizeof to->authority, "%s", where + 5) <
               sizeof((struct sockaddr_un){0}).sun_path;
    }
    if (strncmp(where, scheme, sizeof scheme - 1) == 0)
        where += sizeof scheme - 1;
    size_t length = strcspn(where, "/");
    const char *path = where[length] && where[length + 1] ? where + length : readiness;
    /* Blanks and line ends would make another request of it. */
    if (length >= sizeof to->authority || strlen(path) >= sizeof to->path ||
        strcspn(where, " \t\r\n") < strlen(where))
        return false;
    memcpy(to->authority, where, length);
    memcpy(to->path, path, strlen(path));
    return true;
}

static int connect_unix(const target *to) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, to->authority, strlen(to->authority));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int connect_to(const struct addrinfo *info) {
    const struct timeval timeout = {.tv_sec = DFM_HEALTHCHECK_TIMEOUT_MS / 1000};
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout); /* of connect, too */
    if (connect(fd, info->ai_addr, info->ai_addrlen) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static int connect_tcp(const target *to) {
    char host[DFM_LISTEN_HOST_BYTES], port[DFM_LISTEN_PORT_BYTES];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    errno = EADDRNOTAVAIL;
    if (!dfm_listen_split(to->authority, host, port) || getaddrinfo(host, port, &hints, &list) != 0)
        return -1;
    int fd = -1;
    for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
        fd = connect_to(info);
    int reason = errno;
    freeaddrinfo(list);
    errno = reason;
    return fd;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The status line's number; 0: none came in time. */
static int ask(int fd, const target *to) {
    char request[640], answer[64] = "";
    int length = snprintf(request, sizeof request,
                          "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: deformd-healthcheck\r\n"
                          "Connection: close\r\n\r\n",
                          to->path, to->is_unix ? "localhost" : to->authority);
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
        return 0;
    int64_t end_ms = now_ms() + DFM_HEALTHCHECK_TIMEOUT_MS, left_ms;
    size_t have = 0;
    while (have < sizeof answer - 1 && !strchr(answer, '\n') && (left_ms = end_ms - now_ms()) > 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, (int)left_ms) <= 0)
            break;
        ssize_t got = recv(fd, answer + have, sizeof answer - 1 - have, 0);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    int status = 0;
    return sscanf(answer, "HTTP/1.%*1d %3d", &status) == 1 ? status : 0;
}

bool dfm_healthcheck(const char *where, char *message, size_t message_bytes) {
    target to;
    if (!parse(where, &to)) {
        snprintf(message, message_bytes, "%.200s: http://HOST:PORT/path or unix:/path expected",
                 where);
        return false;
    }
    int fd = to.is_unix ? connect_unix(&to) : connect_tcp(&to);
    if (fd < 0) {
        snprintf(message, message_bytes, "%.200s: %s", to.authority, strerror(errno));
        return false;
    }
    int status = ask(fd, &to);
    close(fd);
    if (status == 0)
        snprintf(message, message_bytes, "%.200s%.200s: no answer within %d ms", to.authority,
                 to.path, DFM_HEALTHCHECK_TIMEOUT_MS);
    else
        snprintf(message, message_bytes, "%.200s%.200s: %d", to.authority, to.path, status);
    return status == 200;
}
