#include "server/store_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64, PIECE_BYTES = 64 * 1024 };

static const char format_text[] = "deformd store 1\n";
static const char *const kind_names[] = {
    [DFM_STORE_MODEL] = "models", [DFM_STORE_MOTION] = "motions"};
enum { KIND_COUNT = 2 };
static const int folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

typedef struct folder {
    int root, kinds[KIND_COUNT], tmp, own; /* descriptors of folders; `own` lies in `tmp` */
    int lock;
    char own_name[NAME_BYTES];
    atomic_uint_fast64_t next; /* names in `own` */
} folder;

/* An item while it is worked on: what its errors name. */
typedef struct place {
    const folder *store;
    dfm_store_kind kind;
    const char *id;
} place;

/* --- errors ------------------------------------------------------------------------------------
 */

static dfm_status fail(const place *at, const char *part, int number, dfm_error *error) {
    dfm_status status = number == ENOSPC || number == EDQUOT ? DFM_ERROR_STORE_FULL
                        : number == ENOMEM                   ? DFM_ERROR_NO_MEMORY
                                                             : DFM_ERROR_STORE;
    return dfm_fail(error, status, NULL, -1, -1, "the store's %s/%s%s%s: %s", kind_names[at->kind],
                    at->id, part[0] ? "/" : "", part, strerror(number));
}

