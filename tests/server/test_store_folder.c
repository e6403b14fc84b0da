/* The folder store: what is durable, what is not, other processes, kill -9, full and broken disks.
 *
 * SOAK_KILLS=N sets how many times a writing process is killed (make soak). The program is linked
 * with wrapped system calls, of which the Nth can be made to fail. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/store_folder.h"
#include "tests/support_disk.h"

/* --- system calls that are watched and fail
 * --------------------------------------------------------------------
 */

static int fail_at, fail_with; /* the call that fails, from 1; 0: none */
static atomic_int calls;
static int open_fails_with, lock_fails_with; /* each openat, each lock; 0: none */
/* NULL: nothing. */
static void (*before_unlink)(int in, const char *name, int flags);

/* A letter for each call that went well, where one thread is watched: mkdirat, write, sync, rename.
 */
static char trace[64];
static bool traced;

static bool fails(void) {
    calls++;
    if (fail_at == 0 || calls != fail_at)
        return false;
    errno = fail_with;
    return true;
}

static void note(char letter) {
    size_t length = strlen(trace);
    if (traced && length + 1 < sizeof trace)
        trace[length] = letter;
}

static void start_trace(void) {
    memset(trace, 0, sizeof trace);
    traced = true;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    if (fails())
        return -1;
    note('s');
    return __real_fsync(fd);
}
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size) {
    if (fails())
        return -1;
    note('w');
    return __real_write(fd, bytes, size);
}
int __real_renameat(int from, const char *name, int to, const char *other);
int __wrap_renameat(int from, const char *name, int to, const char *other);
int __wrap_renameat(int from, const char *name, int to, const char *other) {
    if (fails())
        return -1;
    int result = __real_renameat(from, name, to, other);
    if (result == 0)
        note('r');
    return result;
}
int __real_mkdirat(int in, const char *name, mode_t mode);
int __wrap_mkdirat(int in, const char *name, mode_t mode);
int __wrap_mkdirat(int in, const char *name, mode_t mode) {
    if (fails())
        return -1;
    note('m');
    return __real_mkdirat(in, name, mode);
}
int __real_unlinkat(int in, const char *name, int flags);
int __wrap_unlinkat(int in, const char *name, int flags);
int __wrap_unlinkat(int in, const char *name, int flags) {
    if (before_unlink)
        before_unlink(in, name, flags);
    return __real_unlinkat(in, name, flags);
}
int __real_openat(int in, const char *name, int flags, ...);
int __wrap_openat(int in, const char *name, int flags, ...);
int __wrap_openat(int in, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (open_fails_with == 0)
        return __real_openat(in, name, flags, mode);
    errno = open_fails_with;
    return -1;
}
/* Locks are all that the store asks of it. */
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (lock_fails_with == 0)
        return __real_fcntl(fd, command, argument);
    errno = lock_fails_with;
    return -1;
}

/* --- a store -----------------------------------------------------------------------------------
 */

enum { SIZE = 200000 };

static char path[64];
static dfm_store store;

static dfm_store open_store(void) {
    dfm_store opened;
    char message[256];
    ck_assert_msg(dfm_store_folder_open(path, &opened, message, sizeof message), "%s", message);
    return opened;
}

static void set_up(void) {
    strcpy(path, "/tmp/deformd-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    store = open_store();
}

static void tear_down(void) {
    char command[256];
    dfm_store_folder_close(&store);
    snprintf(command, sizeof command, "chmod -R u+rwX %s && rm -rf %s", path, path);
    ck_assert_int_eq(system(command), 0);
}

/* A shell command; %s: the store, %s: an id in it. */
static void run(const char *format, const char *id) {
    char command[512];
    snprintf(command, sizeof command, format, path, id);
    ck_assert_int_eq(system(command), 0);
}

static dfm_id id_of(unsigned number) {
    dfm_id id;
    snprintf(id.text, sizeof id.text, "%032x", number);
    return id;
}

/* The bytes that belong to a number. */
static uint8_t *bytes_of(unsigned number) {
    uint8_t *bytes = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * 7 + number);
    return bytes;
}

static dfm_status put(dfm_store *s, unsigned number, const char *about, bool *created,
                      dfm_error *error) {
    dfm_id id = id_of(number);
    uint8_t *bytes = bytes_of(number);
    dfm_status status =
        s->put(s->context, DFM_STORE_MODEL, &id, bytes, SIZE, about, created, error);
    free(bytes);
    return status;
}

