/* Threads that wait for room in the queue of the console logger: whoever reads the console is slower than what is logged,
 * and each log call then blocks. */

#include "base/str.h"
#include "threads/thread_snapshot.h"

static bool waits_for_logger(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	static const char enqueue[] = "Microsoft.Extensions.Logging.Console.ConsoleLoggerProcessor.Enqueue";
	for (size_t i = 0; i < t->n; i++)
		if (str_starts(snapshot_frame(s, t, i)->name, enqueue))
			return activity_is_blocked(snapshot_activity(s, t));
	return false;
}

uint32_t snapshot_logger_waits(const struct thread_snapshot *s, const struct snapshot_thread **ret_one)
{
	uint32_t n = 0;
	*ret_one = NULL;
	vec_each(t, &s->threads) {
		if (!waits_for_logger(s, t))
			continue;
		*ret_one = *ret_one ? *ret_one : t;
		n++;
	}
	return n;
}
