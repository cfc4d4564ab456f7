/* The report of the lock-contention profiler: waits by lock, by place, by holder, and whether threads queue up. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/timeline.h"
#include "profilers/lock_contention.h"
#include "exam/profiler.h"
#include <stdlib.h>

#define TABLE_ROWS 20
#define OWNERS_SHOWN 3

/* Threads that wait for locks on average: a fifth of one is ordinary. */
#define WAITING_MUCH 0.2
#define WAITING_VERY_MUCH 1.0
#define LONG_NS (250 * NS_PER_MS)
#define VERY_LONG_NS NS_PER_S
/* Two or more threads wait for one lock for half of the time: it is the bottleneck, whichever thread holds it. */
#define CONVOY_SHARE 0.5

/* Waits in one method: for one lock, or for all. */
struct lock_site {
	uint32_t lock;
	const char *method;
	uint32_t stack; /* the one most time was spent in */
	uint64_t stack_ns;
	double waits, sum_ns; /* estimates where only part of the stacks was seen */
	uint64_t max_ns;
};
struct lock_sites {
	struct lock_site *v;
	size_t n, cap;
	struct map_u64 index; /* hash of lock and method -> index */
};

struct lock_view {
	uint64_t window_ns, heard_ns, max_ns, still;
	double waits, sum_ns, scale;
	double waiting; /* threads, at any moment */
	bool estimated;
	VEC(uint32_t) order;	 /* locks that were waited for, most waiting first */
	struct lock_sites sites; /* by lock and method, most waiting first */
	struct map_u64 numbers;	 /* lock -> the number it is called by */
	uint64_t with_stack;
	struct lock_held_list held; /* threads that waited all the time */
	uint32_t n_held;
};

/* --- sums --- */

static struct lock_site *site_of(struct lock_sites *sites, uint32_t lock, const char *method)
{
	bool new;
	uint64_t *i = map_u64_put(&sites->index, hash_u64((uint64_t)(uintptr_t)method ^ (uint64_t)lock << 48), &new);
	if (new) {
		*i = sites->n;
		vec_push(sites, ((struct lock_site){ .lock = lock, .method = method, .stack = STACKS_NONE }));
	}
	return &sites->v[*i];
}

const char *locks_method(struct locks *l, uint32_t stack)
{
	return stacks_frame(l->events.stacks, l->events.methods, stack,
			    stacks_site(l->events.stacks, l->events.methods, stack))
		.name;
}

static int site_most_first(const void *a, const void *b)
{
	const struct lock_site *x = a, *y = b;
	return CMP(y->sum_ns, x->sum_ns);
}

/* Groups the waits whose stack was seen, then scales them to all waits of their lock. */
static void find_sites(struct locks *l, struct lock_view *v)
{
	CLEANUP(mem_freep) uint64_t *seen = mem_zalloc((l->list.n + 1) * sizeof(*seen));
	CLEANUP(mem_freep) uint64_t *seen_ns = mem_zalloc((l->list.n + 1) * sizeof(*seen_ns));
	vec_each(w, &l->waits) {
		if (w->stack == STACKS_NONE)
			continue;
		struct lock_site *site = site_of(&v->sites, w->lock, locks_method(l, w->stack));
		site->waits++;
		site->sum_ns += (double)w->length_ns;
		site->max_ns = MAX(site->max_ns, w->length_ns);
		seen[w->lock]++;
		seen_ns[w->lock] += w->length_ns;
		v->with_stack++;
		if (site->stack == STACKS_NONE || w->length_ns > site->stack_ns) {
			site->stack = w->stack;
			site->stack_ns = w->length_ns;
		}
	}
	vec_each(site, &v->sites) {
		const struct lock *lock = &l->list.v[site->lock];
		site->waits *= (double)lock->waits / (double)seen[site->lock] * v->scale;
		if (seen_ns[site->lock])
			site->sum_ns *= (double)lock->sum_ns / (double)seen_ns[site->lock] * v->scale;
	}
	for (uint32_t i = 0; i < l->list.n; i++) {
		const struct lock *lock = &l->list.v[i];
		if (!lock->waits || seen[i])
			continue;
		struct lock_site *site = site_of(&v->sites, i, NULL);
		site->waits = (double)lock->waits * v->scale;
		site->sum_ns = (double)lock->sum_ns * v->scale;
		site->max_ns = lock->max_ns;
	}
	vec_sort(&v->sites, site_most_first);
}

