#pragma once
/* Starts a program whose .NET runtime waits before its first instruction until we send it the resume command.
 *
 * The first runtime that connects is the one to examine; runtimes that it starts in turn are resumed at once. The
 * program keeps our standard input and output, our process group, and nothing else of ours: the variable that made its
 * runtime connect to us is removed from its environment before it runs. When we are killed while it waits, a watcher
 * process resumes it. Nothing is left behind. */

#include "ipc/reverse.h"

struct launch;
/* argv[0] is the program, searched in PATH. ERR_NOT_FOUND, ERR_DENIED ... when it cannot be started. */
struct err *launch_start(char *const *argv, struct launch **ret) MUST_USE;
/* Resumes a waiting runtime; does not end the program. */
void launch_free(struct launch *l);
DEFINE_CLEANUP(launch_free, struct launch *)

/* Readable when launch_turn has something to do: a connection, or the program's end. */
int launch_fd(const struct launch *l);
struct err *launch_turn(struct launch *l) MUST_USE;
/* The pid of the runtime that waits or was resumed; 0 before it connected. */
pid_t launch_runtime(const struct launch *l);
struct err *launch_resume(struct launch *l) MUST_USE;

void launch_signal(struct launch *l, int signal);
/* Did it end? *ret_code as a shell says it: its exit code, or 128 and the signal. */
bool launch_ended(const struct launch *l, int *ret_code);
