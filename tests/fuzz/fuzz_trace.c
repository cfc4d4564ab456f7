/* Any bytes as a trace that is converted, summed up and kept in a ring: whatever the ring gives must be a stream that
 * its own cutter takes. */

#include "base/fd.h"
#include "export/formats.h"
#include "report/report.h"
#include "trace/cut.h"
#include "trace/jsonl.h"
#include "trace/ring.h"
#include "trace/samples.h"
#include "trace/summary.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void convert(const char *path, int null)
{
	for (enum export_format f = 0; f < EXPORT_FORMATS; f++) {
		struct trace_samples_options options = { .spool_dir = "/tmp" };
		struct trace_samples samples;
		struct err *err = trace_samples(path, &options, &samples);
		if (err) {
			err_free(err);
			return;
		}
		struct out out;
		out_init(&out, null, export_format_gzip(f));
		struct export_info info = { .name = "x", .program = "y", .event = "samples" };
		err_ignore(export_write(f, samples.profile, &info, &out));
		err_ignore(out_finish(&out));
		out_fini(&out);
		trace_samples_fini(&samples);
	}
}

static void sum_up(const char *path, int null)
{
	struct report *report = NULL;
	err_ignore(trace_summary(path, NULL, "/tmp", &report));
	if (report) {
		struct buf text = { 0 };
		report_render_text(report, &(struct report_text_style){ 0 }, &text);
		buf_free(&text);
	}
	report_free(report);
	struct out out;
	struct trace_source source = { 0 };
	out_init(&out, null, false);
	err_ignore(trace_jsonl(path, NULL, &out, &source));
	err_ignore(out_finish(&out));
	out_fini(&out);
	trace_source_fini(&source);
}

static void to_ring(void *user, const struct cut_object *o)
{
	ring_add(user, o);
}

static void to_buf(void *user, const struct cut_object *o)
{
	struct buf *out = user;
	cut_write(out, out->len, o);
}

static void count(void *user, const struct cut_object *o)
{
	size_t *n = user;
	*n += o->kind != CUT_END;
}

static void keep(const uint8_t *data, size_t size)
{
	struct cutter cutter = { 0 }, again = { 0 };
	struct ring ring;
	struct buf out = { 0 };
	size_t n = 0;
	ring_init(&ring, 1000, 4096);
	err_ignore(cutter_feed(&cutter, data, size, to_ring, &ring));
	bool started = cutter.started;
	ring_drain(&ring, to_buf, &out);
	if (started) {
		struct err *err = cutter_feed(&again, out.data, out.len, count, &n);
		if (err || again.whole != out.len)
			abort();
	}
	ring_fini(&ring);
	cutter_fini(&cutter);
	cutter_fini(&again);
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int null = -1, file = -1;
	if (null < 0) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		file = memfd_create("trace", MFD_CLOEXEC);
	}
	if (ftruncate(file, 0) < 0 || pwrite(file, data, size, 0) != (ssize_t)size)
		abort();
	CLEANUP(mem_freep) char *path = mem_printf("/proc/self/fd/%d", file);
	convert(path, null);
	sum_up(path, null);
	keep(data, size);
	return 0;
}
