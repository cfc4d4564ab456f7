#include "exam/shared_looks.h"
#include "base/str.h"
#include "base/vec.h"
#include "exam/profiler.h"

struct shared_part {
	const struct profiler *profiler; /* whose exam will ask for it */
	struct image_exam_part part;	 /* without take() and user, unless it was put off */
	unsigned at;			 /* the leader's look, from 0 */
	struct buf bytes;
	enum way way;
	bool drained, taken;
	/* Put off. */
	struct exam *exam; /* NULL: it was not */
	void (*done)(void *user, const struct image_exam_facts *facts, struct err *failed);
	struct err *failed;
};

struct shared_looks {
	VEC(struct shared_part) parts;
	unsigned taken; /* looks of the leader's */
	char *why_not;	/* there was none, and will be none */
};

struct shared_looks *shared_looks_new(void)
{
	return mem_zalloc(sizeof(struct shared_looks));
}

void shared_looks_free(struct shared_looks *s)
{
	if (!s)
		return;
	vec_each(p, &s->parts) {
		buf_free(&p->bytes);
		err_free(p->failed);
	}
	vec_free(&s->parts);
	mem_free(s->why_not);
	mem_free(s);
}

void shared_looks_want(struct shared_looks *s, const struct profiler *p)
{
	for (unsigned i = 0; p->looks && p->looks[i].name; i++)
		vec_push(&s->parts, ((struct shared_part){ .profiler = p, .part = p->looks[i], .at = i }));
}

void shared_looks_put_off(struct shared_looks *s, struct exam *exam, const struct image_exam_part *part,
			  void (*done)(void *user, const struct image_exam_facts *facts, struct err *failed))
{
	vec_push(&s->parts, ((struct shared_part){ .exam = exam, .part = *part, .done = done }));
}

static bool is_due(const struct shared_looks *s, const struct shared_part *p)
{
	return p->at == s->taken && !p->taken;
}

void shared_looks_drain(struct shared_looks *s, struct image_exam *look)
{
	vec_each(p, &s->parts) {
		if (!is_due(s, p))
			continue;
		/* Of a copy that was not good enough for the leader. */
		buf_free(&p->bytes);
		err_free(STEAL(p->failed));
		image_exam_part_begin(&p->part, &p->bytes);
		p->failed = p->part.drain(p->part.user, look, &p->bytes);
		p->drained = !p->failed && !p->bytes.overflow;
	}
}

void shared_looks_taken(struct shared_looks *s, const struct image_exam_facts *facts, enum way way, bool whole)
{
	vec_each(p, &s->parts) {
		if (!is_due(s, p) || !p->drained || !whole)
			continue;
		p->taken = true;
		p->part.facts = *facts;
		p->way = way;
	}
	s->taken++;
}

void shared_looks_forget(struct shared_looks *s, const struct exam *exam)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->parts.n; i++) {
		struct shared_part *p = &s->parts.v[i];
		if (p->exam != exam) {
			s->parts.v[kept++] = *p;
			continue;
		}
		buf_free(&p->bytes);
		err_free(p->failed);
	}
	s->parts.n = kept;
}

static void settle(struct shared_part *p, const char *why_not)
{
	struct err *err = STEAL(p->failed);
	if (p->taken)
		err = image_exam_part_end(p->exam, &p->part, &p->bytes);
	else if (!err)
		err = err_new(ERR_UNSUPPORTED, "%s", why_not);
	p->done(p->part.user, &p->part.facts, err);
	p->exam = NULL;
}

void shared_looks_end(struct shared_looks *s, const char *why_not)
{
	if (!s->taken && !s->why_not)
		s->why_not = mem_strdup(why_not);
	vec_each(p, &s->parts)
		if (p->exam)
			settle(p, why_not);
}

static const struct shared_part *find(const struct shared_looks *s, const struct profiler *profiler, const char *part)
{
	vec_each(p, &s->parts)
		if (p->profiler == profiler && p->taken && str_eq(p->part.name, part))
			return p;
	return NULL;
}

const struct buf *shared_looks_part(const struct shared_looks *s, const struct profiler *profiler, const char *part,
				    struct image_exam_facts *ret_facts)
{
	const struct shared_part *p = s ? find(s, profiler, part) : NULL;
	if (!p)
		return NULL;
	*ret_facts = p->part.facts;
	return &p->bytes;
}

const char *shared_looks_refused(const struct shared_looks *s, const struct profiler *profiler)
{
	return s && profiler->looks ? s->why_not : NULL;
}

enum way shared_looks_way(const struct shared_looks *s, const struct profiler *profiler)
{
	const struct shared_part *p = s && profiler->looks ? find(s, profiler, profiler->looks[0].name) : NULL;
	return p ? p->way : WAY_AUTO;
}
