/* All code that was compiled at run time, piece by piece. */

#include "dac/internal.h"
#include <string.h>

#define CODE_PIECE 4096u
#define CODE_CRASHES_MAX 40

/* Code that goes away meanwhile may make the library crash: that costs the small piece of the range where it was, as long
 * as there are not too many of them. A method across two pieces is found in both. */
static void list_code(struct dac *d, uint64_t start, uint64_t end, unsigned *crashes, struct dac_code_list *ret)
{
	CLEANUP(buf_free) struct buf in = { 0 };
	CLEANUP(err_freep)
	struct err *err = dac_code_in(d, start, end, &in);
	size_t before = ret->n;
	if (!err && !decode_code_list(&in, ret))
		ret->n = before;
	if (!err && before && before < ret->n && ret->v[before].start == ret->v[before - 1].start)
		ret->v[before - 1] = ret->v[--ret->n];
	if (!err || end - start <= CODE_PIECE || ++*crashes > CODE_CRASHES_MAX)
		return;
	uint64_t middle = start + ((end - start) / 2 & ~(uint64_t)15);
	list_code(d, start, middle, crashes, ret);
	list_code(d, middle, end, crashes, ret);
}

struct err *dac_code_list(struct dac *d, struct dac_code_list *ret)
{
	CLEANUP(dac_ranges_free) struct dac_ranges ranges = { 0 };
	unsigned crashes = 0;
	memset(ret, 0, sizeof(*ret));
	TRY(dac_code_ranges(d, &ranges));
	vec_each(r, &ranges)
		list_code(d, r->start, r->start + r->size, &crashes, ret);
	return NULL;
}
