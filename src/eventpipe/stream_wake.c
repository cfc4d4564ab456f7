#include "eventpipe/stream_wake.h"
#include "base/fd.h"
#include "ipc/ipc.h"

#define GIVE_TIMEOUT_MS 20 /* later would be too late */

struct stream_wake {
	char *socket;
	struct ipc_trace trace;
	int stop_fd;
	bool given, stopped;
};

struct stream_wake *stream_wake_new(const char *socket, struct deadline deadline)
{
	/* There must be a provider. Its one event is in every session anyway. */
	static const struct ipc_provider provider = { .name = "Microsoft-DotNETCore-EventPipe", .level = 1 };
	struct ipc_trace_config config = { .buffer_mb = 1, .providers = &provider, .n_providers = 1 };
	struct stream_wake *k = mem_zalloc(sizeof(*k));
	k->socket = mem_strdup(socket);
	k->trace.fd = k->stop_fd = -1;
	struct err *err = ipc_trace_start(socket, &config, deadline, &k->trace);
	if (!err)
		return k;
	err_free(err);
	stream_wake_free(k);
	return NULL;
}

static void stop(struct stream_wake *k)
{
	struct err *err = ipc_trace_stop(k->socket, k->trace.session_id, deadline_in_ms(GIVE_TIMEOUT_MS), &k->stop_fd);
	k->stopped = !err;
	err_ignore(err);
}

void stream_wake_give(struct stream_wake *k)
{
	if (!k || k->given)
		return;
	k->given = true;
	stop(k);
}

bool stream_wake_given(const struct stream_wake *k)
{
	return k->given;
}

void stream_wake_free(struct stream_wake *k)
{
	if (!k)
		return;
	/* Also when that failed before: otherwise the runtime would not notice before it has something to write. */
	if (k->trace.fd >= 0 && !k->stopped)
		stop(k);
	fd_closep(&k->stop_fd);
	fd_closep(&k->trace.fd);
	mem_free(k->socket);
	mem_free(k);
}