static void put_well(dfm_store *s, unsigned number, const char *about, bool expected_created) {
    bool created;
    dfm_error error = {0};
    ck_assert_msg(put(s, number, about, &created, &error) == DFM_OK, "%s", error.info);
    ck_assert_int_eq(created, expected_created);
}

static uint8_t *take(void *taker, size_t size) {
    return *(uint8_t **)taker = malloc(size ? size : 1);
}

/* OK: the item is there, whole. */
static dfm_status read_item(dfm_store *s, unsigned number, char about[DFM_STORE_ABOUT_BYTES],
                            dfm_error *error) {
    dfm_id id = id_of(number);
    uint8_t *bytes = NULL, *expected = bytes_of(number);
    dfm_status status = s->read_about(s->context, DFM_STORE_MODEL, &id, about, error);
    if (status == DFM_OK)
        status = s->read_bytes(s->context, DFM_STORE_MODEL, &id, take, &bytes, error);
    if (status == DFM_OK)
        ck_assert_mem_eq(bytes, expected, SIZE);
    free(bytes);
    free(expected);
    return status;
}

static void expect_item(dfm_store *s, unsigned number, const char *expected_about) {
    static char about[DFM_STORE_ABOUT_BYTES];
    dfm_error error = {0};
    ck_assert_msg(read_item(s, number, about, &error) == DFM_OK, "%s", error.info);
    ck_assert_str_eq(about, expected_about);
}

static void expect_no_item(dfm_store *s, unsigned number) {
    static char about[DFM_STORE_ABOUT_BYTES];
    ck_assert_int_eq(read_item(s, number, about, NULL), DFM_ERROR_NOT_FOUND);
}

static dfm_status remove_item(dfm_store *s, unsigned number) {
    dfm_id id = id_of(number);
    return s->remove(s->context, DFM_STORE_MODEL, &id, NULL);
}

static dfm_status write_about(dfm_store *s, unsigned number, const char *about) {
    dfm_id id = id_of(number);
    return s->write_about(s->context, DFM_STORE_MODEL, &id, about, NULL);
}

