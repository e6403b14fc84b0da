#include "api/media.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool dfm_media_is(const char *content_type, const char *type) {
    size_t length = strlen(type);
    content_type += strspn(content_type, " \t");
    if (strncasecmp(content_type, type, length) != 0)
        return false;
    char next = content_type[length];
    return next == 0 || strchr("; \t", next);
}

/* One range of an Accept header. */
struct range {
    const char *type; /* "text/html", "text/" + "*", "*" + "/" + "*" */
    size_t length;
    int quality; /* thousandths */
};

/* "q=0.85" as 850. */
static int read_quality(const char *at) {
    int quality = 0, unit = 1000;
    for (; *at >= '0' && *at <= '9' && unit > 0; unit /= 10, at += at[1] == '.' ? 2 : 1)
        quality += (*at - '0') * unit;
    return quality > 1000 ? 1000 : quality;
}

/* Reads the range at `at` and returns where the next begins, or NULL at the end. */
static const char *read_range(const char *at, struct range *range) {
    at += strspn(at, " \t,");
    if (*at == 0)
        return NULL;
    const char *end = at + strcspn(at, ",");
    *range = (struct range){.type = at, .length = strcspn(at, ";, \t"), .quality = 1000};
    for (const char *part = memchr(at, ';', (size_t)(end - at)); part;
         part = memchr(part, ';', (size_t)(end - part))) {
        part++;
        part += strspn(part, " \t");
        if (strncasecmp(part, "q=", 2) == 0)
            range->quality = read_quality(part + 2);
    }
    return end;
}

/* How closely a range fits: 3 the very type, 2 its family, 1 anything, 0 not. */
static int fit(const struct range *range, const char *offer) {
    size_t family = strcspn(offer, "/") + 1;
    if (range->length == 3 && memcmp(range->type, "*/*", 3) == 0)
        return 1;
    if (range->length == family + 1 && range->type[family] == '*' &&
        strncasecmp(range->type, offer, family) == 0)
        return 2;
    return range->length == strlen(offer) && strncasecmp(range->type, offer, range->length) == 0
               ? 3
               : 0;
}

/* The closest range decides the quality. */
static int quality_of(const char *accept, const char *offer) {
    int best_fit = 0, quality = 0;
    struct range range;
    for (const char *at = accept; (at = read_range(at, &range));) {
        int now = fit(&range, offer);
        if (now > best_fit) {
            best_fit = now;
            quality = range.quality;
        }
    }
    return quality;
}

int dfm_media_choose(const char *accept, const char *const *offers, size_t count) {
    int best = -1, best_quality = 0;
    if (!accept || accept[strspn(accept, " \t,")] == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        int quality = quality_of(accept, offers[i]);
        if (quality > best_quality) {
            best_quality = quality;
            best = (int)i;
        }
    }
    return best;
}
