/* Streamed answers behind a real socket: order, turns, memory, slow and vanished readers, failures,
 * cuts. The streams are made up; tests/e2e/test_stream.c has those of the daemon. */
#include "server/stream.h"

#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, PATIENCE_MS = 10000 };

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#define WAIT_FOR(condition)                                                                        \
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; !(condition); usleep(1000))                     \
    ck_assert_msg(now_ms() < end_ms, "waited in vain for " #condition)

/* --- a made-up stream --------------------------------------------------------------------------
 */

typedef struct made {
    dfm_api_stream stream; /* first */
    uint64_t fails_at;     /* block; UINT64_MAX: none */
    atomic_uint takes_us;  /* a block */
    atomic_uint rendered, inside, most_inside, freed;
    uint64_t held_at; /* blocks from this one on wait for `go` */
    atomic_bool go;
    uint8_t *body; /* of the request, borrowed; a 1 */
} made;

static uint8_t byte_at(uint64_t position) {
    return (uint8_t)(position * 31 + (position >> 8) * 7 + (position >> 16));
}

static bool render(dfm_api_stream *stream, uint64_t block, uint32_t worker, uint8_t *memory,
                   const char **why) {
    (void)worker;
    made *m = (made *)stream;
    unsigned inside = atomic_fetch_add(&m->inside, 1) + 1;
    if (inside > atomic_load(&m->most_inside))
        atomic_store(&m->most_inside, inside);
    while (block >= m->held_at && !atomic_load(&m->go))
        usleep(500);
    usleep(atomic_load(&m->takes_us));
    uint64_t first = stream->head_bytes + block * stream->block_bytes;
    for (size_t i = 0; i < stream->block_bytes; i++)
        memory[i] = byte_at(first + i);
    atomic_fetch_sub(&m->inside, 1);
    atomic_fetch_add(&m->rendered, 1);
    if (block == m->fails_at)
        *why = "it was made to fail";
    return block != m->fails_at;
}

static void count_free(dfm_api_stream *stream) {
    made *m = (made *)stream;
    ck_assert_uint_eq(atomic_load(&m->inside), 0);
    if (m->body)
        ck_assert_uint_eq(*m->body, 1);
    atomic_fetch_add(&m->freed, 1);
}

static uint8_t head[300000]; /* filled by main */

static made make(uint64_t head_bytes, uint64_t block_count, size_t block_bytes) {
    return (made){.stream = {.total_bytes = head_bytes + block_count * block_bytes,
                             .head = head_bytes ? head : NULL,
                             .head_bytes = head_bytes,
                             .block_count = block_count,
                             .block_bytes = block_bytes,
                             .render = render,
                             .free = count_free},
                  .fails_at = UINT64_MAX,
                  .held_at = UINT64_MAX};
}

/* --- a server of one stream a request ----------------------------------------------------------
 */

typedef struct server {
    dfm_pool *pool;
    dfm_buffer_pool *buffers;
    dfm_streams *streams;
    struct MHD_Daemon *daemon;
    uint16_t port;
    made *next; /* what the next request is answered with */
    uint64_t sent_bytes;
    dfm_account account;
} server;

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state) {
    (void)url, (void)method, (void)version, (void)data, (void)size;
    static int seen;
    server *s = context;
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    dfm_stream_order order = {.source = &s->next->stream,
                              .connection = connection,
                              .request_id = "id",
                              .sent_bytes = &s->sent_bytes,
                              .account = &s->account};
    if (s->next->stream.borrows_body) {
        uint8_t one = 1;
        dfm_body_begin(&order.body, s->buffers, KIB, KIB);
        ck_assert_int_eq(dfm_body_append(&order.body, &one, sizeof one), DFM_BODY_OK);
        s->next->body = order.body.buffer->data;
    }
    struct MHD_Response *answer = dfm_streams_answer(s->streams, &order);
    unsigned status = answer ? 200 : 503;
    if (!answer)
        answer = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(connection, status, answer);
    MHD_destroy_response(answer);
    return result;
}