static const struct locks *sorting; /* qsort has no user pointer; a worker has one thread */

static int lock_most_first(const void *a, const void *b)
{
	const struct lock *x = &sorting->list.v[*(const uint32_t *)a], *y = &sorting->list.v[*(const uint32_t *)b];
	return CMP(y->sum_ns, x->sum_ns) ?: CMP(x, y);
}

static void view_init(struct lock_view *v, const struct exam *exam, struct locks *l)
{
	const struct events_stream *s = counted_events_by(&l->events);
	*v = (struct lock_view){ .window_ns = exam->end_ns - exam->start_ns,
				 .max_ns = dist_max(l->lengths),
				 .scale = counted_events_scale(&l->events, exam) };
	v->estimated = s->bursting;
	v->heard_ns = v->estimated ? s->open_ns : v->window_ns;
	uint64_t waits = dist_count(l->lengths), sum = dist_sum(l->lengths);
	if (v->estimated) {
		/* Between bursts ends are missed as often as begins; together they are unbiased. */
		waits += l->unpaired;
		sum += l->before_ns;
	}
	v->waits = v->estimated ? fmt_estimate((double)waits * v->scale) : (double)waits;
	v->sum_ns = (double)sum * v->scale;
	v->waiting = ratio(v->sum_ns, v->window_ns);
	vec_each(w, &l->waits)
		v->still += w->open;
	locks_join(l);
	locks_find_things(l);
	v->n_held = locks_find_held(l, &v->held);
	find_sites(l, v);
	for (uint32_t i = 0; i < l->list.n; i++) {
		if (l->list.v[i].waits)
			vec_push(&v->order, i);
	}
	sorting = l;
	vec_sort(&v->order, lock_most_first);
	for (size_t i = 0; i < v->order.n; i++)
		*map_u64_put(&v->numbers, v->order.v[i], NULL) = i + 1;
}

static void view_fini(struct lock_view *v)
{
	vec_free(&v->order);
	vec_free(&v->sites);
	map_u64_free(&v->sites.index);
	map_u64_free(&v->numbers);
	vec_free(&v->held);
}

static const struct lock_site *main_site(const struct lock_view *v, uint32_t lock)
{
	vec_each(site, &v->sites) {
		if (site->lock == lock)
			return site;
	}
	return NULL;
}

static double queue_share(const struct lock_view *v, const struct lock *lock)
{
	return MIN(1.0, ratio(lock->queue_ns, v->heard_ns));
}

/* The stack shows what kind of lock it is; without one that is not known. */
static const char *kind_of(struct locks *l, const struct lock_site *site)
{
	if (!site || site->stack == STACKS_NONE)
		return "lock";
	for (size_t i = 0; i < stacks_depth(l->events.stacks, site->stack); i++) {
		struct stack_frame f = stacks_frame(l->events.stacks, l->events.methods, site->stack, i);
		if (str_eq(f.space, "System.Threading.Lock"))
			return "Lock";
		if (!f.framework)
			break;
	}
	return "Monitor";
}

/* --- verdict --- */

static bool is_convoy(const struct locks *l, const struct lock_view *v)
{
	return v->order.n && v->waiting >= WAITING_MUCH && queue_share(v, &l->list.v[v->order.v[0]]) >= CONVOY_SHARE;
}

/* Of the waits that began or ended in the window. */
static const char *moving_finding(const struct locks *l, const struct lock_view *v)
{
	if (is_convoy(l, v))
		return "convoy";
	if (v->waiting >= WAITING_MUCH)
		return "contention";
	return v->max_ns >= LONG_NS ? "long-waits" : "nothing-found";
}

static const char *finding_of(const struct locks *l, const struct lock_view *v)
{
	return v->n_held ? "lock-held" : moving_finding(l, v);
}

static enum report_health health_of(const struct lock_view *v, const char *finding)
{
	if (str_eq(finding, "nothing-found"))
		return REPORT_OK;
	return v->n_held || v->waiting >= WAITING_VERY_MUCH || v->max_ns >= VERY_LONG_NS ? REPORT_BAD : REPORT_WARN;
}

