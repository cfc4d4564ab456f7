/* drdotnet _worker: the process that carries out one session; session/worker.c does the work. */

#include "cli/commands.h"
#include "profilers/registry.h"
#include "session/session.h"

static struct err *run(const struct args *args, int *ret_exit)
{
	*ret_exit = session_worker(args->words[0], profiler_find);
	return NULL;
}

const struct command cmd_worker = {
	.name = "_worker",
	.words = "GUID",
	.summary = "Do the work of one session (started by drdotnet itself).",
	.example = "drdotnet run PROFILER TARGET     starts one",
	.min_words = 1,
	.max_words = 1,
	.hidden = true,
	.run = run,
};
