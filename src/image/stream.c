/* Streamed images (wire/image.h), read as hostile input. */
#include "base/clock.h"
#include "base/fd.h"
#include "image/internal.h"
#include "image/maps.h"
#include "wire/image.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RECORDS_MAX (1u << 22)
#define THREADS_MAX (1u << 17)
#define TEXT_MAX ((uint64_t)64 << 20)
#define AUXV_MAX 8192
#define COMMAND_MAX 65536
#define MEMORY_MAX ((uint64_t)1 << 40)
#define TIMEOUT_MS 10000
#define FILE_MAX ((uint64_t)257 << 20)
#define FILES_MAX 8
#define PATH_BYTES 4096
#define BLOCK ((size_t)1 << 20)

_Static_assert(sizeof(struct wire_image_thread) == 24 + 216 + 512, "no holes");
_Static_assert(sizeof(struct image_regs) == 216, "the kernel's registers");

struct image_reader {
	struct image *img;
	int fd, spool; /* spool: -1 = memory stays where it is in fd */
	uint64_t at;   /* in fd, when it is a file */
	uint64_t spooled, memory, max_memory, records;
	uint64_t timeout_ms;
	bool file, has_maps;
	uint8_t *block;
};

static struct err *take(struct image_reader *r, void *data, uint64_t len)
{
	char *p = data;
	if (!r->file)
		return fd_read_full(r->fd, data, len, deadline_in_ms(r->timeout_ms));
	while (len) {
		ssize_t n = pread(r->fd, p, len, (off_t)r->at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? err_errno(errno, "read") : err_new(ERR_BAD_DATA, "the image ends early");
		p += n;
		r->at += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return NULL;
}

static struct err *bad(const char *what)
{
	return err_new(ERR_BAD_DATA, "the image is damaged: %s", what);
}

/* A record's bytes, NUL-terminated behind them. The caller frees. */
static struct err *take_text(struct image_reader *r, uint64_t len, uint64_t max, char **ret)
{
	if (len > max)
		return bad("a record is larger than its kind can be");
	char *text = mem_alloc(len + 1);
	struct err *err = take(r, text, len);
	if (err) {
		mem_free(text);
		return err;
	}
	text[len] = '\0';
	*ret = text;
	return NULL;
}

static struct err *take_maps(struct image_reader *r, uint64_t len)
{
	CLEANUP(mem_freep) char *text = NULL;
	if (r->has_maps)
		return bad("mappings come twice");
	TRY(take_text(r, len, TEXT_MAX, &text));
	r->has_maps = true;
	const char *p = text, *end = text + len;
	for (struct maps_line l; maps_next(&p, end, &l);)
		if (!memchr(l.path, '\0', l.path_len))
			maps_add(r->img, &l, "");
	return p == end ? NULL : bad("a mapping is not understood");
}

static struct err *take_thread(struct image_reader *r, uint64_t len)
{
	struct wire_image_thread w;
	if (len != sizeof(w) || r->img->threads.n >= THREADS_MAX)
		return bad("a thread");
	TRY(take(r, &w, sizeof(w)));
	struct image_thread t = { .tid = w.tid,
				  .has_regs = (w.flags & WIRE_IMAGE_HAS_REGS) != 0,
				  .has_fp = (w.flags & WIRE_IMAGE_HAS_FP) != 0 };
	memcpy(t.name, w.name, sizeof(t.name));
	t.name[sizeof(t.name) - 1] = '\0';
	memcpy(&t.regs, w.regs, sizeof(t.regs));
	memcpy(t.fp, w.fp, sizeof(t.fp));
	vec_push(&r->img->threads, t);
	return NULL;
}

static struct err *spool(struct image_reader *r, uint64_t len)
{
	while (len) {
		size_t n = (size_t)MIN(len, (uint64_t)BLOCK);
		TRY(take(r, r->block, n));
		for (size_t put = 0; put < n;) {
			ssize_t k = write(r->spool, r->block + put, n - put);
			if (k < 0 && errno == EINTR)
				continue;
			if (k <= 0)
				return err_errno(k ? errno : ENOSPC, "keep an image");
			put += (size_t)k;
		}
		len -= n;
	}
	return NULL;
}

static struct err *take_memory(struct image_reader *r, const struct wire_image_record *rec, uint64_t size)
{
	if (rec->len > UINT64_MAX - rec->addr)
		return bad("memory beyond all addresses");
	if (rec->kind == WIRE_IMAGE_ZERO) {
		image_add_piece(r->img, (struct image_piece){ rec->addr, rec->addr + rec->len, IMAGE_FD_ZERO, 0 });
		return NULL;
	}
	if (rec->len > r->max_memory - r->memory)
		return bad("more memory than allowed");
	r->memory += rec->len;
	struct image_piece piece = { rec->addr, rec->addr + rec->len, 0, r->file ? r->at : r->spooled };
	if (r->file) {
		if (rec->len > size - MIN(size, r->at))
			return err_new(ERR_BAD_DATA, "the image ends early");
		r->at += rec->len;
	} else {
		TRY(spool(r, rec->len));
		r->spooled += rec->len;
	}
	image_add_piece(r->img, piece);
	return NULL;
}

static struct err *take_file(struct image_reader *r, uint64_t len)
{
	struct wire_image_file head;
	CLEANUP(mem_freep) char *path = NULL;
	if (len < sizeof(head) || len > FILE_MAX || r->img->files.n >= FILES_MAX)
		return bad("a file that is too large, or too many");
	TRY(take(r, &head, sizeof(head)));
	len -= sizeof(head);
	if (head.path_len > len || head.path_len > PATH_BYTES)
		return bad("a file's name");
	TRY(take_text(r, head.path_len, PATH_BYTES, &path));
	len -= head.path_len;
	CLOSE_FD int fd = memfd_create("drdotnet-file", MFD_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "keep a file");
	while (len) {
		size_t n = (size_t)MIN(len, (uint64_t)BLOCK);
		TRY(take(r, r->block, n));
		TRY(fd_write_full(fd, r->block, n, DEADLINE_NEVER));
		len -= n;
	}
	struct image_sent_file file = { .path = arena_strdup(&r->img->arena, path), .fd = fd_steal(&fd) };
	vec_push(&r->img->files, file);
	return NULL;
}

static struct err *take_rest(struct image_reader *r, const struct wire_image_record *rec)
{
	CLEANUP(mem_freep) char *text = NULL;
	if (rec->kind == WIRE_IMAGE_FILE)
		return take_file(r, rec->len);
	if (rec->kind == WIRE_IMAGE_COMMAND) {
		TRY(take_text(r, rec->len, COMMAND_MAX, &text));
		mem_free(r->img->command);
		r->img->command = STEAL(text);
		return NULL;
	}
	if (rec->kind != WIRE_IMAGE_AUXV)
		return bad("a record of an unknown kind");
	TRY(take_text(r, rec->len, AUXV_MAX, &text));
	mem_free(r->img->auxv);
	r->img->auxv = STEAL(text);
	r->img->auxv_len = rec->len;
	return NULL;
}

static struct err *read_records(struct image_reader *r, uint64_t size)
{
	for (;;) {
		struct wire_image_record rec;
		TRY(take(r, &rec, sizeof(rec)));
		switch (rec.kind) {
		case WIRE_IMAGE_END:
			return rec.addr == r->records && !rec.len ? NULL : bad("records are missing");
		case WIRE_IMAGE_MAPS:
			TRY(take_maps(r, rec.len));
			break;
		case WIRE_IMAGE_THREAD:
			TRY(take_thread(r, rec.len));
			break;
		case WIRE_IMAGE_MEMORY:
		case WIRE_IMAGE_ZERO:
			TRY(take_memory(r, &rec, size));
			break;
		default:
			TRY(take_rest(r, &rec));
		}
		if (++r->records > RECORDS_MAX)
			return bad("too many records");
	}
}

static struct err *read_head(struct image_reader *r)
{
	struct wire_image_head head;
	TRY(take(r, &head, sizeof(head)));
	if (memcmp(head.magic, WIRE_IMAGE_MAGIC, sizeof(head.magic)))
		return err_new(ERR_BAD_DATA, "this is not an image");
	if (head.version != WIRE_IMAGE_VERSION)
		return err_new(ERR_UNSUPPORTED, "this image has version %u; version %d can be read", head.version,
			       WIRE_IMAGE_VERSION);
	r->img->pid = head.pid > 0 ? head.pid : 0;
	return NULL;
}

static struct err *open_spool(const char *folder, int *ret)
{
	if (!folder)
		return err_new(ERR_USAGE, "an image that comes over a pipe needs a folder to be kept in");
	*ret = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return *ret < 0 ? err_errno(errno, "keep an image in '%s'", folder) : NULL;
}

struct err *image_open_stream(int fd, const struct image_stream_limits *limits, struct image **ret)
{
	static const struct image_stream_limits defaults;
	const struct image_stream_limits *l = limits ? limits : &defaults;
	CLEANUP(image_closep) struct image *img = image_new(IMAGE_STREAM);
	CLOSE_FD int own = fd;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "read an image");
	struct image_reader r = { .img = img,
				  .fd = fd,
				  .spool = -1,
				  .file = S_ISREG(st.st_mode),
				  .max_memory = l->max_bytes ? l->max_bytes : MEMORY_MAX,
				  .timeout_ms = l->timeout_ms ? l->timeout_ms : TIMEOUT_MS };
	if (r.file) {
		image_add_fd(img, fd_steal(&own));
	} else {
		TRY(open_spool(l->spool, &r.spool));
		image_add_fd(img, r.spool);
	}
	CLEANUP(mem_freep) uint8_t *block = mem_alloc(BLOCK);
	r.block = block;
	TRY(read_head(&r));
	TRY(read_records(&r, (uint64_t)st.st_size));
	image_seal_pieces(img);
	image_find_modules(img);
	*ret = STEAL(img);
	return NULL;
}
