/* Targets of which nothing is seen but the diagnostics socket: the runtime in another container that shares the folder with us. */

#include "base/str.h"
#include "target/proc.h"
#include "target/target.h"
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

char *target_user_name(uid_t uid)
{
	char space[4096];
	struct passwd entry, *found = NULL;
	bool named = !getpwuid_r(uid, &entry, space, sizeof(space), &found) && found;
	return named ? mem_strdup(entry.pw_name) : mem_printf("%u", uid);
}

pid_t target_socket_pid(const struct target *t)
{
	const char *slash = t->socket ? strrchr(t->socket, '/') : NULL;
	uint64_t pid, start;
	return slash && proc_socket_name(slash + 1, &pid, &start) && pid <= INT_MAX ? (pid_t)pid : 0;
}

bool target_of_socket(const char *path, struct target *ret)
{
	const char *slash = strrchr(path, '/');
	uint64_t pid, start;
	struct stat st;
	if (!slash || !proc_socket_name(slash + 1, &pid, &start) || pid > INT_MAX || lstat(path, &st) < 0 ||
	    !S_ISSOCK(st.st_mode))
		return false;
	*ret = (struct target){
		.ns_pid = (pid_t)pid,
		.start_ticks = start,
		.uid = st.st_uid,
		.name = mem_strdup(""),
		.command_line = mem_strdup(""),
		.user = target_user_name(st.st_uid),
		.socket = mem_strdup(path),
		.other_pid_ns = true,
		.cpu_ratio = -1,
	};
	return true;
}
