#pragma once
/* What a delegate calls: from the code that it points to, directly or through the runtime's stub, to the method. */

#include "heap/objects.h"

/* The runtime's description of the method; 0 when it cannot be known. compiled: only one that has been compiled, which
 * is certain; else it may be what a hostile image says. */
uint64_t delegate_method(struct heap *h, struct dac *dac, const struct image *image, struct heap_value delegate,
			 bool compiled);
/* "lambda in Shop.Orders.Load", appended; false when it cannot be known. The delegate and what it points to are
 * hostile.
 */
bool delegate_show(struct heap *h, struct dac *dac, const struct image *image, struct heap_value delegate,
		   struct buf *out);
/* The same of code that begins at ip: a method's, or a stub's. */
bool code_show(struct dac *dac, const struct image *image, uint64_t ip, struct buf *out);
