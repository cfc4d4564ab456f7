/* Core files, read as hostile input.
 *
 *   ELF header ── program headers ──┬─ PT_NOTE: a run of notes, {u32 name, u32 desc, u32 type} name desc, padded to 4
 *                                   └─ PT_LOAD: a range of memory; its bytes may be there, in part, or not at all
 *
 * Nothing is mapped and nothing is believed: each structure is read by pread, counts are capped, ranges are clipped to
 * the file. A truncated core gives what it still holds. */
#include "base/cursor.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "image/internal.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEGMENTS_MAX (1u << 21)
#define SEGMENTS_AT_ONCE 512
#define NOTES_MAX (1u << 20)
#define THREADS_MAX (1u << 17)
#define FILES_NOTE_MAX (64u << 20)
#define AUXV_MAX 8192
/* Files on disk that one core may make us open. */
#define FILES_MAX 256
#define PATH_LEN_MAX 4096

/* NT_PRSTATUS and NT_PRPSINFO of x86-64. */
#define PRSTATUS_LEN 336
#define PRSTATUS_TID 32
#define PRSTATUS_REGS 112
#define PRPSINFO_LEN 136
#define SIGINFO_LEN 128
#define ALIKE_BYTES ((uint64_t)4 << 20)
#define ALIKE_PAGES (1u << 16) /* that are tried: most of an assembly is not in a core */
#define PRPSINFO_PID 24
#define PRPSINFO_ARGS 56
#define FPREGS_LEN 512

_Static_assert(sizeof(struct image_regs) == 27 * 8, "the kernel's registers");

struct core {
	int fd;
	const char *name;
	uint64_t size;
	struct image *img;
	struct image_core_facts *facts;
	VEC(struct image_mapping) files; /* rows of NT_FILE */
	bool has_files;
	uint32_t notes;
};

static bool read_at(const struct core *c, uint64_t at, void *buf, size_t len)
{
	if (at > c->size || len > c->size - at)
		return false;
	return fd_pread(c->fd, buf, len, at) == len;
}

/* ---- notes ---- */

static void take_thread(struct core *c, const uint8_t *desc, size_t len)
{
	if (len < PRSTATUS_LEN || c->img->threads.n >= THREADS_MAX)
		return;
	struct image_thread t = { .has_regs = true };
	int32_t tid;
	memcpy(&tid, desc + PRSTATUS_TID, sizeof(tid));
	memcpy(&t.regs, desc + PRSTATUS_REGS, sizeof(t.regs));
	t.tid = tid;
	vec_push(&c->img->threads, t);
}

/* Belongs to the thread before it: both the kernel and createdump write it so. */
static void take_signal(struct core *c, const uint8_t *desc, size_t len)
{
	struct cursor in = cursor_make(desc, len);
	struct image_signal s = { 0 };
	s.number = cursor_i32(&in);
	cursor_i32(&in);
	s.code = cursor_i32(&in);
	cursor_u32(&in);
	s.address = cursor_u64(&in);
	if (!cursor_ok(&in) || s.number <= 0 || s.number > 64 || !c->img->threads.n || c->img->signal.number)
		return;
	s.tid = vec_last(&c->img->threads).tid;
	c->img->signal = s;
}

static void take_fp(struct core *c, const uint8_t *desc, size_t len)
{
	if (len < FPREGS_LEN || !c->img->threads.n)
		return;
	struct image_thread *t = &vec_last(&c->img->threads);
	memcpy(t->fp, desc, FPREGS_LEN);
	t->has_fp = true;
}

static void take_process(struct core *c, const uint8_t *desc, size_t len)
{
	int32_t pid;
	if (len < PRPSINFO_LEN || c->img->command)
		return;
	memcpy(&pid, desc + PRPSINFO_PID, sizeof(pid));
	c->img->pid = pid > 0 ? pid : 0;
	const char *args = (const char *)desc + PRPSINFO_ARGS;
	c->img->command = mem_strndup(args, strnlen(args, PRPSINFO_LEN - PRPSINFO_ARGS));
}

