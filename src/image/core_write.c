/* A core file written from an image: one PT_NOTE with the process, its files and its threads, then a PT_LOAD for each
 * chosen part of a mapping. Memory that was never touched is a hole in the file. */
#include "base/fd.h"
#include "base/fmt.h"
#include "base/partfile.h"
#include "base/str.h"
#include "image/core_choose.h"
#include "image/internal.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define PAGE 4096u
#define BLOCK ((size_t)1 << 20)
#define PRSTATUS_LEN 336
#define PRPSINFO_LEN 136
#define FPREGS_LEN 512
#define PROGRESS_BYTES ((uint64_t)16 << 20)

struct core_writer {
	struct image *img;
	int fd;
	const char *path;
	struct buf notes;
	const struct image_core_content *content;
	struct core_parts parts;
	VEC(Elf64_Phdr) segments; /* the notes, then one for each part */
	uint64_t offset;	  /* end of the file so far */
	uint64_t done, whole, told, unread;
	const struct image_progress *progress;
	uint8_t *block;
};

static void writer_fini(struct core_writer *w)
{
	buf_free(&w->notes);
	vec_free(&w->parts);
	vec_free(&w->segments);
	mem_free(w->block);
}

/* ---- notes ---- */

static void pad4(struct buf *b)
{
	while (b->len & 3)
		buf_char(b, '\0');
}

static void add_note(struct buf *b, uint32_t type, const void *desc, size_t len)
{
	const uint32_t head[3] = { 5, (uint32_t)len, type };
	buf_add(b, head, sizeof(head));
	buf_add(b, "CORE\0\0\0", 8);
	buf_add(b, desc, len);
	pad4(b);
}

static void add_process(struct core_writer *w)
{
	uint8_t info[PRPSINFO_LEN] = { 0 };
	int32_t pid = w->img->pid;
	const char *command = w->img->command ? w->img->command : "";
	const char *slash = strrchr(command, '/');
	memcpy(info + 24, &pid, sizeof(pid));
	str_copy((char *)info + 40, 16, slash ? slash + 1 : command);
	str_copy((char *)info + 56, 80, command);
	add_note(&w->notes, NT_PRPSINFO, info, sizeof(info));
	if (w->img->auxv_len)
		add_note(&w->notes, NT_AUXV, w->img->auxv, w->img->auxv_len);
}

static bool is_file(const struct image_mapping *m)
{
	return m->path[0] == '/' && !str_starts(m->path, "/memfd:") && !str_starts(m->path, "/dev/");
}

static void add_files(struct core_writer *w)
{
	CLEANUP(buf_free) struct buf rows = { 0 }, names = { 0 };
	uint64_t n = 0;
	vec_each(m, &w->img->mappings) {
		if (!is_file(m))
			continue;
		const uint64_t row[3] = { m->start, m->end, m->offset / PAGE };
		buf_add(&rows, row, sizeof(row));
		buf_add(&names, m->path, strlen(m->path) + 1);
		n++;
	}
	CLEANUP(buf_free) struct buf desc = { 0 };
	const uint64_t head[2] = { n, PAGE };
	buf_add(&desc, head, sizeof(head));
	buf_add(&desc, rows.data, rows.len);
	buf_add(&desc, names.data, names.len);
	add_note(&w->notes, NT_FILE, desc.data, desc.len);
}

static void add_thread(struct core_writer *w, const struct image_thread *t)
{
	uint8_t status[PRSTATUS_LEN] = { 0 };
	int32_t tid = t->tid;
	memcpy(status + 32, &tid, sizeof(tid));
	memcpy(status + 112, &t->regs, sizeof(t->regs));
	add_note(&w->notes, NT_PRSTATUS, status, sizeof(status));
	if (t->has_fp)
		add_note(&w->notes, NT_FPREGSET, t->fp, sizeof(t->fp));
}

/* Debuggers show the first thread first. */
static void add_threads(struct core_writer *w)
{
	vec_each(t, &w->img->threads)
		if (t->tid == w->img->pid)
			add_thread(w, t);
	vec_each(t, &w->img->threads)
		if (t->tid != w->img->pid)
			add_thread(w, t);
}

/* ---- layout ---- */

