/* speedscope's own file format: one table of frames, one profile a thread. Time profiles are "evented" (frames that
 * open and close), so equal neighbours cost nothing; counts are "sampled". */

#include "base/json.h"
#include "export/formats.h"
#include "base/vec.h"
#include <string.h>

struct speedscope_writer {
	const struct profile *p;
	struct out *out;
	struct jsonw w;
	struct profile_path path;
	uint64_t start_ns, n;
};

static void write_event(struct speedscope_writer *x, const char *type, uint32_t frame, uint64_t at_ns)
{
	jsonw_object(&x->w, NULL);
	jsonw_str(&x->w, "type", type);
	jsonw_u64(&x->w, "frame", frame);
	jsonw_u64(&x->w, "at", at_ns - x->start_ns);
	jsonw_object_end(&x->w);
	out_turn(x->out);
}

static void on_open(void *user, uint32_t frame, uint64_t at_ns)
{
	write_event(user, "O", frame, at_ns);
}

static void on_close(void *user, uint32_t frame, uint64_t opened_ns, uint64_t at_ns)
{
	(void)opened_ns;
	write_event(user, "C", frame, at_ns);
}

static struct err *write_evented(struct speedscope_writer *x, uint32_t thread)
{
	struct spans spans = { .profile = x->p, .user = x, .open = on_open, .close = on_close };
	jsonw_str(&x->w, "type", "evented");
	jsonw_str(&x->w, "name", profile_thread_text(x->p, thread));
	jsonw_str(&x->w, "unit", "nanoseconds");
	jsonw_u64(&x->w, "startValue", 0);
	jsonw_u64(&x->w, "endValue", profile_end_ns(x->p) - x->start_ns);
	jsonw_array(&x->w, "events");
	struct err *err = spans_read(&spans, thread);
	jsonw_array_end(&x->w);
	spans_fini(&spans);
	return err;
}

static void on_stack(void *user, const struct profile_sample *s)
{
	struct speedscope_writer *x = user;
	profile_path(x->p, s->stack, &x->path);
	jsonw_array(&x->w, NULL);
	vec_each(frame, &x->path)
		jsonw_u64(&x->w, NULL, *frame);
	jsonw_array_end(&x->w);
	x->n += s->weight;
	out_turn(x->out);
}

static void on_weight(void *user, const struct profile_sample *s)
{
	struct speedscope_writer *x = user;
	jsonw_u64(&x->w, NULL, s->weight);
	out_turn(x->out);
}

static struct err *write_sampled(struct speedscope_writer *x, uint32_t thread)
{
	x->n = 0;
	jsonw_str(&x->w, "type", "sampled");
	jsonw_str(&x->w, "name", profile_thread_text(x->p, thread));
	jsonw_str(&x->w, "unit", "none");
	jsonw_u64(&x->w, "startValue", 0);
	jsonw_array(&x->w, "samples");
	struct err *err = profile_read(x->p, thread, on_stack, x);
	jsonw_array_end(&x->w);
	jsonw_u64(&x->w, "endValue", x->n);
	jsonw_array(&x->w, "weights");
	if (!err)
		err = profile_read(x->p, thread, on_weight, x);
	jsonw_array_end(&x->w);
	return err;
}

/* The thread to look at first: the one that ran most. */
static struct err *busiest_thread(const struct profile *p, uint32_t *ret)
{
	struct profile_sums sums = { 0 };
	CLEANUP(mem_freep) uint64_t *ran = mem_zalloc((profile_n_threads(p) + 1) * sizeof(*ran));
	struct err *err = profile_sum(p, &sums);
	*ret = 0;
	vec_each(s, &sums) {
		if (s->node && profile_frame_kind(p, profile_node(p, s->node).frame) == FRAME_NATIVE)
			continue;
		ran[s->thread] += s->weight;
		if (ran[s->thread] > ran[*ret])
			*ret = s->thread;
	}
	vec_free(&sums);
	return err;
}

static void write_frames(struct speedscope_writer *x)
{
	jsonw_object(&x->w, "shared");
	jsonw_array(&x->w, "frames");
	for (uint32_t i = 0; i < profile_n_frames(x->p); i++) {
		jsonw_object(&x->w, NULL);
		jsonw_str(&x->w, "name", profile_frame(x->p, i));
		jsonw_object_end(&x->w);
		out_turn(x->out);
	}
	jsonw_array_end(&x->w);
	jsonw_object_end(&x->w);
}

struct err *speedscope_write(const struct profile *p, const struct export_info *info, struct out *out)
{
	struct speedscope_writer x = { .p = p, .out = out, .start_ns = profile_start_ns(p) };
	uint32_t first;
	struct err *err = busiest_thread(p, &first);
	x.w = jsonw_make(&out->buf, false);
	jsonw_object(&x.w, NULL);
	jsonw_str(&x.w, "$schema", "https://www.speedscope.app/file-format-schema.json");
	jsonw_str(&x.w, "exporter", info->program);
	jsonw_str(&x.w, "name", info->name);
	jsonw_u64(&x.w, "activeProfileIndex", first);
	write_frames(&x);
	jsonw_array(&x.w, "profiles");
	for (uint32_t t = 0; t < profile_n_threads(p) && !err && !out_failed(out); t++) {
		jsonw_object(&x.w, NULL);
		err = profile_unit(p) == PROFILE_NS ? write_evented(&x, t) : write_sampled(&x, t);
		jsonw_object_end(&x.w);
	}
	jsonw_array_end(&x.w);
	jsonw_object_end(&x.w);
	buf_char(&out->buf, '\n');
	vec_free(&x.path);
	return err;
}