/* u64 count, u64 page size, count x {start, end, offset in pages}, count names. */
static void take_files(struct core *c, const uint8_t *desc, size_t len)
{
	struct cursor rows = cursor_make(desc, len);
	uint64_t n = cursor_u64(&rows), page = cursor_u64(&rows);
	if (c->has_files || !cursor_ok(&rows) || n > cursor_left(&rows) / 24 || page > (1u << 30))
		return;
	c->has_files = true;
	struct cursor names = rows;
	cursor_take(&names, n * 24);
	for (uint64_t i = 0; i < n; i++) {
		struct image_mapping m = { .start = cursor_u64(&rows) };
		m.end = cursor_u64(&rows);
		uint64_t pages = cursor_u64(&rows);
		size_t name_len = strnlen((const char *)names.p, cursor_left(&names));
		const char *name = (const char *)cursor_take(&names, name_len + 1);
		if (!name || !cursor_ok(&rows))
			return;
		if (m.start >= m.end || (page && pages > UINT64_MAX / page) || name_len > PATH_LEN_MAX)
			continue;
		m.offset = pages * page;
		m.prot = IMAGE_READ;
		m.path = c->files.n && str_eq(vec_last(&c->files).path, name)
				 ? vec_last(&c->files).path
				 : arena_strndup(&c->img->arena, name, name_len);
		vec_push(&c->files, m);
	}
}

static void take_auxv(struct core *c, const uint8_t *desc, size_t len)
{
	if (c->img->auxv || !len)
		return;
	c->img->auxv = mem_dup(desc, len);
	c->img->auxv_len = len;
}

static const struct note_kind {
	uint32_t type;
	size_t max; /* more of it is not read */
	void (*take)(struct core *c, const uint8_t *desc, size_t len);
} note_kinds[] = {
	{ NT_PRSTATUS, PRSTATUS_LEN, take_thread },  { NT_FPREGSET, FPREGS_LEN, take_fp },
	{ NT_PRPSINFO, PRPSINFO_LEN, take_process }, { NT_SIGINFO, SIGINFO_LEN, take_signal },
	{ NT_FILE, FILES_NOTE_MAX, take_files },     { NT_AUXV, AUXV_MAX, take_auxv },
};

static void take_note(struct core *c, uint32_t type, uint64_t at, uint64_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(note_kinds); i++) {
		const struct note_kind *kind = &note_kinds[i];
		if (kind->type != type)
			continue;
		size_t want = (size_t)MIN(len, (uint64_t)kind->max);
		uint8_t *desc = mem_alloc(want + 1);
		if (read_at(c, at, desc, want))
			kind->take(c, desc, want);
		mem_free(desc);
	}
}

static void read_notes(struct core *c, uint64_t at, uint64_t len)
{
	uint64_t end = at > c->size ? at : at + MIN(len, c->size - at);
	while (end - at >= 12 && c->notes++ < NOTES_MAX) {
		uint32_t head[3];
		char name[8] = "";
		if (!read_at(c, at, head, sizeof(head)))
			return;
		at += sizeof(head);
		uint64_t name_room = ((uint64_t)head[0] + 3) & ~3ull, desc_room = ((uint64_t)head[1] + 3) & ~3ull;
		if (name_room > end - at)
			return;
		if (head[0] == 5 && !read_at(c, at, name, 5))
			return;
		at += name_room;
		if (head[1] > end - at)
			return;
		if (str_eq(name, "CORE"))
			take_note(c, head[2], at, head[1]);
		at += MIN(desc_room, end - at);
	}
}

/* ---- segments ---- */

static uint8_t prot_of(uint32_t flags)
{
	return (uint8_t)((flags & PF_R ? IMAGE_READ : 0) | (flags & PF_W ? IMAGE_WRITE : 0) |
			 (flags & PF_X ? IMAGE_EXEC : 0));
}

