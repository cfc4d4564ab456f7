/* All code that was compiled at run time, piece by piece, and that of modules, method by method. */

#include "dac/internal.h"
#include <string.h>

#define CODE_PIECE 4096u
#define CODE_CRASHES_MAX 40
#define METHOD_TOKENS 0x06000000u
#define METHODS_PORTION 8192u
#define METHODS_MAX (1u << 20)

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

/* What of it can be read: code heaps reserve far more than they use. */
static void list_range(struct dac *d, const struct dac_range *r, unsigned *crashes, struct dac_code_list *ret)
{
	size_t n;
	const struct image_mapping *mappings = image_mappings(dac_image(d), &n);
	for (size_t i = 0; i < n; i++) {
		const struct image_mapping *m = &mappings[i];
		uint64_t start = MAX(m->start, r->start), end = MIN(m->end, r->start + r->size);
		if (m->prot & IMAGE_READ && start < end)
			list_code(d, start, end, crashes, ret);
	}
}

struct err *dac_code_list(struct dac *d, struct dac_code_list *ret)
{
	CLEANUP(dac_ranges_free) struct dac_ranges ranges = { 0 };
	unsigned crashes = 0;
	memset(ret, 0, sizeof(*ret));
	TRY(dac_code_ranges(d, &ranges));
	vec_each(r, &ranges)
		list_range(d, r, &crashes, ret);
	return NULL;
}

struct err *dac_precompiled_list(struct dac *d, const struct dac_module *module, struct dac_code_list *ret)
{
	for (uint32_t first = 1; first < METHODS_MAX; first += METHODS_PORTION) {
		CLEANUP(buf_free) struct buf in = { 0 };
		struct err *err = dac_module_code(d, module->address, METHOD_TOKENS + first, METHODS_PORTION, &in);
		if (err && err_kind(err) == ERR_BAD_DATA) { /* it has no more */
			err_free(err);
			break;
		}
		TRY(err);
		if (!decode_code_list(&in, ret))
			return err_new(ERR_BAD_DATA, "a list of code that makes no sense");
	}
	return NULL;
}
