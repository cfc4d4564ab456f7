/* Off-CPU sampling while it runs: where each thread waits when recording begins, and which share of very many switches
 * is recorded. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "sampling/sampling_parts.h"
#include <stdio.h>
#include <sys/stat.h>

/* Threads whose stack is read when recording begins. */
#define SNAPSHOTS_MAX 4000
/* Up to so many switches a second all are recorded; of more, so many on average. */
#define ALL_HEARD_PER_S 4000.0
#define HEARD_PER_S 2000.0
#define STACKS_BYTES_PER_S 16e6 /* copied, where all are recorded */
/* Where not: so many switches at a time, and copies as the rings hold them. */
#define LISTEN_SWITCHES 1000.0
#define LISTEN_STACKS_BYTES 2e6
#define LISTEN_MS_LEAST 5
#define LISTEN_MS_MOST 20
#define LISTEN_LEAST 0.005 /* of the time */
#define OWN_SHARE 0.05	   /* of our own time, to prepare it */
#define FIRST_LOOK_MS 50
#define RATE_LOOK_NS (200 * NS_PER_MS)

/* --- what threads wait in --- */

/* "202 0x7f.. 0x80 ... 0x7ffd(sp) 0x7f(pc)"; "running" while it runs. */
static bool read_syscall(pid_t pid, pid_t tid, long *ret_number, uint64_t *ret_arg, struct unwind_regs *regs)
{
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 512, &text);
	bool ok = !err && text.len;
	err_free(err);
	unsigned long long arg, sp, pc;
	if (!ok || sscanf(text.data, "%ld 0x%llx 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%llx 0x%llx", ret_number, &arg, &sp,
			  &pc) != 4)
		return false;
	*ret_arg = arg;
	*regs = (struct unwind_regs){ .ip = pc };
	regs->r[4] = sp;
	return true;
}

/* What a read or write on that descriptor waits for. */
static enum wait_kind file_kind(pid_t pid, uint64_t fd_number)
{
	char path[80];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd/%llu", (int)pid, (unsigned long long)fd_number);
	if (stat(path, &st) < 0)
		return WAIT_OTHER;
	if (S_ISSOCK(st.st_mode))
		return WAIT_SOCKET;
	return S_ISFIFO(st.st_mode) ? WAIT_PIPE : S_ISREG(st.st_mode) ? WAIT_FILE : WAIT_OTHER;
}

/* The stack of a thread that waits, read from the outside; of its registers only two are known, so steps that need
 * others are guessed. */
static void snapshot(struct sampling *g, pid_t tid)
{
	pid_t pid = g->exam->patient->target.pid;
	struct record r = { .has_regs = true };
	long number;
	uint64_t arg;
	if (g->snapshots++ >= SNAPSHOTS_MAX || !read_syscall(pid, tid, &number, &arg, &r.regs) || number < 0)
		return;
	uint64_t sp = r.regs.r[4];
	const struct space_map *map = space_find(g->space, sp);
	size_t len = map ? (size_t)MIN(map->end - sp, (uint64_t)SAMPLER_STACK_MAX) : 0;
	if (!len || !space_read(g->space, sp, g->stack, len))
		return;
	r.stack = (struct unwind_stack){ .sp = sp, .bytes = g->stack, .n = len, .full = sp + len < map->end };
	size_t n = sampling_unwind(g, &r, 0);
	const struct unwound *u = &g->unwound;
	if (!n)
		return;
	uint32_t stack = samples_stack(g->samples, g->frames, n, u->end, u->guessed > 0);
	if (stack == SAMPLES_FULL)
		return;
	enum wait_kind kind =
		number == 0 || number == 1 ? file_kind(pid, arg) : wait_kind_of(g->samples, stack, number);
	switches_before(g->switches, sampling_thread(g, (uint32_t)tid), stack, kind);
}

static void switching_snapshot(struct sampling *g)
{
	g->snapshots = 0;
	if (!g->stack)
		g->stack = mem_alloc(SAMPLER_STACK_MAX);
	sampling_each_thread(g, snapshot);
}

/* --- very many switches ---
 *
 * Each recorded switch costs the target two or three microseconds, one with its stack four, and us more. So the number a
 * second is limited; beyond it, switches are recorded for a moment, with pauses in between. */

/* How often a thread was put on a cpu: schedstat's third. */
static bool thread_runs(pid_t pid, pid_t tid, uint64_t *ret)
{
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	err_ignore(file_read(path, 256, &text));
	unsigned long long runs;
	if (!text.len || sscanf(text.data, "%*u %*u %llu", &runs) != 1)
		return false;
	*ret = runs;
	return true;
}

/* Adds to g->runs; a thread that ran, or is new, did not wait all the time, whether recorded or not. */
static void count_runs(struct sampling *g, pid_t tid)
{
	uint64_t runs;
	if (!thread_runs(g->exam->patient->target.pid, tid, &runs))
		return;
	g->runs += runs;
	bool new;
	uint64_t *first = map_u64_put(&g->first_runs, (uint64_t)tid, &new);
	if (new)
		*first = runs;
	if (g->started && (new || *first != runs))
		switches_moved(g->switches, sampling_thread(g, (uint32_t)tid));
}

