#pragma once
/* Where a process would leave its core file, noted while it lives: by its runtime (DOTNET_DbgEnableMiniDump) or by the
 * kernel (core_pattern, when that is a file). Nothing is opened of it before it has ended. */

#include "target/target.h"

#define CORE_PLACES 2
struct core_place {
	int root, folder; /* the process's root, and the folder that it works in; -1 = not open to us */
	uid_t uid;
	char *names[CORE_PLACES]; /* absolute below root, else below folder; NULL = none */
};
void core_place_note(const struct target *t, struct core_place *ret);
/* Opens the file that came there since then and belongs to the process's user; -1 = there is none. */
int core_place_open(const struct core_place *p, int64_t since_unix_ns);
void core_place_fini(struct core_place *p);

/* Inside, for tests: the name with its %p and the like put in; NULL when it has one that is not known here. */
char *core_place_name(const char *pattern, pid_t pid, pid_t ns_pid, const char *comm);
