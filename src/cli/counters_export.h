#pragma once
/* One interval of counters as text, appended: plain lines, a JSON object, CSV lines, Prometheus exposition. */

#include "cli/counters_text.h"

void counters_plain(const struct counters_view *view, bool first, struct buf *out);
struct patient;
void counters_json(const struct counters_view *view, const struct patient *patient, struct buf *out);
void counters_csv_head(struct buf *out);
void counters_csv(const struct counters_view *view, struct buf *out);
void counters_prometheus(const struct counters_view *view, struct buf *out);