static struct fmt_text waits_text(const struct lock_view *v)
{
	return fmt_plural((uint64_t)(v->waits + 0.5), "wait", "waits");
}

static void say_main_lock(const struct locks *l, const struct lock_view *v, bool convoy, struct rich *text)
{
	const struct lock *lock = &l->list.v[v->order.v[0]];
	const struct lock_site *site = main_site(v, v->order.v[0]);
	double share = v->sum_ns > 0 ? (double)lock->sum_ns * v->scale / v->sum_ns : 1;
	if (v->order.n == 1)
		rich_text(text, "All of it is one lock");
	else
		rich_text(text, "%s of it is one lock (#1)", fmt_percent(share).s);
	if (lock->thing != SNAPSHOT_NONE) {
		rich_text(text, ", ");
		locks_add_name(l, v->order.v[0], text);
	}
	if (site && site->method) {
		rich_text(text, ", waited for in ");
		rich_code(text, site->method);
	}
	if (convoy) {
		rich_text(text, ". Threads queue up behind it: up to %s at once, two or more ",
			  fmt_count(lock->max_waiters).s);
		rich_strong(text, "%s of the time", fmt_percent(queue_share(v, lock)).s);
	}
	rich_text(text, ".");
	locks_add_holder(l, v->order.v[0], text);
}

static void add_verdict(const struct exam *exam, const struct locks *l, const struct lock_view *v,
			struct report *report)
{
	const char *finding = finding_of(l, v);
	enum report_health health = health_of(v, finding);
	struct rich *text = report_verdict(report, health, finding);
	struct fmt_text window = fmt_duration_ns(v->window_ns), sum = fmt_duration_ns((uint64_t)v->sum_ns);
	const char *about = v->estimated ? "about " : "";
	static const char others[] = " (lock, Monitor, Lock; off-cpu sees also ReaderWriterLockSlim, SemaphoreSlim and "
				     "SpinLock)";
	if (v->n_held) {
		locks_say_held(l, &v->held, v->n_held, text);
		report_advice(report, exam->profiler, finding);
		if (str_eq(moving_finding(l, v), "nothing-found"))
			return;
	}
	if (v->waits < 0.5) {
		rich_text(text, "No problem here: no thread waited for a lock in %s%s.", window.s, others);
		return;
	}
	if (health == REPORT_OK) {
		rich_text(text, "No problem here: %s%s for locks in %s, %s in all, the longest %s%s.", about,
			  waits_text(v).s, window.s, sum.s, fmt_duration_ns(v->max_ns).s, others);
		return;
	}
	rich_text(text, v->n_held ? " Others waited for locks " : "Threads waited for locks ");
	rich_strong(text, "%s%s in %s", about, sum.s, window.s);
	if (v->waiting >= 1)
		rich_text(text, ": %s threads at any moment,", fmt_number(v->waiting).s);
	else
		rich_text(text, ":");
	rich_text(text, " %s, the longest ", waits_text(v).s);
	rich_strong(text, "%s", fmt_duration_ns(v->max_ns).s);
	rich_text(text, ". ");
	say_main_lock(l, v, is_convoy(l, v), text);
	if (!v->n_held)
		report_advice(report, exam->profiler, finding);
}

static void add_figures(const struct locks *l, const struct lock_view *v, struct report *report)
{
	CLEANUP(mem_freep)
	char *rate =
		mem_printf("%s%s", fmt_rate(per_second(v->waits, v->window_ns)).s, v->estimated ? ", estimated" : "");
	report_figure(report, "Waits", V_COUNT((uint64_t)(v->waits + 0.5)), rate);
	CLEANUP(mem_freep) char *mean = mem_printf("%s threads on average", fmt_number(v->waiting).s);
	report_figure(report, "Waiting in all", V_NS(v->sum_ns), mean);
	CLEANUP(mem_freep) char *median = mem_printf("p50 %s", fmt_duration_ns(dist_quantile(l->lengths, 0.5)).s);
	report_figure(report, "p99", V_NS(dist_quantile(l->lengths, 0.99)), median);
	CLEANUP(mem_freep)
	char *still = v->still ? mem_printf("%s still waiting at the end", fmt_count(v->still).s) : NULL;
	report_figure(report, "Longest", V_NS(v->max_ns), still);
	report_figure(report, "Locks", V_COUNT(v->order.n), NULL);
}

/* --- the holder --- */

