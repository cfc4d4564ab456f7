#include "image/save.h"
#include "image/hurry.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096u
#define PAGES_AT_ONCE 512

struct save_range {
	struct maps_line line;
	const struct tracer_file *file;
};
static struct save_range ranges[TRACER_SHARED_MAPS];

void save_prepare(size_t n)
{
	hurry_touch(ranges, MIN(n, ARRAY_SIZE(ranges)) * sizeof(*ranges));
}

/* What is needed to read the runtime comes first, a program's own large files last. */
static int rank_of(const struct save_range *r)
{
	return maps_runtime(&r->line) ? 0 : r->file && !r->file->memory ? 2 : 1;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct save_range *x = a, *y = b;
	if (rank_of(x) != rank_of(y))
		return rank_of(x) - rank_of(y);
	return CMP(x->file, y->file) ?: CMP(x->line.offset, y->line.offset);
}

static const struct tracer_file *file_of(const struct maps_line *l, const struct tracer_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (files[i].dev == l->dev && files[i].ino == l->ino)
			return &files[i];
	return NULL;
}

static size_t find_ranges(const char *maps, size_t len, const struct tracer_file *files, size_t n_files)
{
	size_t n = 0;
	const char *p = maps, *end = maps + len;
	for (struct maps_line line; n < TRACER_SHARED_MAPS && maps_next(&p, end, &line);)
		if (maps_shared(&line))
			ranges[n++] = (struct save_range){ line, file_of(&line, files, n_files) };
	qsort(ranges, n, sizeof(*ranges), compare_ranges);
	return n;
}

/* The next stretch of data of a file at or behind *at, before end. */
static bool next_data(const struct tracer_file *f, uint64_t *at, uint64_t end, uint64_t *ret_len)
{
	off_t data = lseek(f->fd, (off_t)*at, SEEK_DATA);
	if (data < 0 || (uint64_t)data >= end)
		return false;
	off_t hole = lseek(f->fd, data, SEEK_HOLE);
	uint64_t stop = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
	*at = (uint64_t)data;
	*ret_len = stop - (uint64_t)data;
	return *ret_len > 0;
}

uint64_t save_estimate(const char *maps, size_t len, const struct tracer_file *files, size_t n_files)
{
	uint64_t sum = 0;
	size_t n = find_ranges(maps, len, files, n_files);
	for (size_t i = 0; i < n; i++) {
		const struct save_range *r = &ranges[i];
		uint64_t end = r->line.offset + (r->line.end - r->line.start), part;
		if (r->file)
			for (uint64_t at = r->line.offset; next_data(r->file, &at, end, &part); at += part)
				sum += part;
	}
	return sum;
}

static bool add_saved(struct tracer_job *job, struct tracer_saved saved)
{
	struct tracer_result *r = job->result;
	if (r->n_saved == TRACER_SAVED_MAX)
		return false;
	saved.at = r->saved_bytes;
	r->saved[r->n_saved++] = saved;
	r->saved_bytes += saved.len;
	return true;
}

static bool room_for(const struct tracer_job *job, uint64_t len)
{
	return len <= job->saved_max - job->result->saved_bytes && job->result->n_saved < TRACER_SAVED_MAX;
}

/* Bytes read, without waiting for a disk. */
static uint64_t read_file(const struct tracer_file *f, uint8_t *to, uint64_t at, uint64_t len)
{
	uint64_t got = 0;
	while (got < len) {
		struct iovec io = { to + got, len - got };
		ssize_t n = preadv2(f->fd, &io, 1, (off_t)(at + got), f->memory ? 0 : RWF_NOWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (uint64_t)n;
	}
	return got;
}

/* False: the time is over. */
static bool save_file_range(struct tracer_job *job, const struct save_range *r, uint64_t from, uint64_t end,
			    struct deadline deadline)
{
	struct tracer_result *res = job->result;
	uint64_t len;
	for (uint64_t at = from; next_data(r->file, &at, end, &len); at += len) {
		uint64_t got = 0;
		if (deadline_passed(deadline))
			return false;
		if (room_for(job, len))
			got = read_file(r->file, job->saved + res->saved_bytes, at, len);
		if (got)
			add_saved(job, (struct tracer_saved){
					       .dev = r->line.dev, .ino = r->line.ino, .offset = at, .len = got });
		res->left_bytes += len - got;
		if (got < len)
			res->left_file[r->file - job->files] = true;
	}
	return true;
}

/* Without a descriptor of the file: what of it is in the process's page tables. False: the time is over. */
static bool save_pages(struct tracer_job *job, const struct save_range *r, struct deadline deadline)
{
	static uint64_t entries[PAGES_AT_ONCE];
	struct tracer_result *res = job->result;
	for (uint64_t a = r->line.start; a < r->line.end; a += PAGES_AT_ONCE * PAGE) {
		uint64_t n = MIN((r->line.end - a) / PAGE, (uint64_t)PAGES_AT_ONCE);
		if (pread(job->pagemap_fd, entries, n * 8, (off_t)(a / PAGE * 8)) != (ssize_t)(n * 8)) {
			res->left_bytes += n * PAGE;
			continue;
		}
		for (uint64_t i = 0; i < n;) {
			uint64_t run = 0;
			while (i + run < n && entries[i + run] >> 62)
				run++;
			uint64_t len = run * PAGE, at = a + i * PAGE;
			i += run ? run : 1;
			if (!run)
				continue;
			if (deadline_passed(deadline))
				return false;
			ssize_t got = room_for(job, len)
					      ? pread(job->mem_fd, job->saved + res->saved_bytes, len, (off_t)at)
					      : 0;
			if (got > 0)
				add_saved(job, (struct tracer_saved){ .addr = at, .len = (uint64_t)got });
			res->left_bytes += len - (uint64_t)MAX(got, 0);
		}
	}
	return true;
}

bool save_shared(struct tracer_job *job, struct deadline deadline)
{
	size_t n = find_ranges(job->maps, job->result->maps_len, job->files, job->n_files);
	job->result->n_saved = 0;
	job->result->saved_bytes = job->result->left_bytes = 0;
	memset(job->result->left_file, 0, sizeof(job->result->left_file));
	/* The same bytes are often mapped twice, once to write and once to run. */
	uint64_t done = 0;
	for (size_t i = 0; i < n; i++) {
		const struct save_range *r = &ranges[i];
		if (!r->file) {
			if (!save_pages(job, r, deadline))
				return false;
			continue;
		}
		if (!i || ranges[i - 1].file != r->file)
			done = 0;
		uint64_t end = r->line.offset + (r->line.end - r->line.start);
		if (end > done && !save_file_range(job, r, MAX(r->line.offset, done), end, deadline))
			return false;
		done = MAX(done, end);
	}
	return true;
}
