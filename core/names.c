#include "core/names.h"

#include "core/pmx.h"

#include <string.h>
#include <sys/random.h>
#include <threads.h>
#include <time.h>

/* --- SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) ------------ */

static uint64_t key[2];
static once_flag key_once = ONCE_FLAG_INIT;

static void make_key(void) {
    if (getrandom(key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key)
        return;
    /* No randomness yet, early at boot: hard to guess is the best that is left. */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    key[0] = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u;
    key[1] = (uint64_t)(uintptr_t)&now ^ (uint64_t)now.tv_sec << 32;
}

static inline uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* The last `count` < 8 of a name's `length` bytes, the first of them lowest. */
static inline uint64_t tail(const char *name, uint32_t length, uint32_t count) {
    uint64_t word = 0;
    if (length < 8 || count == 0) {
        for (uint32_t i = 0; i < count; i++)
            word |= (uint64_t)(unsigned char)name[length - count + i] << 8 * i;
        return word;
    }
    memcpy(&word, name + length - 8, 8);
    return word >> (64 - 8 * count);
}

static inline uint32_t hash(const char *name, uint32_t length) {
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    uint32_t at = 0;
    for (; length - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, name + at, 8);
        sip_word(v, word);
    }
    sip_word(v, (uint64_t)length << 56 | tail(name, length, length - at));
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return (uint32_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

/* --- the table ---------------------------------------------------------------------------- */

static const dfm_text *text_at(const dfm_names *names, uint32_t index) {
    return (const dfm_text *)(const void *)((const char *)names->first +
                                            (size_t)index * names->stride_bytes);
}

static inline bool equal(const dfm_text *text, const char *name, uint32_t length) {
    return text->length == length && memcmp(text->data, name, length) == 0;
}

/* The slot that holds this name, or the empty one where it would go: there always is one. */
static uint32_t *find_slot(const dfm_names *names, const char *name, uint32_t length) {
    uint32_t at = hash(name, length) & names->mask;
    for (; names->slots[at] != 0; at = (at + 1) & names->mask) {
        if (equal(text_at(names, names->slots[at] - 1), name, length))
            break;
    }
    return &names->slots[at];
}

int64_t dfm_names_build(dfm_names *names, dfm_arena *arena, const void *first, uint32_t count,
                        uint32_t stride_bytes, int64_t *first_hidden) {
    call_once(&key_once, make_key);
    uint64_t slot_count = 1;
    while (slot_count < (uint64_t)count * 2)
        slot_count *= 2;
    uint32_t *slots = dfm_arena_alloc(arena, slot_count, sizeof *slots);
    if (!slots)
        return -1;
    *names = (dfm_names){.mask = (uint32_t)(slot_count - 1),
                         .slots = slots,
                         .first = first,
                         .stride_bytes = stride_bytes,
                         .count = count};
    int64_t hidden = 0;
    *first_hidden = -1;
    for (uint32_t i = 0; i < count; i++) {
        const dfm_text *text = text_at(names, i);
        uint32_t *slot = find_slot(names, text->data, text->length);
        if (*slot == 0)
            *slot = i + 1;
        else if (hidden++ == 0)
            *first_hidden = i;
    }
    names->hiding = hidden > 0;
    return hidden;
}

int32_t dfm_names_find(const dfm_names *names, const char *name, uint32_t length) {
    return (int32_t)*find_slot(names, name, length) - 1;
}

int32_t dfm_names_find_next(const dfm_names *names, const char *name, uint32_t length,
                            int64_t previous) {
    int64_t next = previous < 0 ? 0 : previous + 1;
    if (next < names->count && !names->hiding &&
        equal(text_at(names, (uint32_t)next), name, length))
        return (int32_t)next;
    return dfm_names_find(names, name, length);
}