static uint64_t page_up(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static void add_load(struct core_writer *w, const struct core_part *part, uint64_t *at)
{
	uint64_t len = part->end - part->start;
	uint8_t prot = part->mapping->prot;
	vec_push(&w->segments,
		 ((Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = (prot & IMAGE_READ ? PF_R : 0u) | (prot & IMAGE_WRITE ? PF_W : 0u) |
					   (prot & IMAGE_EXEC ? PF_X : 0u),
				.p_offset = *at,
				.p_vaddr = part->start,
				.p_filesz = len,
				.p_memsz = len,
				.p_align = PAGE }));
	*at = page_up(*at + len);
}

static void lay_out(struct core_writer *w)
{
	add_process(w);
	add_files(w);
	add_threads(w);
	core_choose(w->img, w->content, &w->parts);
	size_t n = 1 + w->parts.n;
	/* Too many for the header's field: the count goes into a section header. */
	uint64_t at = sizeof(Elf64_Ehdr) + (n >= PN_XNUM ? sizeof(Elf64_Shdr) : 0);
	at += n * sizeof(Elf64_Phdr);
	Elf64_Phdr note = { .p_type = PT_NOTE, .p_offset = at, .p_filesz = w->notes.len, .p_align = 4 };
	vec_push(&w->segments, note);
	at = page_up(at + w->notes.len);
	vec_each(part, &w->parts)
		add_load(w, part, &at);
	w->offset = at;
}

/* ---- writing ---- */

static struct err *put(struct core_writer *w, const void *data, size_t len, uint64_t at)
{
	const char *p = data;
	while (len) {
		ssize_t n = pwrite(w->fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(n ? errno : ENOSPC, "write '%s'", w->path);
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return NULL;
}

static struct err *put_headers(struct core_writer *w)
{
	bool many = w->segments.n >= PN_XNUM;
	uint64_t at = sizeof(Elf64_Ehdr);
	Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_CORE,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_ehsize = sizeof(h),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = (uint16_t)(many ? PN_XNUM : w->segments.n) };
	if (many) {
		Elf64_Shdr section = { .sh_info = (uint32_t)w->segments.n };
		h.e_shoff = at;
		h.e_shentsize = sizeof(section);
		h.e_shnum = 1;
		TRY(put(w, &section, sizeof(section), at));
		at += sizeof(section);
	}
	h.e_phoff = at;
	TRY(put(w, &h, sizeof(h), 0));
	TRY(put(w, w->segments.v, w->segments.n * sizeof(*w->segments.v), at));
	return put(w, w->notes.data, w->notes.len, w->segments.v[0].p_offset);
}

/* Which pages of a block can hold anything: those of files always, others when they were ever used. */
static void find_present(const struct image *img, bool file, uint64_t addr, size_t pages, bool *ret)
{
	static uint64_t entries[BLOCK / PAGE];
	bool known = !file && img->pagemap_fd >= 0 &&
		     pread(img->pagemap_fd, entries, pages * 8, (off_t)(addr / PAGE * 8)) == (ssize_t)(pages * 8);
	for (size_t i = 0; i < pages; i++)
		ret[i] = !known || entries[i] >> 62;
}

static bool all_zero(const uint8_t *p, size_t len)
{
	return !len || (!p[0] && !memcmp(p, p + 1, len - 1));
}

static struct err *put_block(struct core_writer *w, size_t len, uint64_t at)
{
	for (size_t i = 0; i < len;) {
		size_t n = MIN((size_t)PAGE, len - i), from = i;
		if (all_zero(w->block + i, n)) {
			i += n;
			continue;
		}
		while (i < len && !all_zero(w->block + i, MIN((size_t)PAGE, len - i)))
			i += MIN((size_t)PAGE, len - i);
		TRY(put(w, w->block + from, i - from, at + from));
	}
	return NULL;
}

static struct err *put_run(struct core_writer *w, uint64_t addr, size_t len, uint64_t at)
{
	for (size_t done = 0, got; done < len; done += got) {
		image_read(w->img, addr + done, w->block, len - done, &got);
		TRY(put_block(w, got, at + done));
		/* A gap: files may be mapped beyond their end, and an image that was sent to us leaves out pages that
		 * were never used. */
		if (!got) {
			got = MIN((size_t)PAGE, len - done);
			w->unread += got;
		}
	}
	w->done += len;
	return NULL;
}

static struct err *tell(struct core_writer *w)
{
	const char *reason;
	if (w->done - w->told < PROGRESS_BYTES)
		return NULL;
	w->told = w->done;
	if (!image_whole(w->img, &reason))
		return err_new(ERR_IO, "the copy was lost while it was read: %s", reason);
	if (w->progress && w->progress->on && !w->progress->on(w->progress->user, w->done, w->whole))
		return err_new(ERR_CANCELLED, "cancelled");
	return NULL;
}

typedef struct err *(*run_fn)(struct core_writer *w, uint64_t addr, size_t len, uint64_t at);

static struct err *count_run(struct core_writer *w, uint64_t addr, size_t len, uint64_t at)
{
	(void)addr;
	(void)at;
	w->whole += len;
	return NULL;
}

/* Every run of pages that can hold something, in address order. */
static struct err *each_run(struct core_writer *w, const Elf64_Phdr *s, bool file, run_fn fn)
{
	bool present[BLOCK / PAGE];
	uint64_t end = s->p_vaddr + s->p_memsz;
	for (uint64_t a = s->p_vaddr; a < end; a += BLOCK) {
		size_t pages = (size_t)(MIN(end - a, (uint64_t)BLOCK) + PAGE - 1) / PAGE;
		find_present(w->img, file, a, pages, present);
		for (size_t i = 0; i < pages;) {
			size_t from = i;
			if (!present[i++])
				continue;
			while (i < pages && present[i])
				i++;
			uint64_t start = a + from * PAGE, stop = MIN(a + i * PAGE, end);
			TRY(fn(w, start, (size_t)(stop - start), s->p_offset + (start - s->p_vaddr)));
		}
		if (fn != count_run)
			TRY(tell(w));
	}
	return NULL;
}

static struct err *each_segment(struct core_writer *w, run_fn fn)
{
	for (size_t i = 1; i < w->segments.n; i++) {
		const struct image_mapping *m = w->parts.v[i - 1].mapping;
		/* Pages of shared memory do not show in the page tables of a copy. */
		TRY(each_run(w, &w->segments.v[i], m->shared || m->path[0] == '/', fn));
	}
	return NULL;
}

static struct err *check_disk(const struct core_writer *w)
{
	struct statvfs fs;
	if (fstatvfs(w->fd, &fs) < 0)
		return err_errno(errno, "'%s'", w->path);
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize, need = w->whole + w->notes.len;
	if (need > room)
		return err_new(ERR_IO, "'%s' needs up to %s, and its disk has %s left", w->path, fmt_bytes(need).s,
			       fmt_bytes(room).s);
	return NULL;
}

static struct err *write_all(struct core_writer *w)
{
	const char *reason;
	lay_out(w);
	TRY(each_segment(w, count_run));
	TRY(check_disk(w));
	TRY(put_headers(w));
	TRY(each_segment(w, put_run));
	if (!image_whole(w->img, &reason))
		return err_new(ERR_IO, "the copy was lost while it was read: %s", reason);
	/* Nothing more is read: the process need not pay for the copy while the disk is waited for. */
	image_drop(w->img);
	if (ftruncate(w->fd, (off_t)w->offset) < 0 || fsync(w->fd) < 0)
		return err_errno(errno, "write '%s'", w->path);
	return NULL;
}

struct err *image_write_core(struct image *img, const char *path, const struct image_progress *progress,
			     struct image_core_written *ret)
{
	return image_write_core_of(img, path, NULL, progress, ret);
}

struct err *image_write_core_of(struct image *img, const char *path, const struct image_core_content *content,
				const struct image_progress *progress, struct image_core_written *ret)
{
	struct partfile file;
	struct stat st;
	/* It holds whatever the process knows. */
	TRY(partfile_open(path, 0600, &file));
	if (!file.partial) {
		partfile_fini(&file, false);
		return err_new(ERR_USAGE, "a core file has holes and cannot be written to '%s'; name a file", path);
	}
	CLEANUP(writer_fini)
	struct core_writer w = { .img = img,
				 .fd = file.fd,
				 .path = path,
				 .content = content,
				 .progress = progress,
				 .block = mem_alloc(BLOCK) };
	struct err *err = write_all(&w);
	if (!err && ret)
		*ret = (struct image_core_written){ .bytes = w.done - w.unread,
						    .disk_bytes =
							    fstat(file.fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512,
						    .unread_bytes = w.unread };
	if (!err)
		err = partfile_commit(&file);
	partfile_fini(&file, false);
	return err;
}
