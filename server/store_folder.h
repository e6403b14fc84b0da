/* A store of uploads in a folder, which any number of processes may share (NFS, CephFS, EFS).
 *
 *     DIR/format                       "deformd store 1"
 *     DIR/models/<id>/file             the bytes as they were uploaded
 *     DIR/models/<id>/about.json
 *     DIR/motions/<id>/...
 *     DIR/tmp/<random>/                one of each process, and
 *     DIR/tmp/<random>.lock            which it holds a lock on
 *
 * An item is made whole in the process's own folder under tmp, synced, and moved into place by one
 * rename; it is removed by one rename the other way. So it is there or not, whenever a process is
 * killed, and what is left behind lies in the folder of a process whose lock nobody holds any more:
 * whoever opens the store next deletes that. Where nothing but the last sync fails, what failed may
 * be seen all the same: to take it back could take back what another process acknowledged
 * meanwhile. A folder that is removed while it is in use is a failure (STORE) until the next open.
 * Thread safety: as api/store.h asks. No name from a client gets here but ids of 32 hex digits, and
 * symbolic links below DIR are not followed. */
#ifndef DFM_SERVER_STORE_FOLDER_H
#define DFM_SERVER_STORE_FOLDER_H

#include "api/store.h"

/* Opens DIR, or makes it where its parent exists, and cleans up after dead processes. On a
 * read-only file system it is opened for reading. False: `message` says why not, in one sentence;
 * true: it is empty, or says that nothing can be written. */
bool dfm_store_folder_open(const char *path, dfm_store *store, char *message, size_t message_bytes);

/* No call is running. An empty store is allowed. */
void dfm_store_folder_close(dfm_store *store);

#endif
