/* When threads had a CPU and when they wanted one: the kernel's records of every switch, without stacks.
 *
 * Each costs the target some microseconds, so the number is limited; where there are more it stops, and nothing is said of
 * CPU at all. A thread of which no switch came is not known. */

#include "base/clock.h"
#include "base/cursor.h"
#include "base/fmt.h"
#include "profilers/slow_requests.h"
#include "sampler/sampler.h"

#define PART_NAME "switches"
#define SWITCHES_MAX 1000000 /* 16 MB */
#define THREADS_MAX 20000
#define PER_SECOND_MAX 8000 /* of each core: 2 % of it */
#define NO_SAMPLES (1u << 30)
#define RECORD_BYTES 13

enum { SWITCH_IN, SWITCH_OUT, SWITCH_PREEMPTED };

struct slow_switch {
	uint64_t at_ns;
	uint8_t what;
};

struct slow_cpu_thread {
	VEC(struct slow_switch) switches;
};

static void give_up(struct slow_cpu *c, char *why)
{
	sampler_free(c->sampler);
	c->sampler = NULL;
	if (!c->why_not)
		c->why_not = why;
	else
		mem_free(why);
}

static struct slow_cpu_thread *thread_of(struct slow_cpu *c, uint64_t tid)
{
	uint64_t *index = map_u64_get(&c->index, tid);
	if (!index) {
		if (c->threads.n >= THREADS_MAX)
			return NULL;
		index = map_u64_put(&c->index, tid, NULL);
		*index = c->threads.n;
		vec_push(&c->threads, ((struct slow_cpu_thread){ 0 }));
	}
	return &c->threads.v[*index];
}

static void add_switch(struct slow_cpu *c, uint64_t tid, uint64_t at_ns, uint8_t what)
{
	struct slow_cpu_thread *t = c->n < SWITCHES_MAX ? thread_of(c, tid) : NULL;
	if (!t || (t->switches.n && at_ns < vec_last(&t->switches).at_ns))
		return;
	vec_push(&t->switches, ((struct slow_switch){ at_ns, what }));
	c->n++;
}

static void on_record(void *user, const struct record *r)
{
	struct slow *s = user;
	if (r->kind == RECORD_SWITCH && (pid_t)r->pid == s->exam->patient->target.pid)
		add_switch(&s->cpu, r->tid, r->time,
			   !r->out	  ? SWITCH_IN
			   : r->preempted ? SWITCH_PREEMPTED
					  : SWITCH_OUT);
}

static void drain(struct slow *s, uint64_t until_ns)
{
	if (!s->cpu.sampler || until_ns <= s->cpu.drained_ns)
		return;
	sampler_drain(s->cpu.sampler, until_ns, on_record, s);
	s->cpu.drained_ns = until_ns;
	s->cpu.lost = sampler_facts(s->cpu.sampler)->lost;
}

/* ---- beside the window ---- */

static struct err *start(void *user)
{
	struct slow *s = user;
	if (s->cpu.sampler)
		sampler_start(s->cpu.sampler);
	return NULL;
}

static int readable(void *user)
{
	struct slow *s = user;
	return s->cpu.sampler ? sampler_fd(s->cpu.sampler) : -1;
}

static void turn(void *user)
{
	struct slow *s = user;
	struct slow_cpu *c = &s->cpu;
	uint64_t now = clock_mono_ns(), since = now - MIN(now, s->exam->start_ns);
	drain(s, now);
	double cores = s->budget.cores > 1 ? s->budget.cores : 1;
	double most = PER_SECOND_MAX * cores * ((double)since / NS_PER_S + 0.5);
	if (c->sampler && ((double)c->n > most || c->n >= SWITCHES_MAX))
		give_up(c,
			mem_printf("its threads switch more than %s times a second: to record that would cost too much",
				   fmt_count((uint64_t)(PER_SECOND_MAX * cores)).s));
}

static void stop(void *user)
{
	struct slow *s = user;
	if (s->cpu.sampler)
		sampler_stop(s->cpu.sampler);
}

/* ---- the recording ---- */

static struct err *keep_bytes(void *user, const void *data, size_t len)
{
	buf_add(user, data, len);
	return NULL;
}

static void recall(struct slow *s)
{
	CLEANUP(buf_free) struct buf all = { .limit = (size_t)SWITCHES_MAX * RECORD_BYTES };
	struct err *err = recording_part_read(s->exam->recording, PART_NAME, keep_bytes, &all);
	if (err)
		s->cpu.why_not = mem_strdup("the recording has no switches of threads");
	err_free(err);
	struct cursor c = cursor_make(all.data, all.len);
	while (!s->cpu.why_not && cursor_left(&c) >= RECORD_BYTES) {
		uint32_t tid = cursor_u32(&c);
		uint64_t at = cursor_u64(&c);
		uint8_t what = cursor_u8(&c);
		add_switch(&s->cpu, tid, at, what <= SWITCH_PREEMPTED ? what : SWITCH_OUT);
	}
}