static void start(server *s, uint32_t workers, size_t budget_bytes) {
    *s = (server){.pool = dfm_pool_create("test", workers, 4),
                  .buffers = dfm_buffer_pool_create(budget_bytes)};
    s->streams = dfm_streams_create(s->pool, s->buffers, workers);
    s->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         on_request, s, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    ck_assert_ptr_nonnull(s->daemon);
    s->port = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

/* As main.c ends; every buffer has come back then. */
static void stop(server *s) {
    MHD_stop_daemon(s->daemon);
    dfm_pool_free(s->pool);
    dfm_streams_free(s->streams);
    ck_assert_uint_eq(dfm_buffer_pool_stats(s->buffers).used_bytes, 0);
    dfm_buffer_pool_free(s->buffers);
}

static int ask(server *s, made *m) {
    s->next = m;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* A narrow window, so that little of a stream is outside of this process's sight. */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){16 * KIB}, sizeof(int));
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    ck_assert_int_eq(send(fd, request, sizeof request - 1, 0), (ssize_t)sizeof request - 1);
    return fd;
}

static ssize_t read_some(int fd, void *into, size_t size) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    ck_assert_msg(poll(&wait, 1, PATIENCE_MS) == 1, "nothing comes");
    return recv(fd, into, size, 0);
}

/* Reads the answer's head; returns its status and Content-Length. */
static int read_head(int fd, uint64_t *length) {
    char text[2048];
    size_t size = 0;
    do {
        ck_assert_uint_lt(size, sizeof text - 1);
        ck_assert_int_eq(read_some(fd, text + size, 1), 1);
        text[++size] = '\0';
    } while (size < 4 || memcmp(text + size - 4, "\r\n\r\n", 4) != 0);
    const char *field = strstr(text, "Content-Length: ");
    ck_assert_ptr_nonnull(field);
    *length = strtoull(field + 16, NULL, 10);
    return atoi(text + 9);
}

/* Reads up to `bytes` of a body from `position` on and checks them; returns how many came. */
static uint64_t read_body(int fd, uint64_t position, uint64_t bytes) {
    static _Thread_local uint8_t part[MIB];
    uint64_t got = 0;
    while (got < bytes) {
        ssize_t n =
            read_some(fd, part, bytes - got < sizeof part ? (size_t)(bytes - got) : sizeof part);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            if (part[i] != byte_at(position + got + (uint64_t)i))
                ck_abort_msg("byte %llu is wrong",
                             (unsigned long long)(position + got + (uint64_t)i));
        got += (uint64_t)n;
    }
    return got;
}

/* Asks for a stream and reads as much of its body. */
static int ask_and_read(server *s, made *m, uint64_t bytes) {
    int fd = ask(s, m);
    uint64_t length;
    ck_assert_int_eq(read_head(fd, &length), 200);
    ck_assert_uint_eq(length, m->stream.total_bytes);
    ck_assert_uint_eq(read_body(fd, 0, bytes), bytes);
    return fd;
}

/* --- tests -------------------------------------------------------------------------------------
 */

START_TEST(bytes_come_whole_and_in_order) {
    static const struct {
        uint64_t head_bytes, block_count;
        size_t block_bytes;
    } shapes[] = {{0, 1, 1},       {0, 1, MIB},          {7, 1000, 1},      {0, 3, 128 * KIB},
                  {32, 40, 65537}, {300000, 5, 1000003}, {300000, 0, 1000}, {1, 2000, 4095}};
    server s;
    start(&s, 2, (size_t)64 * MIB);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        made m = make(shapes[i].head_bytes, shapes[i].block_count, shapes[i].block_bytes);
        m.stream.borrows_body = i % 2;
        close(ask_and_read(&s, &m, m.stream.total_bytes));
        WAIT_FOR(atomic_load(&m.freed) == 1);
        ck_assert_uint_eq(atomic_load(&m.rendered), shapes[i].block_count);
        ck_assert_uint_eq(s.sent_bytes, m.stream.total_bytes);
        ck_assert_uint_eq(dfm_buffer_pool_stats(s.buffers).used_bytes, 0);
    }
    stop(&s);
}
END_TEST

START_TEST(connection_goes_on_after_a_stream) {
    server s;
    start(&s, 1, (size_t)64 * MIB);
    made first = make(10, 20, 70000), second = make(0, 5, 1000);
    int fd = ask_and_read(&s, &first, first.stream.total_bytes);
    WAIT_FOR(atomic_load(&first.freed) == 1);
    s.next = &second;
    ck_assert_int_gt(send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 0), 0);
    uint64_t length;
    ck_assert_int_eq(read_head(fd, &length), 200);
    ck_assert_uint_eq(read_body(fd, 0, length), second.stream.total_bytes);
    close(fd);
    WAIT_FOR(atomic_load(&second.freed) == 1);
    stop(&s);
}
END_TEST

