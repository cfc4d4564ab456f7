#include "eventpipe/settle.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

static bool is_of_the_runtime(const char *provider)
{
	static const char *const names[] = { CLR_PROVIDER, CLR_RUNDOWN_PROVIDER, CLR_SAMPLE_PROVIDER,
					     "Microsoft-DotNETCore-EventPipe" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq_nocase(provider, names[i]))
			return true;
	return false;
}

static bool is_of_the_runtime_only(const struct ipc_trace_config *config)
{
	for (size_t i = 0; i < config->n_providers; i++)
		if (!is_of_the_runtime(config->providers[i].name))
			return false;
	return true;
}

uint64_t settle_age_ms(const char *socket)
{
	struct stat st;
	if (lstat(socket, &st) < 0)
		return 0;
	int64_t made_ns = timespec_ns(st.st_mtim), now_ns = clock_real_ns();
	return now_ns > made_ns ? (uint64_t)(now_ns - made_ns) / NS_PER_MS : 0;
}

uint64_t settle_left_ms(const char *socket, const struct ipc_trace_config *config)
{
	if (config && (config->at_start || is_of_the_runtime_only(config)))
		return 0;
	uint64_t age = settle_age_ms(socket);
	return age < SETTLE_MS ? SETTLE_MS - age : 0;
}

struct err *settle_wait(const char *socket, const struct ipc_trace_config *config, int cancel_fd)
{
	struct deadline end = deadline_in_ms(settle_left_ms(socket, config));
	while (!deadline_passed(end)) {
		struct pollfd fd = { .fd = cancel_fd, .events = POLLIN };
		int n = poll(&fd, 1, deadline_poll_ms(end));
		if (n < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		if (n > 0)
			return err_new(ERR_CANCELLED, "cancelled while the program started");
	}
	return NULL;
}