static size_t count_entries(const char *below) {
    char folder[256];
    snprintf(folder, sizeof folder, "%s/%s", path, below);
    DIR *list = opendir(folder);
    ck_assert_ptr_nonnull(list);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

/* Entries of the processes' folders under tmp. */
static size_t count_leftovers(void) {
    char command[256];
    snprintf(command, sizeof command, "find %s/tmp -mindepth 2 | wc -l", path);
    FILE *pipe = popen(command, "r");
    size_t count;
    ck_assert_int_eq(fscanf(pipe, "%zu", &count), 1);
    pclose(pipe);
    return count;
}

/* --- one process -------------------------------------------------------------------------------
 */

START_TEST(an_item_is_there_until_it_is_removed) {
    put_well(&store, 1, "{\"a\":1}", true);
    expect_item(&store, 1, "{\"a\":1}");
    expect_no_item(&store, 2);
    ck_assert_int_eq(write_about(&store, 1, "{\"a\":2}"), DFM_OK);
    expect_item(&store, 1, "{\"a\":2}");
    put_well(&store, 1, "{\"a\":3}", false); /* it keeps what is said about it */
    expect_item(&store, 1, "{\"a\":2}");
    ck_assert_int_eq(write_about(&store, 2, "{}"), DFM_ERROR_NOT_FOUND);
    ck_assert_int_eq(remove_item(&store, 1), DFM_OK);
    expect_no_item(&store, 1);
    ck_assert_int_eq(remove_item(&store, 1), DFM_ERROR_NOT_FOUND);
    ck_assert_uint_eq(count_leftovers(), 0);
}
END_TEST

START_TEST(an_item_outlives_its_process) {
    put_well(&store, 1, "{}", true);
    dfm_store_folder_close(&store);
    ck_assert_uint_eq(count_entries("tmp"), 0);
    store = open_store();
    expect_item(&store, 1, "{}");
}
END_TEST

/* m: mkdir, w: write, s: sync, r: rename. What is renamed into place was synced before, and the
 * folder that it went into is synced after. */
START_TEST(nothing_is_told_before_it_is_synced) {
    start_trace();
    put_well(&store, 1, "{}", true);
    ck_assert_str_eq(trace, "mwswssrs"); /* file, about.json, the item's folder; the kind's */
    start_trace();
    put_well(&store, 1, "{}", false); /* another process may have put it and not synced yet */
    ck_assert_str_eq(trace, "ss");    /* the item's folder, the kind's */
    start_trace();
    ck_assert_int_eq(write_about(&store, 1, "{}"), DFM_OK);
    ck_assert_str_eq(trace, "wsrs");
    run("truncate -s 10 %s/models/%s/file", id_of(1).text);
    start_trace();
    put_well(&store, 1, "{}", false);
    ck_assert_str_eq(trace, "mwswssrss");
    start_trace();
    ck_assert_int_eq(remove_item(&store, 1), DFM_OK);
    ck_assert_str_eq(trace, "rs");
}
END_TEST

START_TEST(lists_are_sorted_and_paged) {
    static const unsigned numbers[] = {7, 3, 9, 1, 5};
    dfm_id ids[3];
    size_t count;
    bool more;
    for (size_t i = 0; i < 5; i++)
        put_well(&store, numbers[i], "{}", true);
    char stray[256];
    snprintf(stray, sizeof stray, "touch %s/models/README %s/models/.nfs0001", path, path);
    ck_assert_int_eq(system(stray), 0);
    ck_assert_int_eq(store.list(store.context, DFM_STORE_MODEL, NULL, 3, ids, &count, &more, NULL),
                     DFM_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert(more);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_str_eq(ids[i].text, id_of(1 + 2 * i).text);
    char after[sizeof ids->text];
    strcpy(after, ids[2].text);
    ck_assert_int_eq(store.list(store.context, DFM_STORE_MODEL, after, 3, ids, &count, &more, NULL),
                     DFM_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert(!more);
    ck_assert_int_eq(store.list(store.context, DFM_STORE_MOTION, NULL, 3, ids, &count, &more, NULL),
                     DFM_OK);
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(a_damaged_file_is_mended_by_the_right_bytes) {
    static const char *const damages[] = {
        "truncate -s 100 %s/models/%s/file", "rm %s/models/%s/file",
        "truncate -s 300000 %s/models/%s/file", "cd %s/models/%s && rm file && mkfifo file"};
    put_well(&store, 1, "{\"kept\":1}", true);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        run(damages[i], id_of(1).text);
        put_well(&store, 1, "{}", false);
        expect_item(&store, 1, "{\"kept\":1}");
    }
    ck_assert_uint_eq(count_leftovers(), 0);
}
END_TEST

/* As a backup that was taken while the item was removed may have it. */
START_TEST(an_item_without_its_about_gets_one_by_an_upload) {
    put_well(&store, 1, "{\"lost\":1}", true);
    run("rm %s/models/%s/about.json", id_of(1).text);
    expect_no_item(&store, 1);
    put_well(&store, 1, "{\"new\":1}", false);
    expect_item(&store, 1, "{\"new\":1}");
    run("rm %s/models/%s/*", id_of(1).text);
    bool created;
    ck_assert_int_eq(put(&store, 1, "{\"new\":2}", &created, NULL), DFM_OK);
    expect_item(&store, 1, "{\"new\":2}");
    ck_assert_uint_eq(count_leftovers(), 0);
}
END_TEST

/* What is in the place of an item's file, or of the item: told, never followed, and removable. */
START_TEST(what_is_no_file_is_told) {
    static const char *const made[] = {
        "cd %s/models/%s && rm file && mkdir file && touch file/inner",
        "cd %s/models/%s && rm file && ln -s /etc/passwd file",
        "cd %s/models/%s && rm about.json && mkdir about.json",
        "cd %s/models/%s && rm about.json && ln -s /etc/passwd about.json",
        "cd %s/models && rm -r %s && echo >$(printf %%032x 1)",
    };
    static char about[DFM_STORE_ABOUT_BYTES];
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        dfm_error error = {0};
        put_well(&store, 1, "{}", true);
        run(made[i], id_of(1).text);
        ck_assert_int_eq(read_item(&store, 1, about, &error), DFM_ERROR_STORE);
        ck_assert_ptr_nonnull(strstr(error.info, id_of(1).text));
        ck_assert_int_eq(remove_item(&store, 1), DFM_OK);
        expect_no_item(&store, 1);
        ck_assert_uint_eq(count_leftovers(), 0);
    }
}
END_TEST

START_TEST(nothing_leads_out_of_the_store) {
    static const char *const wrong[] = {"", "..", "../../etc/passwd",
                                        "0000000000000000000000000000000/",
                                        "0000000000000000000000000000000A"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dfm_id id = {.text = ""};
        static char about[DFM_STORE_ABOUT_BYTES];
        snprintf(id.text, sizeof id.text, "%s", wrong[i]);
        bool created;
        ck_assert_int_ne(store.put(store.context, DFM_STORE_MODEL, &id, (const uint8_t *)"x", 1,
                                   "{}", &created, NULL),
                         DFM_OK);
        ck_assert_int_ne(store.read_about(store.context, DFM_STORE_MODEL, &id, about, NULL),
                         DFM_OK);
        ck_assert_int_ne(store.remove(store.context, DFM_STORE_MODEL, &id, NULL), DFM_OK);
    }
    char link[128], command[512];
    snprintf(command, sizeof command,
             "mkdir %s/elsewhere && echo secret >%s/elsewhere/file && "
             "echo '{}' >%s/elsewhere/about.json",
             path, path, path);
    ck_assert_int_eq(system(command), 0);
    snprintf(link, sizeof link, "%s/models/%s", path, id_of(1).text);
    ck_assert_int_eq(symlink("../elsewhere", link), 0);
    static char about[DFM_STORE_ABOUT_BYTES];
    dfm_error error = {0};
    ck_assert_int_eq(read_item(&store, 1, about, &error), DFM_ERROR_STORE);
    ck_assert_int_eq(remove_item(&store, 1), DFM_OK); /* the link, not what it leads to */
    snprintf(link, sizeof link, "%s/elsewhere/file", path);
    ck_assert_int_eq(access(link, F_OK), 0);
}
END_TEST

/* What is done to item 1, and what is said of it before and after; NULL: it is not there. */
typedef struct deed {
    const char *before, *damage, *after;
    dfm_status (*act)(dfm_error *error);
} deed;

static dfm_status act_put(dfm_error *error) {
    bool created;
    return put(&store, 1, "new", &created, error);
}

static dfm_status act_write_about(dfm_error *error) {
    dfm_id id = id_of(1);
    return store.write_about(store.context, DFM_STORE_MODEL, &id, "new", error);
}

static dfm_status act_remove(dfm_error *error) {
    dfm_id id = id_of(1);
    return store.remove(store.context, DFM_STORE_MODEL, &id, error);
}

static const deed deeds[] = {
    {NULL, NULL, "new", act_put},
    {"old", NULL, "old", act_put},
    {"old", "truncate -s 9 %s/models/%s/file", "old", act_put},
    {"old", NULL, "new", act_write_about},
    {"old", NULL, NULL, act_remove},
};

static void expect_state(const deed *d, const char *about) {
    static char found[DFM_STORE_ABOUT_BYTES];
    dfm_id id = id_of(1);
    if (!about)
        expect_no_item(&store, 1);
    else if (!d->damage)
        expect_item(&store, 1, about);
    else { /* its file may be mended by now, or not */
        ck_assert_int_eq(store.read_about(store.context, DFM_STORE_MODEL, &id, found, NULL),
                         DFM_OK);
        ck_assert_str_eq(found, about);
    }
}

/* Does it with the `at`th call failing; false: it takes fewer calls. */
static bool fail_deed(const deed *d, int at, int number) {
    dfm_error error = {0};
    remove_item(&store, 1);
    if (d->before)
        put_well(&store, 1, d->before, true);
    if (d->damage)
        run(d->damage, id_of(1).text);
    calls = 0;
    fail_at = at;
    fail_with = number;
    start_trace();
    dfm_status status = d->act(&error);
    traced = false;
    fail_at = 0;
    bool renamed = strchr(trace, 'r') != NULL;
    bool reached = calls >= at;
    ck_assert_uint_eq(count_leftovers(), 0);
    if (reached && status != DFM_OK) {
        ck_assert_int_eq(status, number == ENOSPC || number == EDQUOT ? DFM_ERROR_STORE_FULL
                                                                      : DFM_ERROR_STORE);
        ck_assert_ptr_nonnull(strstr(error.info, strerror(number)));
        ck_assert_ptr_nonnull(strstr(error.info, id_of(1).text));
        expect_state(d, renamed ? d->after : d->before);
        status = d->act(NULL); /* and it goes well the next time */
        if (!d->after && renamed)
            ck_assert_int_eq(status, DFM_ERROR_NOT_FOUND);
        else
            ck_assert_int_eq(status, DFM_OK);
    }
    if (d->after)
        expect_item(&store, 1, d->after);
    else
        expect_no_item(&store, 1);
    return reached;
}

START_TEST(each_failing_call_leaves_the_store_as_it_was) {
    static const int numbers[] = {ENOSPC, EDQUOT, EIO, EROFS};
    const deed *d = &deeds[_i];
    int at = 1;
    put_well(&store, 2, "{\"other\":1}", true);
    while (fail_deed(d, at, numbers[at % 4])) {
        expect_item(&store, 2, "{\"other\":1}");
        ck_assert_int_lt(at++, 40);
    }
    ck_assert_int_gt(at, 2); /* calls did fail */
}
END_TEST

START_TEST(what_cannot_be_opened_is_not_said_to_be_missing) {
    static const int numbers[] = {EMFILE, EIO, ESTALE, EACCES};
    dfm_id id = id_of(1), ids[2];
    static char about[DFM_STORE_ABOUT_BYTES];
    uint8_t *bytes = NULL;
    size_t count;
    bool more;
    put_well(&store, 1, "{}", true);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        dfm_error error = {0};
        open_fails_with = numbers[i];
        ck_assert_int_eq(store.read_about(store.context, DFM_STORE_MODEL, &id, about, &error),
                         DFM_ERROR_STORE);
        ck_assert_int_eq(
            store.read_bytes(store.context, DFM_STORE_MODEL, &id, take, &bytes, &error),
            DFM_ERROR_STORE);
        ck_assert_int_eq(store.write_about(store.context, DFM_STORE_MODEL, &id, "{}", &error),
                         DFM_ERROR_STORE);
        ck_assert_int_eq(
            store.list(store.context, DFM_STORE_MODEL, NULL, 2, ids, &count, &more, &error),
            DFM_ERROR_STORE);
        open_fails_with = 0;
        ck_assert_ptr_nonnull(strstr(error.info, strerror(numbers[i])));
    }
    expect_item(&store, 1, "{}");
}
END_TEST

/* --- disks -------------------------------------------------------------------------------------
 */

/* A small disk at `path`; false: not to be had here. */
static bool enter_small_disk(const char *size) {
    dfm_store_folder_close(&store);
    run("rm -rf %s/* # %s", "");
    return small_disk(path, size);
}

START_TEST(a_full_disk_is_told_and_what_is_there_stays) {
    if (!enter_small_disk("1m")) {
        printf("SKIPPED: no tmpfs can be mounted here: full disks\n");
        store = open_store();
        return;
    }
    store = open_store();
    unsigned kept = 0;
    dfm_status status;
    bool created;
    dfm_error error = {0};
    while ((status = put(&store, kept, "{}", &created, &error)) == DFM_OK && kept < 20)
        kept++;
    ck_assert_int_eq(status, DFM_ERROR_STORE_FULL);
    ck_assert_uint_ge(kept, 3);
    for (unsigned i = 0; i < kept; i++)
        expect_item(&store, i, "{}");
    expect_no_item(&store, kept);
    ck_assert_uint_eq(count_leftovers(), 0);
    ck_assert_int_eq(remove_item(&store, 0), DFM_OK);
    put_well(&store, kept, "{}", true);
    dfm_store_folder_close(&store);
    ck_assert_int_eq(umount(path), 0);
    store = open_store();
}
END_TEST

START_TEST(a_read_only_disk_reads_on) {
    if (!enter_small_disk("4m")) {
        printf("SKIPPED: no tmpfs can be mounted here: read-only disks\n");
        store = open_store();
        return;
    }
    store = open_store();
    put_well(&store, 1, "{}", true);
    dfm_store_folder_close(&store);
    ck_assert_int_eq(mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    char message[256];
    ck_assert(dfm_store_folder_open(path, &store, message, sizeof message));
    ck_assert_ptr_nonnull(strstr(message, "read-only"));
    bool created;
    dfm_error error = {0};
    ck_assert_int_eq(put(&store, 2, "{}", &created, &error), DFM_ERROR_STORE);
    ck_assert_ptr_nonnull(strstr(error.info, "Read-only"));
    ck_assert_int_eq(remove_item(&store, 1), DFM_ERROR_STORE);
    expect_item(&store, 1, "{}");
    ck_assert_int_eq(write_about(&store, 1, "{}"), DFM_ERROR_STORE);
    dfm_store_folder_close(&store);
    ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
    store = open_store();
}
END_TEST

/* Of a store that is gone nobody can say that an item was removed. */
static void expect_all_fail(bool reads_too) {
    static char about[DFM_STORE_ABOUT_BYTES];
    dfm_id ids[2];
    size_t count;
    bool created, more;
    dfm_error error = {0};
    ck_assert_int_eq(put(&store, 1, "{}", &created, &error), DFM_ERROR_STORE);
    ck_assert_int_eq(put(&store, 2, "{}", &created, &error), DFM_ERROR_STORE);
    ck_assert_int_eq(write_about(&store, 1, "{}"), DFM_ERROR_STORE);
    ck_assert_int_eq(remove_item(&store, 1), DFM_ERROR_STORE);
    ck_assert_ptr_nonnull(strstr(error.info, "removed"));
    if (!reads_too) {
        expect_item(&store, 1, "{}");
        return;
    }
    ck_assert_int_eq(read_item(&store, 1, about, &error), DFM_ERROR_STORE);
    ck_assert_int_eq(
        store.list(store.context, DFM_STORE_MODEL, NULL, 2, ids, &count, &more, &error),
        DFM_ERROR_STORE);
}

START_TEST(a_folder_that_vanishes_is_told) {
    static const struct {
        const char *command;
        bool reads_too;
    } gone[] = {{"rm -rf %s # %s", true},
                {"rm -rf %s/models # %s", true},
                {"cd %s && mv models away && mkdir models # %s", false},
                {"rm -rf %s/tmp # %s", false},
                {"rm -rf %s/tmp/* # %s", false}};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        put_well(&store, 1, "{}", true);
        run(gone[i].command, "");
        expect_all_fail(gone[i].reads_too);
        dfm_store_folder_close(&store);
        store = open_store(); /* made anew */
        remove_item(&store, 1);
    }
}
END_TEST

START_TEST(what_cannot_be_a_store_is_refused) {
    char message[256], command[256];
    dfm_store other;
    ck_assert(!dfm_store_folder_open("/nonexistent/parent/store", &other, message, sizeof message));
    ck_assert_ptr_nonnull(strstr(message, "No such file"));
    ck_assert(!dfm_store_folder_open("/dev/null", &other, message, sizeof message));
    snprintf(command, sizeof command, "echo 'deformd store 2' >%s/format", path);
    ck_assert_int_eq(system(command), 0);
    ck_assert(!dfm_store_folder_open(path, &other, message, sizeof message));
    ck_assert_ptr_nonnull(strstr(message, "format"));
    ck_assert_ptr_null(other.context);
    run("cd %s && echo 'deformd store 1' >format && mv models away && ln -s away models # %s", "");
    ck_assert(!dfm_store_folder_open(path, &other, message, sizeof message));
    run("cd %s && rm models && mv away models # %s", "");
    ck_assert(dfm_store_folder_open(path, &other, message, sizeof message));
    dfm_store_folder_close(&other);
}
END_TEST

START_TEST(a_file_system_without_locks_is_refused) {
    static const int numbers[] = {ENOLCK, EINVAL, ENOSYS};
    char message[256];
    dfm_store other;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        lock_fails_with = numbers[i];
        ck_assert(!dfm_store_folder_open(path, &other, message, sizeof message));
        lock_fails_with = 0;
        ck_assert_ptr_nonnull(strstr(message, strerror(numbers[i])));
        ck_assert_uint_eq(count_entries("tmp"), 2); /* the fixture's */
    }
}
END_TEST