static uint64_t process_switches(struct sampling *g)
{
	g->runs = 0;
	sampling_each_thread(g, count_runs);
	return g->runs;
}

/* How often it switches, by the kernel's own count: known before anything is recorded. */
static void look_at_rate(struct sampling *g)
{
	uint64_t now = clock_mono_ns(), n = process_switches(g), since = now - g->rate_ns;
	g->rate = n > g->rate_switches ? per_second(n - g->rate_switches, since) : 0;
	g->rate_ns = now;
	g->rate_switches = n;
}

static double share_heard(double rate)
{
	return rate > ALL_HEARD_PER_S ? MAX(HEARD_PER_S / rate, LISTEN_LEAST) : 1;
}

static int listen_ms(double rate)
{
	double ms = rate > 0 ? LISTEN_SWITCHES * 1000 / rate : LISTEN_MS_MOST;
	return ms > LISTEN_MS_MOST ? LISTEN_MS_MOST : ms < LISTEN_MS_LEAST ? LISTEN_MS_LEAST : (int)ms;
}

uint64_t switching_period(const struct sampling *g, uint32_t stack_bytes)
{
	double bytes = g->rate * stack_bytes;
	double every = share_heard(g->rate) < 1 ? bytes * listen_ms(g->rate) / 1000 / LISTEN_STACKS_BYTES
						: bytes / STACKS_BYTES_PER_S;
	return every > 1 ? (uint64_t)every + 1 : 1;
}

static void thin(struct sampling *g)
{
	const struct sampler_facts *f = sampler_facts(g->sampler);
	if (clock_mono_ns() - g->rate_ns < RATE_LOOK_NS)
		return;
	look_at_rate(g);
	double share = share_heard(g->rate);
	uint64_t period = switching_period(g, f->stack_bytes);
	if (share < g->share * 0.8 || share > g->share * 2) {
		g->share = share;
		g->listen_ms = listen_ms(g->rate);
	}
	/* Small changes are not worth opening the events again. */
	if (period <= f->period * 2)
		return;
	struct err *err = sampler_change(g->sampler, f->stack_bytes, period);
	if (err)
		exam_log(g->exam, "thinning: %s", err_text(err));
	else
		exam_log(g->exam, "%s switches a second: one of %llu has its stack taken, heard %s of the time",
			 fmt_count((uint64_t)g->rate).s, (unsigned long long)period, fmt_percent(g->share).s);
	err_free(err);
}

/* Pauses so long that recording has its share of the time, and our own work for it a small share of ours. */
static void rest(struct sampling *g, uint64_t listened_ns, uint64_t spent_ns)
{
	double ns = MAX((double)listened_ns * (1 / g->share - 1), (double)spent_ns * (1 / OWN_SHARE - 1));
	g->rest_until_ns = clock_mono_ns() + (uint64_t)ns;
	g->resting = true;
}

static void fall_silent(struct sampling *g)
{
	sampler_stop(g->sampler);
	uint64_t now = clock_mono_ns();
	sampler_rest(g->sampler);
	sampler_drain(g->sampler, UINT64_MAX, sampling_on_record, g);
	switches_rest(g->switches, now);
}

static void go_on(struct sampling *g)
{
	switching_snapshot(g);
	struct err *err = sampler_go_on(g->sampler);
	if (err)
		exam_log(g->exam, "%s", err_text(err));
	err_free(err);
	switches_go_on(g->switches, clock_mono_ns());
	g->resting = false;
}

/* Records for a moment, in one go: turns of the window's loop come late at times. */
static void listen_once(struct sampling *g)
{
	uint64_t began = clock_mono_ns();
	go_on(g);
	if (g->share >= 1)
		return;
	uint64_t from = clock_mono_ns();
	exam_wait_ms(g->exam, (uint64_t)g->listen_ms);
	uint64_t to = clock_mono_ns();
	fall_silent(g);
	rest(g, to - from, from - began + clock_mono_ns() - to);
}

static void take_turns(struct sampling *g)
{
	if (g->resting && clock_mono_ns() >= g->rest_until_ns) {
		listen_once(g);
	} else if (!g->resting && g->share < 1) {
		fall_silent(g);
		rest(g, (uint64_t)g->listen_ms * NS_PER_MS, 0);
	}
}

void switching_begin(struct sampling *g)
{
	/* What is recorded before the rate is known may already be too much. */
	look_at_rate(g);
	exam_wait_ms(g->exam, FIRST_LOOK_MS);
	look_at_rate(g);
	g->share = share_heard(g->rate);
	g->listen_ms = listen_ms(g->rate);
}

void switching_started(struct sampling *g)
{
	switching_snapshot(g);
	map_u64_clear(&g->first_runs);
	process_switches(g);
	g->started = true;
}

void switching_turn(struct sampling *g)
{
	thin(g);
	take_turns(g);
}

void switching_ended(struct sampling *g)
{
	if (g->share < 1 || g->resting)
		process_switches(g);
}
