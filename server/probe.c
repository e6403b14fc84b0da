#include "server/probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void try_out(const dfm_skinner_backend *backend, const dfm_skinner_options *options) {
    dfm_skinner *skinner;
    if (dfm_skinner_open(backend, options, &skinner, NULL) == DFM_OK)
        dfm_skinner_close(skinner);
    _exit(0);
}

/* Whether the child let go of its end of the pipe in time: it has ended. */
static bool wait_for_end(int fd, int timeout_ms) {
    struct pollfd end = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&end, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

bool dfm_probe_skinner(const dfm_skinner_backend *backend, const dfm_skinner_options *options,
                       int timeout_ms, dfm_error *error) {
    int ends[2];
    if (pipe(ends) != 0)
        return true; /* no descriptors to try with: the skinner is opened untried */
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        try_out(backend, options);
    }
    close(ends[1]);
    bool in_time = child < 0 || wait_for_end(ends[0], timeout_ms);
    close(ends[0]);
    if (child < 0)
        return true; /* no process to try with */
    if (!in_time)
        kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!in_time)
        dfm_fail(error, DFM_ERROR_UNAVAILABLE, "skinner", -1, -1,
                 "the driver did not open within %d ms", timeout_ms);
    else if (WIFSIGNALED(status))
        dfm_fail(error, DFM_ERROR_UNAVAILABLE, "skinner", -1, -1,
                 "the driver ended the process that tried it (signal %d, %s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        dfm_fail(error, DFM_ERROR_UNAVAILABLE, "skinner", -1, -1,
                 "the driver ended the process that tried it (exit status %d)",
                 WEXITSTATUS(status));
    else
        return true;
    return false;
}