/* --- other threads and processes ---------------------------------------------------------------
 */

enum { ITEMS = 4, WRITERS = 4, PROCESSES = 2, ROUNDS = 60 };

/* Another may have removed it. */
static bool is_done(dfm_status status) {
    return status == DFM_OK || status == DFM_ERROR_NOT_FOUND;
}

static void *write_and_remove(void *argument) {
    dfm_store *s = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool created;
        dfm_error error = {0};
        dfm_status status = put(s, i % ITEMS, "{}", &created, &error);
        if (status != DFM_OK)
            return strdup(error.info);
        if (!is_done(write_about(s, (i + 1) % ITEMS, "{\"b\":1}")))
            return strdup("write_about failed");
        if (i % 3 == 0 && !is_done(remove_item(s, (i + 2) % ITEMS)))
            return strdup("remove failed");
    }
    return NULL;
}

static pid_t fork_writer(void) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dfm_store own = open_store();
        char *wrong = write_and_remove(&own);
        if (wrong)
            fprintf(stderr, "%s\n", wrong);
        _exit(wrong != NULL);
    }
    return child;
}

/* Never half an item: read_item compares what it finds. */
START_TEST(threads_and_processes_share_a_folder) {
    pid_t children[PROCESSES];
    pthread_t threads[WRITERS];
    for (int i = 0; i < PROCESSES; i++)
        children[i] = fork_writer();
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_and_remove, &store), 0);
    static char about[DFM_STORE_ABOUT_BYTES];
    for (unsigned i = 0; i < 400; i++) {
        dfm_error error = {0};
        dfm_status status = read_item(&store, i % ITEMS, about, &error);
        ck_assert_msg(status == DFM_OK || status == DFM_ERROR_NOT_FOUND, "%s", error.info);
        if (status == DFM_OK)
            ck_assert_msg(strcmp(about, "{}") == 0 || strcmp(about, "{\"b\":1}") == 0, "%s", about);
    }
    for (int i = 0; i < WRITERS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(wrong == NULL, "%s", (char *)wrong);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(count_leftovers(), 0);
}
END_TEST

