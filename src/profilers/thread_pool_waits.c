#include "profilers/groups.h"
#include "profilers/thread_pool.h"

void pool_add_waits(const struct pool *p, struct report *report)
{
	const struct seen *s = p->in_memory;
	CLEANUP(groups_free) struct groups gs = { 0 };
	struct report_table *table = NULL;
	groups_make(s, &gs);
	vec_each(g, &gs.v) {
		if (!g->pool || !doing_is_blocked(g->doing))
			continue;
		if (!table) {
			table = report_table(report, "What blocked workers wait for");
			report_column(table, "Workers", VALUE_COUNT, COLUMN_MAIN);
			report_column(table, "In", VALUE_CODE, 0);
			report_column(table, "They", VALUE_TEXT, 0);
		}
		CLEANUP(buf_free) struct buf words = { 0 };
		group_words(s, &gs, g, true, &words);
		struct value cells[] = { V_COUNT(g->pool), V_CODE(group_site(s, g)), V_TEXT(buf_cstr(&words)) };
		group_lines(s, &gs, g, report_row(table, cells));
	}
}
