/* pprof: samples that name locations, locations that name functions, functions that name strings. One frame is one
 * function, one location and one string. Each piece is packed as a Profile of its own: the format joins them, and
 * nothing but the piece is in memory. */

#include "base/str.h"
#include "base/vec.h"
#include "export/formats.h"
#include "export/pprof.pb-c.h"
#include <string.h>

/* The first strings; frames follow, then threads. WEIGHT and its unit: time in nanoseconds, or space in bytes. */
enum { S_EMPTY, S_SAMPLES, S_COUNT, S_WEIGHT, S_UNIT, S_THREAD, S_EVENT, S_COMMENT, S_FIRST };

struct pprof_writer {
	const struct profile *p;
	const struct export_info *info;
	struct out *out;
	struct buf text;
};

static void pack(struct pprof_writer *x, const Pprof__Profile *profile)
{
	size_t size = pprof__profile__get_packed_size(profile);
	uint8_t *room = buf_room(&x->out->buf, size);
	if (!room)
		return;
	pprof__profile__pack(profile, room);
	x->out->buf.len += size;
	out_turn(x->out);
}

static void pack_string(struct pprof_writer *x, const char *s)
{
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	buf_clear(&x->text);
	utf8_add_valid(&x->text, s, strlen(s));
	buf_char(&x->text, '\0'); /* so that there is something to point at */
	char *one = x->text.data;
	piece.n_string_table = 1;
	piece.string_table = &one;
	pack(x, &piece);
}

static void pack_strings(struct pprof_writer *x)
{
	bool bytes = profile_unit(x->p) == PROFILE_BYTES;
	pack_string(x, "");
	pack_string(x, bytes ? "inuse_objects" : "samples");
	pack_string(x, "count");
	pack_string(x, bytes ? "inuse_space" : "time");
	pack_string(x, bytes ? "bytes" : "nanoseconds");
	pack_string(x, "thread");
	pack_string(x, x->info->event);
	pack_string(x, x->info->program);
	for (uint32_t i = 0; i < profile_n_frames(x->p); i++)
		pack_string(x, profile_frame(x->p, i));
	for (uint32_t i = 0; i < profile_n_threads(x->p); i++)
		pack_string(x, profile_thread_text(x->p, i));
}

/* Two values a sample: how many there were, and what they weigh. */
static bool has_weight(const struct pprof_writer *x)
{
	return profile_unit(x->p) != PROFILE_COUNT;
}

static void pack_head(struct pprof_writer *x)
{
	bool weight = has_weight(x);
	Pprof__Profile head = PPROF__PROFILE__INIT;
	Pprof__ValueType count = PPROF__VALUE_TYPE__INIT, weighs = PPROF__VALUE_TYPE__INIT;
	count.type = weight ? S_SAMPLES : S_EVENT;
	count.unit = S_COUNT;
	weighs.type = S_WEIGHT;
	weighs.unit = S_UNIT;
	Pprof__ValueType *types[] = { &count, &weighs };
	int64_t comment = S_COMMENT;
	head.n_sample_type = weight ? 2 : 1;
	head.sample_type = types;
	head.time_nanos = x->info->unix_ns;
	if (profile_unit(x->p) != PROFILE_BYTES)
		head.duration_nanos = (int64_t)(profile_end_ns(x->p) - profile_start_ns(x->p));
	if (weight && x->info->interval_ns) {
		head.period_type = &weighs;
		head.period = (int64_t)x->info->interval_ns;
	}
	head.n_comment = 1;
	head.comment = &comment;
	head.default_sample_type = weight ? S_WEIGHT : S_EVENT;
	pack(x, &head);
}

static void pack_frames(struct pprof_writer *x)
{
	for (uint32_t i = 0; i < profile_n_frames(x->p); i++) {
		Pprof__Profile piece = PPROF__PROFILE__INIT;
		Pprof__Function function = PPROF__FUNCTION__INIT;
		Pprof__Location location = PPROF__LOCATION__INIT;
		Pprof__Line line = PPROF__LINE__INIT;
		Pprof__Function *functions[] = { &function };
		Pprof__Location *locations[] = { &location };
		Pprof__Line *lines[] = { &line };
		function.id = location.id = line.function_id = i + 1;
		function.name = function.system_name = S_FIRST + i;
		location.n_line = 1;
		location.line = lines;
		piece.n_function = piece.n_location = 1;
		piece.function = functions;
		piece.location = locations;
		pack(x, &piece);
	}
}

static void pack_sample(struct pprof_writer *x, const struct profile_sum *sum, const struct profile_path *path,
			uint64_t *locations)
{
	Pprof__Profile piece = PPROF__PROFILE__INIT;
	Pprof__Sample sample = PPROF__SAMPLE__INIT;
	Pprof__Label label = PPROF__LABEL__INIT;
	Pprof__Sample *samples[] = { &sample };
	Pprof__Label *labels[] = { &label };
	int64_t values[] = { (int64_t)(has_weight(x) ? sum->count : sum->weight), (int64_t)sum->weight };
	for (size_t i = 0; locations && i < path->n; i++)
		locations[i] = path->v[path->n - 1 - i] + 1;
	label.key = S_THREAD;
	label.str = (int64_t)(S_FIRST + profile_n_frames(x->p) + sum->thread);
	sample.n_location_id = path->n;
	sample.location_id = locations;
	sample.n_value = has_weight(x) ? 2 : 1;
	sample.value = values;
	sample.n_label = profile_unit(x->p) == PROFILE_BYTES ? 0 : 1;
	sample.label = labels;
	piece.n_sample = 1;
	piece.sample = samples;
	pack(x, &piece);
}

struct err *pprof_write(const struct profile *p, const struct export_info *info, struct out *out)
{
	struct pprof_writer x = { .p = p, .info = info, .out = out };
	struct profile_sums sums = { 0 };
	struct profile_path path = { 0 };
	VEC(uint64_t) locations = { 0 };
	struct err *err = profile_sum(p, &sums);
	if (!err) {
		pack_strings(&x);
		pack_head(&x);
		pack_frames(&x);
	}
	for (size_t i = 0; i < sums.n && !err && !out_failed(out); i++) {
		profile_path(p, sums.v[i].node, &path);
		vec_reserve(&locations, MAX(path.n, (size_t)1));
		pack_sample(&x, &sums.v[i], &path, locations.v);
	}
	vec_free(&sums);
	vec_free(&path);
	vec_free(&locations);
	buf_free(&x.text);
	return err;
}
