/* Where the memory of a process is: each of its mappings has one purpose, and the kernel says how much of it is in RAM.
 */

#include "base/str.h"
#include "memory/heap_look.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const heap_area_names[GRAPH_AREAS] = {
	[GRAPH_AREA_HEAP] = "managed heap",	   [GRAPH_AREA_JIT] = "code made at run time, type data",
	[GRAPH_AREA_NATIVE] = "native heap",	   [GRAPH_AREA_FILES] = "libraries and other files",
	[GRAPH_AREA_STACKS] = "stacks of threads", [GRAPH_AREA_SHARED] = "shared with other processes",
};
const char *const heap_generation_names[GRAPH_GENERATIONS] = {
	[GRAPH_GEN0] = "generation 0",	 [GRAPH_GEN1] = "generation 1",	 [GRAPH_GEN2] = "generation 2",
	[GRAPH_LARGE] = "large objects", [GRAPH_PINNED] = "pinned heap", [GRAPH_FROZEN] = "frozen (literals)",
	[GRAPH_ANYWHERE] = "not known",
};

struct area_mapping {
	uint64_t start, end;
	char perms[5];
	const char *path;
	size_t path_len;
};

/* "7f12-7f13 rw-p 0 00:00 0   [heap]"; false for the lines below it, which say what is in it. */
static bool parse_head(const char *line, size_t len, struct area_mapping *m)
{
	unsigned long long start, end;
	int at = 0;
	char text[160] = { 0 };
	memcpy(text, line, MIN(len, sizeof(text) - 1));
	if (sscanf(text, "%llx-%llx %4s %*s %*s %*s %n", &start, &end, m->perms, &at) != 3 || !at)
		return false;
	m->start = start;
	m->end = end;
	m->path = line + MIN((size_t)at, len);
	m->path_len = len - MIN((size_t)at, len);
	return true;
}

static bool path_starts(const struct area_mapping *m, const char *prefix)
{
	return m->path_len >= strlen(prefix) && !memcmp(m->path, prefix, strlen(prefix));
}

/* With regions the collector has one reservation that contains nothing else: all between its first and last region. */
static bool is_heap(const struct area_mapping *m, const struct heap_outline *outline)
{
	uint64_t low = UINT64_MAX, high = 0;
	vec_each(r, &outline->regions) {
		uint64_t end = MAX(r->end, r->committed);
		if (r->start < m->end && end > m->start)
			return true;
		if (r->generation != HEAP_FROZEN) {
			low = MIN(low, r->start);
			high = MAX(high, end);
		}
	}
	return outline->uses_regions && m->start < high && m->end > low;
}

static enum graph_area area_of(const struct area_mapping *m, const struct heap_outline *outline, const uint64_t *stacks,
			       size_t n_stacks)
{
	if (path_starts(m, "/memfd:doublemapper"))
		return GRAPH_AREA_JIT;
	if (is_heap(m, outline))
		return GRAPH_AREA_HEAP;
	if (path_starts(m, "[stack"))
		return GRAPH_AREA_STACKS;
	for (size_t i = 0; i < n_stacks; i++)
		if (stacks[i] >= m->start && stacks[i] < m->end)
			return GRAPH_AREA_STACKS;
	if (path_starts(m, "/memfd:") || path_starts(m, "/dev/") || path_starts(m, "/SYSV") ||
	    path_starts(m, "anon_inode:"))
		return GRAPH_AREA_SHARED;
	if (path_starts(m, "/"))
		return GRAPH_AREA_FILES;
	return m->perms[2] == 'x' ? GRAPH_AREA_JIT : GRAPH_AREA_NATIVE;
}

void heap_areas(const char *smaps, const struct heap_outline *outline, const uint64_t *stacks, size_t n_stacks,
		struct graph_facts *facts)
{
	enum graph_area area = GRAPH_AREAS;
	while (*smaps) {
		size_t len = strcspn(smaps, "\n");
		struct area_mapping m;
		if (str_starts(smaps, "Rss:")) {
			uint64_t bytes = strtoull(smaps + strlen("Rss:"), NULL, 10) * 1024;
			if (area < GRAPH_AREAS) {
				facts->area[area] += bytes;
				facts->rss += bytes;
			}
		} else if ((*smaps >= '0' && *smaps <= '9') || (*smaps >= 'a' && *smaps <= 'f')) {
			area = parse_head(smaps, len, &m) ? area_of(&m, outline, stacks, n_stacks) : GRAPH_AREAS;
		}
		smaps += len + (smaps[len] == '\n');
	}
}
