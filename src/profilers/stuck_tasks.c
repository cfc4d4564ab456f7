/* Async operations that do not continue: chains of async methods, what the innermost waits for, and how many were in
 * exactly the same state in both looks. */

#include "base/fmt.h"
#include "base/str.h"
#include "threads/async_chains.h"
#include "exam/profiler.h"

/* Two looks, and more while a collection has moved objects in between that cannot be told apart: an operation is known
 * again by where it is, or by its arguments and locals. What is in generation 2 moves hardly ever, so two more are enough
 * for what is stuck. */
#define LOOKS_MAX 4
#define SURVIVED 2	     /* of async_chain.age: in generation 1 or 2, so a collection has come since it began */
#define PARTIES_MAX 50	     /* of a circle, that are looked at */
#define CHAINS_SEARCHED 1000 /* for a possible holder of a semaphore */
#define LONG_TIMER_MS 60000
#define MANY 10 /* alike, unmoved, and waiting for other code of the process: not a coincidence */

struct stuck {
	struct async_chains *chains[LOOKS_MAX];
	struct image_exam_facts facts[LOOKS_MAX];
	size_t looks;
};

#define LOOK(called, by)                                                                                               \
	{                                                                                                              \
		.name = (called), .version = ASYNC_CHAINS_VERSION, .heap = true, .drain = (by)                         \
	}
static const struct image_exam_part looks[LOOKS_MAX + 1] = { LOOK("tasks", async_chains_drain_brief),
							     LOOK("tasks-2", async_chains_drain),
							     LOOK("tasks-3", async_chains_drain),
							     LOOK("tasks-4", async_chains_drain) };

static struct image_exam_part part(const struct image_exam_part *look, struct async_chains **chains)
{
	struct image_exam_part part = *look;
	part.take = async_chains_take;
	part.user = chains;
	return part;
}

/* ---- what is stuck ---- */

struct judged {
	const struct async_chains *c;
	struct async_seen before;
	bool twice;
	uint64_t own, unmoved;		   /* operations of the user's own code */
	uint64_t unsure;		   /* not where they were, which may be the work of a collection */
	uint64_t until_cancelled, resting; /* resting: as services without work do */
	const struct async_chain *worst;
	uint32_t worst_unmoved;
	const struct async_chain *most; /* of those that moved */
};

static uint32_t unmoved(const struct judged *j, const struct async_chain *c)
{
	return j->twice ? async_chain_unmoved(j->c, c, &j->before) : 0;
}

/* Other code of the process must act: not the clock, not the other end of a connection. Of those that nothing can
 * complete any more one is enough. */
static unsigned suspicion(const struct async_chain *c)
{
	if (c->gone)
		return 2;
	return c->awaits == AWAITS_SOURCE || c->awaits == AWAITS_SEMAPHORE || c->awaits == AWAITS_ROOM ||
	       c->awaits == AWAITS_CONNECTION;
}

/* Task.Delay(-1, token): a program waits for its end in this way, which is not reported; many that do are. */
static bool waits_for_cancel(const struct async_chain *c)
{
	return c->awaits == AWAITS_TIMER && c->longest_ms == ASYNC_CHAIN_ENDLESS && c->count == 1;
}

/* Main itself awaits the platform: a program waits for its end so, too. */
static bool is_the_program(const struct async_chains *all, const struct async_chain *c)
{
	const struct async_chain_step *site = &all->steps.v[c->first + async_chain_site(all, c)];
	return c->count == 1 && !c->gone && str_ends(all->methods.v[site->method].name, ".Main");
}

/* A timer that runs ends the wait, so it is not stuck; many that wait longer than anybody does for an answer are told.
 * And a few that wait for an item of a channel, for a connection or the like are what services without work do. */
static bool waits_as_it_should(const struct async_chain *c)
{
	if (c->awaits == AWAITS_TIMER)
		return c->longest_ms < LONG_TIMER_MS || (c->count < MANY && c->longest_ms != ASYNC_CHAIN_ENDLESS);
	return !suspicion(c) && c->count < MANY;
}

