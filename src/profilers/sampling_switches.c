#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "profilers/sampling_parts.h"
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Threads whose stack is looked at when it begins to listen. */
#define SNAPSHOTS_MAX 4000
/* Switches of a target that are heard, a second and on average; and while it listens those that have their stack taken,
 * so that the rings hold them. */
#define HEARD_PER_S 4000.0
#define STACKS_PER_S 2000.0
#define LISTEN_NS 50000000ull /* at a time, where not all is heard */
#define LISTEN_LEAST 0.005    /* of the time */
#define FIRST_LOOK_MS 50
#define RATE_LOOK_NS 200000000ull

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

void switching_snapshot(struct sampling *g)
{
	g->snapshots = 0;
	if (!g->stack)
		g->stack = mem_alloc(SAMPLER_STACK_MAX);
	sampling_each_thread(g, snapshot);
}

/* --- switches that are many ---
 *
 * Each one that is heard costs the target a microsecond or two, and us as much. So many a second are heard in all;
 * beyond that it is listened for a moment and rested in between. Of those heard some have their stack taken. */

static uint64_t process_switches(const struct sampling *g)
{
	uint64_t n = 0;
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)g->exam->patient->target.pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		unsigned long long times = 0;
		CLEANUP(buf_free) struct buf text = { 0 };
		if (atoi(e->d_name) <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)g->exam->patient->target.pid,
			 atoi(e->d_name));
		err_ignore(file_read(path, 256, &text));
		if (text.len && sscanf(text.data, "%*u %*u %llu", &times) == 1)
			n += times;
	}
	if (dir)
		closedir(dir);
	return n;
}

/* How often it switches, by the kernel's own count: known before anything is heard. */
static double switch_rate(struct sampling *g)
{
	uint64_t now = clock_mono_ns(), n = process_switches(g), since = now - g->rate_ns;
	double rate = n > g->rate_switches && since ? (double)(n - g->rate_switches) * 1e9 / (double)since : 0;
	g->rate_ns = now;
	g->rate_switches = n;
	return rate;
}

static double share_heard(double rate)
{
	return rate > HEARD_PER_S ? MAX(HEARD_PER_S / rate, LISTEN_LEAST) : 1;
}

static uint64_t stack_every(double rate)
{
	return rate > STACKS_PER_S ? (uint64_t)(rate / STACKS_PER_S) + 1 : 1;
}

static void thin(struct sampling *g)
{
	const struct sampler_facts *f = sampler_facts(g->sampler);
	if (clock_mono_ns() - g->rate_ns < RATE_LOOK_NS)
		return;
	double rate = switch_rate(g), share = share_heard(rate);
	/* Small changes are not worth opening the events again. */
	uint64_t period = stack_every(rate);
	if (share < g->share * 0.8 || share > g->share * 2)
		g->share = share;
	if (period <= f->period * 2 || g->resting)
		return;
	struct err *err = sampler_change(g->sampler, f->stack_bytes, period);
	if (err)
		exam_log(g->exam, "thinning: %s", err_text(err));
	else
		exam_log(g->exam, "%s switches a second: one of %llu has its stack taken, heard %s of the time",
			 fmt_count((uint64_t)rate).s, (unsigned long long)period, fmt_percent(g->share).s);
	err_free(err);
}

/* Listens and rests in turn. */
static void take_turns(struct sampling *g)
{
	uint64_t now = clock_mono_ns(), since = now - g->turned_ns;
	if (!g->resting && g->share < 1 && since >= LISTEN_NS) {
		sampler_rest(g->sampler);
		now = clock_mono_ns();
		sampler_drain(g->sampler, UINT64_MAX, sampling_on_record, g);
		switches_rest(g->switches, now);
		g->resting = true;
		g->turned_ns = now;
	} else if (g->resting && (double)since >= (double)LISTEN_NS * (1 / g->share - 1)) {
		switching_snapshot(g);
		struct err *err = sampler_go_on(g->sampler);
		if (err)
			exam_log(g->exam, "%s", err_text(err));
		err_free(err);
		g->turned_ns = clock_mono_ns();
		switches_go_on(g->switches, g->turned_ns);
		g->resting = false;
	}
}

uint64_t switching_begin(struct sampling *g)
{
	/* What is heard before that is known may already be too much. */
	g->rate_ns = clock_mono_ns();
	g->rate_switches = process_switches(g);
	struct pollfd cancel = { .fd = g->exam->cancel_fd, .events = POLLIN };
	poll(&cancel, 1, FIRST_LOOK_MS);
	double rate = switch_rate(g);
	g->share = share_heard(rate);
	return stack_every(rate);
}

void switching_turn(struct sampling *g)
{
	thin(g);
	take_turns(g);
}
