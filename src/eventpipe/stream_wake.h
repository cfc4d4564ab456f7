#pragma once
/* Makes the streams of a runtime end soon after they are asked to.
 *
 * The runtime has a thread for each stream: it writes what there is, sleeps 100 ms and writes again; if there was
 * nothing it first waits for an event, and then sleeps as well. It checks whether to stop only after a sleep, so an
 * idle stream takes 100 ms to end, and the next stream, which is stopped after it, another 100 ms.
 *
 * The end of any session is an event in all the others. So a session that exists only for this is ended 200 ms before:
 * the threads of the others wake up, sleep, write that event, sleep again, and check just when they are to stop. Busy
 * streams are not affected. It costs the target an idle thread and one event.
 *
 * If any step fails, streams end as late as they would without. */

#include "base/clock.h"

/* How long before the streams are asked to end stream_wake_give() is to be called. */
#define STREAM_WAKE_BEFORE_NS (190 * NS_PER_MS)

struct stream_wake;
/* NULL when its session could not be opened. */
struct stream_wake *stream_wake_new(const char *socket, struct deadline deadline);
/* Ends the session, once; does nothing when that was done before, or for NULL. */
void stream_wake_give(struct stream_wake *k);
bool stream_wake_given(const struct stream_wake *k);
/* Closes the session, whether or not it was ended before. */
void stream_wake_free(struct stream_wake *k);
