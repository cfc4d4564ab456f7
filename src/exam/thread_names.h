#pragma once
/* Names of the target's threads, for reports: looked up while they live, kept in the recording. Threads that began and
 * ended between two looks have none, nor has a target whose process is not visible from here. */

#include "base/map.h"
#include "exam/exam.h"

struct thread_names {
	struct map_u64 by_tid; /* -> name id + 1 */
	struct strtab names;
};
void thread_names_free(struct thread_names *t);

/* Live: adds the threads that exist now; call it before and after the window. Replayed: what was found then. */
void thread_names_look(struct thread_names *t, struct exam *exam);
/* Keeps them in the recording; nothing when replaying. */
void thread_names_save(const struct thread_names *t, struct exam *exam);
/* NULL when it has none, or only the one it has from the process. */
const char *thread_names_get(const struct thread_names *t, uint64_t tid);
/* How many have that name. */
size_t thread_names_count(const struct thread_names *t, const char *name);
/* "'checkout' (4230)" or "thread 4230". */
void thread_names_show(const struct thread_names *t, uint64_t tid, struct buf *out);
