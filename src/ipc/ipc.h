#pragma once
/* The diagnostics IPC protocol: one command a connection, every wait with a deadline, replies treated as hostile.
 *
 * Knows nothing of what a trace contains. The other process may be stopped, hanging, malicious or gone. */

#include "base/clock.h"
#include "base/err.h"

struct ipc_process_info {
	uint64_t pid; /* as it sees itself */
	uint8_t cookie[16];
	char *command_line, *os, *arch, *entry_assembly, *runtime_version, *rid; /* NULL where the runtime is too old */
	int command; /* 3, 2 or 1: the ProcessInfo version that answered */
};
/* ProcessInfo3, then 2, then 1. */
struct err *ipc_process_info(const char *socket, struct deadline deadline, struct ipc_process_info *ret) MUST_USE;
void ipc_process_info_fini(struct ipc_process_info *info);

struct ipc_provider {
	const char *name;
	uint64_t keywords;
	uint32_t level;		  /* 0..5 */
	const char *args;	  /* key=value;... or NULL */
	const uint32_t *only_ids; /* asks the runtime to send these events only; older runtimes send all */
	size_t n_only_ids;
	bool skip_ids; /* the numbers above are those not to send */
};

struct ipc_trace_config {
	uint32_t buffer_mb; /* upper bound on memory in the target */
	bool stacks;
	uint64_t rundown; /* keywords of the rundown at the end, 0 = none; before .NET 9 any but 0 means all of it */
	const struct ipc_provider *providers;
	size_t n_providers;
	bool at_start; /* the runtime was told to wait for us: none of the program's code has run */
};

struct ipc_trace {
	int fd; /* the stream; closing it ends the session */
	uint64_t session_id;
	int command;	     /* the CollectTracing version that was accepted (1..6) */
	bool stacks_refused; /* we asked for none, and the runtime is too old to leave them out */
	bool ids_ignored;    /* the event-id filter is not known to it */
};
/* Probes the command version downwards. Provider callbacks run in the target before the reply, so give it seconds. */
struct err *ipc_trace_start(const char *socket, const struct ipc_trace_config *config, struct deadline deadline,
			    struct ipc_trace *ret) MUST_USE;
/* Starts and stops a session at once, for what the runtime lists at the end of one. If that is quick enough, the
 * session ends before the runtime's thread for it begins its first sleep of 100 ms. *ret_stop_fd is as that of
 * ipc_trace_stop(). */
struct err *ipc_trace_glance(const char *socket, const struct ipc_trace_config *config, struct deadline deadline,
			     struct ipc_trace *ret, int *ret_stop_fd) MUST_USE;
/* Sends the same and returns at once, for providers that do work while they are enabled and delay the runtime's answer:
 * the answer comes on *ret_fd, followed by the stream. */
struct err *ipc_trace_ask(const char *socket, const struct ipc_trace_config *config, struct deadline deadline,
			  int *ret_fd) MUST_USE;
/* The answer, once it can be read. */
struct err *ipc_trace_answer(int fd, struct deadline deadline, uint64_t *ret_session_id) MUST_USE;
enum ipc_dump_type { IPC_DUMP_MINI = 1, IPC_DUMP_HEAP = 2, IPC_DUMP_FULL = 4 };
/* Asks the runtime to write a core file at that path, which is absolute and in its own mount namespace; the process is
 * stopped meanwhile. Returns at once; the answer comes on *ret_fd, which the caller closes. version: 3, 2 or 1 of the
 * command. */
struct err *ipc_dump_start(const char *socket, const char *path, enum ipc_dump_type type, int version,
			   struct deadline deadline, int *ret_fd) MUST_USE;
/* The answer, once it can be read. *ret_known false: it does not know this version. */
struct err *ipc_dump_answer(int fd, struct deadline deadline, bool *ret_known) MUST_USE;

/* Sends StopTracing and returns at once; the reply comes on *ret_fd only when the stream has been drained, so keep
 * reading the stream. The caller closes *ret_fd once the stream has ended. */
struct err *ipc_trace_stop(const char *socket, uint64_t session_id, struct deadline deadline, int *ret_fd) MUST_USE;

struct ipc_attach {
	uint8_t clsid[16];
	const char *path; /* of the library, as the process sees it */
	const void *data; /* for the library, which gets a copy */
	size_t len;
	uint32_t timeout_ms; /* within which the runtime must be ready for it */
};
/* Makes the runtime load a library as its profiler. *ret_hresult is its answer, 0 = loaded; an error means that there
 * was none. */
struct err *ipc_attach_profiler(const char *socket, const struct ipc_attach *attach, struct deadline deadline,
				uint32_t *ret_hresult) MUST_USE;
/* A variable of its environment; *ret is NULL when it is not set. The caller frees. */
struct err *ipc_process_env(const char *socket, const char *name, struct deadline deadline, char **ret) MUST_USE;
