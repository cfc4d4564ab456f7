/* Any bytes as a perf.data, a perf map and a jitdump. */

#include "sampler/perf_file.h"
#include "symbols/code_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum;

static void item(void *user UNUSED, const struct perf_item *i)
{
	bool kernel = false;
	for (size_t n = 0; i->kind == PERF_ITEM_SAMPLE && n < i->n_chain; n++)
		sum += perf_item_ip(i, n, &kernel);
	for (size_t n = 0; n < i->text_len; n++)
		sum += (uint8_t)i->text[n];
}

static void code(void *user UNUSED, uint64_t start, uint64_t size, const char *name, size_t len)
{
	struct buf space = { 0 }, method = { 0 };
	code_name_split(name, len, &space, &method);
	sum += start + size + space.len + method.len;
	buf_free(&space);
	buf_free(&method);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_file_facts facts;
	err_free(perf_file_read(data, size, item, NULL, &facts));
	perf_map_parse((const char *)data, size, code, NULL);
	jitdump_parse(data, size, code, NULL);
	return sum == 1 ? 0 : 0;
}