/* Step `i` of what a child does, from 1: item i % ITEMS is removed (0), or says `i` of itself. */
static unsigned state_after(unsigned i) {
    return i % 5 == 4 ? 0 : i;
}

static dfm_status do_step(dfm_store *s, unsigned i) {
    unsigned number = i % ITEMS;
    char about[32];
    bool created;
    if (state_after(i) == 0) {
        dfm_status status = remove_item(s, number);
        return status == DFM_ERROR_NOT_FOUND ? DFM_OK : status;
    }
    snprintf(about, sizeof about, "%u", i);
    dfm_status status = put(s, number, about, &created, NULL);
    return status == DFM_OK && !created ? write_about(s, number, about) : status;
}

static void write_until_killed(int fd) {
    dfm_store own = open_store();
    for (unsigned i = 1;; i++)
        if (do_step(&own, i) != DFM_OK || __real_write(fd, &i, sizeof i) != sizeof i)
            _exit(1);
}

static unsigned state_of(unsigned number) {
    static char about[DFM_STORE_ABOUT_BYTES];
    dfm_error error = {0};
    dfm_status status = read_item(&store, number, about, &error);
    ck_assert_msg(status == DFM_OK || status == DFM_ERROR_NOT_FOUND, "%s", error.info);
    return status == DFM_OK ? (unsigned)atoi(about) : 0;
}