struct owner {
	uint32_t tid;
	uint64_t waits;
};

static int owner_most_first(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;
	return CMP(y->waits, x->waits) ?: CMP(x->tid, y->tid);
}

/* "behind thread 'a' (12) 60 %, thread 'b' (13) 40 %": who had the lock when waits began. */
static void add_owner_line(const struct locks *l, uint32_t lock, struct report_row *row)
{
	struct map_u64 index = { 0 };
	VEC(struct owner) owners = { 0 };
	uint64_t known = 0;
	vec_each(w, &l->waits) {
		if (w->lock != lock || !w->owner)
			continue;
		bool new;
		uint64_t *i = map_u64_put(&index, w->owner, &new);
		if (new) {
			*i = owners.n;
			vec_push(&owners, ((struct owner){ .tid = w->owner }));
		}
		owners.v[*i].waits++;
		known++;
	}
	vec_sort(&owners, owner_most_first);
	struct buf line = { 0 };
	buf_str(&line, known ? "held by " : "the runtime did not say who had it");
	for (size_t i = 0; i < MIN(owners.n, (size_t)OWNERS_SHOWN); i++) {
		buf_str(&line, i ? ", " : "");
		thread_names_show(&l->names, owners.v[i].tid, &line);
		buf_printf(&line, " %s", fmt_percent((double)owners.v[i].waits / (double)known).s);
	}
	if (owners.n > OWNERS_SHOWN)
		buf_printf(&line, " and %s", fmt_plural(owners.n - OWNERS_SHOWN, "other", "others").s);
	report_row_line(row, VALUE_TEXT, buf_cstr(&line), NULL);
	buf_free(&line);
	vec_free(&owners);
	map_u64_free(&index);
}

static int wait_by_time(const void *a, const void *b)
{
	const struct lock_wait *x = a, *y = b;
	return CMP(x->start_ns, y->start_ns);
}

/* The runtime reports which thread holds the lock, not where it took it. A holder that had waited for the lock itself
 * took it there. */
static void add_owner_place(struct locks *l, uint32_t lock, struct report_row *row)
{
	struct map_u64 last = { 0 };  /* thread -> method */
	struct map_u64 times = { 0 }; /* method -> waits behind it */
	uint64_t of = 0, most = 0;
	const char *where = NULL;
	vec_each(w, &l->waits) {
		if (w->lock != lock)
			continue;
		of++;
		const uint64_t *method = map_u64_get(&last, w->owner);
		if (method) {
			uint64_t n = ++*map_u64_put(&times, *method, NULL);
			if (n > most) {
				most = n;
				where = (const char *)(uintptr_t)*method; /* NOLINT: interned for the whole report */
			}
		}
		if (w->stack != STACKS_NONE)
			*map_u64_put(&last, w->thread, NULL) = (uintptr_t)locks_method(l, w->stack);
	}
	if (where) {
		CLEANUP(mem_freep)
		char *right = mem_printf("where the owner had taken it: seen for %s of the waits",
					 fmt_percent((double)most / (double)of).s);
		report_row_line(row, VALUE_CODE, where, right);
	}
	map_u64_free(&last);
	map_u64_free(&times);
}

/* --- tables --- */

static void add_queue_line(const struct lock_view *v, const struct lock *lock, struct report_row *row)
{
	CLEANUP(mem_freep)
	char *line = mem_printf("up to %s at once, two or more %s of the time; it changed hands %s times",
				fmt_plural(lock->max_waiters, "thread waited", "threads waited").s,
				fmt_percent(queue_share(v, lock)).s, fmt_count(lock->hand_overs).s);
	report_row_line(row, VALUE_TEXT, line, NULL);
}

static void add_open_line(const struct locks *l, uint32_t lock, struct report_row *row)
{
	uint64_t n = 0, longest = 0;
	vec_each(w, &l->waits) {
		if (w->lock == lock && w->open) {
			n++;
			longest = MAX(longest, w->length_ns);
		}
	}
	if (!n)
		return;
	CLEANUP(mem_freep)
	char *line =
		mem_printf("%s when the window ended, for %s by then",
			   fmt_plural(n, "thread still waited", "threads still waited").s, fmt_duration_ns(longest).s);
	report_row_line(row, VALUE_TEXT, line, NULL);
}

