/* A deform's result as a stream: rendered by any workers while it is sent (dfm_api_stream).
 *
 * Thread safety: as dfm_api_stream says. */
#ifndef DFM_API_RESULT_STREAM_H
#define DFM_API_RESULT_STREAM_H

#include "api/render.h"

/* A result of several frames of more bytes than this is answered as a stream. */
enum { DFM_STREAM_MIN_BYTES = 4 << 20 };

/* Frames smaller than this are rendered several at a time, so that a block is worth the hand-over
 * between threads. */
enum { DFM_STREAM_BLOCK_BYTES = 256 << 10 };

bool dfm_result_is_streamed(const dfm_render *render);

/* Takes the render over where it succeeds, and renders the first frames, so that what is wrong with
 * the request is found before the answer begins. The request may go. NULL: call->problem. */
dfm_api_stream *dfm_result_stream_create(dfm_call *call, dfm_render *render,
                                         dfm_deform_times *times);

/* What was taken over, borrowed. */
const dfm_render *dfm_result_stream_render(const dfm_api_stream *stream);

#endif