/* Whether the open folder still is the one of that name. */
static bool is_there(int in, const char *name, int fd) {
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && fstatat(in, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

static dfm_status fail_removed(const char *name, dfm_error *error) {
    return dfm_fail(
        error, DFM_ERROR_STORE, NULL, -1, -1,
        "the store's folder %s was removed while it was in use: deformd finds a new one "
        "at its next start",
        name);
}

/* Items of a folder that is gone are not known to be: STORE. */
static dfm_status check_kind(const place *at, dfm_error *error) {
    const char *name = kind_names[at->kind];
    return is_there(at->store->root, name, at->store->kinds[at->kind]) ? DFM_OK
                                                                       : fail_removed(name, error);
}

static dfm_status fail_missing(const place *at, dfm_error *error) {
    dfm_status status = check_kind(at, error);
    if (status != DFM_OK)
        return status;
    return dfm_fail(error, DFM_ERROR_NOT_FOUND, NULL, -1, -1, "no %.*s %s",
                    (int)strlen(kind_names[at->kind]) - 1, kind_names[at->kind], at->id);
}

/* False: it could be a path. */
static bool is_id(const char *id) {
    return strlen(id) == DFM_ID_DIGITS && strspn(id, "0123456789abcdef") == DFM_ID_DIGITS;
}

static dfm_status check_place(const place *at, dfm_error *error) {
    return is_id(at->id) ? DFM_OK : fail_missing(at, error);
}

/* check_place, and that there is a folder to write in. */
static dfm_status check_writable(const place *at, dfm_error *error) {
    const folder *store = at->store;
    dfm_status status = check_place(at, error);
    if (status != DFM_OK)
        return status;
    if (store->own < 0)
        return fail(at, "", EROFS, error);
    return is_there(store->tmp, store->own_name, store->own) ? check_kind(at, error)
                                                             : fail_removed("tmp", error);
}

/* --- files -------------------------------------------------------------------------------------
 */

/* All or nothing; 0 or an errno. */
static int write_all(int fd, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : EIO;
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

/* Up to `size` bytes, fewer at the file's end; -1: errno. */
static ssize_t read_all(int fd, void *bytes, size_t size) {
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, (char *)bytes + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

/* Makes a file whose bytes are on the disk when it returns 0; else an errno, and no file. */
static int write_file(int in, const char *name, const void *bytes, size_t size) {
    int fd = openat(in, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int number = write_all(fd, bytes, size);
    if (number == 0 && fsync(fd) != 0)
        number = errno;
    if (close(fd) != 0 && number == 0) /* where a network file system tells of a full disk */
        number = errno;
    if (number != 0)
        unlinkat(in, name, 0);
    return number;
}

static void remove_tree(int in, const char *name);

static void remove_entries(int in, const char *name) {
    int fd = openat(in, name, folder_flags);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_tree(fd, entry->d_name);
    }
    if (list)
        closedir(list);
    else if (fd >= 0)
        close(fd);
}

/* A file, a link, or a folder with what is in it. Whoever had an item open when it was taken away
 * may put a file into it yet, so it is looked at again. What cannot be removed stays for the next
 * start. */
static void remove_tree(int in, const char *name) {
    enum { LOOKS = 8 };
    bool left = unlinkat(in, name, 0) != 0 && (errno == EISDIR || errno == EPERM);
    for (int i = 0; left && i < LOOKS; i++) {
        remove_entries(in, name);
        left = unlinkat(in, name, AT_REMOVEDIR) != 0 && (errno == ENOTEMPTY || errno == EEXIST);
    }
}

/* A name in the process's own folder that nothing has yet. */
static void make_name(folder *store, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%llu", (unsigned long long)atomic_fetch_add(&store->next, 1));
}

/* The item's folder; -1: *status. */
static int open_item(const place *at, dfm_status *status, dfm_error *error) {
    int fd = openat(at->store->kinds[at->kind], at->id, folder_flags);
    if (fd < 0)
        *status = errno == ENOENT ? fail_missing(at, error) : fail(at, "", errno, error);
    return fd;
}

static int open_in(int item, const char *part) {
    return openat(item, part, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* A file of it; -1: *status. An item without its file is not there: it is being removed. */
static int open_part(const place *at, const char *part, dfm_status *status, dfm_error *error) {
    int item = open_item(at, status, error);
    if (item < 0)
        return -1;
    int fd = open_in(item, part);
    int number = errno;
    close(item);
    if (fd < 0)
        *status = number == ENOENT ? fail_missing(at, error) : fail(at, part, number, error);
    return fd;
}

/* --- put ---------------------------------------------------------------------------------------
 */

/* What cannot be read is not these bytes. */
static bool has_bytes(int item, const uint8_t *bytes, size_t size) {
    static _Thread_local uint8_t piece[PIECE_BYTES];
    int fd = open_in(item, "file");
    if (fd < 0)
        return false;
    bool same = true;
    ssize_t got;
    do {
        got = read_all(fd, piece, sizeof piece);
        same = got >= 0 && (size_t)got <= size && memcmp(piece, bytes, (size_t)got) == 0;
        bytes += same ? got : 0;
        size -= same ? (size_t)got : 0;
    } while (same && got == (ssize_t)sizeof piece);
    close(fd);
    return same && size == 0;
}

/* Whether the item is there, whole, with these bytes, and synced: whoever put or mended it may not
 * have come to that yet. */
static bool holds(const place *at, const uint8_t *bytes, size_t size) {
    dfm_status status;
    int item = open_item(at, &status, NULL);
    if (item < 0)
        return false;
    bool whole = has_bytes(item, bytes, size) &&
                 faccessat(item, "about.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0 && fsync(item) == 0;
    close(item);
    return whole;
}

/* Makes the item, whole and synced, as `name` in the own folder. */
static dfm_status prepare(const place *at, const char *name, const uint8_t *bytes, size_t size,
                          const char *about, dfm_error *error) {
    int own = at->store->own;
    if (mkdirat(own, name, 0777) != 0)
        return fail(at, "", errno, error);
    int fd = openat(own, name, folder_flags);
    if (fd < 0)
        return fail(at, "", errno, error);
    const char *part = "file";
    int number = write_file(fd, part, bytes, size);
    if (number == 0)
        number = write_file(fd, part = "about.json", about, strlen(about));
    if (number == 0 && fsync(fd) != 0)
        number = errno;
    close(fd);
    return number == 0 ? DFM_OK : fail(at, part, number, error);
}

/* Where the item has no about.json it gets the prepared one; never in the place of another's. */
static int link_about(int own, const char *name, int item) {
    char from[NAME_BYTES + 16];
    snprintf(from, sizeof from, "%s/about.json", name);
    if (faccessat(item, "about.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    return linkat(own, from, item, "about.json", 0) == 0 || errno == EEXIST ? 0 : errno;
}

/* Puts the prepared file in the place of one that is damaged. NOT_FOUND: the item is gone. */
static dfm_status mend(const place *at, const char *name, dfm_error *error) {
    char from[NAME_BYTES + 8];
    dfm_status status;
    int item = open_item(at, &status, error);
    if (item < 0)
        return status;
    snprintf(from, sizeof from, "%s/file", name);
    int number = renameat(at->store->own, from, item, "file") == 0
                     ? link_about(at->store->own, name, item)
                     : errno;
    if (number == 0 && fsync(item) != 0)
        number = errno;
    close(item);
    return number == 0        ? DFM_OK
           : number == ENOENT ? fail_missing(at, error)
                              : fail(at, "file", number, error);
}

/* Moves the prepared item into place, or its file where the item is there already. */
static dfm_status publish(const place *at, const char *name, bool *created, dfm_error *error) {
    const folder *store = at->store;
    for (;;) {
        *created = renameat(store->own, name, store->kinds[at->kind], at->id) == 0;
        if (*created)
            return DFM_OK;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return fail(at, "", errno, error);
        dfm_error gone = {.status = DFM_OK};
        dfm_status status = mend(at, name, &gone);
        if (status == DFM_ERROR_NOT_FOUND)
            continue; /* removed in between */
        if (status != DFM_OK && error && error->status == DFM_OK)
            *error = gone;
        return status;
    }
}

/* A rename is not lost once the folder is synced that it went into. */
static dfm_status sync_kind(const place *at, dfm_error *error) {
    return fsync(at->store->kinds[at->kind]) == 0 ? DFM_OK : fail(at, "", errno, error);
}

static dfm_status put(void *context, dfm_store_kind kind, const dfm_id *id, const uint8_t *bytes,
                      size_t size, const char *about, bool *created, dfm_error *error) {
    folder *store = context;
    const place at = {store, kind, id->text};
    char name[NAME_BYTES];
    *created = false;
    dfm_status status = check_writable(&at, error);
    if (status != DFM_OK)
        return status;
    if (holds(&at, bytes, size))
        return sync_kind(&at, error);
    make_name(store, name);
    status = prepare(&at, name, bytes, size, about, error);
    if (status == DFM_OK)
        status = publish(&at, name, created, error);
    if (!*created)
        remove_tree(store->own, name);
    return status == DFM_OK ? sync_kind(&at, error) : status;
}

/* --- the other functions -----------------------------------------------------------------------
 */

static dfm_status read_about(void *context, dfm_store_kind kind, const dfm_id *id,
                             char about[DFM_STORE_ABOUT_BYTES], dfm_error *error) {
    const place at = {context, kind, id->text};
    dfm_status status = check_place(&at, error);
    int fd = status == DFM_OK ? open_part(&at, "about.json", &status, error) : -1;
    if (fd < 0)
        return status;
    ssize_t got = read_all(fd, about, DFM_STORE_ABOUT_BYTES);
    if (got < 0)
        status = fail(&at, "about.json", errno, error);
    else if (got == DFM_STORE_ABOUT_BYTES)
        status = dfm_fail(error, DFM_ERROR_CORRUPT, NULL, -1, -1,
                          "the store's %s/%s/about.json is larger than any that was written",
                          kind_names[kind], id->text);
    else
        about[got] = '\0';
    close(fd);
    return status;
}

static dfm_status write_about(void *context, dfm_store_kind kind, const dfm_id *id,
                              const char *about, dfm_error *error) {
    folder *store = context;
    const place at = {store, kind, id->text};
    char name[NAME_BYTES];
    dfm_status status = check_writable(&at, error);
    int item = status == DFM_OK ? open_item(&at, &status, error) : -1;
    if (item < 0)
        return status;
    make_name(store, name);
    int number = write_file(store->own, name, about, strlen(about));
    if (number == 0 && (renameat(store->own, name, item, "about.json") != 0 || fsync(item) != 0)) {
        number = errno;
        unlinkat(store->own, name, 0);
    }
    close(item);
    return number == 0        ? DFM_OK
           : number == ENOENT ? fail_missing(&at, error)
                              : fail(&at, "about.json", number, error);
}

static dfm_status read_file(const place *at, int fd, uint8_t *(*take)(void *taker, size_t size),
                            void *taker, dfm_error *error) {
    struct stat file;
    if (fstat(fd, &file) != 0)
        return fail(at, "file", errno, error);
    if (!S_ISREG(file.st_mode))
        return fail(at, "file", EISDIR, error);
    size_t size = (size_t)file.st_size;
    uint8_t *bytes = take(taker, size);
    if (!bytes)
        return dfm_fail(error, DFM_ERROR_NO_MEMORY, NULL, -1, -1,
                        "no memory now for the %zu bytes of %s", size, at->id);
    ssize_t got = read_all(fd, bytes, size);
    if (got < 0)
        return fail(at, "file", errno, error);
    return (size_t)got == size ? DFM_OK
                               : dfm_fail(error, DFM_ERROR_STORE, NULL, -1, -1,
                                          "the store's %s/%s/file was cut while it was read",
                                          kind_names[at->kind], at->id);
}

static dfm_status read_bytes(void *context, dfm_store_kind kind, const dfm_id *id,
                             uint8_t *(*take)(void *taker, size_t size), void *taker,
                             dfm_error *error) {
    const place at = {context, kind, id->text};
    dfm_status status = check_place(&at, error);
    int fd = status == DFM_OK ? open_part(&at, "file", &status, error) : -1;
    if (fd < 0)
        return status;
    status = read_file(&at, fd, take, taker, error);
    close(fd);
    return status;
}

static dfm_status remove_item(void *context, dfm_store_kind kind, const dfm_id *id,
                              dfm_error *error) {
    folder *store = context;
    const place at = {store, kind, id->text};
    char name[NAME_BYTES];
    dfm_status status = check_writable(&at, error);
    if (status != DFM_OK)
        return status;
    make_name(store, name);
    if (renameat(store->kinds[kind], id->text, store->own, name) != 0)
        return errno == ENOENT ? fail_missing(&at, error) : fail(&at, "", errno, error);
    status = sync_kind(&at, error);
    remove_tree(store->own, name);
    return status;
}

static int compare_ids(const void *a, const void *b) {
    return strcmp(((const dfm_id *)a)->text, ((const dfm_id *)b)->text);
}

/* All ids > `after`, unsorted: free() them. 0 or an errno. */
static int collect(DIR *list, const char *after, dfm_id **ids, size_t *count) {
    size_t capacity = 0;
    *ids = NULL;
    *count = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(list);
        if (!entry)
            return errno;
        if (!is_id(entry->d_name) || (after && strcmp(entry->d_name, after) <= 0))
            continue;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            dfm_id *more = realloc(*ids, capacity * sizeof *more);
            if (!more)
                return ENOMEM;
            *ids = more;
        }
        memcpy((*ids)[(*count)++].text, entry->d_name, DFM_ID_DIGITS + 1);
    }
}

static dfm_status list(void *context, dfm_store_kind kind, const char *after, size_t limit,
                       dfm_id *ids, size_t *count, bool *more, dfm_error *error) {
    const folder *store = context;
    const place at = {store, kind, ""};
    dfm_id *all = NULL;
    size_t found = 0;
    *count = 0;
    *more = false;
    dfm_status status = check_kind(&at, error);
    if (status != DFM_OK)
        return status;
    int fd = openat(store->kinds[kind], ".", folder_flags);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        int number = errno;
        if (fd >= 0)
            close(fd);
        return fail(&at, "", number, error);
    }
    int number = collect(entries, after, &all, &found);
    closedir(entries);
    if (number == 0 && found > 0) {
        qsort(all, found, sizeof *all, compare_ids);
        *count = found < limit ? found : limit;
        *more = found > limit;
        memcpy(ids, all, *count * sizeof *ids);
    }
    free(all);
    return number == 0 ? DFM_OK : fail(&at, "", number, error);
}

/* --- open --------------------------------------------------------------------------------------
 */

/* 0, or an errno: EAGAIN where somebody holds it. */
static int try_lock(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EACCES ? EAGAIN : errno;
}

/* "<random>.lock" is there before the folder "<random>" is, and goes after it. It is held until
 * then, or a process that has just made it could take it, and would lose its folder. */
static void clean_up_entry(int tmp, const char *entry) {
    char name[NAME_BYTES], lock_name[NAME_BYTES + 8];
    size_t length = strlen(entry), bare = length;
    if (length > 5 && strcmp(entry + length - 5, ".lock") == 0)
        bare -= 5;
    if (entry[0] == '.' || bare >= sizeof name)
        return;
    snprintf(name, sizeof name, "%.*s", (int)bare, entry);
    snprintf(lock_name, sizeof lock_name, "%s.lock", name);
    int fd = openat(tmp, lock_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool dead = fd < 0 ? errno == ENOENT : try_lock(fd) == 0; /* no lock: nobody's */
    if (dead) {
        remove_tree(tmp, name);
        unlinkat(tmp, lock_name, 0);
    }
    if (fd >= 0)
        close(fd);
}

static void clean_up(const folder *store) {
    int fd = openat(store->tmp, ".", folder_flags);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
        clean_up_entry(store->tmp, entry->d_name);
    if (entries)
        closedir(entries);
    else if (fd >= 0)
        close(fd);
}

/* A folder in the root; -1: errno. */
static int open_folder(int root, const char *name) {
    if (mkdirat(root, name, 0777) != 0 && errno != EEXIST && errno != EROFS)
        return -1;
    return openat(root, name, folder_flags);
}

/* A lock of this name, held; *taken false: somebody who cleans up took it for a dead one's. False:
 * errno. */
static bool make_lock(folder *store, const char *name, bool *taken) {
    int fd = openat(store->tmp, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    int number = try_lock(fd);
    *taken = number == 0 && is_there(store->tmp, name, fd);
    if (*taken) {
        store->lock = fd;
        return true;
    }
    close(fd);
    if (number == 0 || number == EAGAIN)
        return true;
    unlinkat(store->tmp, name, 0); /* no locks here */
    errno = number;
    return false;
}

static bool open_own(folder *store) {
    uint64_t number;
    char lock_name[NAME_BYTES + 8];
    bool taken = false;
    while (!taken) {
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            return false;
        snprintf(store->own_name, sizeof store->own_name, "%016llx", (unsigned long long)number);
        snprintf(lock_name, sizeof lock_name, "%s.lock", store->own_name);
        if (!make_lock(store, lock_name, &taken))
            return false;
    }
    if (mkdirat(store->tmp, store->own_name, 0777) != 0)
        return false;
    store->own = openat(store->tmp, store->own_name, folder_flags);
    return store->own >= 0;
}

/* NULL: good, or the format file was made; else what is wrong. */
static const char *check_format(folder *store) {
    char text[sizeof format_text + 1] = "", name[NAME_BYTES];
    int fd = openat(store->root, "format", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        make_name(store, name);
        int number = write_file(store->own, name, format_text, strlen(format_text));
        if (number == 0 && renameat(store->own, name, store->root, "format") != 0)
            number = errno;
        return number == 0 ? NULL : strerror(number);
    }
    if (fd < 0)
        return strerror(errno);
    ssize_t got = read_all(fd, text, sizeof text - 1);
    close(fd);
    return got == (ssize_t)strlen(format_text) && strcmp(text, format_text) == 0
               ? NULL
               : "its format is not that of this version";
}

static bool open_folders(folder *store, const char *path) {
    if (mkdir(path, 0777) != 0 && errno != EEXIST && errno != EROFS)
        return false;
    store->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->root < 0)
        return false;
    for (int i = 0; i < KIND_COUNT; i++)
        if ((store->kinds[i] = open_folder(store->root, kind_names[i])) < 0)
            return false;
    if ((store->tmp = open_folder(store->root, "tmp")) < 0)
        return false;
    if (!open_own(store))
        return errno == EROFS;
    return fsync(store->root) == 0;
}

static void close_one(int fd) {
    if (fd >= 0)
        close(fd);
}

void dfm_store_folder_close(dfm_store *interface) {
    folder *store = interface->context;
    if (!store)
        return;
    if (store->lock >= 0) {
        char lock_name[NAME_BYTES + 8];
        remove_tree(store->tmp, store->own_name);
        snprintf(lock_name, sizeof lock_name, "%s.lock", store->own_name);
        unlinkat(store->tmp, lock_name, 0);
    }
    close_one(store->own);
    close_one(store->lock);
    close_one(store->tmp);
    for (int i = 0; i < KIND_COUNT; i++)
        close_one(store->kinds[i]);
    close_one(store->root);
    free(store);
    *interface = (dfm_store){0};
}

bool dfm_store_folder_open(const char *path, dfm_store *interface, char *message,
                           size_t message_bytes) {
    folder *store = calloc(1, sizeof *store);
    *interface = (dfm_store){0};
    if (!store) {
        snprintf(message, message_bytes, "the store %s: no memory", path);
        return false;
    }
    store->root = store->tmp = store->own = store->lock = -1;
    for (int i = 0; i < KIND_COUNT; i++)
        store->kinds[i] = -1;
    interface->context = store;
    const char *why = open_folders(store, path) ? check_format(store) : strerror(errno);
    if (why) {
        snprintf(message, message_bytes, "the store %s: %s", path, why);
        dfm_store_folder_close(interface);
        return false;
    }
    snprintf(message, message_bytes, "%s",
             store->own >= 0 ? "" : "it is on a read-only file system: no uploads, no changes");
    if (store->own >= 0)
        clean_up(store);
    *interface = (dfm_store){.context = store,
                             .put = put,
                             .read_about = read_about,
                             .write_about = write_about,
                             .read_bytes = read_bytes,
                             .remove = remove_item,
                             .list = list};
    return true;
}
