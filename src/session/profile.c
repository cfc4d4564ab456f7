/* The samples of a session as files that other programs open. */

#include "session/profile.h"
#include "base/fd.h"
#include "base/str.h"
#include "export/formats.h"
#include "sampling/sampling.h"
#include "session/internal.h"
#include "version.h"
#include <string.h>

#define PICTURE_BYTES_MAX ((size_t)64 << 20)

/* Those that the profiler made itself. */
static const char *made_file(const char *path)
{
	enum export_format format;
	if (str_ends(path, ".svg"))
		return "flamegraph.svg";
	return export_format_of(path, &format) && format == EXPORT_FOLDED ? "folded_stacks.out" : NULL;
}

bool session_profile_ending(const char *path)
{
	enum export_format format;
	return made_file(path) || export_format_of(path, &format);
}

static struct err *copy_made(const char *dir, const char *name, int fd)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct err *err = file_read(path, PICTURE_BYTES_MAX, &bytes);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return err_new(ERR_USAGE, "the session took no samples: it has no %s", name);
	}
	return err ? err : fd_write_full(fd, bytes.data, bytes.len, DEADLINE_NEVER);
}

struct export_sample {
	uint64_t from_ns;
	const struct sample *sample;
};

static int by_time(const void *a, const void *b)
{
	const struct export_sample *x = a, *y = b;
	return CMP(x->from_ns, y->from_ns);
}

static enum frame_kind never_named(void *user UNUSED, uint64_t place UNUSED, struct buf *out)
{
	buf_str(out, "?");
	return FRAME_OTHER;
}

static void add_stacks(const struct samples *s, struct profile *p, uint32_t *stacks)
{
	CLEANUP(mem_freep) uint64_t *places = mem_array(s->frames.n + 1, sizeof(*places));
	VEC(uint64_t) path = { 0 };
	for (uint32_t i = 0; i < s->frames.n; i++)
		places[i] = profile_place(p, samples_frame_name(s, i), s->frames.v[i].kind);
	for (uint32_t i = 0; i < s->stacks.n; i++) {
		vec_clear(&path);
		for (uint32_t j = 0; j < s->stacks.v[i].n; j++)
			vec_push(&path, places[s->stack_frames.v[s->stacks.v[i].first + j]]);
		stacks[i] = profile_stack(p, path.v, path.n);
	}
	vec_free(&path);
}

/* A CPU sample covers the time before it, a wait the time after it began. */
struct err *profile_from_samples(const struct samples *s, struct profile *p)
{
	CLEANUP(mem_freep) uint32_t *stacks = mem_array(s->stacks.n + 1, sizeof(*stacks));
	CLEANUP(mem_freep) uint32_t *threads = mem_array(s->threads.n + 1, sizeof(*threads));
	VEC(struct export_sample) order = { 0 };
	add_stacks(s, p, stacks);
	for (uint32_t i = 0; i < s->threads.n; i++) {
		const char *name = samples_thread_show(s, i);
		uint32_t tid = s->threads.v[i].own_tid;
		CLEANUP(mem_freep)
		char *text = *name ? mem_printf("%s (%u)", name, tid) : mem_printf("Thread %u", tid);
		threads[i] = profile_thread(p, s->threads.v[i].tid);
		profile_thread_name(p, threads[i], text);
	}
	vec_each(x, &s->list) {
		uint64_t at = (uint64_t)x->time_us * 1000;
		vec_push(&order, ((struct export_sample){ x->kind ? at : at - MIN(at, x->weight), x }));
	}
	vec_sort(&order, by_time);
	vec_each(o, &order)
		profile_sample(p, threads[o->sample->thread],
			       (struct profile_sample){ .time_ns = o->from_ns,
							.weight = o->sample->weight,
							.stack = stacks[o->sample->stack] });
	vec_free(&order);
	return profile_seal(p, never_named, NULL);
}

static struct err *export(const struct samples *s, const char *dir, const struct export_info *info,
			  enum export_format format, int fd)
{
	CLEANUP(profile_freep) struct profile *p = profile_new(dir, PROFILE_NS);
	TRY(profile_from_samples(s, p));
	struct out out;
	out_init(&out, fd, export_format_gzip(format));
	struct err *err = export_write(format, p, info, &out), *end = out_finish(&out);
	if (!err)
		err = STEAL(end);
	err_free(end);
	out_fini(&out);
	return err;
}

static struct err *open_samples(const char *dir, const struct store_row *row, struct samples **ret,
				struct sampling_facts *facts)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/recording", dir);
	CLEANUP(recording_freep) struct recording *recording = NULL;
	struct err *err = recording_open(path, &recording);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return err_new(ERR_NOT_FOUND,
			       "session %s kept no recording (large ones are kept only when that is asked for)",
			       row->guid);
	}
	TRY(err);
	err = recorded_samples(recording, ret, facts);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return err_new(ERR_USAGE, "session %s took no samples", row->guid);
	}
	return err;
}

struct err *session_profile(const struct store *store, const struct store_row *row, const char *path, int fd)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row->guid);
	const char *made = made_file(path);
	if (made)
		return copy_made(dir, made, fd);
	enum export_format format;
	if (!export_format_of(path, &format))
		return err_new(ERR_USAGE, "the name '%s' does not tell the format", path);
	CLEANUP(samples_freep) struct samples *samples = NULL;
	struct sampling_facts facts = { 0 };
	TRY(open_samples(dir, row, &samples, &facts));
	CLEANUP(mem_freep)
	char *name = mem_printf("%s (%lld)", row->process ? row->process : "process", (long long)row->target_id);
	struct export_info info = { .name = name,
				    .program = "drdotnet " DRDOTNET_VERSION,
				    .event = "samples",
				    .pid = (uint64_t)row->target_id,
				    .unix_ns = row->started_ns,
				    .interval_ns = facts.switches ? 0 : facts.period };
	return export(samples, dir, &info, format, fd);
}
