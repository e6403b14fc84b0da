/* The folder store: what is durable, what is not, other processes, kill -9, full and broken disks.
 *
 * SOAK_KILLS=N sets how many times a writing process is killed (make soak). The program is linked
 * with wrapped system calls, of which the Nth can be made to fail. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/store_folder.h"

/* --- system calls that fail --------------------------------------------------------------------
 */

static int fail_at, fail_with; /* the call that fails, from 1; 0: none */
static atomic_int calls;
static atomic_int syncs;

static bool fails(void) {
    calls++;
    if (fail_at == 0 || calls != fail_at)
        return false;
    errno = fail_with;
    return true;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    syncs++;
    return fails() ? -1 : __real_fsync(fd);
}
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size) {
    return fails() ? -1 : __real_write(fd, bytes, size);
}
int __real_renameat(int from, const char *name, int to, const char *other);
int __wrap_renameat(int from, const char *name, int to, const char *other);
int __wrap_renameat(int from, const char *name, int to, const char *other) {
    return fails() ? -1 : __real_renameat(from, name, to, other);
}
int __real_mkdirat(int in, const char *name, mode_t mode);
int __wrap_mkdirat(int in, const char *name, mode_t mode);
int __wrap_mkdirat(int in, const char *name, mode_t mode) {
    return fails() ? -1 : __real_mkdirat(in, name, mode);
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
    fail_at = 0;
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

START_TEST(nothing_is_told_before_it_is_synced) {
    syncs = 0;
    put_well(&store, 1, "{}", true);
    ck_assert_int_eq(syncs, 4); /* file, about.json, the item's folder, the kind's folder */
    syncs = 0;
    put_well(&store, 1, "{}", false); /* another process may have put it and not synced yet */
    ck_assert_int_eq(syncs, 1);
    syncs = 0;
    ck_assert_int_eq(write_about(&store, 1, "{}"), DFM_OK);
    ck_assert_int_eq(syncs, 2);
    syncs = 0;
    ck_assert_int_eq(remove_item(&store, 1), DFM_OK);
    ck_assert_int_eq(syncs, 1);
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
    char command[256];
    static const char *const damages[] = {"truncate -s 100", "rm -f", "truncate -s 300000"};
    put_well(&store, 1, "{\"kept\":1}", true);
    for (size_t i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "%s %s/models/%s/file", damages[i], path, id_of(1).text);
        ck_assert_int_eq(system(command), 0);
        put_well(&store, 1, "{}", false);
        expect_item(&store, 1, "{\"kept\":1}");
    }
    ck_assert_uint_eq(count_leftovers(), 0);
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

START_TEST(each_failing_call_leaves_the_store_as_it_was) {
    static const int numbers[] = {ENOSPC, EDQUOT, EIO, EROFS};
    put_well(&store, 1, "{\"old\":1}", true);
    for (int at = 1; at < 40; at++) {
        int number = numbers[at % 4];
        bool created;
        dfm_error error = {0};
        calls = 0;
        fail_at = at;
        fail_with = number;
        dfm_status status = put(&store, 2, "{}", &created, &error);
        bool done = calls < at;
        fail_at = 0;
        if (done) {
            ck_assert_int_eq(status, DFM_OK);
            ck_assert_int_gt(at, 6);
            expect_item(&store, 2, "{}");
            return;
        }
        ck_assert_int_eq(status, number == ENOSPC || number == EDQUOT ? DFM_ERROR_STORE_FULL
                                                                      : DFM_ERROR_STORE);
        ck_assert_ptr_nonnull(strstr(error.info, strerror(number)));
        ck_assert_ptr_nonnull(strstr(error.info, id_of(2).text));
        ck_assert_uint_eq(count_leftovers(), 0);
        if (!created)
            expect_no_item(&store, 2);
        remove_item(&store, 2);
        expect_item(&store, 1, "{\"old\":1}");
        calls = 0;
        fail_at = at;
        status = write_about(&store, 1, "{\"old\":1}");
        fail_at = 0;
        expect_item(&store, 1, "{\"old\":1}");
        ck_assert_uint_eq(count_leftovers(), 0);
    }
    ck_abort_msg("put makes more than 40 calls");
}
END_TEST

/* --- disks -------------------------------------------------------------------------------------
 */

/* Runs in a mount namespace of its own, with a small tmpfs at `path`; false: not to be had here. */
static bool enter_small_disk(const char *size) {
    char options[32], command[128];
    dfm_store_folder_close(&store);
    snprintf(command, sizeof command, "rm -rf %s/*", path);
    if (system(command) != 0 ||
        (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0))
        return false;
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    snprintf(options, sizeof options, "size=%s", size);
    return mount("tmpfs", path, "tmpfs", 0, options) == 0;
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

START_TEST(a_folder_that_vanishes_is_told) {
    char command[256];
    put_well(&store, 1, "{}", true);
    snprintf(command, sizeof command, "rm -rf %s", path);
    ck_assert_int_eq(system(command), 0);
    bool created;
    dfm_error error = {0};
    ck_assert_int_eq(put(&store, 2, "{}", &created, &error), DFM_ERROR_STORE);
    expect_no_item(&store, 1);
    dfm_store_folder_close(&store);
    store = open_store(); /* made anew */
    put_well(&store, 2, "{}", true);
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
}
END_TEST

/* --- other threads and processes ---------------------------------------------------------------
 */

enum { ITEMS = 4, WRITERS = 4, ROUNDS = 60 };

static void *write_and_remove(void *argument) {
    dfm_store *s = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool created;
        dfm_error error = {0};
        dfm_status status = put(s, i % ITEMS, "{}", &created, &error);
        if (status != DFM_OK)
            return strdup(error.info);
        write_about(s, (i + 1) % ITEMS, "{\"b\":1}");
        if (i % 3 == 0)
            remove_item(s, (i + 2) % ITEMS);
    }
    return NULL;
}

/* Never half an item: read_item compares what it finds. */
START_TEST(threads_and_processes_share_a_folder) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dfm_store own = open_store();
        void *wrong = write_and_remove(&own);
        _exit(wrong != NULL);
    }
    pthread_t threads[WRITERS];
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
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* What the parent knows of an item, from what the child acknowledged over the pipe. */
typedef struct record {
    unsigned number, state; /* 0 gone, else the number that is in its about */
} record;