static size_t count_listed(void) {
    dfm_id ids[ITEMS + 1];
    size_t count;
    bool more;
    ck_assert_int_eq(
        store.list(store.context, DFM_STORE_MODEL, NULL, ITEMS + 1, ids, &count, &more, NULL),
        DFM_OK);
    return count;
}

/* All steps up to `last` were acknowledged; the next one may have happened or not. */
static void check_after_kill(unsigned last) {
    unsigned expected[ITEMS] = {0}, pending = last + 1;
    size_t there = 0;
    for (unsigned i = 1; i <= last; i++)
        expected[i % ITEMS] = state_after(i);
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned now = state_of(i);
        there += now != 0;
        ck_assert_msg(now == expected[i] || (i == pending % ITEMS && now == state_after(pending)),
                      "item %u is at %u in place of %u; step %u was acknowledged last", i, now,
                      expected[i], last);
    }
    ck_assert_uint_eq(count_listed(), there); /* what is listed was read */
}

/* Kills a child some time after so many steps; the last one that it acknowledged. */
static unsigned run_and_kill(unsigned steps, unsigned microseconds) {
    int ends[2], status;
    unsigned last = 0, step;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        write_until_killed(ends[1]);
    close(ends[1]);
    while (last < steps && read(ends[0], &step, sizeof step) == sizeof step)
        last = step;
    usleep(microseconds);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status)); /* not by a call that failed */
    while (read(ends[0], &step, sizeof step) == sizeof step)
        last = step;
    close(ends[0]);
    return last;
}

