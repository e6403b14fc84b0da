/* make-model: writes one of the generated models, or a motion for one, to a file. */
#include "tests/data/models.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: make-model figure|grid|odd|legs440 [options] OUT.pmx\n"
    "       make-model motion [--bones N] [--keys N] OUT.vmd\n"
    "  --version 2.0|2.1   odd: PMX version (default 2.1)\n"
    "  --utf8              text in UTF-8 instead of UTF-16\n"
    "  --vertices N        grid: vertices (default 30000)\n"
    "  --bones N           grid: bones (default 200); motion: of the grid whose bones it moves\n"
    "  --keys N            motion: keys of each bone, 10 frames apart (default 101)\n"
    "  --chain N           grid: bones in a chain (default 10)\n"
    "  --mix A,B,C,D       grid: percent of BDEF2, BDEF4, SDEF, QDEF (default 40,15,10,0)\n"
    "  --morphs N          grid: vertex morphs (default 0)\n"
    "  --uvs N             grid: additional UVs, 0 to 4 (default 0)\n"
    "  --shuffled          grid: types and bones in random order\n";

struct arguments {
    grid_options grid;
    uint32_t keys;
    float version;
    bool utf8;
};

static void fail(const char *what) {
    fprintf(stderr, "make-model: %s\n%s", what, usage);
    exit(2);
}

static uint32_t parse_number(const char *text, uint32_t most) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || value > most)
        fail(text);
    return (uint32_t)value;
}

static void parse_mix(const char *text, grid_options *grid) {
    char end;
    if (sscanf(text, "%u,%u,%u,%u%c", &grid->bdef2, &grid->bdef4, &grid->sdef, &grid->qdef, &end) !=
        4)
        fail(text);
}

static void parse_option(int option, const char *value, struct arguments *arguments) {
    switch (option) {
    case 'v':
        arguments->grid.vertex_count = parse_number(value, 100000000);
        break;
    case 'b':
        arguments->grid.bone_count = parse_number(value, 10000000);
        break;
    case 'k':
        arguments->keys = parse_number(value, 10000);
        break;
    case 'c':
        arguments->grid.chain_length = parse_number(value, 10000000);
        break;
    case 'm':
        arguments->grid.morph_count = parse_number(value, 100000);
        break;
    case 'u':
        arguments->grid.additional_uv_count = parse_number(value, 4);
        break;
    case 'x':
        parse_mix(value, &arguments->grid);
        break;
    case 's':
        arguments->grid.shuffled = true;
        break;
    case '8':
        arguments->utf8 = true;
        break;
    case 'V':
        if (strcmp(value, "2.0") != 0 && strcmp(value, "2.1") != 0)
            fail(value);
        arguments->version = value[2] == '0' ? 2.0f : 2.1f;
        break;
    default:
        fail("unknown option");
    }
}

static dfm_pmx make(dfm_arena *arena, const char *kind, const struct arguments *arguments) {
    dfm_pmx pmx = {0};
    if (strcmp(kind, "figure") == 0)
        pmx = model_figure(arena);
    else if (strcmp(kind, "grid") == 0)
        pmx = model_grid(arena, &arguments->grid);
    else if (strcmp(kind, "odd") == 0)
        pmx = model_odd(arena, arguments->version, DFM_TEXT_UTF16LE);
    else if (strcmp(kind, "legs440") == 0)
        pmx = model_legs440(arena);
    else
        fail(kind);
    if (arguments->utf8)
        pmx.encoding = DFM_TEXT_UTF8;
    return pmx;
}

static uint8_t *make_motion(dfm_arena *arena, struct arguments *arguments, size_t *size) {
    arguments->grid.vertex_count = 1;
    dfm_pmx pmx = model_grid(arena, &arguments->grid);
    return motion_bytes(&pmx, arguments->keys, size);
}

static uint8_t *make_model(dfm_arena *arena, const char *kind, const struct arguments *arguments,
                           size_t *size) {
    dfm_pmx pmx = make(arena, kind, arguments);
    return model_bytes(&pmx, NULL, size);
}

static void save(const char *path, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"version", required_argument, NULL, 'V'},
        {"utf8", no_argument, NULL, '8'},
        {"vertices", required_argument, NULL, 'v'},
        {"bones", required_argument, NULL, 'b'},
        {"chain", required_argument, NULL, 'c'},
        {"mix", required_argument, NULL, 'x'},
        {"morphs", required_argument, NULL, 'm'},
        {"uvs", required_argument, NULL, 'u'},
        {"shuffled", no_argument, NULL, 's'},
        {"keys", required_argument, NULL, 'k'},
        {0},
    };
    struct arguments arguments = {
        .grid = grid_default_options(30000, 200), .keys = 101, .version = 2.1f};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        parse_option(option, optarg, &arguments);
    if (argc - optind != 2)
        fail("a kind and a file are wanted");
    const char *kind = argv[optind];
    dfm_arena arena = {0};
    size_t size;
    uint8_t *bytes = strcmp(kind, "motion") == 0 ? make_motion(&arena, &arguments, &size)
                                                 : make_model(&arena, kind, &arguments, &size);
    save(argv[optind + 1], bytes, size);
    free(bytes);
    dfm_arena_free(&arena);
    return 0;
}
