#pragma once
/* The tables of rules (rules_*.c), one for each area, as rule.c reads them. */

#include "diagnose/rule.h"

#define RULE_TABLES(X) X(cpu) X(memory) X(threads) X(limits) X(web)
struct rule_table {
	const struct rule *rules;
	size_t n;
};
#define RULE_TABLE(area) extern const struct rule_table rules_##area;
RULE_TABLES(RULE_TABLE)
#undef RULE_TABLE
#define RULES(...)                                                                                                     \
	{                                                                                                              \
		.rules = (const struct rule[]){ __VA_ARGS__ },                                                         \
		.n = sizeof((const struct rule[]){ __VA_ARGS__ }) / sizeof(struct rule)                                \
	}
