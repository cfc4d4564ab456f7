#pragma once
/* `--server URL [--token T]`: the command runs on that server, its output comes here; and the restrictions of a command
 * that a remote user asked for. */

#include "cli/command.h"

/* What every command with .remote takes too; ended by name NULL. */
extern const struct option remote_options[];

struct remote {
	const char *url, *token, *ca_file;
};
/* Takes --server, --token, --token-file and --ca-file out of the words (before a "--"). *ret_given: there was a server. */
struct err *remote_take(int *argc, char **argv, struct remote *ret, bool *ret_given) MUST_USE;
/* argv without the program's name. The exit code is the command's. */
struct err *remote_run(const struct remote *r, int argc, char **argv, int *ret_exit) MUST_USE;
/* `drdotnet _remote ...`: on the server, before anything is done. */
struct err *remote_check(const struct args *args) MUST_USE;