static void write_until_killed(int fd) {
    dfm_store own = open_store();
    for (unsigned i = 1;; i++) {
        unsigned number = i % ITEMS;
        record done = {number, i};
        char about[32];
        bool created;
        snprintf(about, sizeof about, "%u", i);
        dfm_status status;
        if (i % 5 == 4) {
            done.state = 0;
            status = remove_item(&own, number);
            status = status == DFM_ERROR_NOT_FOUND ? DFM_OK : status;
        } else {
            status = put(&own, number, about, &created, NULL);
            if (status == DFM_OK && !created)
                status = write_about(&own, number, about);
        }
        if (status != DFM_OK || __real_write(fd, &done, sizeof done) != sizeof done)
            _exit(1);
    }
}

/* At a kill one call was under way for each item: it may have happened or not. */
static void check_after_kill(const unsigned acknowledged[ITEMS]) {
    static char about[DFM_STORE_ABOUT_BYTES];
    for (unsigned i = 0; i < ITEMS; i++) {
        dfm_error error = {0};
        dfm_status status = read_item(&store, i, about, &error);
        ck_assert_msg(status == DFM_OK || status == DFM_ERROR_NOT_FOUND, "%s", error.info);
        unsigned now = status == DFM_OK ? (unsigned)atoi(about) : 0;
        bool next_removes = (acknowledged[i] + ITEMS) % 5 == 4;
        ck_assert_msg(now == acknowledged[i] || now > acknowledged[i] || (now == 0 && next_removes),
                      "item %u is at %u, %u was acknowledged", i, now, acknowledged[i]);
    }
}

START_TEST(kill_at_any_moment_loses_nothing_and_leaves_nothing_unreadable) {
    int kills = getenv("SOAK_KILLS") ? atoi(getenv("SOAK_KILLS")) : 30;
    srand(1);
    for (int round = 0; round < kills; round++) {
        int ends[2];
        unsigned acknowledged[ITEMS] = {0};
        record done;
        ck_assert_int_eq(pipe(ends), 0);
        for (unsigned i = 0; i < ITEMS; i++)
            remove_item(&store, i);
        pid_t child = fork();
        if (child == 0)
            write_until_killed(ends[1]);
        close(ends[1]);
        usleep((useconds_t)(1000 + rand() % 40000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while (read(ends[0], &done, sizeof done) == sizeof done)
            acknowledged[done.number] = done.state;
        close(ends[0]);
        check_after_kill(acknowledged);
    }
    dfm_store other = open_store(); /* cleans up */
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
    tcase_add_test(tests, nothing_leads_out_of_the_store);
    tcase_add_test(tests, each_failing_call_leaves_the_store_as_it_was);
    tcase_add_test(tests, a_full_disk_is_told_and_what_is_there_stays);
    tcase_add_test(tests, a_read_only_disk_reads_on);
    tcase_add_test(tests, a_folder_that_vanishes_is_told);
    tcase_add_test(tests, what_cannot_be_a_store_is_refused);
    tcase_add_test(tests, threads_and_processes_share_a_folder);
    tcase_add_test(tests, kill_at_any_moment_loses_nothing_and_leaves_nothing_unreadable);
    tcase_add_test(tests, living_processes_keep_their_folders);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
