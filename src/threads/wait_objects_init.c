/* Threads that wait for a static constructor which another one runs. */

#include "base/str.h"
#include "threads/thread_snapshot.h"
#include <string.h>

/* "Shop.Registry" of "Shop.Registry..cctor"; 0 = that is none. */
static size_t init_type(const char *method)
{
	size_t len = strlen(method), tail = strlen("..cctor");
	return str_ends(method, "..cctor") && len > tail ? len - tail : 0;
}

uint32_t snapshot_find_init(const struct thread_snapshot *s, uint32_t thread, bool only_exact, const char **ret_type,
			    size_t *ret_len)
{
	const struct snapshot_thread *t = &s->threads.v[thread];
	size_t site = snapshot_site(s, t), others = 0;
	const char *in = site < t->n ? snapshot_frame(s, t, site)->name : "";
	uint32_t found = SNAPSHOT_NONE;
	for (uint32_t i = 0; i < s->threads.n; i++) {
		const struct snapshot_thread *u = &s->threads.v[i];
		for (size_t k = 0; k < u->n && i != thread; k++) {
			const char *name = snapshot_frame(s, u, k)->name;
			size_t len = init_type(name);
			bool exact = len && !strncmp(in, name, len) && in[len] == '.';
			if (!len || (!exact && (only_exact || others++)))
				continue;
			*ret_type = name;
			*ret_len = len;
			found = i;
			if (exact)
				return i;
		}
	}
	return others > 1 ? SNAPSHOT_NONE : found;
}
