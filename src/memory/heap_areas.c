/* Where the memory of a process is: each of its mappings has one purpose, and the kernel says how much of it is in RAM.
 */

#include "base/str.h"
#include "base/fd.h"
#include "memory/heap_look.h"
#include "memory/memory_areas.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMAPS_MAX ((size_t)64 << 20)

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

static bool path_has(const struct area_mapping *m, const char *text)
{
	return memmem(m->path, m->path_len, text, strlen(text));
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

static enum memory_kind kind_of(const struct area_mapping *m, const struct heap_outline *outline,
				const uint64_t *stacks, size_t n_stacks)
{
	bool code = m->perms[2] == 'x';
	if (path_starts(m, "/memfd:doublemapper"))
		return code ? MEMORY_CODE : MEMORY_LOADER;
	if (is_heap(m, outline))
		return MEMORY_HEAP;
	if (path_starts(m, "[stack"))
		return MEMORY_STACKS;
	for (size_t i = 0; i < n_stacks; i++)
		if (stacks[i] >= m->start && stacks[i] < m->end)
			return MEMORY_STACKS;
	if (path_starts(m, "/memfd:") || path_starts(m, "/dev/") || path_starts(m, "/SYSV") ||
	    path_starts(m, "anon_inode:"))
		return MEMORY_SHARED;
	if (path_starts(m, "/"))
		return path_has(m, ".dll") || path_has(m, ".exe") ? MEMORY_ASSEMBLIES
		       : path_has(m, ".so") || code		  ? MEMORY_LIBRARIES
								  : MEMORY_FILES;
	return code ? MEMORY_CODE : MEMORY_ANONYMOUS;
}

/* "Rss:      12 kB" */
static bool line_bytes(const char *line, const char *name, uint64_t *ret)
{
	if (!str_starts(line, name))
		return false;
	*ret += strtoull(line + strlen(name), NULL, 10) * 1024;
	return true;
}

void memory_areas(const char *smaps, const struct heap_outline *outline, const uint64_t *stacks, size_t n_stacks,
		  struct memory_areas *ret)
{
	bool known = false;
	while (*smaps) {
		size_t len = strcspn(smaps, "\n");
		struct area_mapping m;
		struct memory_area none = { 0 }, *a = known ? &vec_last(ret) : &none;
		if (!line_bytes(smaps, "Rss:", &a->rss) && !line_bytes(smaps, "Swap:", &a->swap) &&
		    !line_bytes(smaps, "AnonHugePages:", &a->huge) &&
		    ((*smaps >= '0' && *smaps <= '9') || (*smaps >= 'a' && *smaps <= 'f'))) {
			known = parse_head(smaps, len, &m);
			if (known)
				vec_push(ret, ((struct memory_area){ .start = m.start,
								     .end = m.end,
								     .kind = kind_of(&m, outline, stacks, n_stacks),
								     .writable = m.perms[1] == 'w' }));
		}
		smaps += len + (smaps[len] == '\n');
	}
}

struct err *memory_areas_of(pid_t pid, const struct image *img, const struct heap_outline *outline,
			    struct memory_areas *ret)
{
	CLEANUP(buf_free) struct buf smaps = { 0 };
	VEC(uint64_t) stacks = { 0 };
	size_t n;
	const struct image_thread *threads = image_threads(img, &n);
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	TRY(file_read(path, SMAPS_MAX, &smaps));
	for (size_t i = 0; i < n; i++)
		if (threads[i].has_regs)
			vec_push(&stacks, threads[i].regs.rsp);
	memory_areas(buf_cstr(&smaps), outline, stacks.v, stacks.n, ret);
	vec_free(&stacks);
	return NULL;
}

void heap_areas(const struct memory_areas *areas, struct graph_facts *facts)
{
	static const enum graph_area of[MEMORY_KINDS] = {
		[MEMORY_HEAP] = GRAPH_AREA_HEAP,	[MEMORY_CODE] = GRAPH_AREA_JIT,
		[MEMORY_LOADER] = GRAPH_AREA_JIT,	[MEMORY_STACKS] = GRAPH_AREA_STACKS,
		[MEMORY_ANONYMOUS] = GRAPH_AREA_NATIVE, [MEMORY_ASSEMBLIES] = GRAPH_AREA_FILES,
		[MEMORY_LIBRARIES] = GRAPH_AREA_FILES,	[MEMORY_FILES] = GRAPH_AREA_FILES,
		[MEMORY_SHARED] = GRAPH_AREA_SHARED,
	};
	vec_each(a, areas) {
		facts->area[of[a->kind]] += a->rss;
		facts->rss += a->rss;
	}
}
