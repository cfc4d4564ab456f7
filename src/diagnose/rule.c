#include "diagnose/rule.h"
#include "base/str.h"
#include "diagnose/rules.h"
#include <math.h>

static const struct rule_table *const tables[] = {
#define RULE_TABLE(area) &rules_##area,
	RULE_TABLES(RULE_TABLE)
#undef RULE_TABLE
};

size_t rules_count(void)
{
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		n += tables[i]->n;
	return n;
}

const struct rule *rule_at(size_t i)
{
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
		if (i < tables[t]->n)
			return &tables[t]->rules[i];
		i -= tables[t]->n;
	}
	return NULL;
}

const char *rule_article(const struct rule *rule)
{
	return str_starts(rule->subject, "a ") || str_starts(rule->subject, "the ") ? "" : "the ";
}

const struct rule *rule_find(const char *id)
{
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (size_t i = 0; i < tables[t]->n; i++)
			if (str_eq(tables[t]->rules[i].id, id))
				return &tables[t]->rules[i];
	return NULL;
}

/* Linear up to the limits; beyond the second it nears 100. */
unsigned rule_score(const struct rule *rule, double measured)
{
	double score, most = rule->most ? rule->most : SCORE_MOST;
	if (isnan(measured) || measured <= 0)
		return 0;
	if (measured < rule->info)
		score = SCORE_INFO * measured / rule->info;
	else if (measured < rule->warning)
		score = SCORE_INFO +
			(SCORE_WARNING - SCORE_INFO) * (measured - rule->info) / (rule->warning - rule->info);
	else
		score = SCORE_MOST - (SCORE_MOST - SCORE_WARNING) * exp(1 - measured / rule->warning);
	return (unsigned)MIN(score, most);
}

struct judgement rule_judge(const struct rule *rule, const struct vitals *v)
{
	struct judgement j = { .rule = rule, .state = RULE_OUT };
	for (size_t i = 0; i < rule->n_needs; i++) {
		const struct vital *s = &v->of[rule->needs[i]];
		if (s->n)
			continue;
		j.state = s->absent ? RULE_OUT : RULE_UNKNOWN;
		j.measured = NAN;
		j.why = s->why ? s->why : "it was not measured";
		return j;
	}
	j.measured = rule->measure(v);
	j.score = rule_score(rule, j.measured);
	if (j.score >= SCORE_INFO)
		j.state = RULE_SUSPECTED;
	return j;
}
