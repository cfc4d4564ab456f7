#pragma once
/* The texts of /proc and the names of diagnostics sockets, parsed. Pure: no file is opened here.
 *
 * Texts are given with their length and are NUL-terminated behind it (as buf gives them). Names of processes are
 * chosen by the processes: nothing in them is trusted. */

#include "base/base.h"

struct proc_stat {
	char comm[32];
	char state; /* R S D T t Z X I */
	bool kernel_thread;
	int64_t threads;
	uint64_t cpu_ticks; /* user and system */
	uint64_t start_ticks;
	uint64_t stack_start; /* of its first thread; 0 when hidden from us */
};
/* False when the text is not a stat line. */
bool proc_parse_stat(const char *text, size_t len, struct proc_stat *ret);

struct proc_status {
	uid_t uid; /* effective */
	uid_t fs_uid;
	gid_t fs_gid;
	pid_t ns_pid;
	size_t ns_depth; /* pid namespaces from ours down to its own, ours counted: 1 = the same */
	pid_t tracer;
	uint64_t rss_bytes;
	uint64_t cap_effective;
	int seccomp; /* 0 none, 1 strict, 2 filter */
};
/* Lines that are missing leave zeros; false when there is no Uid or no Gid line. */
bool proc_parse_status(const char *text, size_t len, struct proc_status *ret);

/* The soft limit of that name in a text of limits, such as "Max open files"; UINT64_MAX = unlimited. False without. */
bool proc_parse_limit(const char *text, const char *name, uint64_t *ret_soft);

/* The value of a variable in an environ text, or NULL. */
const char *proc_env(const char *environ_text, size_t len, const char *name);
/* DOTNET_<name>, or COMPlus_<name> as older runtimes call it. */
const char *proc_env_dotnet(const char *environ_text, size_t len, const char *name);

/* Arguments joined by blanks, at most max bytes. The caller frees. */
char *proc_command_line(const char *text, size_t len, size_t max);

#define PROC_CONTAINER_DIGITS 12
/* The first digits of the container id in a cgroup text (docker, containerd, cri-o, podman; v1 and v2). */
bool proc_container_from_cgroup(const char *text, char ret[PROC_CONTAINER_DIGITS + 1]);
/* The same from the files that engines mount into a container (/etc/hostname and the like), for when a cgroup
 * namespace hides the path. */
bool proc_container_from_mountinfo(const char *text, char ret[PROC_CONTAINER_DIGITS + 1]);

/* "dotnet-diagnostic-<pid>-<start>-socket" and nothing else. */
bool proc_socket_name(const char *name, uint64_t *ret_pid, uint64_t *ret_start);

/* The first path in a maps text whose file is called name, or NULL. The caller frees. */
char *proc_mapped_file(const char *maps, const char *name);