static void take_segment(struct core *c, const Elf64_Phdr *p)
{
	uint64_t memory = MIN(p->p_memsz, UINT64_MAX - p->p_vaddr);
	uint64_t stored = MIN(p->p_filesz, UINT64_MAX - p->p_vaddr);
	uint64_t there = p->p_offset < c->size ? MIN(stored, c->size - p->p_offset) : 0;
	if (there < stored) {
		c->facts->truncated = true;
		uint64_t sum = c->facts->missing_bytes + (stored - there);
		c->facts->missing_bytes = sum < c->facts->missing_bytes ? UINT64_MAX : sum;
	}
	image_add_piece(
		c->img,
		(struct image_piece){ .start = p->p_vaddr, .end = p->p_vaddr + there, .fd = 0, .offset = p->p_offset });
	uint64_t len = MAX(memory, stored);
	struct image_mapping m = {
		.start = p->p_vaddr, .end = p->p_vaddr + len, .prot = prot_of(p->p_flags), .path = ""
	};
	if (m.start < m.end)
		vec_push(&c->img->mappings, m);
}

static void read_segments(struct core *c, uint64_t at, uint64_t n)
{
	Elf64_Phdr table[SEGMENTS_AT_ONCE] = { 0 };
	for (uint64_t i = 0; i < n;) {
		uint64_t left = at < c->size ? (c->size - at) / sizeof(*table) : 0;
		uint64_t most = MIN(left, (uint64_t)SEGMENTS_AT_ONCE);
		size_t now = (size_t)MIN(n - i, most);
		if (!now || !read_at(c, at, table, now * sizeof(*table))) {
			c->facts->truncated = true;
			return;
		}
		for (size_t k = 0; k < now; k++) {
			if (table[k].p_type == PT_LOAD)
				take_segment(c, &table[k]);
			else if (table[k].p_type == PT_NOTE)
				read_notes(c, table[k].p_offset, table[k].p_filesz);
		}
		i += now;
		at += now * sizeof(*table);
	}
}

/* The program headers: where and how many. More than 65,534 stand in the first section header. */
static struct err *read_header(struct core *c, uint64_t *ret_at, uint64_t *ret_n)
{
	Elf64_Ehdr h;
	if (!read_at(c, 0, &h, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_type != ET_CORE)
		return err_new(ERR_BAD_DATA, "'%s' is not a core file", c->name);
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64)
		return err_new(ERR_UNSUPPORTED, "'%s' is a core file of %s; only x86-64 can be read", c->name,
			       h.e_machine == EM_AARCH64 ? "an arm64 process" : "another architecture");
	if (h.e_phentsize != sizeof(Elf64_Phdr))
		return err_new(ERR_BAD_DATA, "'%s' has program headers of an unknown size", c->name);
	*ret_at = h.e_phoff;
	*ret_n = h.e_phnum;
	Elf64_Shdr section;
	if (h.e_phnum == PN_XNUM && read_at(c, h.e_shoff, &section, sizeof(section)))
		*ret_n = section.sh_info;
	if (*ret_n > SEGMENTS_MAX)
		return err_new(ERR_BAD_DATA, "'%s' claims to have %llu segments", c->name, (unsigned long long)*ret_n);
	return NULL;
}

/* ---- mappings: segments know the rights, NT_FILE knows the files ---- */

static int compare_starts(const void *a, const void *b)
{
	const struct image_mapping *x = a, *y = b;
	return CMP(x->start, y->start);
}

static void add_mapping(struct image *img, struct image_mapping m, uint64_t start, uint64_t end)
{
	if (start >= end)
		return;
	m.start = start;
	m.end = end;
	vec_push(&img->mappings, m);
}

/* Lays the rows over the segments: inside a row its name, outside the bare segment. */
static void name_mappings(struct core *c)
{
	VEC(struct image_mapping) bare = { c->img->mappings.v, c->img->mappings.n, c->img->mappings.cap };
	c->img->mappings.v = NULL;
	c->img->mappings.n = c->img->mappings.cap = 0;
	vec_sort(&bare, compare_starts);
	vec_sort(&c->files, compare_starts);
	size_t row = 0;
	uint64_t upto = 0;
	vec_each(b, &bare) {
		uint64_t at = MAX(b->start, upto);
		while (row < c->files.n && c->files.v[row].end <= at)
			row++;
		for (size_t i = row; i < c->files.n && c->files.v[i].start < b->end && at < b->end; i++) {
			struct image_mapping *f = &c->files.v[i];
			if (f->end <= at)
				continue;
			add_mapping(c->img, *b, at, MIN(f->start, b->end));
			at = MAX(at, f->start);
			f->prot = b->prot;
			/* A row goes in whole; what of it lies beyond the segment is known as well. */
			struct image_mapping part = *f;
			part.offset += at - f->start;
			add_mapping(c->img, part, at, f->end);
			at = MAX(at, f->end);
			f->end = f->start; /* used up */
		}
		add_mapping(c->img, *b, at, b->end);
		at = MAX(at, b->end);
		upto = MAX(upto, at);
	}
	vec_each(f, &c->files)
		add_mapping(c->img, *f, f->start, f->end);
	vec_free(&bare);
}

