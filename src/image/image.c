#include "image/internal.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "image/snapshot.h"
#include <stdlib.h>
#include <string.h>

struct image *image_new(enum image_source source)
{
	struct image *img = mem_zalloc(sizeof(*img));
	img->source = source;
	img->pagemap_fd = -1;
	return img;
}

void image_close(struct image *img)
{
	if (!img)
		return;
	snapshot_free(img->snapshot);
	vec_each(fd, &img->fds)
		fd_closep(fd);
	vec_free(&img->fds);
	vec_each(file, &img->files)
		fd_closep(&file->fd);
	vec_free(&img->files);
	vec_free(&img->threads);
	vec_free(&img->mappings);
	vec_free(&img->modules);
	vec_free(&img->pieces);
	mem_free(img->auxv);
	mem_free(img->command);
	fd_closep(&img->pagemap_fd);
	arena_free(&img->arena);
	mem_free(img);
}

/* ---- the table of pieces ---- */

uint32_t image_add_fd(struct image *img, int fd)
{
	vec_push(&img->fds, fd);
	return (uint32_t)(img->fds.n - 1);
}

void image_add_piece(struct image *img, struct image_piece piece)
{
	if (piece.start < piece.end)
		vec_push(&img->pieces, piece);
}

/* A piece and when it was added: the earlier one wins. */
struct image_ranked {
	struct image_piece piece;
	size_t rank;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct image_ranked *x = a, *y = b;
	return CMP(x->piece.start, y->piece.start) ?: CMP(x->rank, y->rank);
}

/* Pieces that hold the sweep's address, the earliest added on top. */
VEC_TYPE(image_heap, struct image_ranked);

static void heap_swap(struct image_heap *h, size_t a, size_t b)
{
	struct image_ranked t = h->v[a];
	h->v[a] = h->v[b];
	h->v[b] = t;
}

static void heap_push(struct image_heap *h, struct image_ranked r)
{
	vec_push(h, r);
	for (size_t i = h->n - 1; i && h->v[i].rank < h->v[(i - 1) / 2].rank; i = (i - 1) / 2)
		heap_swap(h, i, (i - 1) / 2);
}

static void heap_pop(struct image_heap *h)
{
	h->v[0] = h->v[--h->n];
	for (size_t i = 0;;) {
		size_t least = i;
		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < h->n; child++)
			if (h->v[child].rank < h->v[least].rank)
				least = child;
		if (least == i)
			return;
		heap_swap(h, i, least);
		i = least;
	}
}

/* The part of a piece from start to end, joined to the last one when it goes on from there. */
static void emit(struct image *img, const struct image_piece *whole, uint64_t start, uint64_t end)
{
	struct image_piece part = *whole;
	part.start = start;
	part.end = end;
	if (part.fd != IMAGE_FD_ZERO)
		part.offset += start - whole->start;
	struct image_piece *last = img->pieces.n ? &vec_last(&img->pieces) : NULL;
	bool joins = last && last->end == start && last->fd == part.fd &&
		     (part.fd == IMAGE_FD_ZERO || last->offset + (start - last->start) == part.offset);
	if (joins)
		last->end = end;
	else
		vec_push(&img->pieces, part);
}

/* A sweep over the starts: n log n whatever the table claims. */
uint64_t image_seal_pieces(struct image *img)
{
	size_t n = img->pieces.n;
	struct image_ranked *all = mem_array(MAX(n, (size_t)1), sizeof(*all));
	struct image_heap open = { 0 };
	unsigned __int128 claimed = 0, got = 0;
	for (size_t i = 0; i < n; i++) {
		all[i] = (struct image_ranked){ img->pieces.v[i], i };
		claimed += img->pieces.v[i].end - img->pieces.v[i].start;
	}
	if (n)
		qsort(all, n, sizeof(*all), compare_ranked);
	vec_clear(&img->pieces);
	uint64_t at = 0;
	for (size_t next = 0; next < n || open.n;) {
		if (!open.n)
			at = MAX(at, all[next].piece.start);
		while (next < n && all[next].piece.start <= at)
			heap_push(&open, all[next++]);
		const struct image_piece *top = &open.v[0].piece;
		uint64_t end = next < n ? MIN(top->end, all[next].piece.start) : top->end;
		if (end > at) {
			emit(img, top, at, end);
			got += end - at;
			at = end;
		}
		while (open.n && open.v[0].piece.end <= at)
			heap_pop(&open);
	}
	mem_free(all);
	vec_free(&open);
	unsigned __int128 twice = claimed - got;
	return twice > UINT64_MAX ? UINT64_MAX : (uint64_t)twice;
}

