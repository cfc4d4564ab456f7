#include "requests/split.h"
#include "base/vec.h"
#include <stdlib.h>

struct edge {
	uint64_t at_ns;
	uint8_t part;
	bool begins;
};

static int edge_by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;
	return CMP(x->at_ns, y->at_ns);
}

static unsigned part_at(const uint32_t open[REQUEST_PARTS])
{
	unsigned part = 0;
	while (part < PART_UNEXPLAINED && !open[part])
		part++;
	return part;
}

void request_split(const struct request_span *spans, size_t n, uint64_t from_ns, uint64_t to_ns,
		   uint64_t ret_ns[REQUEST_PARTS])
{
	VEC(struct edge) edges = { 0 };
	uint32_t open[REQUEST_PARTS] = { 0 };
	uint64_t at = from_ns;
	for (unsigned part = 0; part < REQUEST_PARTS; part++)
		ret_ns[part] = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t from = MAX(spans[i].from_ns, from_ns), to = MIN(spans[i].to_ns, to_ns);
		if (from >= to || spans[i].part >= PART_UNEXPLAINED)
			continue;
		vec_push(&edges, ((struct edge){ .at_ns = from, .part = spans[i].part, .begins = true }));
		vec_push(&edges, ((struct edge){ .at_ns = to, .part = spans[i].part }));
	}
	vec_sort(&edges, edge_by_time);
	vec_each(e, &edges) {
		ret_ns[part_at(open)] += e->at_ns - at;
		at = e->at_ns;
		open[e->part] += e->begins ? 1u : UINT32_MAX;
	}
	if (to_ns > at)
		ret_ns[PART_UNEXPLAINED] += to_ns - at;
	vec_free(&edges);
}
