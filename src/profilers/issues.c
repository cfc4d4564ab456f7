#include "profilers/issues.h"
#include "base/str.h"
#include <stdlib.h>

struct issue *issue_new(struct issues *s, enum report_health health, const char *finding, const char *advice)
{
	if (s->n == ISSUES_MAX)
		return NULL;
	struct issue *i = &s->v[s->n++];
	*i = (struct issue){ .health = health, .finding = finding, .advice = advice };
	return i;
}

static void say(struct rich *text, const struct issue *i)
{
	rich_strong(text, "%s", buf_cstr(&i->strong));
	rich_text(text, "%s", buf_cstr(&i->text));
	if (i->where)
		rich_code(text, i->where);
	if (i->where || !str_ends(buf_cstr(&i->text), "."))
		rich_text(text, ".");
	if (i->more.len)
		rich_text(text, " %s", buf_cstr(&i->more));
}

bool issues_say(const struct issues *s, const struct profiler *p, struct report *report)
{
	const struct issue *gravest = s->n ? &s->v[0] : NULL;
	for (size_t i = 1; i < s->n; i++)
		if (s->v[i].health > gravest->health)
			gravest = &s->v[i];
	if (!gravest)
		return false;
	say(report_verdict(report, gravest->health, gravest->finding), gravest);
	if (gravest->advice)
		report_advice(report, p, gravest->advice);
	for (enum report_health health = REPORT_BAD; health > REPORT_OK; health--)
		for (const struct issue *i = s->v; i < s->v + s->n; i++)
			if (i != gravest && i->health == health)
				say(report_note(report, health), i);
	return true;
}

void issues_fini(struct issues *s)
{
	for (size_t i = 0; i < s->n; i++) {
		buf_free(&s->v[i].strong);
		buf_free(&s->v[i].text);
		buf_free(&s->v[i].more);
	}
	s->n = 0;
}