static void judge(const struct stuck *k, struct judged *j)
{
	*j = (struct judged){ .c = k->chains[k->looks - 1], .twice = k->looks > 1 };
	if (j->twice)
		async_seen_add(&j->before, k->chains[k->looks - 2]);
	vec_each(c, &j->c->v) {
		uint32_t n = unmoved(j, c);
		if (!async_chain_is_own(j->c, c))
			continue;
		j->own += c->count;
		j->unmoved += n;
		if (waits_for_cancel(c) || is_the_program(j->c, c)) {
			j->until_cancelled += c->count;
			continue;
		}
		if (waits_as_it_should(c)) {
			j->resting += c->count;
			continue;
		}
		if (j->twice && !n && (!j->most || c->count > j->most->count))
			j->most = c;
		if (j->twice && !n && c->age >= SURVIVED)
			j->unsure += c->count;
		uint32_t weight = j->twice ? n : c->count;
		bool better = !j->worst || suspicion(c) > suspicion(j->worst) ||
			      (suspicion(c) == suspicion(j->worst) && weight > j->worst_unmoved);
		if (weight && better) {
			j->worst = c;
			j->worst_unmoved = weight;
		}
	}
}

static bool is_unsure(const struct stuck *k)
{
	struct judged j;
	judge(k, &j);
	async_seen_free(&j.before);
	return j.unsure;
}

static struct err *run(struct exam *exam)
{
	struct stuck *k = exam->state = mem_zalloc(sizeof(*k));
	struct image_exam_part parts[LOOKS_MAX];
	for (size_t i = 0; i < LOOKS_MAX; i++)
		parts[i] = part(&looks[i], &k->chains[i]);
	struct err *err = exam_image_twice(exam, parts, &k->looks);
	while (!err && k->looks > 1 && k->looks < LOOKS_MAX && is_unsure(k) && exam_image_next(exam, &parts[k->looks]))
		k->looks++;
	for (size_t i = 0; i < k->looks; i++)
		k->facts[i] = parts[i].facts;
	return err;
}

static const struct async_chain_step *step_at(const struct async_chains *c, const struct async_chain *chain, uint32_t i)
{
	return &c->steps.v[chain->first + i];
}

static const char *step_name(const struct async_chains *c, const struct async_chain *chain, uint32_t i)
{
	return c->methods.v[step_at(c, chain, i)->method].name;
}

/* ---- a circle of semaphores ---- */

/* It has awaited before and now waits for a semaphore that is taken: it may hold another one. */
static bool may_hold_another(const struct judged *j, const struct async_chain *c)
{
	return c->awaits == AWAITS_SEMAPHORE && c->taken && *c->what && unmoved(j, c) && async_chain_is_own(j->c, c) &&
	       step_at(j->c, c, async_chain_site(j->c, c))->await > 0;
}

/* Is one of the method that waits there further on by now, at something else than a semaphore? Then it has it, and will
 * give it back. */
static bool somebody_has(const struct judged *j, const struct async_chain *waits)
{
	const struct async_chain_step *at = step_at(j->c, waits, async_chain_site(j->c, waits));
	for (size_t k = 0; k < MIN(j->c->v.n, (size_t)CHAINS_SEARCHED); k++) {
		const struct async_chain *c = &j->c->v.v[k];
		for (uint32_t i = 0; c->awaits != AWAITS_SEMAPHORE && i < c->n; i++)
			if (step_at(j->c, c, i)->method == at->method && step_at(j->c, c, i)->await > at->await)
				return true;
	}
	return false;
}

static bool somebody_has_any(const struct judged *j, const char *what)
{
	size_t looked = 0;
	vec_each(c, &j->c->v)
		if (c->awaits == AWAITS_SEMAPHORE && str_eq(c->what, what) && looked++ < PARTIES_MAX &&
		    somebody_has(j, c))
			return true;
	return false;
}

/* Two operations, each far enough to have a semaphore and waiting for another one. */
static bool find_circle(const struct judged *j, const struct async_chain *ret[2])
{
	size_t looked = 0;
	ret[0] = NULL;
	vec_each(c, &j->c->v) {
		if (!may_hold_another(j, c) || (ret[0] && str_eq(ret[0]->what, c->what)))
			continue;
		if (looked++ >= PARTIES_MAX || somebody_has_any(j, c->what))
			continue;
		if (ret[0]) {
			ret[1] = c;
			return true;
		}
		ret[0] = c;
	}
	return false;
}