START_TEST(blocks_of_one_stream_spread_over_idle_workers) {
    server s;
    start(&s, 4, (size_t)64 * MIB);
    made m = make(0, 30, 100 * KIB);
    m.held_at = 0;
    int fd = ask(&s, &m);
    WAIT_FOR(atomic_load(&m.inside) == 4);
    atomic_store(&m.go, true);
    uint64_t length;
    read_head(fd, &length);
    ck_assert_uint_eq(read_body(fd, 0, length), m.stream.total_bytes);
    close(fd);
    WAIT_FOR(atomic_load(&m.freed) == 1);
    stop(&s);
}
END_TEST

typedef struct counted_job {
    dfm_job job; /* first */
    made *of[2]; /* blocks of these that were rendered before the job ran */
    unsigned rendered;
    atomic_bool ran;
} counted_job;

static void run_counted(dfm_job *job, uint32_t thread) {
    (void)thread;
    counted_job *c = (counted_job *)job;
    for (int i = 0; i < 2; i++)
        c->rendered += c->of[i] ? atomic_load(&c->of[i]->rendered) : 0;
    atomic_store(&c->ran, true);
}

static unsigned rendered_of(const counted_job *c) {
    return atomic_load(&c->of[0]->rendered) + (c->of[1] ? atomic_load(&c->of[1]->rendered) : 0);
}

static void *drink(void *argument) {
    int fd = *(int *)argument;
    uint64_t length;
    read_head(fd, &length);
    ck_assert_uint_eq(read_body(fd, 0, length), length);
    close(fd);
    return NULL;
}

/* One worker, two streams that always have a block to render: a request waits for a block of each
 * at most, and the one that is being rendered. The streams get as far as each other. */
START_TEST(streams_and_requests_take_turns) {
    server s;
    start(&s, 1, (size_t)64 * MIB);
    made m[2] = {make(0, 100, 10 * KIB), make(0, 100, 10 * KIB)};
    int fds[2];
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) {
        m[i].takes_us = 3000;
        fds[i] = ask(&s, &m[i]);
        ck_assert_int_eq(pthread_create(&readers[i], NULL, drink, &fds[i]), 0);
        WAIT_FOR(atomic_load(&m[i].rendered) > 0);
    }
    for (int round = 0; round < 10; round++) {
        counted_job c = {.job.run = run_counted, .of = {&m[0], &m[1]}};
        unsigned before = rendered_of(&c);
        ck_assert(dfm_pool_reserve(s.pool)); /* streams take none of the places */
        dfm_pool_submit(s.pool, &c.job);
        WAIT_FOR(atomic_load(&c.ran));
        ck_assert_uint_le(c.rendered, before + 3);
    }
    unsigned first = atomic_load(&m[0].rendered), second = atomic_load(&m[1].rendered);
    ck_assert_uint_lt(first, 100);
    ck_assert_msg(first < second + 20 && second < first + 20, "%u and %u", first, second);
    for (int i = 0; i < 2; i++) {
        pthread_join(readers[i], NULL);
        WAIT_FOR(atomic_load(&m[i].freed) == 1);
    }
    stop(&s);
}
END_TEST

START_TEST(slow_reader_holds_no_worker_and_few_buffers) {
    enum { BLOCK = MIB, WORKERS = 2, WINDOW = WORKERS + 2 };
    server s;
    start(&s, WORKERS, (size_t)64 * MIB);
    made m = make(0, 60, BLOCK);
    int fd = ask_and_read(&s, &m, 3 * BLOCK + 5);
    usleep(100000);
    unsigned rendered = atomic_load(&m.rendered);
    usleep(100000);
    ck_assert_uint_eq(atomic_load(&m.rendered), rendered); /* it has come to rest */
    ck_assert_uint_eq(atomic_load(&m.inside), 0);
    ck_assert_uint_lt(rendered, 60);
    ck_assert_uint_le(dfm_buffer_pool_stats(s.buffers).used_bytes, (size_t)WINDOW * BLOCK);
    counted_job jobs[2] = {{.job.run = run_counted}, {.job.run = run_counted}};
    for (int i = 0; i < 2; i++) {
        ck_assert(dfm_pool_reserve(s.pool));
        dfm_pool_submit(s.pool, &jobs[i].job);
        WAIT_FOR(atomic_load(&jobs[i].ran));
    }
    uint64_t left = m.stream.total_bytes - 3 * BLOCK - 5;
    ck_assert_uint_eq(read_body(fd, 3 * BLOCK + 5, left), left);
    close(fd);
    WAIT_FOR(atomic_load(&m.freed) == 1);
    stop(&s);
}
END_TEST

