/* What a recording keeps of threads, into groups and words. */

#include "threads/groups.h"
#include "threads/waitgraph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(seen_freep) struct seen *s = NULL;
	CLEANUP(groups_free) struct groups groups = { 0 };
	CLEANUP(buf_free) struct buf words = { 0 };
	struct cursor in = cursor_make(data, size);
	err_ignore(seen_take(&s, &in));
	if (!s)
		return 0;
	CLEANUP(circles_free) struct circles circles = { 0 };
	circles_find(s, &circles);
	groups_make(s, &groups);
	vec_each(g, &groups.v) {
		group_words(s, &groups, g, false, &words);
		group_words(s, &groups, g, true, &words);
		group_names(s, &groups, g, &words);
	}
	return 0;
}
