/* Which ranges of an image go into a core file of which kind. */
#include "image/core_choose.h"
#include "base/map.h"
#include "base/str.h"
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u
#define ENTRIES 512
/* Of /proc/PID/pagemap: in memory or swapped out; a page of a file, not a private copy. */
#define PAGE_THERE ((uint64_t)3 << 62)
#define PAGE_OF_FILE ((uint64_t)1 << 61)
#define RED_ZONE 128
#define MAX_LIBRARIES 65536
#define RUNTIME_FILE "/libcoreclr.so"

static bool has_bytes(const struct image *img, const struct image_mapping *m)
{
	const struct image_piece *p = image_piece_from(img, m->start);
	return (m->prot & IMAGE_READ) && p && p->start < m->end;
}

static bool is_file(const struct image_mapping *m)
{
	return m->path[0] == '/' && !str_starts(m->path, "/memfd:") && !str_starts(m->path, "/dev/") &&
	       !str_starts(m->path, "/SYSV");
}

static void add(struct core_parts *parts, const struct image_mapping *m, uint64_t start, uint64_t end)
{
	struct core_part *last = parts->n ? &vec_last(parts) : NULL;
	if (start >= end)
		return;
	if (last && last->mapping == m && last->end == start)
		last->end = end;
	else
		vec_push(parts, ((struct core_part){ m, start, end }));
}

/* The pages of a private file mapping that are no longer the file's, and the one with the ELF header. */
static void add_changed(const struct image *img, const struct image_mapping *m, struct core_parts *parts)
{
	uint64_t entries[ENTRIES];
	uint8_t magic[SELFMAG];
	if (!m->offset && image_read_all(img, m->start, magic, sizeof(magic)) && !memcmp(magic, ELFMAG, SELFMAG))
		add(parts, m, m->start, MIN(m->start + PAGE, m->end));
	for (uint64_t at = m->start; at < m->end; at += (uint64_t)ENTRIES * PAGE) {
		size_t n = (size_t)MIN((m->end - at) / PAGE, (uint64_t)ENTRIES);
		if (pread(img->pagemap_fd, entries, n * 8, (off_t)(at / PAGE * 8)) != (ssize_t)(n * 8))
			return;
		for (size_t i = 0; i < n; i++) {
			uint64_t page = at + i * PAGE;
			bool changed = entries[i] & PAGE_THERE && !(entries[i] & PAGE_OF_FILE);
			if (changed && !(parts->n && vec_last(parts).mapping == m && vec_last(parts).end > page))
				add(parts, m, page, page + PAGE);
		}
	}
}

static bool can_tell_changes(const struct image *img)
{
	uint64_t entry;
	return img->pagemap_fd >= 0 && img->mappings.n &&
	       pread(img->pagemap_fd, &entry, 8, (off_t)(img->mappings.v[0].start / PAGE * 8)) == 8;
}

/* ---- all but what lies in files ---- */

/* Assemblies (also those inside a single file) and the runtime: the machine on which the core is opened may not have
 * them. */
static void find_kept(const struct image *img, struct strtab *ret)
{
	vec_each(m, &img->mappings) {
		char magic[2];
		if (is_file(m) && (str_ends(m->path, RUNTIME_FILE) ||
				   (image_read_all(img, m->start, magic, 2) && !memcmp(magic, "MZ", 2))))
			strtab_add_cstr(ret, m->path);
	}
}

static void choose_heap(const struct image *img, struct core_parts *parts)
{
	CLEANUP(strtab_free) struct strtab kept = { 0 };
	find_kept(img, &kept);
	vec_each(m, &img->mappings) {
		if (!has_bytes(img, m))
			continue;
		if (!is_file(m) || strtab_find(&kept, m->path, strlen(m->path)) != STRTAB_NONE)
			add(parts, m, m->start, m->end);
		else if (!m->shared)
			add_changed(img, m, parts);
	}
}

/* ---- the least that tells stacks ---- */

static int compare_ranges(const void *a, const void *b)
{
	const struct image_range *x = a, *y = b;
	return CMP(x->start, y->start);
}

static void want(struct image_ranges *wanted, uint64_t start, uint64_t end)
{
	start &= ~(uint64_t)(PAGE - 1);
	if (end > start && end < UINT64_MAX - PAGE)
		vec_push(wanted, ((struct image_range){ start, ((end + PAGE - 1) & ~(uint64_t)(PAGE - 1)) - start }));
}

