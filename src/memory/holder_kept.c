/* How what a holder has is kept, in words. */

#include "base/fmt.h"
#include "base/vec.h"
#include "memory/holders.h"

struct holder_kept holder_kept_of(struct retainers *k, const uint32_t *objects, size_t n, struct buf *out)
{
	struct holder_kept ret = { 0 };
	struct kept_groups groups = { 0 };
	retainers_group(k, objects, n, &groups);
	vec_each(group, &groups)
		ret.all += group->objects;
	if (groups.n) {
		ret.objects = groups.v[0].objects;
		ret.telling = retainer_is_telling(k, groups.v[0].chain);
		ret.advice = retainer_advice(k, groups.v[0].chain);
		retainer_words(k, groups.v[0].chain, out);
	}
	vec_free(&groups);
	return ret;
}

struct holder_kept holder_retainers(struct retainers *k, const struct heapgraph *g, const struct holder *h,
				    struct buf *out)
{
	struct holder_vertices objects = { 0 };
	bool own = h->vertex < g->n ? g->types.v[g->type[h->vertex]].own : g->roots.v[h->vertex - g->n].own;
	holder_objects(g, h, &objects);
	struct holder_kept ret = holder_kept_of(k, objects.v, objects.n, out);
	ret.leads = ret.telling && !own && 2 * ret.objects > ret.all;
	vec_free(&objects);
	return ret;
}

void holder_kept_say(const struct holder_kept *kept, const char *words, struct rich *v)
{
	if (kept->all == 1)
		rich_text(v, " It is kept by ");
	else if (kept->objects == kept->all)
		rich_text(v, " All of them are kept by ");
	else
		rich_text(v, " %s of %s are kept by ", fmt_count(kept->objects).s, fmt_count(kept->all).s);
	rich_code(v, words);
	rich_text(v, ".");
}

void holder_kept_line(struct report_row *row, const char *words)
{
	CLEANUP(mem_freep) char *line = mem_printf("kept by %s", words);
	report_row_line(row, VALUE_CODE, line, NULL);
}