const struct image_piece *image_piece_from(const struct image *img, uint64_t addr)
{
	size_t low = 0, high = img->pieces.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (img->pieces.v[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < img->pieces.n ? &img->pieces.v[low] : NULL;
}

/* ---- reading ---- */

static size_t read_piece(const struct image *img, const struct image_piece *p, uint64_t addr, void *buf, size_t len)
{
	size_t want = (size_t)MIN((uint64_t)len, p->end - addr);
	if (p->fd == IMAGE_FD_ZERO) {
		memset(buf, 0, want);
		return want;
	}
	return fd_pread(img->fds.v[p->fd], buf, want, p->offset + (addr - p->start));
}

void image_read(const struct image *img, uint64_t addr, void *buf, size_t len, size_t *ret_got)
{
	size_t got = 0;
	if (len > UINT64_MAX - addr)
		len = (size_t)(UINT64_MAX - addr);
	while (got < len) {
		const struct image_piece *p = image_piece_from(img, addr + got);
		if (!p || p->start > addr + got)
			break;
		size_t want = (size_t)MIN((uint64_t)(len - got), p->end - (addr + got));
		size_t n = read_piece(img, p, addr + got, (char *)buf + got, want);
		got += n;
		if (n < want)
			break;
	}
	*ret_got = got;
	if (img->watch && got)
		vec_push(img->watch, ((struct image_range){ addr, got }));
}

bool image_signal(const struct image *img, struct image_signal *ret)
{
	if (img->signal.number)
		*ret = img->signal;
	return img->signal.number;
}

void image_watch_reads(struct image *img, struct image_ranges *into)
{
	img->watch = into;
}

bool image_read_all(const struct image *img, uint64_t addr, void *buf, size_t len)
{
	size_t got;
	image_read(img, addr, buf, len, &got);
	return got == len;
}

/* ---- what it holds ---- */

enum image_source image_source(const struct image *img)
{
	return img->source;
}

pid_t image_pid(const struct image *img)
{
	return img->pid;
}

const struct image_thread *image_threads(const struct image *img, size_t *ret_n)
{
	*ret_n = img->threads.n;
	return img->threads.v;
}

const struct image_mapping *image_mappings(const struct image *img, size_t *ret_n)
{
	*ret_n = img->mappings.n;
	return img->mappings.v;
}

const struct image_mapping *image_mapping_at(const struct image *img, uint64_t addr)
{
	size_t low = 0, high = img->mappings.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (img->mappings.v[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < img->mappings.n && img->mappings.v[low].start <= addr ? &img->mappings.v[low] : NULL;
}

const struct image_module *image_modules(const struct image *img, size_t *ret_n)
{
	*ret_n = img->modules.n;
	return img->modules.v;
}

const struct image_module *image_module_named(const struct image *img, const char *file)
{
	vec_each(m, &img->modules) {
		const char *slash = strrchr(m->path, '/');
		if (str_eq(slash ? slash + 1 : m->path, file))
			return m;
	}
	return NULL;
}

int image_file_named(const struct image *img, const char *file)
{
	vec_each(f, &img->files) {
		const char *slash = strrchr(f->path, '/');
		if (str_eq(slash ? slash + 1 : f->path, file))
			return f->fd;
	}
	return -1;
}

const void *image_auxv(const struct image *img, size_t *ret_len)
{
	*ret_len = img->auxv_len;
	return img->auxv;
}

const struct image_piece *image_pieces(const struct image *img, size_t *ret_n)
{
	*ret_n = img->pieces.n;
	return img->pieces.v;
}

const int *image_fds(const struct image *img, size_t *ret_n)
{
	*ret_n = img->fds.n;
	return img->fds.v;
}
