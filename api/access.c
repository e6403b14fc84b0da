#include "api/access.h"

#include "core/id.h"

#include <nettle/memops.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct token {
    uint8_t digest[DFM_DIGEST_BYTES];
    dfm_scope scope;
} token;

struct dfm_access {
    atomic_flag busy; /* for the time of a check, or of a swap */
    token *tokens;
    size_t count;
};

dfm_access *dfm_access_create(void) {
    dfm_access *access = calloc(1, sizeof *access);
    if (access)
        atomic_flag_clear(&access->busy);
    return access;
}

void dfm_access_free(dfm_access *access) {
    if (!access)
        return;
    free(access->tokens);
    free(access);
}

static void lock(dfm_access *access) {
    while (atomic_flag_test_and_set_explicit(&access->busy, memory_order_acquire))
        continue;
}

static void unlock(dfm_access *access) {
    atomic_flag_clear_explicit(&access->busy, memory_order_release);
}

static void digest_of(const char *text, size_t size, uint8_t digest[DFM_DIGEST_BYTES]) {
    dfm_id ignored;
    dfm_digest((const uint8_t *)text, size, digest, &ignored);
}

/* --- the file -------------------------------------------------------------------------------- */

/* RFC 6750, b64token: these, and '=' at its end. */
static bool is_b64token(const char *text, size_t size) {
    static const char characters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";
    size_t length = 0;
    while (length < size && memchr(characters, text[length], sizeof characters - 1))
        length++;
    bool begun = length > 0;
    while (length < size && text[length] == '=')
        length++;
    return begun && length == size;
}

/* What is wrong with a line; NULL: nothing. *size is 0 where the line holds no token. */
static const char *read_line(const char *line, const char *end, dfm_scope *scope, const char **text,
                             size_t *size) {
    static const char blanks[] = " \t\r";
    const char *comment = memchr(line, '#', (size_t)(end - line));
    end = comment ? comment : end;
    while (line < end && strchr(blanks, *line))
        line++;
    while (line < end && strchr(blanks, end[-1]))
        end--;
    *size = 0;
    if (line == end)
        return NULL;
    const char *word = line;
    while (line < end && !strchr(blanks, *line))
        line++;
    size_t length = (size_t)(line - word);
    if (length == 6 && memcmp(word, "deform", 6) == 0)
        *scope = DFM_SCOPE_DEFORM;
    else if (length == 5 && memcmp(word, "admin", 5) == 0)
        *scope = DFM_SCOPE_ADMIN;
    else
        return "it begins with neither deform nor admin";
    while (line < end && strchr(blanks, *line))
        line++;
    *text = line;
    *size = (size_t)(end - line);
    if (*size < DFM_TOKEN_MIN_BYTES)
        return "the token is shorter than 16 characters";
    if (*size > DFM_TOKEN_MAX_BYTES)
        return "the token is longer than 256 characters";
    return is_b64token(line, *size) ? NULL
                                    : "the token has a character other than letters, digits and "
                                      "-._~+/, with = at the end only";
}

static bool is_known(const token *tokens, size_t count, const uint8_t digest[DFM_DIGEST_BYTES]) {
    for (size_t i = 0; i < count; i++)
        if (memcmp(tokens[i].digest, digest, DFM_DIGEST_BYTES) == 0)
            return true;
    return false;
}

/* Fills in `tokens`, which has room for a token a line. False: `message`. */
static bool read_lines(const char *text, size_t size, token *tokens, size_t *count, char *message,
                       size_t message_bytes) {
    const char *const end = text + size;
    *count = 0;
    for (size_t number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *line_end = newline ? newline : end, *secret = NULL;
        size_t length;
        token *next = &tokens[*count];
        const char *wrong = read_line(text, line_end, &next->scope, &secret, &length);
        if (!wrong && length > 0) {
            digest_of(secret, length, next->digest);
            wrong = is_known(tokens, *count, next->digest) ? "the token stands there twice" : NULL;
            ++*count;
        }
        if (wrong) {
            snprintf(message, message_bytes, "line %zu: %s", number, wrong);
            return false;
        }
        text = newline ? newline + 1 : end;
    }
    if (*count == 0)
        snprintf(message, message_bytes, "there is no token in it");
    return *count > 0;
}

bool dfm_access_load(dfm_access *access, const char *text, size_t size, dfm_access_counts *counts,
                     char *message, size_t message_bytes) {
    size_t lines = 1, count;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    token *tokens = calloc(lines, sizeof *tokens);
    if (!tokens) {
        snprintf(message, message_bytes, "no memory for its tokens");
        return false;
    }
    if (!read_lines(text, size, tokens, &count, message, message_bytes)) {
        free(tokens);
        return false;
    }
    *counts = (dfm_access_counts){0};
    for (size_t i = 0; i < count; i++)
        ++*(tokens[i].scope == DFM_SCOPE_ADMIN ? &counts->admin : &counts->deform);
    lock(access);
    token *old = access->tokens;
    access->tokens = tokens;
    access->count = count;
    unlock(access);
    free(old);
    return true;
}

/* --- checks ---------------------------------------------------------------------------------- */

/* The token of "Bearer TOKEN"; NULL: there is none. */
static const char *bearer(const char *authorization) {
    static const char scheme[] = "Bearer";
    if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return NULL;
    const char *text = authorization + sizeof scheme - 1;
    if (*text != ' ')
        return NULL;
    return text + strspn(text, " ");
}

dfm_access_answer dfm_access_check(dfm_access *access, const char *authorization,
                                   dfm_scope needed) {
    const char *text = bearer(authorization);
    if (needed == DFM_SCOPE_OPEN)
        return DFM_ACCESS_GRANTED;
    if (!text || !*text)
        return DFM_ACCESS_MISSING;
    uint8_t digest[DFM_DIGEST_BYTES];
    digest_of(text, strlen(text), digest);
    bool known = false, granted = false;
    lock(access);
    for (size_t i = 0; i < access->count; i++) { /* all of them, whichever it is */
        bool same = memeql_sec(access->tokens[i].digest, digest, DFM_DIGEST_BYTES);
        known |= same;
        granted |= same & (access->tokens[i].scope >= needed);
    }
    unlock(access);
    return granted ? DFM_ACCESS_GRANTED : known ? DFM_ACCESS_FORBIDDEN : DFM_ACCESS_UNKNOWN;
}