static void say_party(struct rich *v, const struct judged *j, const struct async_chain *c)
{
	uint32_t site = async_chain_site(j->c, c);
	const char *line = step_at(j->c, c, site)->line;
	rich_code(v, step_name(j->c, c, site));
	rich_text(v, " waits for ");
	rich_code(v, c->what);
	if (!str_empty(line))
		rich_text(v, " (%s)", line);
}

static void say_circle(struct rich *v, const struct judged *j, const struct async_chain *const pair[2])
{
	rich_strong(v, "Probably a deadlock of async methods: ");
	say_party(v, j, pair[0]);
	rich_text(v, ", ");
	say_party(v, j, pair[1]);
	rich_text(v, "; both are taken, both have awaited something before, and neither moved. ");
}

/* ---- words ---- */

static uint64_t between_ns(const struct stuck *k)
{
	if (k->looks < 2)
		return 0;
	uint64_t from_ns = k->facts[k->looks - 2].at_ns, to_ns = k->facts[k->looks - 1].at_ns;
	return to_ns - MIN(to_ns, from_ns);
}

static void say_worst(struct rich *v, const struct stuck *k, const struct judged *j)
{
	const struct async_chain *w = j->worst;
	uint32_t start = async_chain_start(j->c, w), site = async_chain_site(j->c, w), between = site - start;
	const char *line = step_at(j->c, w, site)->line;
	CLEANUP(buf_free) struct buf awaits = { 0 };
	async_chain_awaits_words(w, &awaits);
	rich_strong(v, "%s", fmt_plural(j->worst_unmoved, "async operation", "async operations").s);
	if (j->twice)
		rich_text(v, " did not move for %s: ", fmt_duration_ns(between_ns(k)).s);
	else
		rich_text(v, " %s alike: ", j->worst_unmoved == 1 ? "waits" : "wait");
	rich_code(v, step_name(j->c, w, start));
	if (between) {
		rich_text(v, between > 1 ? " waits through %u more for " : " waits for ", between - 1);
		rich_code(v, step_name(j->c, w, site));
	}
	if (!str_empty(line))
		rich_text(v, " (%s)", line);
	rich_text(v, between ? ", which " : " ");
	rich_text(v, site + 1 < w->n ? "in the end awaits %s" : "awaits %s", buf_cstr(&awaits));
	if (site + 1 < w->n) {
		rich_text(v, " in ");
		rich_code(v, step_name(j->c, w, w->n - 1));
	}
	rich_text(v, ". ");
}

static const char *finding_of(const struct judged *j, bool circle)
{
	const struct async_chain *w = j->worst;
	if (circle)
		return "deadlock-likely";
	if (!w)
		return "nothing-found";
	if (w->gone && j->twice)
		return "source-gone";
	/* That one comes in milliseconds, or there is none. */
	if (w->awaits == AWAITS_CONNECTION && j->twice)
		return "no-connection";
	if (j->worst_unmoved < MANY || (!suspicion(w) && w->awaits != AWAITS_SOCKET))
		return "waiting";
	if (w->awaits == AWAITS_SOCKET)
		return "no-answer";
	return w->awaits == AWAITS_ROOM ? "channel-full" : "stuck";
}

/* "; 2 more wait for a timer", or as the first of the sentence "2 async operations wait for a timer". */
static void say_more(struct rich *v, uint64_t n, bool *first, const char *waits, const char *wait)
{
	if (!n)
		return;
	rich_text(v, "%s%s ", *first ? "" : "; ",
		  *first ? fmt_plural(n, "async operation", "async operations").s : fmt_plural(n, "more", "more").s);
	rich_text(v, "%s", n == 1 ? waits : wait);
	*first = false;
}

static void say_nothing(struct rich *v, const struct judged *j)
{
	uint64_t moved = j->own - j->until_cancelled - j->resting;
	bool first = !moved;
	if (!j->own) {
		rich_text(v, "No async operation of the application is under way.");
		return;
	}
	rich_text(v, j->unsure ? "Nothing was seen to be stuck: " : "Nothing is stuck: ");
	if (moved)
		rich_text(v, j->unsure ? "%s under way" : "%s under way, and all moved between the looks",
			  fmt_plural(moved, "async operation is", "async operations are").s);
	if (j->unsure)
		rich_text(
			v,
			", and whether %s of them went on cannot be told, since collections moved objects between the looks",
			fmt_count(j->unsure).s);
	say_more(v, j->resting, &first, "runs or waits for a timer, a message or work, as services do",
		 "run or wait for a timer, a message or work, as services do");
	say_more(v, j->until_cancelled, &first, "waits until it is cancelled", "wait, each until it is cancelled");
	rich_text(v, ".");
	if (!j->most || j->most->count < 2)
		return;
	CLEANUP(buf_free) struct buf awaits = { 0 };
	async_chain_awaits_words(j->most, &awaits);
	rich_text(v, " %u of them are in ", j->most->count);
	rich_code(v, step_name(j->c, j->most, async_chain_site(j->c, j->most)));
	rich_text(v, ", awaiting %s.", buf_cstr(&awaits));
}