START_TEST(vanished_reader_gives_everything_back) {
    server s;
    start(&s, 2, (size_t)64 * MIB);
    for (int i = 0; i < 20; i++) {
        made m = make(100, 1000, 50 * KIB);
        m.takes_us = i % 2 ? 0 : 500;
        m.stream.borrows_body = i % 3 == 0;
        close(ask_and_read(&s, &m, (uint64_t)i * 10000));
        WAIT_FOR(atomic_load(&m.freed) == 1);
        ck_assert_uint_lt(atomic_load(&m.rendered), 1000);
        ck_assert_uint_eq(dfm_buffer_pool_stats(s.buffers).used_bytes, 0);
    }
    stop(&s);
}
END_TEST

/* Nobody looks at a suspended connection: its end is found when the block is there. Until then no
 * thread turns in circles. */
START_TEST(reader_that_vanishes_while_a_block_is_made_is_found_after_it) {
    server s;
    start(&s, 2, (size_t)64 * MIB);
    made m = make(0, 50, 400 * KIB);
    m.held_at = 2;
    close(ask_and_read(&s, &m, 2 * 400 * KIB));
    WAIT_FOR(atomic_load(&m.inside) == 2);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    usleep(300000);
    getrusage(RUSAGE_SELF, &after);
    ck_assert_uint_eq(atomic_load(&m.freed), 0);
    ck_assert_int_lt((after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
                         after.ru_utime.tv_usec - before.ru_utime.tv_usec,
                     150000);
    atomic_store(&m.go, true);
    WAIT_FOR(atomic_load(&m.freed) == 1);
    stop(&s);
}
END_TEST

START_TEST(failed_block_cuts_the_connection) {
    static const uint64_t blocks[] = {0, 1, 7, 29};
    server s;
    start(&s, 3, (size_t)64 * MIB);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        made m = make(50, 30, 90000);
        m.fails_at = blocks[i];
        int fd = ask(&s, &m);
        uint64_t length;
        ck_assert_int_eq(read_head(fd, &length), 200);
        ck_assert_uint_le(read_body(fd, 0, length), 50 + blocks[i] * 90000);
        close(fd);
        WAIT_FOR(atomic_load(&m.freed) == 1);
        ck_assert_uint_eq(dfm_buffer_pool_stats(s.buffers).used_bytes, 0);
    }
    stop(&s);
}
END_TEST

START_TEST(one_buffer_is_enough_and_none_is_refused) {
    server s;
    start(&s, 4, (size_t)150 * KIB); /* a second block would pass half of it */
    made m = make(9, 50, 100 * KIB), refused = make(0, 2, 200 * KIB);
    int fd = ask_and_read(&s, &m, 20 * KIB);
    ck_assert_uint_le(dfm_buffer_pool_stats(s.buffers).used_bytes, 112 * KIB);
    uint64_t length, left = m.stream.total_bytes - 20 * KIB;
    ck_assert_uint_eq(read_body(fd, 20 * KIB, left), left);
    close(fd);
    WAIT_FOR(atomic_load(&m.freed) == 1);
    ck_assert_uint_eq(atomic_load(&m.most_inside), 1);
    fd = ask(&s, &refused);
    ck_assert_int_eq(read_head(fd, &length), 503);
    ck_assert_uint_eq(atomic_load(&refused.freed), 1);
    close(fd);
    stop(&s);
}
END_TEST

