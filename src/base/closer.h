#pragma once
/* A child process that closes descriptors, so that this process does not wait until the kernel has closed them.
 *
 * To close the last descriptor of a perf event the kernel has to reach the thread that the event counts. If that thread
 * switches often, or the machine is busy or virtual, this takes anything up to seconds for each. The child gets the
 * descriptors over a socket; our own close() then only drops a reference. The child holds nothing else of ours,
 * outlives us, and ends when it has closed all. */

#include "base/err.h"

struct closer;
/* NULL when it cannot be started. */
struct closer *closer_new(void);
/* Closes the descriptors, in the child or (closer NULL) here. The caller no longer owns them. */
void closer_take(struct closer *c, const int *fds, size_t n);
/* NULL is fine. */
void closer_free(struct closer *c);
