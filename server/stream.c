#include "server/stream.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/log.h"

enum {
    /* What libmicrohttpd asks of the reader at a time: a part that is copied and sent while it is
     * in the CPU's cache. Each stream has a buffer of this size there. */
    PART_BYTES = 256 * 1024,
    /* What the kernel takes of a stream beyond what the network has room for. Its own measure grows
     * to megabytes, of which a third must drain before it reports progress: a slow reader would
     * look like one that stands still. */
    UNSENT_BYTES = 256 * 1024,
    /* Blocks at a time: one for each worker, one being sent, one waiting to be sent. */
    WINDOW_BESIDE_WORKERS = 2,
    WINDOW_MIN = 3
};

struct dfm_streams {
    dfm_pool *compute;
    dfm_buffer_pool *buffers;
    uint32_t window; /* the most buffers of a stream */
    pthread_mutex_t lock;
    struct sender *first;
    bool cutting;
};

/* A block between its rendering and the end of its sending. */
typedef struct slot {
    dfm_buffer *buffer;
    bool ready; /* to be sent */
} slot;

typedef struct sender {
    dfm_job turn; /* first, so that the pool's job is its sender */
    dfm_streams *streams;
    dfm_api_stream *source;
    dfm_body body;
    struct MHD_Connection *connection;
    char request_id[DFM_API_REQUEST_ID_BYTES + 1];
    uint64_t *sent_bytes;               /* HTTP thread */
    dfm_account *account;               /* HTTP thread */
    uint64_t begun_ns[DFM_STAGE_COUNT]; /* of `account`, before the first block */
    struct sender *previous, *next;     /* in streams, under its lock */

    pthread_mutex_t lock; /* over all that follows; taken inside of the streams' lock */
    bool turn_queued;
    uint32_t rendering;     /* workers at it now */
    uint64_t claimed, sent; /* blocks: 0 <= sent <= claimed <= sent + window */
    bool waiting;           /* suspended until block `sent` is ready; who clears it resumes */
    bool failed;            /* no more blocks come */
    bool ended;             /* libmicrohttpd reads no more */
    uint32_t window, held;  /* most buffers, and buffers now */
    uint32_t spare_count;
    dfm_buffer **spare; /* held and of no block: `window` pointers, behind the slots */
    slot slots[];       /* `window`: block b is in slot b % window */
} sender;

static slot *slot_of(sender *s, uint64_t block) {
    return &s->slots[block % s->window];
}

/* --- buffers; all with the sender's lock -------------------------------------------------------
 */

/* One for a block. A stream's first buffer may be the last of the budget; more than that it takes
 * only while half of the budget is left to the others. */
static dfm_buffer *take_buffer(sender *s) {
    if (s->spare_count > 0)
        return s->spare[--s->spare_count];
    size_t bytes = s->source->block_bytes;
    dfm_buffer_stats stats = dfm_buffer_pool_stats(s->streams->buffers);
    if (s->held == s->window || (s->held > 0 && stats.used_bytes + bytes > stats.budget_bytes / 2))
        return NULL;
    dfm_buffer *buffer = dfm_buffer_acquire(s->streams->buffers, bytes);
    s->held += buffer != NULL;
    return buffer;
}

static void drop_buffer(sender *s, dfm_buffer *buffer) {
    dfm_buffer_release(s->streams->buffers, buffer);
    s->held--;
}

/* Keeps the buffer for a further block, if there will be one. */
static void put_buffer(sender *s, dfm_buffer *buffer) {
    if (s->ended || s->failed || s->claimed == s->source->block_count)
        drop_buffer(s, buffer);
    else
        s->spare[s->spare_count++] = buffer;
}

/* All but those that are being rendered into. */
static void drop_buffers(sender *s) {
    while (s->spare_count > 0)
        drop_buffer(s, s->spare[--s->spare_count]);
    for (uint64_t block = s->sent; block < s->claimed; block++)
        if (slot_of(s, block)->ready) {
            drop_buffer(s, slot_of(s, block)->buffer);
            slot_of(s, block)->ready = false;
        }
}

/* --- rendering, on the workers -----------------------------------------------------------------
 */

/* With the lock. Queues a turn where there is a block to claim, and most likely a buffer. */
static void queue_turn(sender *s) {
    bool claimable = s->claimed < s->source->block_count && s->claimed - s->sent < s->window;
    bool buffer = s->spare_count > 0 || s->held < s->window;
    if (s->turn_queued || s->ended || s->failed || !claimable || !buffer)
        return;
    s->turn_queued = true;
    dfm_pool_add(s->streams->compute, &s->turn);
}

/* With the lock. False: there is no block to render, or no buffer for it. */
static bool claim(sender *s, uint64_t *block, dfm_buffer **buffer) {
    if (s->ended || s->failed || !(*buffer = take_buffer(s)))
        return false;
    *block = s->claimed++;
    *slot_of(s, *block) = (slot){.buffer = *buffer};
    return true;
}

