/* Loads a daemon with deforms and shows what it does: requests a second, latency, errors, memory
 * and page faults. `load -h` lists the options; `make soak` runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/support_load.h"

static const char usage[] = "load [-c CONNECTIONS] [-s SECONDS] [-w WARM_SECONDS] [-n VERTICES] "
                            "[-b POSED_BONES] [-m MODE]\n"
                            "     [-q QUERY] [-- DEFORMD_FLAGS...]\n"
                            "Starts the daemon that DEFORMD names, uploads a generated model and "
                            "deforms it. Exit status 1:\n"
                            "an answer was wrong, or the daemon did not end well.\n";

enum { BONES = 300 };

typedef struct options {
    unsigned connections, vertices, posed_bones;
    double seconds, warm_seconds;
    const char *mode, *query;
    char **flags;
} options;

static options parse(int count, char **arguments) {
    options o = {.connections = 64,
                 .vertices = 30000,
                 .posed_bones = 20,
                 .seconds = 30,
                 .warm_seconds = 3,
                 .mode = "cpu",
                 .query = ""};
    for (int letter; (letter = getopt(count, arguments, "c:s:w:n:b:m:q:h")) != -1;) {
        switch (letter) {
        case 'c':
            o.connections = (unsigned)atoi(optarg);
            break;
        case 's':
            o.seconds = atof(optarg);
            break;
        case 'w':
            o.warm_seconds = atof(optarg);
            break;
        case 'n':
            o.vertices = (unsigned)atoi(optarg);
            break;
        case 'b':
            o.posed_bones = (unsigned)atoi(optarg);
            break;
        case 'm':
            o.mode = optarg;
            break;
        case 'q':
            o.query = optarg;
            break;
        default:
            fputs(usage, letter == 'h' ? stdout : stderr);
            exit(letter == 'h' ? 0 : 2);
        }
    }
    o.flags = arguments + optind;
    return o;
}

/* {"bones": {"#0": {"rotation": [...]}, ...}}: every bone turned a little. */
static char *make_pose(unsigned bones) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    fputs("{\"bones\":{", stream);
    for (unsigned i = 0; i < bones && i < BONES; i++)
        fprintf(stream, "%s\"#%u\":{\"rotation\":[0.0,0.0,%.5f,0.99],\"translation\":[0,%.3f,0]}",
                i ? "," : "", i, 0.001 * (i % 90), 0.01 * (i % 7));
    fputs("}}", stream);
    fclose(stream);
    return text;
}

int main(int count, char **arguments) {
    options o = parse(count, arguments);
    daemon_process d = daemon_start(o.flags);
    dfm_arena arena = {0};
    grid_options grid = grid_default_options(o.vertices, BONES);
    dfm_pmx model = model_grid(&arena, &grid);
    char query[64], path[256];
    snprintf(query, sizeof query, "?mode=%s", o.mode);
    snprintf(path, sizeof path, "/models/%s/deform%s", upload(&d, &model, query), o.query);
    dfm_arena_free(&arena);
    char *pose = make_pose(o.posed_bones);
    printf("load       %u vertices, %u of %d bones posed, mode %s, %u connections, %.0f s\n",
           o.vertices, o.posed_bones, BONES, o.mode, o.connections, o.seconds);
    fflush(stdout);
    load_result result = load_run(&(load_options){.daemon = &d,
                                                  .path = path,
                                                  .json = pose,
                                                  .connections = o.connections,
                                                  .warm_seconds = o.warm_seconds,
                                                  .seconds = o.seconds});
    load_print(&result);
    free(pose);
    kill(d.pid, SIGTERM);
    int status = daemon_wait(&d, 60000);
    if (status != 0) {
        char *log = daemon_log(&d);
        printf("the daemon ended with %d:\n%s", status, log);
        free(log);
    }
    unlink(d.log_path);
    return result.errors != 0 || result.requests == 0 || status != 0;
}
