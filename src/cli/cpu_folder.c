#include "cli/cpu_folder.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/partfile.h"
#include "export/perf.h"
#include "export/tar.h"
#include "sampling/sample_summary.h"
#include "report/flame_svg.h"
#include "session/profile.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct err *perf_writer(const struct profile *p, const struct perf_info *info, struct out *out);

static struct err *write_file(const char *dir, const char *name, const struct buf *bytes)
{
	if (bytes->overflow)
		return err_new(ERR_IO, "'%s' is too large to write", name);
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	return file_write_atomic(path, buf_cstr(bytes), bytes->len, 0644);
}

struct growing {
	struct partfile file;
	struct out out;
};

static struct err *growing_open(struct growing *g, const char *dir, const char *name, bool gzip)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	struct err *err = partfile_open(path, 0644, &g->file);
	out_init(&g->out, g->file.fd, gzip);
	return err;
}

static struct err *growing_close(struct growing *g, struct err *err)
{
	struct err *last = g->file.fd >= 0 ? out_finish(&g->out) : NULL;
	if (!err)
		err = STEAL(last);
	err_free(last);
	if (!err)
		err = partfile_commit(&g->file);
	out_fini(&g->out);
	partfile_fini(&g->file, false);
	return err;
}

static struct err *write_perf(const char *dir, const char *name, perf_writer *writer, const struct profile *p,
			      const struct perf_info *info)
{
	struct growing g;
	struct err *err = growing_open(&g, dir, name, false);
	return growing_close(&g, err ? err : writer(p, info, &g.out));
}

static struct err *write_symbols(const char *dir, const struct profile *p)
{
	TRY(dir_make(dir, 0755));
	for (enum frame_kind k = 0; k <= FRAME_OTHER; k++) {
		CLEANUP(buf_free) struct buf elf = { 0 };
		CLEANUP(mem_freep) char *name = mem_printf("%s.elf", frame_kind_ids[k]);
		if (perf_symbols_write(p, k, &elf))
			TRY(write_file(dir, name, &elf));
	}
	return NULL;
}

static struct err *write_pictures(const struct cpu_folder *f, const struct samples *samples)
{
	CLEANUP(sample_summary_freep) struct sample_summary *hot = sample_summary_new(samples, UINT64_MAX);
	CLEANUP(buf_free) struct buf folded = { 0 }, svg = { 0 };
	sample_summary_folded(hot, f->timed ? MAX(f->period_ns, (uint64_t)1) : 1, &folded);
	flame_svg(hot->down, f->timed ? "CPU time" : "Samples", f->timed ? VALUE_NS : VALUE_COUNT, &svg);
	TRY(write_file(f->dir, "folded_stacks.out", &folded));
	return write_file(f->dir, "flamegraph.svg", &svg);
}

static struct err *add_to_tar(struct out *out, const char *dir, const char *name, int64_t now)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	CLOSE_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return NULL;
	return fd < 0 ? err_errno(errno, "'%s'", path) : tar_add_fd(out, name, fd, now);
}

static struct err *fill_tar(const char *dir, struct out *out)
{
	static const char *const names[] = { "perf.data", "perf_script.out", "folded_stacks.out", "flamegraph.svg" };
	int64_t now = clock_real_ns() / NS_PER_S;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		TRY(add_to_tar(out, dir, names[i], now));
	for (enum frame_kind k = 0; k <= FRAME_OTHER; k++) {
		CLEANUP(mem_freep) char *name = mem_printf("symbols/%s.elf", frame_kind_ids[k]);
		TRY(add_to_tar(out, dir, name, now));
	}
	tar_end(out);
	return NULL;
}

static struct err *write_tar(const char *dir)
{
	struct growing g;
	struct err *err = growing_open(&g, dir, "prof.tar.gz", true);
	return growing_close(&g, err ? err : fill_tar(dir, &g.out));
}

struct err *cpu_folder_write(const struct cpu_folder *f, const struct samples *samples)
{
	char absolute[PATH_MAX];
	if (!realpath(f->dir, absolute))
		return err_errno(errno, "'%s'", f->dir);
	CLEANUP(mem_freep) char *symbols = mem_printf("%s/symbols", absolute);
	CLEANUP(profile_freep) struct profile *p = profile_new(f->dir, f->timed ? PROFILE_NS : PROFILE_COUNT);
	TRY(profile_from_samples(samples, p));
	struct perf_info info = { .pid = f->pid,
				  .process = f->process,
				  .event = f->event,
				  .symbols_dir = symbols,
				  .period_ns = f->period_ns };
	if (!f->keep_data) {
		TRY(write_symbols(symbols, p));
		TRY(write_perf(f->dir, "perf.data", perf_data_write, p, &info));
	}
	TRY(write_perf(f->dir, "perf_script.out", perf_script_write, p, &info));
	TRY(write_pictures(f, samples));
	return write_tar(f->dir);
}
