/* What blocked workers of the pool wait for, out of the one look into memory. */

#include "threads/thread_groups.h"
#include "profilers/thread_pool.h"

static bool is_blocked(const struct thread_group *g)
{
	return g->pool && activity_keeps_worker(g->doing);
}

uint32_t pool_blocked(const struct pool *p)
{
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	uint32_t blocked = 0;
	if (!p->known.threads)
		return 0;
	thread_groups_make(p->known.threads, &gs);
	vec_each(g, &gs.v)
		blocked += is_blocked(g) ? g->pool : 0;
	return blocked;
}

/* The largest group of blocked workers; NULL = none is. The caller frees the groups. */
static const struct thread_group *largest(const struct pool *p, struct thread_groups *ret)
{
	const struct thread_group *top = NULL;
	if (!p->known.threads)
		return NULL;
	thread_groups_make(p->known.threads, ret);
	vec_each(g, &ret->v)
		top = is_blocked(g) && (!top || g->pool > top->pool) ? g : top;
	return top;
}

const char *pool_blocked_in(const struct pool *p)
{
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	const struct thread_group *top = largest(p, &gs);
	return top ? thread_group_site(p->known.threads, top) : NULL;
}

bool pool_say_blocked(const struct pool *p, struct rich *text)
{
	const struct thread_snapshot *s = p->known.threads;
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	const struct thread_group *top = largest(p, &gs);
	if (!top)
		return false;
	const char *endpoint = knowledge_group_endpoint(&p->known, &gs, top);
	rich_text(text, "%u in ", top->pool);
	rich_code(text, thread_group_site(s, top));
	if (endpoint) {
		rich_text(text, ", for ");
		rich_code(text, endpoint);
		rich_text(text, ",");
	}
	rich_text(text, " ");
	knowledge_add_group(&p->known, &gs, top, text);
	return true;
}

void pool_add_waits(const struct pool *p, struct report *report)
{
	const struct thread_snapshot *s = p->known.threads;
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	struct report_table *table = NULL;
	thread_groups_make(s, &gs);
	vec_each(g, &gs.v) {
		if (!is_blocked(g))
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
		struct report_row *row = report_row(table, cells);
		const char *endpoint = knowledge_group_endpoint(&p->known, &gs, g);
		if (endpoint)
			report_row_line(row, VALUE_CODE, endpoint, "the request of most of them");
		thread_group_lines(s, &gs, g, row);
	}
}