START_TEST(kill_at_any_moment_loses_nothing_and_leaves_nothing_unreadable) {
    int kills = getenv("SOAK_KILLS") ? atoi(getenv("SOAK_KILLS")) : 40;
    unsigned steps = 0;
    size_t leftovers = 0;
    srand(1);
    for (int round = 0; round < kills; round++) {
        for (unsigned i = 0; i < ITEMS; i++)
            remove_item(&store, i);
        unsigned last = run_and_kill((unsigned)rand() % 8, (unsigned)rand() % 40000);
        check_after_kill(last);
        steps += last;
        leftovers += count_leftovers();
    }
    printf("cases: %d kills, %u steps acknowledged, %zu files left behind\n", kills, steps,
           leftovers);
    ck_assert_uint_gt(steps, 2 * (unsigned)kills);
    ck_assert_uint_gt(leftovers, 0); /* or nobody was killed at work */
    dfm_store other = open_store();  /* cleans up */
    ck_assert_uint_eq(count_entries("tmp"), 4);
    dfm_store_folder_close(&other);
    ck_assert_uint_eq(count_leftovers(), 0);
}
END_TEST

START_TEST(living_processes_keep_their_folders) {
    dfm_store other = open_store();
    ck_assert_uint_eq(count_entries("tmp"), 4);
    put_well(&store, 1, "{}", true);
    put_well(&other, 2, "{}", true);
    expect_item(&store, 2, "{}");
    expect_item(&other, 1, "{}");
    dfm_store_folder_close(&other);
    ck_assert_uint_eq(count_entries("tmp"), 2);
}
END_TEST

