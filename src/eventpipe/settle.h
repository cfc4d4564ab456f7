#pragma once
/* Not while a program starts: a session that turns on event sources of managed code just when the program makes its own can hang that
 * program for ever. The runtime takes two locks in opposite order: that of all listeners, and that of a type which is being initialized
 * (dotnet/runtime 105682, 118014, 119014; of 100 starts with counters asked for at once, 3 to 14 hung on .NET 8, 9 and 10). Sessions of
 * the runtime's own events hung none of 300.
 *
 * The age of a runtime is that of its socket, which it makes before the program's first instruction. */

#include "ipc/ipc.h"

#define SETTLE_MS 5000
#define SETTLE_UNASKED_MS                                                                                              \
	30000 /* for sessions that no user asked for: the server's live list opens one in every process */

/* Since the runtime made its socket; 0 when that cannot be told. */
uint64_t settle_age_ms(const char *socket);
/* How long such a session must still wait; 0 = it may be opened. config: NULL for one of managed sources. */
uint64_t settle_left_ms(const char *socket, const struct ipc_trace_config *config);
/* Waits for that. ERR_CANCELLED once cancel_fd (-1: none) can be read. */
struct err *settle_wait(const char *socket, const struct ipc_trace_config *config, int cancel_fd) MUST_USE;
