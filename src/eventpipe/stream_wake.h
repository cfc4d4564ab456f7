#pragma once
/* Lets the streams of a runtime end soon after they are asked to.
 *
 * The runtime has a thread for each stream: it writes what there is, sleeps 100 ms and writes again; when there was
 * nothing it first waits for an event, and then sleeps all the same. It notices that it shall stop only after a sleep,
 * so an idle stream takes 100 ms to end, and the next one, which waits for its turn meanwhile, as long again.
 *
 * The end of any session is an event in all the others. So one that is there for nothing else is ended 200 ms before:
 * the threads of the others wake up, sleep, write that event, sleep again, and are back just when they are to stop.
 * Streams that are busy keep their own time and gain nothing. It costs the target an idle thread and one event.
 *
 * Where something of it fails, streams end as late as they would without. */

#include "base/clock.h"

/* How long before the streams are asked to end it is to be given. */
#define STREAM_WAKE_BEFORE_NS (190 * NS_PER_MS)

struct stream_wake;
/* NULL when it could not be made ready. */
struct stream_wake *stream_wake_new(const char *socket, struct deadline deadline);
/* Once: does nothing when it was given before, or is NULL. */
void stream_wake_give(struct stream_wake *k);
bool stream_wake_given(const struct stream_wake *k);
/* The session ends with it, given or not. */
void stream_wake_free(struct stream_wake *k);