/* ---- pages that the core left out ---- */

struct disk_file {
	int fd;
};

static bool read_file_at(void *user, uint64_t at, void *buf, size_t len)
{
	const struct disk_file *f = user;
	return fd_pread(f->fd, buf, len, at) == len;
}

static bool plain_path(const char *path)
{
	return path[0] == '/' && !strstr(path, "/../") && !str_ends(path, "/..") && !str_ends(path, " (deleted)");
}

/* Is it the very file that was mapped? */
static bool is_module(int fd, const struct image_module *m, uint64_t *ret_size)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	struct disk_file file = { fd };
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	size_t len = image_build_id(&(struct elf_bytes){ read_file_at, &file, true }, 0, id);
	*ret_size = (uint64_t)st.st_size;
	return len == m->build_id_len && !memcmp(id, m->build_id, len);
}

/* The file of a module; -1 when there is none of that build. The path comes from the core, so all that is done to a
 * stranger's file is to read its ELF header. */
static int open_same_file(const struct image_core_options *options, const struct image_module *m, uint64_t *ret_size)
{
	if (!m->build_id_len || !plain_path(m->path))
		return -1;
	CLOSE_FD int fd = file_open_below(options->files_root, m->path, O_RDONLY);
	if (is_module(fd, m, ret_size))
		return fd_steal(&fd);
	CLOSE_FD int other = options->find_library ? options->find_library(m->path, m->build_id, m->build_id_len) : -1;
	return is_module(other, m, ret_size) ? fd_steal(&other) : -1;
}

static uint64_t piece_bytes(const struct image *img)
{
	uint64_t sum = 0;
	vec_each(p, &img->pieces)
		sum += p->end - p->start;
	return sum;
}

static void fill_from_files(struct image *img, const struct image_core_options *options, struct image_core_facts *facts)
{
	uint64_t before = piece_bytes(img);
	size_t opened = 0;
	vec_each(mod, &img->modules) {
		uint64_t size;
		int fd = opened < FILES_MAX ? open_same_file(options, mod, &size) : -1;
		if (fd < 0)
			continue;
		opened++;
		uint32_t index = image_add_fd(img, fd);
		vec_each(m, &img->mappings) {
			if (m->start < mod->base || m->end > mod->end || m->offset >= size ||
			    !str_eq(m->path, mod->path))
				continue;
			uint64_t len = MIN(m->end - m->start, size - m->offset);
			image_add_piece(img, (struct image_piece){ m->start, m->start + len, index, m->offset });
		}
	}
	image_seal_pieces(img);
	facts->file_bytes = piece_bytes(img) - before;
}

/* ---- assemblies, which have no build id ---- */

/* Pages that were changed are in the core: most of their bytes were not. */
static bool looks_alike(const struct image *img, const char *path, int fd, uint64_t size)
{
	uint8_t core[4096], disk[4096];
	uint64_t same = 0, all = 0, pages = 0;
	vec_each(m, &img->mappings) {
		if (!str_eq(m->path, path) || m->offset >= size)
			continue;
		/* How long it is says the core, which may be damaged. */
		uint64_t end = m->start + MIN(m->end - m->start, size - m->offset);
		for (uint64_t at = m->start; at + sizeof(core) <= end && all < ALIKE_BYTES && pages < ALIKE_PAGES;
		     at += sizeof(core), pages++) {
			ssize_t n = image_read_all(img, at, core, sizeof(core))
					    ? pread(fd, disk, sizeof(disk), (off_t)(m->offset + (at - m->start)))
					    : 0;
			for (ssize_t i = 0; i < n; i++)
				same += core[i] == disk[i];
			all += (uint64_t)MAX(n, (ssize_t)0);
		}
	}
	return same >= all / 3;
}

