/* Trace Event Format: what chrome://tracing and Perfetto open. A frame that was on a thread's stack for a while is a
 * complete event ("X"); a counted event is an instant with its stack beside it. Times are microseconds. */

#include "base/json.h"
#include "base/vec.h"
#include "export/formats.h"
#include <stdio.h>

struct chromium_writer {
	const struct profile *p;
	const struct export_info *info;
	struct out *out;
	struct jsonw w;
	struct profile_path path;
	uint64_t start_ns;
	uint64_t thread_id;
};

/* Exact to the nanosecond, which a double of this size is not when printed with few digits. */
static void add_us(struct chromium_writer *x, const char *key, uint64_t ns)
{
	char text[40];
	snprintf(text, sizeof(text), "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
	jsonw_raw(&x->w, key, text);
}

static void begin_event(struct chromium_writer *x, const char *phase, const char *name)
{
	jsonw_object(&x->w, NULL);
	jsonw_str(&x->w, "ph", phase);
	jsonw_str(&x->w, "name", name);
	jsonw_u64(&x->w, "pid", x->info->pid);
	jsonw_u64(&x->w, "tid", x->thread_id);
}

static void end_event(struct chromium_writer *x)
{
	jsonw_object_end(&x->w);
	out_turn(x->out);
}

static void on_open(void *user, uint32_t frame, uint64_t at_ns)
{
	(void)user, (void)frame, (void)at_ns;
}

static void on_close(void *user, uint32_t frame, uint64_t opened_ns, uint64_t at_ns)
{
	struct chromium_writer *x = user;
	begin_event(x, "X", profile_frame(x->p, frame));
	jsonw_str(&x->w, "cat", x->info->event);
	add_us(x, "ts", opened_ns - x->start_ns);
	add_us(x, "dur", at_ns - opened_ns);
	end_event(x);
}

static void on_instant(void *user, const struct profile_sample *s)
{
	struct chromium_writer *x = user;
	profile_path(x->p, s->stack, &x->path);
	begin_event(x, "i", x->path.n ? profile_frame(x->p, x->path.v[0]) : x->info->event);
	jsonw_str(&x->w, "cat", x->info->event);
	jsonw_str(&x->w, "s", "t");
	add_us(x, "ts", s->time_ns - x->start_ns);
	jsonw_object(&x->w, "args");
	jsonw_array(&x->w, "stack");
	for (size_t i = x->path.n; i-- > 1;)
		jsonw_str(&x->w, NULL, profile_frame(x->p, x->path.v[i]));
	jsonw_array_end(&x->w);
	jsonw_object_end(&x->w);
	end_event(x);
}

static void write_name(struct chromium_writer *x, const char *what, const char *name)
{
	begin_event(x, "M", what);
	jsonw_object(&x->w, "args");
	jsonw_str(&x->w, "name", name);
	jsonw_object_end(&x->w);
	end_event(x);
}

static struct err *write_thread(struct chromium_writer *x, uint32_t thread)
{
	struct spans spans = { .profile = x->p, .user = x, .open = on_open, .close = on_close };
	x->thread_id = profile_thread_id(x->p, thread);
	write_name(x, "thread_name", profile_thread_text(x->p, thread));
	struct err *err = profile_unit(x->p) == PROFILE_NS ? spans_read(&spans, thread)
							   : profile_read(x->p, thread, on_instant, x);
	spans_fini(&spans);
	return err;
}

struct err *chromium_write(const struct profile *p, const struct export_info *info, struct out *out)
{
	struct chromium_writer x = { .p = p, .info = info, .out = out, .start_ns = profile_start_ns(p) };
	struct err *err = NULL;
	x.w = jsonw_make(&out->buf, false);
	jsonw_object(&x.w, NULL);
	jsonw_str(&x.w, "displayTimeUnit", "ms");
	jsonw_object(&x.w, "otherData");
	jsonw_str(&x.w, "name", info->name);
	jsonw_str(&x.w, "exporter", info->program);
	jsonw_object_end(&x.w);
	jsonw_array(&x.w, "traceEvents");
	write_name(&x, "process_name", info->name);
	for (uint32_t t = 0; t < profile_n_threads(p) && !err && !out_failed(out); t++)
		err = write_thread(&x, t);
	jsonw_array_end(&x.w);
	jsonw_object_end(&x.w);
	buf_char(&out->buf, '\n');
	vec_free(&x.path);
	return err;
}
