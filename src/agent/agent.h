#pragma once
/* The library that the runtime loads into a target on our behalf, for the files of this module.
 *
 * It links nothing, allocates nothing but two mappings of its own, keeps no file, and is unloaded when its work is
 * done: profiler.c is loaded and unloaded by the runtime, image.c makes a copy of the process, copy.c is what the copy
 * does, cpu.c and ticks.c take samples of CPU time. It runs in production processes of others: it never aborts, never
 * prints, and every wait ends when drdotnet closes the connection or time is up. */

#include "com/profiler.h"
#include "wire/agent.h"
#include <stdbool.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);

struct agent {
	struct cor_profiler_info *info;
	struct wire_agent_config config;
	int control; /* the connection to drdotnet; -1 = none */
	bool plain;  /* only calls that the runtime itself makes (wire/calls.h) */
	uint64_t end_ns;
};

/* ---- line.c: the socket ---- */

/* Connects and sends the hello. A negative errno, or the descriptor. Uses nothing but system calls. */
int line_open(const struct wire_agent_config *config, enum wire_agent_line line, int32_t pid);
/* All of it, or false. Never raises a signal. */
bool line_send(int fd, const void *data, size_t n);
/* Has drdotnet closed the connection? Waits up to ms for that. */
bool line_gone(int fd, uint64_t ms);

/* ---- maps.c: /proc/self/maps ---- */

struct map {
	uint64_t start, end, offset;
	bool read, write, shared;
	const char *path; /* not terminated */
	size_t path_len;
};
/* The next line of the text; false at its end. */
bool map_next(const char **p, const char *end, struct map *ret);
bool map_ends(const struct map *m, const char *suffix);
bool map_starts(const struct map *m, const char *prefix);

/* Pages of the runtime's shared mappings (it maps its code twice), as they were while it was suspended: a copy of the
 * process shares these with the process. */
struct saved {
	uint64_t start, len;
	const uint8_t *bytes;
};
struct save {
	struct saved *list;
	size_t n, cap;
	uint8_t *buffer;
	uint64_t used, room, left; /* bytes; left: did not fit */
	uint64_t page;
	int file; /* behind these mappings; -1 = not found */
};
void save_shared(struct save *save, const char *maps, size_t len);
/* A descriptor of our own for that file, or -1. */
int save_open(void);

/* ---- proc.c: folders and files of /proc ---- */

#define PROC_TASKS "/proc/self/task"

/* Calls on() with every number in a folder. False: it cannot be listed. */
bool proc_each_number(const char *folder, void (*on)(void *user, int n), void *user);
/* The same with every open descriptor but the one that this takes. */
bool proc_each_descriptor(void (*on)(void *user, int n), void *user);
/* "/proc/PID/task/TID" and that file of it; tid 0: the folder of all. */
void proc_task_path(char path[static 64], int64_t pid, int32_t tid, const char *file);
/* "/proc/self/fd/N"; its length. */
size_t proc_descriptor_path(char path[static 64], int fd);
/* "" when it has ended. */
void proc_task_name(int32_t pid, int32_t tid, char name[static 16]);
/* Of text that ends at end: what follows the word, or NULL. */
const char *proc_after(const char *text, const char *end, const char *word);
/* As /proc numbers processes, which may be mounted for another namespace. */
struct agent_proc_stat {
	int32_t pid, parent;
	char state;
};
/* Of this process: pid 0. False when it is gone. */
bool proc_stat(int32_t pid, struct agent_proc_stat *ret);
/* Is any thread of this process under a seccomp filter? When in doubt, yes. */
bool proc_filtered(void);

/* ---- cpu.c ---- */

/* Takes samples until drdotnet asks to stop, closes the connection, or time is up. */
void cpu_run(struct agent *a);

/* ---- image.c ---- */

/* Memory that was mapped and written to before the runtime is suspended. */
struct room {
	uint8_t *base;
	size_t size;
	char *maps;
	size_t maps_cap, maps_len;
	uint64_t *pagemap;
	size_t pagemap_n;
	struct save save;
	int32_t pid_in_proc; /* of the process */
	uint32_t *step;	     /* enum copy_step, in memory that the copy shares; NULL = not asked for */
};
/* Suspends the runtime, copies the process, resumes it and waits for the copy to end. */
void image_run(struct agent *a);

/* ---- copy.c: what the copy does ---- */

/* Where the process reads how far its copy has come: both have the same seccomp filter, so a call that kills the copy
 * would kill the process. */
enum copy_step { COPY_BEGUN, COPY_WAIT_FORBIDDEN, COPY_WAIT_ALLOWED };
/* In the copy, on its own stack: never returns. step: NULL, or only calls that the runtime makes are allowed. */
__attribute__((noreturn)) void copy_run(const struct wire_agent_config *config, const struct room *room, int32_t parent,
					uint32_t *step);
#define COPY_NAME "drdotnet-copy"

/* Points at which a test makes the copy exit or hang; nothing in the library that is shipped. */
#ifdef AGENT_FAULT_POINTS
void agent_fault(const struct wire_agent_config *config, uint32_t step);
#else
static inline void agent_fault(const struct wire_agent_config *config, uint32_t step)
{
	(void)config;
	(void)step;
}
#endif