static int open_assembly(const struct image *img, const char *root, const char *path, time_t written,
			 uint64_t *ret_size)
{
	if (!plain_path(path))
		return -1;
	CLOSE_FD int fd = file_open_below(root, path, O_RDONLY);
	struct stat st;
	char magic[2];
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ctime > written || pread(fd, magic, 2, 0) != 2 ||
	    memcmp(magic, "MZ", 2) != 0 || !looks_alike(img, path, fd, (uint64_t)st.st_size))
		return -1;
	*ret_size = (uint64_t)st.st_size;
	return fd_steal(&fd);
}

static void fill_from_assemblies(struct image *img, const char *root, time_t written, struct image_core_facts *facts)
{
	uint64_t before = piece_bytes(img), size = 0;
	CLEANUP(strtab_free) struct strtab paths = { 0 };
	VEC(int) files = { 0 }; /* index of the descriptor for each path; -1 = none */
	VEC(uint64_t) sizes = { 0 };
	size_t n = img->mappings.n, opened = 0;
	for (size_t i = 0; i < n; i++) {
		const struct image_mapping *m = &img->mappings.v[i];
		if (m->path[0] != '/')
			continue;
		uint32_t id = strtab_add_cstr(&paths, m->path);
		if (id == files.n) {
			int fd = opened < FILES_MAX ? open_assembly(img, root, m->path, written, &size) : -1;
			opened += fd >= 0;
			vec_push(&files, fd >= 0 ? (int)image_add_fd(img, fd) : -1);
			vec_push(&sizes, size);
		}
		if (files.v[id] < 0 || m->offset >= sizes.v[id])
			continue;
		uint64_t len = MIN(m->end - m->start, sizes.v[id] - m->offset);
		image_add_piece(img,
				(struct image_piece){ m->start, m->start + len, (uint32_t)files.v[id], m->offset });
	}
	vec_free(&files);
	vec_free(&sizes);
	image_seal_pieces(img);
	facts->unproven_bytes = piece_bytes(img) - before;
	facts->file_bytes += facts->unproven_bytes;
}

/* ---- opening ---- */

static struct err *read_core(struct core *c)
{
	uint64_t at = 0, n = 0;
	TRY(read_header(c, &at, &n));
	read_segments(c, at, n);
	c->facts->overlap_bytes = image_seal_pieces(c->img);
	if (!c->img->pieces.n && !c->img->threads.n)
		return err_new(ERR_BAD_DATA, "'%s' holds neither memory nor threads%s", c->name,
			       c->facts->truncated ? "; it is cut off" : "");
	name_mappings(c);
	image_find_modules(c->img);
	return NULL;
}

struct err *image_open_core_fd(int fd, const char *name, const struct image_core_options *options,
			       struct image_core_facts *ret_facts, struct image **ret)
{
	struct image_core_facts facts = { 0 };
	CLEANUP(image_closep) struct image *img = image_new(IMAGE_CORE);
	image_add_fd(img, fd);
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", name);
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_BAD_DATA, "'%s' is not a file", name);
	img->core_bytes = (uint64_t)st.st_size;
	struct core c = { .fd = fd, .name = name, .size = (uint64_t)st.st_size, .img = img, .facts = &facts };
	struct err *err = read_core(&c);
	vec_free(&c.files);
	TRY(err);
	if (options && options->files_root)
		fill_from_files(img, options, &facts);
	if (options && options->files_root && options->assemblies)
		fill_from_assemblies(img, options->files_root, st.st_mtime, &facts);
	if (ret_facts)
		*ret_facts = facts;
	*ret = STEAL(img);
	return NULL;
}

struct err *image_open_core(const char *path, const struct image_core_options *options,
			    struct image_core_facts *ret_facts, struct image **ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	return image_open_core_fd(fd, path, options, ret_facts, ret);
}