static void add_verdict(struct exam *exam, struct report *report, const struct stuck *k, const struct judged *j)
{
	const struct async_chain *pair[2];
	bool circle = j->twice && find_circle(j, pair);
	const char *finding = finding_of(j, circle);
	bool bad = circle || (j->worst && suspicion(j->worst) && !str_eq(finding, "waiting"));
	struct rich *v = report_verdict(report, bad ? REPORT_WARN : j->worst ? REPORT_INFO : REPORT_OK, finding);
	if (circle)
		say_circle(v, j, pair);
	else if (j->worst)
		say_worst(v, k, j);
	else
		say_nothing(v, j);
	if (j->worst && j->own > j->worst_unmoved)
		rich_text(v, "In all %s under way.",
			  fmt_plural(j->own, "async operation is", "async operations are").s);
	report_advice(report, exam->profiler, finding);
	report_figure(report, "Operations", V_COUNT(j->own), "chains of the application's async methods");
	report_figure(report, "Unmoved", j->twice ? V_COUNT(j->unmoved) : V_NONE, "between the looks, at least");
	report_figure(report, "Async methods", V_COUNT(j->c->boxes), "that have not ended");
}

/* ---- tables ---- */

static void add_lines(const struct async_chains *c, const struct async_chain *chain, struct report_row *row)
{
	for (uint32_t i = async_chain_start(c, chain); i < chain->n; i++) {
		const struct async_chain_step *step = &c->steps.v[chain->first + i];
		CLEANUP(buf_free) struct buf right = { 0 };
		if (step->times > 1)
			buf_printf(&right, step->any ? "the first of %u; " : "%u of them together; ", step->times);
		if (!str_empty(step->line))
			buf_str(&right, step->line);
		else if (step->await >= 0)
			buf_printf(&right, "at its await no. %d", step->await + 1);
		report_row_line(row, VALUE_CODE, step_name(c, chain, i), buf_cstr(&right));
	}
}

struct tasks_ranked {
	const struct async_chain *chain;
	uint32_t unmoved;
};

/* What stands, before what moves; then the oldest first. */
static int by_age(const void *a, const void *b)
{
	const struct tasks_ranked *x = a, *y = b;
	return CMP(!x->unmoved, !y->unmoved) ?: CMP(y->chain->age, x->chain->age) ?:
	       CMP(y->chain->count, x->chain->count) ?: CMP(x->chain, y->chain);
}

static void add_chain(struct report_table *table, const struct judged *j, const struct tasks_ranked *r)
{
	const struct async_chain *c = r->chain;
	CLEANUP(buf_free) struct buf awaits = { 0 };
	async_chain_awaits_brief(c, &awaits);
	struct value cells[] = { V_COUNT(c->count), j->twice ? V_COUNT(r->unmoved) : V_NONE,
				 c->age ? V_COUNT(c->age - 1) : V_NONE,
				 V_CODE(step_name(j->c, c, async_chain_site(j->c, c))), V_TEXT(buf_cstr(&awaits)) };
	add_lines(j->c, c, report_row(table, cells));
}

