#pragma once
/* .NET processes as the kernel shows them: one pass over /proc, without connecting to any process.
 *
 * Knows the name of the diagnostics socket but never opens it (ipc does). Processes start and end during the pass: what
 * vanishes is left out. Nothing here blocks. */

#include "base/err.h"
#include "base/vec.h"

/* Why a process has no diagnostics socket we could use. */
enum target_socket {
	TARGET_SOCKET_PRESENT,
	TARGET_SOCKET_DISABLED, /* diagnostics are switched off (DOTNET_EnableDiagnostics=0) */
	TARGET_SOCKET_AOT,	/* NativeAOT without EventPipe support */
	TARGET_SOCKET_MISSING,	/* it should be there, and is not (deleted, other TMPDIR) */
	TARGET_SOCKET_STARTING, /* it began a moment ago and does not listen yet */
	TARGET_SOCKET_HIDDEN,	/* we may not look */
	TARGET_SOCKET_NONE,	/* not a .NET process (only target_find_pid shows such) */
};

struct target {
	int id;		      /* what the user names it by: the pid, or for sockets without a visible process a stable
				 number above any pid, set by ipc from the runtime's cookie */
	pid_t pid;	      /* as we see it; 0 when the process is not visible */
	pid_t ns_pid;	      /* as it sees itself */
	uint64_t start_ticks; /* since boot: with pid, the identity of the process */
	char *name;	      /* of the process: /proc/PID/comm or the program's file name */
	char *command_line;   /* arguments joined by blanks, capped, for matching and showing */
	char *user;	      /* login name, or the number */
	uid_t uid;
	char *container;	/* 12 digits of the container id, or NULL */
	char *pod;		/* of Kubernetes, "NAMESPACE/POD/CONTAINER", or NULL */
	char *socket;		/* path to connect to (through /proc/PID/root where needed); NULL without */
	char *diagnostic_ports; /* DOTNET_DiagnosticPorts as it has it, or NULL */
	enum target_socket socket_state;
	bool other_mount, other_pid_ns, other_root, stopped /* SIGSTOP or traced */, zombie;
	bool no_access; /* we lack the right to look into it: environment, root and maps are hidden from us */
	pid_t tracer;	/* the debugger that holds it, or 0 */
	uint64_t rss_bytes, cpu_ns, uptime_ns;
	uint64_t seen_ns;	/* monotonic, when cpu_ns was read */
	double cpu_ratio;	/* of one core, since start; target_measure_cpu refines it; negative = not measured */
	uint64_t cpu_window_ns; /* the time cpu_ratio was measured over; 0 = since start */
};
VEC_TYPE(target_list, struct target);

/* Should this socket be asked? Runtimes that were killed leave their sockets behind; a process that crashes again and
 * again leaves thousands. */
struct target_probe {
	bool (*worth)(void *user, const char *socket);
	void *user;
};
/* Every .NET process we can see (by its socket, or by libcoreclr in its maps), and every socket in our own temporary
 * folder that belongs to no visible process and that `worth` accepts (NULL = all). Free with target_list_free. */
struct err *target_find_all(const struct target_probe *probe, struct target_list *ret) MUST_USE;
/* One process by pid, .NET or not: ERR_NOT_FOUND when it is gone. */
struct err *target_find_pid(pid_t pid, struct target *ret) MUST_USE;
/* Measures the CPU used since the first look, as cpu_ratio; does not change it when the process is gone. */
void target_measure_cpu(struct target *t);
/* Path of its libcoreclr.so as it sees it itself, below /proc/PID/root (of the program itself for a single-file application).
 * ERR_NOT_FOUND when it has none, ERR_DENIED when we may not look. The caller frees. */
struct err *target_runtime_path(const struct target *t, char **ret) MUST_USE;
/* A variable it was started with; NULL when absent or hidden from us. The caller frees. */
char *target_env(const struct target *t, const char *name);
/* The pid in the name of its socket: by which a process knows itself that we do not see. 0 without. */
pid_t target_socket_pid(const struct target *t);
/* What its socket alone tells of a process that we do not see. False when the path is not that of a diagnostics socket. */
bool target_of_socket(const char *path, struct target *ret);
/* Login name, or the number. The caller frees. */
char *target_user_name(uid_t uid);
void target_fini(struct target *t);
void target_list_free(struct target_list *list);
/* Same process still (pid and start time), and it has not ended: else ERR_NOT_FOUND. Another kind when that cannot be told, as
 * without a free descriptor. */
struct err *target_check(const struct target *t) MUST_USE;
/* False only when it is known to have ended. */
bool target_alive(const struct target *t);
/* A number that changes when the process becomes another program (execve), though pid and start time stay; 0 = hidden.
 */
uint64_t target_program(const struct target *t);
/* A descriptor that becomes readable (poll) when the process ends; -1 when it has no visible pid. */
struct err *target_pidfd(const struct target *t, int *ret_fd) MUST_USE;
