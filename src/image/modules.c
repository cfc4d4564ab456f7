/* ELF files in an image: which mappings belong to one, and its build id. */
#include "base/cursor.h"
#include "base/str.h"
#include "image/internal.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADERS_MAX 256
#define NOTES_MAX 65536
#define PAGE_MASK ((uint64_t)4095)

static size_t build_id_in_notes(const uint8_t *notes, size_t len, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	struct cursor c = cursor_make(notes, len);
	while (cursor_left(&c) >= 12) {
		uint32_t name_len = cursor_u32(&c), desc_len = cursor_u32(&c), type = cursor_u32(&c);
		if (name_len > cursor_left(&c) || desc_len > cursor_left(&c))
			return 0;
		const uint8_t *name = cursor_take(&c, (name_len + 3) & ~3u);
		const uint8_t *desc = cursor_take(&c, desc_len);
		if (!cursor_ok(&c))
			return 0;
		if (type == NT_GNU_BUILD_ID && name_len == 4 && !memcmp(name, "GNU", 4) && desc_len &&
		    desc_len <= IMAGE_BUILD_ID_MAX) {
			memcpy(ret, desc, desc_len);
			return desc_len;
		}
		cursor_take(&c, MIN((size_t)(-desc_len & 3u), cursor_left(&c)));
	}
	return 0;
}

size_t image_build_id(const struct elf_bytes *bytes, uint64_t base, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	Elf64_Ehdr head;
	Elf64_Phdr *table;
	if (!bytes->read(bytes->user, base, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB ||
	    head.e_phentsize != sizeof(*table) || head.e_phnum > HEADERS_MAX || !head.e_phnum)
		return 0;
	table = mem_array(head.e_phnum, sizeof(*table));
	size_t found = 0;
	uint8_t *notes = mem_alloc(NOTES_MAX);
	if (!bytes->read(bytes->user, base + head.e_phoff, table, head.e_phnum * sizeof(*table)))
		head.e_phnum = 0;
	uint64_t bias = base;
	for (size_t i = 0; i < head.e_phnum; i++)
		if (table[i].p_type == PT_LOAD) {
			bias = base - ((table[i].p_vaddr - table[i].p_offset) & ~PAGE_MASK);
			break;
		}
	for (size_t i = 0; i < head.e_phnum && !found; i++) {
		uint64_t len = table[i].p_filesz;
		uint64_t at = bytes->file ? base + table[i].p_offset : bias + table[i].p_vaddr;
		if (table[i].p_type == PT_NOTE && len <= NOTES_MAX && bytes->read(bytes->user, at, notes, len))
			found = build_id_in_notes(notes, len, ret);
	}
	mem_free(notes);
	mem_free(table);
	return found;
}

static bool read_image(void *user, uint64_t addr, void *buf, size_t len)
{
	return image_read_all(user, addr, buf, len);
}

static int compare_mappings(const void *a, const void *b)
{
	const struct image_mapping *x = a, *y = b;
	return CMP(x->start, y->start) ?: CMP(x->end, y->end);
}

/* Of mappings that claim the same addresses the lower one keeps them. */
static void cut_mappings(struct image *img)
{
	size_t n = 0;
	for (size_t i = 0; i < img->mappings.n; i++) {
		struct image_mapping m = img->mappings.v[i];
		uint64_t from = n ? img->mappings.v[n - 1].end : 0;
		if (m.end <= from || m.end <= m.start)
			continue;
		if (m.start < from) {
			m.offset += from - m.start;
			m.start = from;
		}
		img->mappings.v[n++] = m;
	}
	img->mappings.n = n;
}

/* A file is mapped piece by piece; whenever its beginning is mapped, a module may begin. A single-file program is
 * mapped many times at other offsets, below and above its own ELF image: these belong to no module. */
void image_find_modules(struct image *img)
{
	struct elf_bytes bytes = { .read = read_image, .user = img };
	vec_sort(&img->mappings, compare_mappings);
	cut_mappings(img);
	struct image_module *open = NULL;
	vec_clear(&img->modules);
	vec_each(m, &img->mappings) {
		char magic[SELFMAG];
		bool file = m->path[0] == '/';
		if (open && file && m->offset && str_eq(open->path, m->path)) {
			open->end = m->end;
			continue;
		}
		if (!file)
			continue; /* the zeroed data of a module lies between its mappings */
		open = NULL;
		if (m->offset || !image_read_all(img, m->start, magic, sizeof(magic)) || memcmp(magic, ELFMAG, SELFMAG))
			continue;
		struct image_module found = { .path = m->path, .base = m->start, .end = m->end };
		found.build_id_len = image_build_id(&bytes, found.base, found.build_id);
		vec_push(&img->modules, found);
		open = &vec_last(&img->modules);
	}
}

static bool read_fd_at(void *user, uint64_t addr, void *buf, size_t len)
{
	const int *fd = user;
	return pread(*fd, buf, len, (off_t)addr) == (ssize_t)len;
}

size_t image_file_build_id(int fd, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	return image_build_id(&(struct elf_bytes){ read_fd_at, &fd, true }, 0, ret);
}