static void add_chains(struct report *report, const struct judged *j)
{
	VEC(struct tasks_ranked) own = { 0 };
	uint64_t others = 0;
	vec_each(c, &j->c->v) {
		if (async_chain_is_own(j->c, c))
			vec_push(&own, ((struct tasks_ranked){ c, unmoved(j, c) }));
		else
			others += c->count;
	}
	vec_sort(&own, by_age);
	struct report_table *table = own.n ? report_table(report, "Chains of async methods") : NULL;
	if (table) {
		/* No main column: a table that has one is sorted by it. */
		report_column(table, "Alike", VALUE_COUNT, 0);
		report_column(table, "Unmoved", VALUE_COUNT, 0);
		report_column(table, "Gen", VALUE_COUNT, 0);
		report_column(table, "Innermost", VALUE_CODE, 0);
		report_column(table, "Awaits", VALUE_TEXT, 0);
	}
	vec_each(r, &own)
		add_chain(table, j, r);
	if (table && others)
		report_rest(table, (struct value[]){ V_COUNT(others), V_NONE, V_NONE,
						     V_CODE("[platform and libraries]"), V_NONE });
	vec_free(&own);
}

static void add_methods(struct report *report, const struct async_chains *c)
{
	struct report_table *table = NULL;
	vec_each(m, &c->methods) {
		if (m->framework || !m->pending)
			continue;
		if (!table) {
			table = report_table(report, "Async methods that have not ended");
			report_column(table, "Method", VALUE_CODE, 0);
			report_column(table, "Times", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
		}
		report_row(table, (struct value[]){ V_CODE(m->name), V_COUNT(m->pending) });
	}
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	const struct stuck *k = exam->state;
	struct judged j;
	judge(k, &j);
	add_verdict(exam, report, k, &j);
	add_chains(report, &j);
	add_methods(report, j.c);
	image_exam_how(report, k->facts, k->looks);
	report_how(report, "Objects looked at", V_COUNT(j.c->objects), NULL);
	if (j.c->lost_bytes)
		report_how(report, "Not readable", V_BYTES(j.c->lost_bytes),
			   "of the heap; what is in it is missing here");
	if (j.c->left_out)
		report_how(report, "Left out", V_COUNT(j.c->left_out), "async methods, beyond what a report can hold");
	async_seen_free(&j.before);
	return NULL;
}

static void free_state(void *state)
{
	struct stuck *k = state;
	for (size_t i = 0; i < LOOKS_MAX; i++)
		async_chains_free(k->chains[i]);
	mem_free(k);
}

const struct profiler profiler_stuck_tasks = {
	.id = "stuck-tasks",
	.uuid = "6A1C3F58-7C1E-4B64-9E7B-2F3E3C6C9D07",
	.name = "Stuck tasks",
	.chapter = CHAPTER_THREADS,
	.label = "Requests hang",
	.symptom = "requests hang though no thread is blocked; async operations pile up",
	.description =
		"Finds every async method that has begun and not ended, puts those together that await each other "
		"(await, Task.WhenAll, Task.WhenAny), and says what the innermost waits for and in which line: a "
		"TaskCompletionSource and who keeps it, a semaphore, a channel, a socket, a timer and when it is due. "
		"Looks twice: which of them did not move?",
	.cost = "two pauses of a few milliseconds; the heap is read from copies, about a second for each GB",
	.params =
		(const struct param[]){
			PARAM_INTERVAL("2", "An operation that stands at the same place in both did not move."),
			PARAM_MAX_PAUSE,
		},
	.n_params = 2,
	.looks = looks,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "stuck",
			  "Who should complete what they wait for? Look for a path on which SetResult or Release "
			  "is not reached, such as an exception before it; a time limit (WaitAsync(timeout)) "
			  "makes such faults visible." },
			{ "source-gone",
			  "The TaskCompletionSource was dropped before anybody completed it, so these never end. Where "
			  "it is made, keep it until SetResult, SetException or SetCanceled was called on every "
			  "path." },
			{ "channel-full",
			  "Does anybody still read this channel? A reader that ended with an exception leaves its "
			  "writers waiting: complete the channel with that exception (Writer.Complete(error))." },
			{ "no-connection",
			  "Who has the connections? An HTTP/2 connection carries about 100 requests at once, and one more "
			  "is only made with EnableMultipleHttp2Connections; over HTTP/1.1 MaxConnectionsPerServer is "
			  "the limit. If none can be made at all, look at the other side and set ConnectTimeout." },
			{ "no-answer",
			  "The other side does not answer. Give such calls a time limit (HttpClient.Timeout, a "
			  "CancellationToken), and look there." },
			{ "deadlock-likely", "A semaphore does not say who took it: look at both methods. If each "
					     "takes the two in another "
					     "order, take them in the same order everywhere, or both at once." },
		},
	.n_advice = 6,
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