static void add_by_lock(struct locks *l, const struct lock_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "By lock");
	report_column(t, "Waited for in", VALUE_CODE, 0);
	report_column(t, "Lock", VALUE_TEXT, 0);
	report_column(t, "Waits", VALUE_COUNT, 0);
	report_column(t, "Longest", VALUE_NS, 0);
	report_column(t, "In all", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	vec_sort(&l->waits, wait_by_time);
	double rest_ns = 0, rest_waits = 0;
	for (size_t i = 0; i < v->order.n; i++) {
		uint32_t index = v->order.v[i];
		const struct lock *lock = &l->list.v[index];
		double sum = (double)lock->sum_ns * v->scale, waits = (double)lock->waits * v->scale;
		if (i >= TABLE_ROWS) {
			rest_ns += sum;
			rest_waits += waits;
			continue;
		}
		const struct lock_site *site = main_site(v, index);
		CLEANUP(mem_freep) char *name = mem_printf("#%zu %s", i + 1, kind_of(l, site));
		struct report_row *row = report_row(
			t, (struct value[]){ site && site->method ? V_CODE(site->method) : V_NONE, V_TEXT(name),
					     V_COUNT((uint64_t)(waits + 0.5)), V_NS(lock->max_ns), V_NS(sum),
					     V_RATIO(ratio(sum, v->sum_ns)) });
		locks_add_known_line(l, index, row);
		add_queue_line(v, lock, row);
		add_open_line(l, index, row);
		add_owner_line(l, index, row);
		add_owner_place(l, index, row);
	}
	if (v->order.n > TABLE_ROWS) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more locks", fmt_count(v->order.n - TABLE_ROWS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_COUNT((uint64_t)(rest_waits + 0.5)), V_NONE,
						 V_NS(rest_ns), V_RATIO(rest_ns / v->sum_ns) });
	}
}

/* Above the frames of the runtime's own event. */
static size_t first_frame(struct locks *l, uint32_t stack)
{
	const char *leaf = stacks_frame(l->events.stacks, l->events.methods, stack, 0).space;
	return stacks_depth(l->events.stacks, stack) > 1 && str_starts(leaf, "System.Diagnostics.Tracing.") ? 1 : 0;
}

/* The same waits by method, whatever the lock. */
static void find_places(const struct lock_view *v, struct lock_sites *places)
{
	vec_each(site, &v->sites) {
		struct lock_site *place = site_of(places, 0, site->method);
		if (place->sum_ns > 0 && place->lock != site->lock)
			place->lock = LOCK_NONE; /* several */
		else
			place->lock = site->lock;
		place->waits += site->waits;
		place->sum_ns += site->sum_ns;
		place->max_ns = MAX(place->max_ns, site->max_ns);
		if (place->stack == STACKS_NONE || site->stack_ns > place->stack_ns) {
			place->stack = site->stack;
			place->stack_ns = site->stack_ns;
		}
	}
	vec_sort(places, site_most_first);
}

static void add_by_place(struct locks *l, const struct lock_view *v, struct report *report)
{
	struct lock_sites places = { 0 };
	find_places(v, &places);
	struct report_table *t = report_table(report, "By place");
	report_column(t, "Waits in", VALUE_CODE, 0);
	report_column(t, "Lock", VALUE_TEXT, 0);
	report_column(t, "Waits", VALUE_COUNT, 0);
	report_column(t, "Longest", VALUE_NS, 0);
	report_column(t, "In all", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	double rest_ns = 0, rest_waits = 0;
	for (size_t i = 0; i < places.n; i++) {
		const struct lock_site *place = &places.v[i];
		if (i >= TABLE_ROWS) {
			rest_ns += place->sum_ns;
			rest_waits += place->waits;
			continue;
		}
		const uint64_t *number = place->lock == LOCK_NONE ? NULL : map_u64_get(&v->numbers, place->lock);
		CLEANUP(mem_freep)
		char *lock = number ? mem_printf("#%llu", (unsigned long long)*number) : mem_strdup("several");
		struct report_row *row = report_row(
			t, (struct value[]){ place->method ? V_CODE(place->method) : V_NONE, V_TEXT(lock),
					     V_COUNT((uint64_t)(place->waits + 0.5)), V_NS(place->max_ns),
					     V_NS(place->sum_ns), V_RATIO(ratio(place->sum_ns, v->sum_ns)) });
		if (place->stack != STACKS_NONE)
			stacks_lines(l->events.stacks, l->events.methods, place->stack, first_frame(l, place->stack),
				     row);
	}
	if (places.n > TABLE_ROWS) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more places", fmt_count(places.n - TABLE_ROWS).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_COUNT((uint64_t)(rest_waits + 0.5)), V_NONE,
						 V_NS(rest_ns), V_RATIO(rest_ns / v->sum_ns) });
	}
	vec_free(&places);
	map_u64_free(&places.index);
}

