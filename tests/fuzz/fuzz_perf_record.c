/* Any bytes as one record of a perf ring. */

#include "sampler/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record r;
	if (size % 2 ? !record_parse_counted(data, size, &r) : !record_parse(data, size, &r))
		return 0;
	uint64_t sum = 0;
	for (size_t i = 0; r.kind == RECORD_SAMPLE && i < r.n_kernel; i++)
		sum += record_kernel_ip(&r, i);
	for (size_t i = 0; i < r.stack.n; i++)
		sum += r.stack.bytes[i];
	for (size_t i = 0; i < r.comm_len; i++)
		sum += (uint8_t)r.comm[i];
	return sum == 1 ? 0 : 0;
}
