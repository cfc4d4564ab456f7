/* Any bytes as events of counters: each record is a byte that chooses the event, a byte of length in pairs, and its
 * payload. What is understood goes into a small history. */

#include "base/cursor.h"
#include "build_counters.h"
#include "model/series.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void keep(struct series_set *set, const struct counters_event *e, int64_t when)
{
	static const enum series_kind kinds[] = { SERIES_GAUGE, SERIES_RATE, SERIES_GAUGE, SERIES_HISTOGRAM };
	struct series *s =
		series_put(set, (struct series_key){ e->provider, e->name, e->tags },
			   &(struct series_info){ .unit = e->unit, .display = e->display, .kind = kinds[e->type] });
	double cells[8];
	if (!s)
		return;
	series_add(set, s, when, (double[]){ e->value, e->delta, e->quantiles[0], e->count, e->sum });
	series_cells(s, 0, 0, when, cells, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_make(data, size);
	const struct series_limits limits = { .max_series = 5, .max_points = 7, .max_bytes = 20000 };
	struct series_set *set = series_set_new(&limits);
	for (int64_t when = 0; cursor_left(&c) > 2; when++) {
		struct nettrace_meta meta = counters_metas[cursor_u8(&c) % ARRAY_SIZE(counters_metas)];
		size_t len = MIN((size_t)cursor_u8(&c) * 2, cursor_left(&c));
		uint8_t *exact = mem_dup(cursor_take(&c, len), len);
		struct nettrace_event event = {
			.meta = &meta, .payload = exact, .payload_size = len, .pointer_size = 8
		};
		struct counters_event e;
		if (counters_decode(&event, &e) && e.news == COUNTERS_VALUE)
			keep(set, &e, when);
		mem_free(exact);
	}
	if (series_count(set) > limits.max_series || series_bytes(set) > limits.max_bytes + 8192)
		abort();
	series_set_free(set);
	return 0;
}
