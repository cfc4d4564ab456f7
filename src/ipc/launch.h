#pragma once
/* A program started by us, whose .NET runtime waits before its first instruction until it is told to go on.
 *
 * The first runtime that calls is the one to examine; runtimes that it starts in turn are let go on at once. The
 * program keeps our standard input and output, our process group, and nothing else of ours: what made its runtime call
 * us is taken out of its environment again before it runs. When we die while it waits, it is told to go on by a
 * watcher. Nothing is left behind. */

#include "ipc/reverse.h"

struct launch;
/* Behind argv[0] stand the arguments; PATH is searched. ERR_NOT_FOUND, ERR_DENIED ... when it cannot be started. */
struct err *launch_start(char *const *argv, struct launch **ret) MUST_USE;
/* Lets a waiting runtime go on; does not end the program. */
void launch_free(struct launch *l);
DEFINE_CLEANUP(launch_free, struct launch *)

/* Readable when launch_turn has something to do: a call, or the program's end. */
int launch_fd(const struct launch *l);
struct err *launch_turn(struct launch *l) MUST_USE;
/* The pid of the runtime that waits, or has been told to go on; 0 before it called. */
pid_t launch_runtime(const struct launch *l);
struct err *launch_resume(struct launch *l) MUST_USE;

void launch_signal(struct launch *l, int signal);
/* Did it end? *ret_code as a shell says it: its exit code, or 128 and the signal. */
bool launch_ended(const struct launch *l, int *ret_code);