static void keep(struct slow *s)
{
	struct recording_part *part = NULL;
	struct err *err = recording_part_new(s->exam->recording, PART_NAME, "switches", &part);
	if (err) {
		err_free(err); /* then a replay says that it does not know */
		return;
	}
	CLEANUP(buf_free) struct buf out = { 0 };
	size_t pos = 0;
	uint64_t tid, index;
	while (map_u64_next(&s->cpu.index, &pos, &tid, &index)) {
		buf_clear(&out);
		vec_each(it, &s->cpu.threads.v[index].switches) {
			buf_u32(&out, (uint32_t)tid);
			buf_u64(&out, it->at_ns);
			buf_u8(&out, it->what);
		}
		recording_part_write(part, out.data, out.len);
	}
	recording_part_close(part, true);
}

bool slow_cpu_begin(struct slow *s, struct events_beside *ret_beside)
{
	const struct target *target = &s->exam->patient->target;
	if (s->exam->replay) {
		recall(s);
		return false;
	}
	if (target->ns_pid && target->ns_pid != target->pid) {
		s->cpu.why_not = mem_strdup("it numbers its threads differently: it is in a pid namespace of its own");
		return false;
	}
	struct sampler_config config = {
		.pid = target->pid, .kind = SAMPLER_SWITCHES, .period = NO_SAMPLES, .stack_bytes = 64, .user_only = true
	};
	struct err *err = sampler_open(&config, &s->cpu.sampler);
	if (err) {
		s->cpu.why_not = mem_printf("the kernel's records of switches are not open to us: %s", err_text(err));
		err_free(err);
		return false;
	}
	*ret_beside = (struct events_beside){
		.start = start, .fd = readable, .turn = turn, .stop = stop, .user = s, .doing = "listening"
	};
	return true;
}

void slow_cpu_end(struct slow *s)
{
	struct slow_cpu *c = &s->cpu;
	drain(s, clock_mono_ns());
	if (c->sampler && c->lost)
		give_up(c, mem_printf("%s of switches were lost", fmt_plural(c->lost, "record", "records").s));
	sampler_free(c->sampler);
	c->sampler = NULL;
	if (!s->exam->replay && !c->why_not && s->exam->recording)
		keep(s);
}

/* ---- what a thread did ---- */

/* The last switch at or before that time; false when none is known. */
static bool last_before(const struct slow_cpu_thread *t, uint64_t at_ns, size_t *ret)
{
	size_t from = 0, to = t->switches.n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		if (t->switches.v[mid].at_ns <= at_ns)
			from = mid + 1;
		else
			to = mid;
	}
	*ret = from - (from > 0);
	return t->switches.n;
}

void slow_cpu_ran(void *user, struct request_spans *spans, uint64_t thread, uint64_t from_ns, uint64_t to_ns)
{
	struct slow *s = user;
	drain(s, to_ns + 1);
	const uint64_t *index = map_u64_get(&s->cpu.index, thread);
	const struct slow_cpu_thread *t = index ? &s->cpu.threads.v[*index] : NULL;
	size_t i;
	if (s->cpu.why_not || !t || !last_before(t, from_ns, &i))
		return;
	/* What a thread does before the first switch of it is the opposite. */
	const struct slow_switch *first = &t->switches.v[0];
	if (first->at_ns > from_ns && first->what != SWITCH_IN)
		request_spans_ran(spans, PART_CPU, from_ns, MIN(first->at_ns, to_ns));
	for (; i < t->switches.n && t->switches.v[i].at_ns < to_ns; i++) {
		const struct slow_switch *it = &t->switches.v[i];
		uint64_t end = i + 1 < t->switches.n ? MIN(it[1].at_ns, to_ns) : to_ns;
		if (it->what != SWITCH_OUT)
			request_spans_ran(spans, it->what == SWITCH_IN ? PART_CPU : PART_READY, MAX(it->at_ns, from_ns),
					  end);
	}
}

void slow_cpu_fini(struct slow_cpu *c)
{
	sampler_free(c->sampler);
	vec_each(t, &c->threads)
		vec_free(&t->switches);
	vec_free(&c->threads);
	map_u64_free(&c->index);
	mem_free(c->why_not);
}
