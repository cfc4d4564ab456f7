/* Which sessions exceed the limits of age, number and size, and are deleted. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DAY_NS (24 * 3600 * NS_PER_S)

/* "1.5" and the rest; false unless it begins with a number that is not negative. */
static bool split_number(const char *word, double *ret_number, const char **ret_unit)
{
	size_t len = strspn(word, "0123456789.");
	CLEANUP(mem_freep) char *digits = mem_strndup(word, len);
	*ret_unit = word + len;
	return len && str_to_double(digits, ret_number);
}

bool session_parse_age_ns(const char *word, uint64_t *ret)
{
	double n;
	const char *unit;
	uint64_t ms;
	if (!split_number(word, &n, &unit))
		return false;
	if (str_eq(unit, "d") || str_eq(unit, "w")) {
		double ns = n * (double)DAY_NS * (unit[0] == 'w' ? 7 : 1);
		*ret = ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
		return true;
	}
	/* A number without a unit would be seconds, which is never meant here. */
	if (!*unit || !str_to_duration_ms(word, &ms))
		return false;
	*ret = MIN(ms, (uint64_t)9e12) * NS_PER_MS;
	return true;
}

bool session_parse_bytes(const char *word, uint64_t *ret)
{
	static const char units[] = "KMGT";
	double n;
	const char *unit;
	if (!split_number(word, &n, &unit))
		return false;
	const char *at = *unit ? strchr(units, *unit & ~0x20) : NULL;
	if (*unit && (!at || (unit[1] && !str_eq(unit + 1, "B"))))
		return false;
	if (at)
		n = ldexp(n, 10 * (int)(at - units + 1));
	if (n > 9e18)
		return false;
	*ret = (uint64_t)n;
	return true;
}

struct err *session_retention_default(struct session_retention *ret)
{
	*ret = (struct session_retention){ .max_age_ns = 30 * DAY_NS,
					   .max_count = 200,
					   .max_bytes = (uint64_t)2 << 30 };
	const char *age = getenv("DRDOTNET_KEEP_AGE"), *count = getenv("DRDOTNET_KEEP_COUNT"),
		   *bytes = getenv("DRDOTNET_KEEP_BYTES");
	if (!str_empty(age) && !session_parse_age_ns(age, &ret->max_age_ns))
		return err_new(ERR_USAGE, "DRDOTNET_KEEP_AGE takes a time such as 30d or 12h, not '%s'", age);
	if (!str_empty(count) && !str_to_u64(count, &ret->max_count))
		return err_new(ERR_USAGE, "DRDOTNET_KEEP_COUNT takes a number of sessions, not '%s'", count);
	if (!str_empty(bytes) && !session_parse_bytes(bytes, &ret->max_bytes))
		return err_new(ERR_USAGE, "DRDOTNET_KEEP_BYTES takes a size such as 500M or 2G, not '%s'", bytes);
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