/* Memory that comes free is taken up in mid-stream. */
START_TEST(stream_that_began_with_one_buffer_takes_more_later) {
    server s;
    start(&s, 4, (size_t)2 * MIB);
    dfm_buffer *others = dfm_buffer_acquire(s.buffers, 1800 * KIB);
    made m = make(0, 200, 100 * KIB);
    int fd = ask_and_read(&s, &m, 10 * 100 * KIB);
    ck_assert_uint_eq(atomic_load(&m.most_inside), 1);
    dfm_buffer_release(s.buffers, others);
    m.takes_us = 2000;
    uint64_t left = m.stream.total_bytes - 10 * 100 * KIB;
    ck_assert_uint_eq(read_body(fd, 10 * 100 * KIB, left), left);
    ck_assert_uint_eq(atomic_load(&m.most_inside), 4);
    close(fd);
    WAIT_FOR(atomic_load(&m.freed) == 1);
    stop(&s);
}
END_TEST

/* Of streams that wait for a worker, for a slow reader, and that begin after the cut. */
START_TEST(cut_ends_every_stream) {
    server s;
    start(&s, 2, (size_t)64 * MIB);
    made slow = make(0, 100, MIB), held = make(0, 100, 100 * KIB), late = make(0, 3, 1000);
    int slow_fd = ask_and_read(&s, &slow, 1000);
    held.held_at = 3;
    int held_fd = ask_and_read(&s, &held, 3 * 100 * KIB);
    WAIT_FOR(atomic_load(&held.inside) == 2);
    ck_assert_uint_eq(dfm_streams_cut(s.streams), 2);
    uint64_t length;
    ck_assert_uint_eq(read_body(held_fd, 3 * 100 * KIB, 1), 0);
    ck_assert_uint_lt(read_body(slow_fd, 1000, slow.stream.total_bytes),
                      slow.stream.total_bytes - 1000);
    WAIT_FOR(atomic_load(&slow.freed) == 1);
    ck_assert_uint_eq(atomic_load(&held.freed), 0); /* a worker is at it */
    int late_fd = ask(&s, &late);
    if (read_head(late_fd, &length) == 200)
        ck_assert_uint_eq(read_body(late_fd, 0, length), 0);
    WAIT_FOR(atomic_load(&late.freed) == 1);
    ck_assert_uint_eq(atomic_load(&late.rendered), 0);
    close(slow_fd), close(held_fd), close(late_fd);
    atomic_store(&held.go, true);
    stop(&s);
    ck_assert_uint_eq(atomic_load(&held.freed), 1);
}
END_TEST

/* Many at once, some of which leave or fail: what the sanitizers look at. */
START_TEST(many_streams_at_once_keep_apart) {
    enum { STREAMS = 24 };
    server s;
    start(&s, 3, (size_t)8 * MIB);
    static made m[STREAMS];
    int fds[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        m[i] = make((uint64_t)i * 100, 40, 30000 + (size_t)i * 1000);
        m[i].fails_at = i % 8 == 3 ? 20 : UINT64_MAX;
        fds[i] = ask(&s, &m[i]);
        uint64_t length;
        ck_assert_int_eq(read_head(fds[i], &length), 200);
    }
    for (int i = 0; i < STREAMS; i++) {
        uint64_t total = m[i].stream.total_bytes;
        if (i % 4 != 1) {
            uint64_t got = read_body(fds[i], 0, total);
            ck_assert((got == total) == (m[i].fails_at == UINT64_MAX));
        }
        close(fds[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        WAIT_FOR(atomic_load(&m[i].freed) == 1);
    stop(&s);
}
END_TEST

int main(void) {
    for (size_t i = 0; i < sizeof head; i++)
        head[i] = byte_at(i);
    Suite *suite = suite_create("stream");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, bytes_come_whole_and_in_order);
    tcase_add_test(tests, connection_goes_on_after_a_stream);
    tcase_add_test(tests, blocks_of_one_stream_spread_over_idle_workers);
    tcase_add_test(tests, streams_and_requests_take_turns);
    tcase_add_test(tests, slow_reader_holds_no_worker_and_few_buffers);
    tcase_add_test(tests, vanished_reader_gives_everything_back);
    tcase_add_test(tests, reader_that_vanishes_while_a_block_is_made_is_found_after_it);
    tcase_add_test(tests, failed_block_cuts_the_connection);
    tcase_add_test(tests, one_buffer_is_enough_and_none_is_refused);
    tcase_add_test(tests, stream_that_began_with_one_buffer_takes_more_later);
    tcase_add_test(tests, cut_ends_every_stream);
    tcase_add_test(tests, many_streams_at_once_keep_apart);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
