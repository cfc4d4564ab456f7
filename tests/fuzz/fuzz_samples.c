/* Any bytes as recorded samples, summed up and written as a flame graph. */

#include "sampling/sample_summary.h"
#include "sampling/switches.h"
#include "report/flame_svg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct samples *s = NULL;
	struct err *err = samples_read(data, size, &s);
	if (!err) {
		struct buf out = { 0 };
		struct sample_summary *h = sample_summary_new(s, UINT64_MAX);
		sample_summary_folded(h, 1, &out);
		flame_svg(h->down, "x", VALUE_NS, &out);
		for (uint32_t i = 0; i < s->stacks.n; i++)
			wait_kind_of(s, i, -1);
		samples_write(s, &out);
		sample_summary_free(h);
		buf_free(&out);
	}
	err_free(err);
	samples_free(s);
	return 0;
}