/* As another process that had the item open when it was taken away, and now puts a file in. */
static void put_file_in_once(int in, const char *name, int flags) {
    if (flags != AT_REMOVEDIR)
        return;
    before_unlink = NULL;
    int item = __real_openat(in, name, O_RDONLY | O_DIRECTORY, 0);
    ck_assert_int_ge(item, 0);
    int fd = __real_openat(item, "about.json", O_WRONLY | O_CREAT, 0666);
    ck_assert_int_ge(fd, 0);
    close(fd);
    close(item);
}

START_TEST(what_is_put_into_an_item_while_it_is_removed_goes_too) {
    put_well(&store, 1, "{}", true);
    before_unlink = put_file_in_once;
    ck_assert_int_eq(remove_item(&store, 1), DFM_OK);
    ck_assert(before_unlink == NULL); /* it did */
    ck_assert_uint_eq(count_leftovers(), 0);
    expect_no_item(&store, 1);
}
END_TEST

static int removals;

/* As a process that starts just now: its lock is there, and it is about to take it. */
static void try_to_take_lock(int in, const char *name, int flags) {
    (void)name, (void)flags;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = __real_openat(in, "abc.lock", O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    removals++;
    ck_assert_int_eq(__real_fcntl(fd, F_OFD_SETLK, &lock), -1);
    close(fd);
}

/* Else one that starts takes its lock and makes its folder, which then is removed. */
START_TEST(who_cleans_up_holds_the_lock_until_it_is_gone) {
    run("touch %s/tmp/abc.lock && mkdir %s/tmp/abc", path);
    before_unlink = try_to_take_lock;
    dfm_store other = open_store();
    before_unlink = NULL;
    ck_assert_int_gt(removals, 0);
    ck_assert_uint_eq(count_entries("tmp"), 4); /* its own and the fixture's */
    dfm_store_folder_close(&other);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("store_folder");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_item_is_there_until_it_is_removed);
    tcase_add_test(tests, an_item_outlives_its_process);
    tcase_add_test(tests, nothing_is_told_before_it_is_synced);
    tcase_add_test(tests, lists_are_sorted_and_paged);
    tcase_add_test(tests, a_damaged_file_is_mended_by_the_right_bytes);
    tcase_add_test(tests, an_item_without_its_about_gets_one_by_an_upload);
    tcase_add_test(tests, what_is_no_file_is_told);
    tcase_add_test(tests, nothing_leads_out_of_the_store);
    tcase_add_loop_test(tests, each_failing_call_leaves_the_store_as_it_was, 0,
                        (int)(sizeof deeds / sizeof *deeds));
    tcase_add_test(tests, what_cannot_be_opened_is_not_said_to_be_missing);
    tcase_add_test(tests, a_full_disk_is_told_and_what_is_there_stays);
    tcase_add_test(tests, a_read_only_disk_reads_on);
    tcase_add_test(tests, a_folder_that_vanishes_is_told);
    tcase_add_test(tests, what_cannot_be_a_store_is_refused);
    tcase_add_test(tests, a_file_system_without_locks_is_refused);
    tcase_add_test(tests, threads_and_processes_share_a_folder);
    tcase_add_test(tests, kill_at_any_moment_loses_nothing_and_leaves_nothing_unreadable);
    tcase_add_test(tests, living_processes_keep_their_folders);
    tcase_add_test(tests, what_is_put_into_an_item_while_it_is_removed_goes_too);
    tcase_add_test(tests, who_cleans_up_holds_the_lock_until_it_is_gone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
