/* Which sessions exceed the limits of age, number and size, and are deleted. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/vec.h"
#include "config/settings.h"

struct err *session_retention_default(struct session_retention *ret)
{
	*ret = (struct session_retention){ 0 };
	TRY(setting_get_u64(SETTING_KEEP_AGE, &ret->max_age_ns));
	TRY(setting_get_u64(SETTING_KEEP_COUNT, &ret->max_count));
	TRY(setting_get_u64(SETTING_KEEP_BYTES, &ret->max_bytes));
	return NULL;
}

struct err *session_prune(struct store *store, const struct session_retention *limits, bool dry_run,
			  struct store_rows *ret)
{
	CLEANUP(store_rows_free) struct store_rows rows = { 0 }, gone = { 0 };
	TRY(store_list(store, NULL, &rows));
	int64_t now_ns = clock_real_ns();
	uint64_t kept = 0, bytes = 0;
	vec_each(row, &rows) {
		int64_t age_ns = now_ns - MAX(row->finished_ns, row->created_ns);
		bool over = kept >= limits->max_count || bytes + row->bytes > limits->max_bytes ||
			    (age_ns > 0 && (uint64_t)age_ns > limits->max_age_ns);
		if (row == rows.v || !store_state_finished(row->state) || !over) {
			kept++;
			bytes += row->bytes;
			continue;
		}
		if (!dry_run)
			TRY(session_delete(store, row));
		vec_push(&gone, *row);
		*row = (struct store_row){ 0 };
	}
	if (ret) {
		*ret = gone;
		gone = (struct store_rows){ 0 };
	}
	return NULL;
}