/* With the lock. True: the connection is to be resumed, once the lock is given back. */
static bool wake(sender *s) {
    bool was_waiting = s->waiting;
    s->waiting = false;
    return was_waiting;
}

/* With the lock. The reader cuts the connection when it comes to the block that is missing. */
__attribute__((format(printf, 2, 3))) static void fail(sender *s, const char *format, ...) {
    char why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (!s->failed && !s->ended)
        dfm_log(DFM_LOG_ERROR, "%s: the stream is cut off: %s", s->request_id, why);
    s->failed = true;
}

/* With the lock. True: the connection is to be resumed. */
static bool end_render(sender *s, uint64_t block, const char *why) {
    slot *place = slot_of(s, block);
    s->rendering--;
    if (why) {
        fail(s, "block %" PRIu64 " of %" PRIu64 ": %s", block, s->source->block_count, why);
        drop_buffer(s, place->buffer);
        return wake(s);
    }
    if (s->ended) {
        drop_buffer(s, place->buffer);
        return false;
    }
    place->ready = true;
    return block == s->sent && wake(s);
}

static int socket_of(const sender *s) {
    return MHD_get_connection_info(s->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static void free_source(dfm_api_stream *source, dfm_body *body) {
    source->free(source);
    dfm_body_free(body);
}

static void destroy(sender *s) {
    free_source(s->source, &s->body);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void render(sender *s, uint64_t block, uint32_t thread, dfm_buffer *buffer) {
    const char *why = NULL;
    bool good = s->source->render(s->source, block, thread, buffer->data, &why);
    pthread_mutex_lock(&s->lock);
    bool resume = end_render(s, block, good ? NULL : why ? why : "it cannot be made");
    bool last = s->ended && s->rendering == 0 && !s->turn_queued;
    pthread_mutex_unlock(&s->lock);
    if (resume)
        MHD_resume_connection(s->connection);
    if (last)
        destroy(s);
}

static void run_turn(dfm_job *job, uint32_t thread) {
    sender *s = (sender *)job;
    uint64_t block;
    dfm_buffer *buffer;
    pthread_mutex_lock(&s->lock);
    s->turn_queued = false;
    bool claimed = claim(s, &block, &buffer);
    s->rendering += claimed;
    if (claimed)
        queue_turn(s);
    bool last = s->ended && s->rendering == 0;
    pthread_mutex_unlock(&s->lock);
    if (claimed)
        render(s, block, thread, buffer);
    else if (last)
        destroy(s);
}

/* --- sending, on the HTTP thread ---------------------------------------------------------------
 */

/* The next block's bytes; NULL: not yet, or never. Where the reader has nothing to give without
 * them it waits for them: suspended under the lock, so that the resume comes after it. */
static const uint8_t *next_block(sender *s, bool wait, bool *failed) {
    pthread_mutex_lock(&s->lock);
    slot *next = slot_of(s, s->sent);
    bool ready = s->sent < s->claimed && next->ready;
    const uint8_t *bytes = ready ? next->buffer->data : NULL;
    *failed = !ready && s->failed;
    if (!ready && !s->failed && wait) {
        s->waiting = true;
        MHD_suspend_connection(s->connection);
    }
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

static void end_block(sender *s) {
    pthread_mutex_lock(&s->lock);
    slot *done = slot_of(s, s->sent++);
    done->ready = false;
    put_buffer(s, done->buffer);
    queue_turn(s);
    pthread_mutex_unlock(&s->lock);
}

static size_t smaller(uint64_t a, uint64_t b) {
    return (size_t)(a < b ? a : b);
}

/* What the frames took that were made when the answer began, and the blocks since. */
static void account(const sender *s) {
    const dfm_api_stream *source = s->source;
    uint64_t *stage_ns = s->account->stage_ns;
    stage_ns[DFM_STAGE_SOLVE] = s->begun_ns[DFM_STAGE_SOLVE] + source->solve_ns;
    stage_ns[DFM_STAGE_SKIN] = s->begun_ns[DFM_STAGE_SKIN] + source->skin_ns;
    stage_ns[DFM_STAGE_ENCODE] = s->begun_ns[DFM_STAGE_ENCODE] + source->encode_ns;
}

/* Each byte is asked for once, in order. */
static ssize_t read_part(void *context, uint64_t position, char *part, size_t size) {
    sender *s = context;
    const dfm_api_stream *source = s->source;
    size_t filled = 0;
    bool failed = false;
    if (position < source->head_bytes) {
        filled = smaller(source->head_bytes - position, size);
        memcpy(part, source->head + position, filled);
    }
    while (filled < size && position + filled < source->total_bytes) {
        const uint8_t *block = next_block(s, filled == 0, &failed);
        if (!block)
            break;
        uint64_t at = (position + filled - source->head_bytes) % source->block_bytes;
        size_t bytes = smaller(size - filled, source->block_bytes - at);
        memcpy(part + filled, block + at, bytes);
        filled += bytes;
        if (at + bytes == source->block_bytes)
            end_block(s);
    }
    *s->sent_bytes = position + filled;
    account(s);
    return failed && filled == 0 ? MHD_CONTENT_READER_END_WITH_ERROR : (ssize_t)filled;
}

/* --- life --------------------------------------------------------------------------------------
 */

static void enter(sender *s) {
    dfm_streams *streams = s->streams;
    pthread_mutex_lock(&streams->lock);
    s->next = streams->first;
    if (s->next)
        s->next->previous = s;
    streams->first = s;
    s->failed = streams->cutting;
    pthread_mutex_unlock(&streams->lock);
}

static void leave(sender *s) {
    dfm_streams *streams = s->streams;
    pthread_mutex_lock(&streams->lock);
    if (s->previous)
        s->previous->next = s->next;
    else
        streams->first = s->next;
    if (s->next)
        s->next->previous = s->previous;
    pthread_mutex_unlock(&streams->lock);
}

/* libmicrohttpd is through with it, for whatever reason; workers may not be. */
static void end(void *context) {
    sender *s = context;
    leave(s);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    drop_buffers(s);
    bool last = s->rendering == 0 && !s->turn_queued;
    pthread_mutex_unlock(&s->lock);
    if (last)
        destroy(s);
}

static sender *create(dfm_streams *streams, const dfm_stream_order *order) {
    dfm_body body = order->body;
    uint64_t window = smaller(streams->window, order->source->block_count);
    window += window == 0; /* a head alone */
    sender *s = calloc(1, sizeof *s + window * (sizeof(slot) + sizeof(dfm_buffer *)));
    if (!s) {
        free_source(order->source, &body);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->turn.run = run_turn;
    s->streams = streams;
    s->source = order->source;
    s->body = body;
    s->connection = order->connection;
    s->sent_bytes = order->sent_bytes;
    s->account = order->account;
    memcpy(s->begun_ns, order->account->stage_ns, sizeof s->begun_ns);
    snprintf(s->request_id, sizeof s->request_id, "%s", order->request_id);
    s->window = (uint32_t)window;
    s->spare = (dfm_buffer **)&s->slots[window];
    return s;
}

/* Holds a buffer from its beginning on, so that it gets on whatever others take. */
static bool take_first_buffer(sender *s) {
    if (s->source->block_count == 0)
        return true;
    dfm_buffer *buffer = take_buffer(s);
    if (buffer)
        s->spare[s->spare_count++] = buffer;
    return buffer != NULL;
}

struct MHD_Response *dfm_streams_answer(dfm_streams *streams, const dfm_stream_order *order) {
    uint64_t total = order->source->total_bytes;
    sender *s = create(streams, order);
    if (!s)
        return NULL;
    struct MHD_Response *answer = NULL;
    if (take_first_buffer(s))
        answer = MHD_create_response_from_callback(total, smaller(PART_BYTES, total + (total == 0)),
                                                   read_part, s, end);
    if (!answer) {
        drop_buffers(s);
        destroy(s);
        return NULL;
    }
    enter(s);
    /* Fails on a Unix socket, which keeps little anyway. */
    setsockopt(socket_of(s), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){UNSENT_BYTES}, sizeof(int));
    pthread_mutex_lock(&s->lock);
    queue_turn(s);
    pthread_mutex_unlock(&s->lock);
    return answer;
}

/* With the streams' lock, which keeps the sender, and so its connection's socket, in being. The
 * shut wakes libmicrohttpd where it waits for the socket, and makes it close the connection. */
static void cut(sender *s) {
    pthread_mutex_lock(&s->lock);
    fail(s, "the server ends");
    bool resume = wake(s);
    pthread_mutex_unlock(&s->lock);
    shutdown(socket_of(s), SHUT_RDWR);
    if (resume)
        MHD_resume_connection(s->connection);
}

uint32_t dfm_streams_count(dfm_streams *streams) {
    uint32_t count = 0;
    pthread_mutex_lock(&streams->lock);
    for (const sender *s = streams->first; s; s = s->next)
        count++;
    pthread_mutex_unlock(&streams->lock);
    return count;
}

uint32_t dfm_streams_cut(dfm_streams *streams) {
    uint32_t count = 0;
    pthread_mutex_lock(&streams->lock);
    streams->cutting = true;
    for (sender *s = streams->first; s; s = s->next, count++)
        cut(s);
    pthread_mutex_unlock(&streams->lock);
    return count;
}

dfm_streams *dfm_streams_create(dfm_pool *compute, dfm_buffer_pool *buffers,
                                uint32_t worker_count) {
    dfm_streams *streams = calloc(1, sizeof *streams);
    if (!streams)
        return NULL;
    pthread_mutex_init(&streams->lock, NULL);
    streams->compute = compute;
    streams->buffers = buffers;
    streams->window = worker_count + WINDOW_BESIDE_WORKERS;
    if (streams->window < WINDOW_MIN)
        streams->window = WINDOW_MIN;
    return streams;
}

void dfm_streams_free(dfm_streams *streams) {
    if (!streams)
        return;
    pthread_mutex_destroy(&streams->lock);
    free(streams);
}
