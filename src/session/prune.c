/* Which sessions exceed the limits of age, number and size, and are deleted. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/settings.h"
#include <string.h>

struct err *session_retention_default(struct session_retention *ret)
{
	*ret = (struct session_retention){ 0 };
	TRY(setting_get_u64(SETTING_KEEP_AGE, &ret->max_age_ns));
	TRY(setting_get_u64(SETTING_KEEP_COUNT, &ret->max_count));
	TRY(setting_get_u64(SETTING_KEEP_BYTES, &ret->max_bytes));
	return NULL;
}

/* What still runs is newer than all that has ended. */
static int64_t end_ns(const struct store_row *row)
{
	return store_state_finished(row->state) ? MAX(row->finished_ns, row->created_ns) : INT64_MAX;
}

static int newest_first(const void *a, const void *b)
{
	const struct store_row *x = a, *y = b;
	return CMP(end_ns(y), end_ns(x)) ?: strcmp(x->guid, y->guid);
}

/* Is it the newest report on its program? By name: a program that is started again has another process id. */
static bool first_of_target(struct strtab *seen, const struct store_row *row)
{
	CLEANUP(mem_freep)
	char *key = str_empty(row->process) ? mem_printf("%lld", (long long)row->target_id) : mem_strdup(row->process);
	size_t before = seen->n;
	if (row->verdict)
		strtab_add_cstr(seen, key);
	return seen->n > before;
}

struct err *session_prune(struct store *store, const struct session_retention *limits, bool dry_run,
			  struct store_rows *ret)
{
	CLEANUP(store_rows_free) struct store_rows rows = { 0 }, gone = { 0 };
	CLEANUP(strtab_free) struct strtab targets = { 0 };
	TRY(store_list(store, NULL, &rows));
	vec_sort(&rows, newest_first);
	int64_t now_ns = clock_real_ns();
	uint64_t kept = 0, bytes = 0, ended = 0;
	vec_each(row, &rows) {
		bool runs = !store_state_finished(row->state);
		bool newest = !runs && !ended++, newest_of = !runs && first_of_target(&targets, row);
		int64_t age_ns = now_ns - end_ns(row);
		bool many = kept >= limits->max_count || bytes + row->bytes > limits->max_bytes;
		bool old = age_ns > 0 && (uint64_t)age_ns > limits->max_age_ns;
		if (runs || newest || (!old && (!many || newest_of))) {
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
