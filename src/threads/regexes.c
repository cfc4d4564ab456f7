#include "threads/regexes.h"
#include "base/str.h"
#include <string.h>

#define ROOM "System.Text.RegularExpressions."
#define PATTERN_UNITS_MAX 200
#define PATTERN_COLUMNS 80
#define PARENTS_MAX 4

/* The pattern of an object that is a Regex, or of a class that a generator derived from it, appended; false when it is
 * none. Long ones are cut. */
static bool pattern_of(struct heap *h, uint64_t object, struct buf *out)
{
	struct heap_value v;
	CLEANUP(buf_free) struct buf pattern = { 0 };
	const struct heap_type *type = heap_object(h, object, &v) ? v.type : NULL;
	for (size_t i = 0; type && !str_eq(type->name, ROOM "Regex"); i++)
		type = i < PARENTS_MAX && type->parent ? heap_type(h, type->parent) : NULL;
	if (!type || !heap_get_string(h, v, "pattern", PATTERN_UNITS_MAX, &pattern) || !pattern.len)
		return false;
	str_add_visible(out, buf_cstr(&pattern), pattern.len, PATTERN_COLUMNS);
	return true;
}

/* The user's method that matches, when no other is further in; t->n without. */
static size_t matching_site(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t site = snapshot_site(s, t);
	for (size_t i = 0; i < site; i++)
		if (str_starts(snapshot_frame(s, t, i)->name, ROOM))
			return site;
	return t->n;
}

static bool pattern_on(struct heap *heap, struct dac *dac, uint32_t os_id, struct buf *out)
{
	struct dac_refs refs = { 0 };
	bool found = false;
	err_ignore(dac_stack_refs(dac, os_id, &refs));
	vec_each(r, &refs)
		if (!found && !(r->flags & DAC_REF_INTERIOR) && r->object)
			found = pattern_of(heap, r->object, out);
	dac_refs_free(&refs);
	return found;
}

void thread_snapshot_find_patterns(struct thread_snapshot *s, const struct snapshot_source *raw)
{
	CLEANUP(heap_closep) struct heap *heap = NULL;
	vec_each(t, &s->threads) {
		size_t site = matching_site(s, t);
		CLEANUP(buf_free) struct buf name = { 0 }, pattern = { 0 };
		if (site == t->n)
			continue;
		if (!heap)
			err_ignore(heap_open(raw->look->image, raw->look->dac, &heap));
		if (!heap || !pattern_on(heap, raw->look->dac, t->os_id, &pattern))
			continue;
		buf_printf(&name, "%s (matches %s)", snapshot_frame(s, t, site)->name, buf_cstr(&pattern));
		s->frames.v[t->first + site] = thread_snapshot_method(s, buf_cstr(&name), false);
	}
}