static void want_threads(const struct image *img, struct image_ranges *wanted)
{
	vec_each(t, &img->threads) {
		const struct image_mapping *stack = image_mapping_at(img, t->regs.rsp);
		if (!t->has_regs)
			continue;
		if (stack)
			want(wanted, MAX(stack->start, t->regs.rsp - RED_ZONE), stack->end);
		want(wanted, t->regs.rip, t->regs.rip + 1);
	}
}

/* Debuggers find the libraries by the loader's list: program headers, dynamic section, r_debug, link_map. */
static void want_libraries(struct image *img, struct image_ranges *wanted)
{
	uint64_t phdr = 0, n = 0, base = 0, dynamic = 0, debug = 0;
	for (size_t i = 0; i + 16 <= img->auxv_len; i += 16) {
		uint64_t pair[2];
		memcpy(pair, (const char *)img->auxv + i, sizeof(pair));
		phdr = pair[0] == AT_PHDR ? pair[1] : phdr;
		n = pair[0] == AT_PHNUM ? pair[1] : n;
	}
	for (uint64_t i = 0; i < MIN(n, (uint64_t)64); i++) {
		Elf64_Phdr p;
		if (!image_read_all(img, phdr + i * sizeof(p), &p, sizeof(p)))
			return;
		base = p.p_type == PT_PHDR ? phdr - p.p_vaddr : base;
		dynamic = p.p_type == PT_DYNAMIC ? p.p_vaddr : dynamic;
	}
	Elf64_Dyn d = { .d_tag = 1 };
	for (uint64_t at = base + dynamic; dynamic && d.d_tag != DT_NULL; at += sizeof(d)) {
		if (!image_read_all(img, at, &d, sizeof(d)))
			return;
		want(wanted, at, at + sizeof(d));
		debug = d.d_tag == DT_DEBUG ? d.d_un.d_ptr : debug;
	}
	uint64_t node[4], at;
	want(wanted, debug, debug + 64);
	if (!debug || !image_read_all(img, debug + 8, &at, sizeof(at)))
		return;
	for (size_t i = 0; at && i < MAX_LIBRARIES && image_read_all(img, at, node, sizeof(node)); i++, at = node[3]) {
		want(wanted, at, at + sizeof(node));
		want(wanted, node[1], node[1] + 1);
	}
}

static void want_ranges(const struct image_core_content *content, struct image_ranges *wanted)
{
	for (size_t i = 0; i < content->n_ranges; i++)
		if (content->ranges[i].size < UINT64_MAX - content->ranges[i].start)
			want(wanted, content->ranges[i].start, content->ranges[i].start + content->ranges[i].size);
}

static void want_changed(const struct image *img, struct image_ranges *wanted)
{
	struct core_parts parts = { 0 };
	vec_each(m, &img->mappings)
		if (is_file(m) && !m->shared && has_bytes(img, m) && !str_ends(m->path, ".dll"))
			add_changed(img, m, &parts);
	vec_each(p, &parts)
		want(wanted, p->start, p->end);
	vec_free(&parts);
}

static void choose_mini(struct image *img, const struct image_core_content *content, struct core_parts *parts)
{
	struct image_ranges wanted = { 0 };
	size_t i = 0;
	want_ranges(content, &wanted);
	want_threads(img, &wanted);
	want_libraries(img, &wanted);
	want_changed(img, &wanted);
	vec_sort(&wanted, compare_ranges);
	uint64_t upto = 0;
	vec_each(r, &wanted) {
		uint64_t at = MAX(r->start, upto), end = r->start + r->size;
		while (i < img->mappings.n && img->mappings.v[i].end <= at)
			i++;
		for (size_t k = i; k < img->mappings.n && img->mappings.v[k].start < end; k++) {
			const struct image_mapping *m = &img->mappings.v[k];
			if (has_bytes(img, m))
				add(parts, m, MAX(at, m->start), MIN(end, m->end));
		}
		upto = MAX(upto, end);
	}
	vec_free(&wanted);
}

void core_choose(struct image *img, const struct image_core_content *content, struct core_parts *ret)
{
	enum image_core_kind kind = content ? content->kind : IMAGE_CORE_FULL;
	if (kind == IMAGE_CORE_MINI) {
		choose_mini(img, content, ret);
	} else if (kind == IMAGE_CORE_HEAP && can_tell_changes(img)) {
		choose_heap(img, ret);
	} else {
		vec_each(m, &img->mappings)
			if (has_bytes(img, m))
				add(ret, m, m->start, m->end);
	}
}