/* --- pictures --- */

static void add_chart(const struct exam *exam, const struct locks *l, const struct lock_view *v, struct report *report)
{
	struct timeline spent = { 0 };
	uint64_t at[TIMELINE_POINTS];
	double waiting[TIMELINE_POINTS];
	vec_each(w, &l->waits) {
		uint64_t from = w->start_ns - MIN(w->start_ns, exam->start_ns);
		timeline_add_span(&spent, from, MIN(from + w->length_ns, v->window_ns));
	}
	size_t n = timeline_rates(&spent, v->window_ns, TIMELINE_POINTS, at, waiting);
	for (size_t i = 0; i < n; i++)
		waiting[i] /= NS_PER_S;
	struct report_chart *chart = report_chart(report, "Threads waiting over time", VALUE_NUMBER, v->window_ns);
	report_chart_line(chart, "threads waiting for a lock", at, waiting, n);
}

static void add_histogram(const struct locks *l, struct report *report)
{
	struct report_histogram *h = report_histogram(report, "How long they waited", VALUE_NS);
	struct dist_bucket buckets[64];
	size_t n = dist_buckets(l->lengths, 1000, buckets, ARRAY_SIZE(buckets));
	for (size_t i = 0; i < n; i++)
		report_bucket(h, (double)buckets[i].from, (double)buckets[i].to, buckets[i].count);
}

static void add_how(const struct locks *l, const struct lock_view *v, struct report *report)
{
	const struct events_stream *counts = counted_events_by(&l->events);
	report_how(report, "Way", V_TEXT("events"),
		   v->estimated ? "heard in bursts and scaled up: this runtime walks a stack for every wait it tells of"
				: "every wait that began in the window");
	if (!l->known.threads)
		report_how(report, "Target paused", V_TEXT("not by us"), NULL);
	knowledge_how(&l->known, report);
	CLEANUP(mem_freep) char *of = mem_printf("of %s events", fmt_count(counts->events + counts->lost).s);
	report_how(report, "Lost", V_COUNT(counts->lost), of);
	CLEANUP(mem_freep)
	char *seen = mem_printf("of %s waits%s", fmt_count(dist_count(l->lengths)).s,
				v->with_stack < dist_count(l->lengths) ? ", so figures by place are estimates" : "");
	report_how(report, "Stacks seen", V_COUNT(v->with_stack), seen);
	if (l->before && !v->estimated) {
		CLEANUP(mem_freep)
		char *before = mem_printf("%s that had begun before; %s of them fall into the window",
					  l->before == 1 ? "wait" : "waits", fmt_duration_ns(l->before_ns).s);
		report_how(report, "Left out", V_COUNT(l->before), before);
	}
	if (!l->known.threads)
		report_how(report, "Not seen", V_TEXT("waits without an end"),
			   "a thread that waited all the time, before and after, sends no event");
	if (l->not_kept)
		report_how(report, "Not listed", V_COUNT(l->not_kept), "waits beyond the first million: in the sums");
}

struct err *locks_analyse(struct exam *exam, struct report *report)
{
	struct locks *l = exam->state;
	struct lock_view v;
	view_init(&v, exam, l);
	add_verdict(exam, l, &v, report);
	if (v.n_held)
		report_figure(report, "Waited all the time", V_COUNT(v.n_held), "threads; in no other figure");
	if (v.n_held)
		locks_add_held(l, &v.held, report);
	if (v.order.n) {
		add_figures(l, &v, report);
		add_by_lock(l, &v, report);
		add_by_place(l, &v, report);
		if (!v.estimated && !l->not_kept)
			add_chart(exam, l, &v, report);
		add_histogram(l, report);
	}
	add_how(l, &v, report);
	view_fini(&v);
	return NULL;
}
