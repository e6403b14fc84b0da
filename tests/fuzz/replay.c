/* Replays the saved cases of one fuzzer: every file of tests/fuzz/cases/<what>/, where <what> is
 * what follows "replay_" in this program's name. A crash or a sanitizer's report fails the run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argument_count, char ***arguments) __attribute__((weak));

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return perror(path), 1;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    /* Exactly sized, so that the address sanitizer sees a read past the end. */
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int bad = !data || size < 0 || fread(data, 1, (size_t)size, file) != (size_t)size;
    fclose(file);
    if (!bad)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return bad;
}

int main(int argument_count, char **arguments) {
    const char *what = argument_count ? strstr(arguments[0], "replay_") : NULL;
    if (!what)
        return fprintf(stderr, "replay: no replay_<what> in my name\n"), 2;
    char folder[512], path[1024];
    snprintf(folder, sizeof folder, "tests/fuzz/cases/%s", what + strlen("replay_"));
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argument_count, &arguments);
    uint8_t nothing = 0;
    LLVMFuzzerTestOneInput(&nothing, 0);
    int checks = 1, failures = 0;
    DIR *cases = opendir(folder); /* a fuzzer that has found nothing yet has no folder */
    for (struct dirent *entry; cases && (entry = readdir(cases));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        checks++;
        failures += replay(path);
    }
    if (cases)
        closedir(cases);
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", failures ? 0 : 100, checks, failures);
    return failures ? 1 : 0;
}
