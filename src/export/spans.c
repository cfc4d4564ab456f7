/* Samples of one thread as spans: a frame is open from the first sample that has it to the last one in a row. For
 * formats that want a beginning and an end. */

#include "base/vec.h"
#include "export/formats.h"

static void close_down_to(struct spans *s, size_t depth, uint64_t at_ns)
{
	while (s->path.n > depth) {
		s->path.n--;
		s->opened.n--;
		s->close(s->user, s->path.v[s->path.n], s->opened.v[s->opened.n], at_ns);
	}
}

static void on_sample(void *user, const struct profile_sample *sample)
{
	struct spans *s = user;
	bool gap = s->path.n && sample->time_ns > s->end_ns;
	if (gap)
		close_down_to(s, 0, s->end_ns);
	/* Two samples cannot both be true of one instant: the earlier one ends where the next begins. */
	uint64_t at_ns = sample->time_ns;
	if (sample->stack != s->node || gap || !s->path.n) {
		profile_path(s->profile, sample->stack, &s->next);
		size_t same = 0;
		while (same < s->path.n && same < s->next.n && s->path.v[same] == s->next.v[same])
			same++;
		close_down_to(s, same, at_ns);
		for (size_t i = same; i < s->next.n; i++) {
			s->open(s->user, s->next.v[i], at_ns);
			vec_push(&s->path, s->next.v[i]);
			vec_push(&s->opened, at_ns);
		}
		s->node = sample->stack;
	}
	s->end_ns = at_ns + MIN(sample->weight, UINT64_MAX - at_ns);
}

struct err *spans_read(struct spans *s, uint32_t thread)
{
	s->end_ns = 0;
	s->node = 0;
	struct err *err = profile_read(s->profile, thread, on_sample, s);
	close_down_to(s, 0, s->end_ns);
	return err;
}

void spans_fini(struct spans *s)
{
	vec_free(&s->path);
	vec_free(&s->next);
	vec_free(&s->opened);
}
