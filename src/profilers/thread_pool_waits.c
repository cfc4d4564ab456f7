/* What blocked workers of the pool wait for, from the thread snapshot that the thread-pool profiler takes when the
 * pool starves. */

#include "threads/thread_groups.h"
#include "profilers/thread_pool.h"

uint32_t pool_blocked(const struct pool *p, struct rich *text)
{
	const struct thread_snapshot *s = p->in_memory;
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	const struct thread_group *top = NULL;
	uint32_t blocked = 0;
	if (!s)
		return 0;
	thread_groups_make(s, &gs);
	vec_each(g, &gs.v) {
		if (!g->pool || !activity_keeps_worker(g->doing))
			continue;
		blocked += g->pool;
		top = !top || g->pool > top->pool ? g : top;
	}
	if (!top || !text)
		return blocked;
	CLEANUP(buf_free) struct buf words = { 0 };
	thread_group_words(s, &gs, top, false, &words);
	rich_text(text, "%u in ", top->pool);
	rich_code(text, thread_group_site(s, top));
	rich_text(text, " %s", buf_cstr(&words));
	return blocked;
}

void pool_add_waits(const struct pool *p, struct report *report)
{
	const struct thread_snapshot *s = p->in_memory;
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	struct report_table *table = NULL;
	thread_groups_make(s, &gs);
	vec_each(g, &gs.v) {
		if (!g->pool || !activity_keeps_worker(g->doing))
			continue;
		if (!table) {
			table = report_table(report, "What blocked workers wait for");
			report_column(table, "Workers", VALUE_COUNT, COLUMN_MAIN);
			report_column(table, "In", VALUE_CODE, 0);
			report_column(table, "They", VALUE_TEXT, 0);
		}
		CLEANUP(buf_free) struct buf words = { 0 };
		thread_group_words(s, &gs, g, true, &words);
		struct value cells[] = { V_COUNT(g->pool), V_CODE(thread_group_site(s, g)), V_TEXT(buf_cstr(&words)) };
		thread_group_lines(s, &gs, g, report_row(table, cells));
	}
}
