#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool fail(char *message, size_t bytes, const char *where, const char *why) {
    snprintf(message, bytes, "cannot listen on %s: %s", where, why);
    return false;
}

/* True where a server accepts connections there. */
static bool is_alive(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool alive = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    if (fd >= 0)
        close(fd);
    return alive;
}

/* Only a socket is ever removed: a typing error must not cost a file. */
static void remove_stale(const struct sockaddr_un *address) {
    struct stat status;
    if (lstat(address->sun_path, &status) == 0 && S_ISSOCK(status.st_mode) && !is_alive(address))
        unlink(address->sun_path);
}

static bool listen_unix(dfm_listener *listener, const char *path, char *message, size_t bytes) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path)
        return fail(message, bytes, path,
                    "a Unix socket needs an absolute path of at most 107 bytes");
    memcpy(address.sun_path, path, strlen(path));
    remove_stale(&address);
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Whoever may enter the folder may connect: a proxy runs as another user. */
    if (listener->fd < 0 || bind(listener->fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(path, 0666) != 0 || listen(listener->fd, SOMAXCONN) != 0)
        return fail(message, bytes, path, strerror(errno));
    int length = snprintf(listener->address, sizeof listener->address, "unix:%s", path);
    listener->unix_path = listener->address + length - strlen(path);
    return true;
}

bool dfm_listen_split(const char *where, char host[DFM_LISTEN_HOST_BYTES],
                      char port[DFM_LISTEN_PORT_BYTES]) {
    const char *colon = strrchr(where, ':');
    if (!colon || colon == where || strlen(colon + 1) >= DFM_LISTEN_PORT_BYTES)
        return false;
    size_t length = (size_t)(colon - where);
    bool bracketed = where[0] == '[' && length > 2 && where[length - 1] == ']';
    const char *start = bracketed ? where + 1 : where;
    length -= bracketed ? 2 : 0;
    if (length >= DFM_LISTEN_HOST_BYTES || (!bracketed && memchr(start, ':', length)))
        return false;
    snprintf(host, DFM_LISTEN_HOST_BYTES, "%.*s", (int)length, start);
    snprintf(port, DFM_LISTEN_PORT_BYTES, "%s", colon + 1);
    size_t digits = strspn(port, "0123456789");
    return digits > 0 && digits <= 5 && port[digits] == '\0' && atoi(port) <= 65535;
}

static int open_tcp(const struct addrinfo *info) {
    int on = 1, off = 0;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6) /* [::] takes IPv4 as well */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static void describe(dfm_listener *listener) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[DFM_LISTEN_HOST_BYTES] = "?", port[DFM_LISTEN_PORT_BYTES] = "?";
    getsockname(listener->fd, (struct sockaddr *)&address, &size);
    getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = address.ss_family == AF_INET6;
    snprintf(listener->address, sizeof listener->address, six ? "http://[%s]:%s" : "http://%s:%s",
             host, port);
}

static bool listen_tcp(dfm_listener *listener, const char *where, char *message, size_t bytes) {
    char host[DFM_LISTEN_HOST_BYTES], port[DFM_LISTEN_PORT_BYTES];
    if (!dfm_listen_split(where, host, port))
        return fail(message, bytes, where, "expected HOST:PORT, [IPV6]:PORT or unix:/path");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    int problem = getaddrinfo(host, port, &hints, &list);
    if (problem != 0)
        return fail(message, bytes, where, gai_strerror(problem));
    for (const struct addrinfo *info = list; info && listener->fd < 0; info = info->ai_next)
        listener->fd = open_tcp(info);
    int reason = errno;
    freeaddrinfo(list);
    if (listener->fd < 0)
        return fail(message, bytes, where, strerror(reason));
    describe(listener);
    return true;
}

bool dfm_listen(dfm_listener *listener, const char *where, char *message, size_t message_bytes) {
    *listener = (dfm_listener){.fd = -1};
    bool good = strncmp(where, "unix:", 5) == 0
                    ? listen_unix(listener, where + 5, message, message_bytes)
                    : listen_tcp(listener, where, message, message_bytes);
    if (!good)
        dfm_listen_close(listener);
    return good;
}

void dfm_listen_shut(dfm_listener *listener) {
    shutdown(listener->fd, SHUT_RDWR);
    if (listener->unix_path)
        unlink(listener->unix_path);
    listener->unix_path = NULL;
}

void dfm_listen_close(dfm_listener *listener) {
    if (listener->fd >= 0) {
        dfm_listen_shut(listener);
        close(listener->fd);
    }
    listener->fd = -1;
}
