/* What a recording keeps of threads, into groups and words. */

#include "threads/thread_groups.h"
#include "threads/wait_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = NULL;
	CLEANUP(thread_groups_free) struct thread_groups groups = { 0 };
	CLEANUP(buf_free) struct buf words = { 0 };
	struct cursor in = cursor_make(data, size);
	err_ignore(thread_snapshot_take(&s, &in));
	if (!s)
		return 0;
	CLEANUP(circles_free) struct circles circles = { 0 };
	circles_find(s, &circles);
	thread_groups_make(s, &groups);
	vec_each(g, &groups.v) {
		thread_group_words(s, &groups, g, false, &words);
		thread_group_words(s, &groups, g, true, &words);
		thread_group_names(s, &groups, g, &words);
	}
	return 0;
}
