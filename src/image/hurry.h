#pragma once
/* The first turn on a CPU, for the milliseconds in which a process stands still because of us. On a busy machine that decides
 * how long they are: each time a thread is waited for, it has to get a CPU first, and then we have to.
 *
 * Our own priority is raised where that is allowed: real time (CAP_SYS_NICE, RLIMIT_RTPRIO), or else a lower niceness
 * (RLIMIT_NICE). That of a thread of the process is never set. It inherits ours for as long as we wait for it, as an owner of a
 * lock inherits that of who waits for the lock: the kernel takes it back when our wait ends, our death included.
 *
 * For a process of ours with one thread (tracer.c, prove.c), which has SIGCHLD blocked. Private to image. */

#include "base/base.h"
#include "base/clock.h"

/* Once, before anything is stopped: takes the signals that end waits, and touches and locks our program, C library and stack, so that
 * no page of them is faulted in later. */
void hurry_prepare(void);
/* The same of memory that will be written. */
void hurry_touch(void *p, size_t len);

/* How many times as long as on a machine of our own what we did since hurry_prepare() has taken, because we waited for a CPU; 1
 * where the kernel does not count that. */
double hurry_delay(void);

enum hurry_kind { HURRY_NOT, HURRY_NICE, HURRY_REALTIME };
/* From here to hurry_end() we go first; says how. Both may be called when it is so already. */
enum hurry_kind hurry_begin(void);
void hurry_end(void);

/* To wait for a report (SIGCHLD) of a thread that is traced: call hurry_aim() with its tid (0: of any child), check whether its
 * report is there already, then call hurry_wait(). That returns when a report came after hurry_aim(), at the deadline, and
 * sometimes for no reason. While it waits the thread has our priority, if hurry_lends(). */
void hurry_aim(pid_t tid);
void hurry_wait(struct deadline deadline);
bool hurry_lends(void);
