/* Tries a skinner out in a child process, before the daemon trusts it.
 *
 * OpenCL drivers are the one part of the process that others write and install: some end the whole
 * process where they do not like a machine (PoCL 3.1 aborts where it sees no memory to run in).
 * What ends the child is a reason to do without the driver, and the daemon lives.
 * Thread safety: forks, so call it before any thread is started. */
#ifndef DFM_SERVER_PROBE_H
#define DFM_SERVER_PROBE_H

#include "core/skinner.h"

/* Opens and closes the skinner in a child. True: the child came through, whatever the skinner
 * answered. False: it was ended by a signal, or took longer than `timeout_ms`; error->info says
 * so, status DFM_ERROR_UNAVAILABLE. */
bool dfm_probe_skinner(const dfm_skinner_backend *backend, const dfm_skinner_options *options,
                       int timeout_ms, dfm_error *error);

#endif
