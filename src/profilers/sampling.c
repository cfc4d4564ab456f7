#include "profilers/sampling.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "profilers/agent_source.h"
#include "profilers/code_files.h"
#include "profilers/events.h"
#include "profilers/gc_marks.h"
#include "profilers/switches.h"
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STACK_BYTES 16384
/* The runtime tells of new code every 100 ms: samples wait in the rings until their code must be known. */
#define LAG_NS 250000000ull
/* From this share of cut stacks on the copies grow. */
#define CUT_SHARE 0.005
#define CUT_LEAST 200 /* samples, before a share is taken for what it seems */
#define KERNEL_FRAMES_MAX 128
/* Threads whose stack is looked at when an off-CPU window begins. */
#define SNAPSHOTS_MAX 4000
/* Switches of a target that are heard, a second and on average; and while it listens those that have their stack taken,
 * so that the rings hold them. */
#define HEARD_PER_S 4000.0
#define STACKS_PER_S 2000.0
#define LISTEN_NS 50000000ull /* at a time, where not all is heard */
#define LISTEN_LEAST 0.005    /* of the time */
#define FIRST_LOOK_MS 50
#define RATE_LOOK_NS 200000000ull
#define FRAMES_MAX (UNWIND_FRAMES_MAX + KERNEL_FRAMES_MAX + 2)

/* Frames of code that had no name yet: named at the end, or not at all. */
struct later {
	uint32_t frame;
	uint64_t address;
};

struct sampling {
	struct exam *exam;
	const struct sampling_options *options;
	struct sampling_facts *facts;
	struct samples *samples;
	struct methods *methods;
	const struct events_stream *compiled;
	struct space *space;
	struct kernel *kernel;
	struct unwinder *unwinder;
	struct sampler *sampler;
	struct agent_source *agent; /* instead of it: timers in the process */
	struct unwound unwound;
	uint32_t frames[FRAMES_MAX];
	struct map_u64 by_address; /* native and kernel code -> frame + 1 */
	struct map_u64 by_method;  /* start and order -> frame + 1 */
	VEC(struct later) later;
	struct map_u64 later_index; /* address -> frame + 1 */
	struct gc_marks gc;
	struct buf text;
	uint64_t seen, cut; /* since the copies last grew */
	uint64_t start_cpu_ns;
	struct switches *switches;		/* off-CPU only */
	struct lines *lines;			/* when wanted */
	uint64_t rate_ns, rate_switches, heard; /* switches heard, since the rate was last looked at */
	double share;				/* of the time that it listens to switches */
	bool resting;
	uint64_t turned_ns; /* when it last began to listen or to rest */
	size_t snapshots;
	uint8_t *stack; /* room for a snapshot */
};

/* --- CPU time by the kernel's own clock --- */

/* schedstat: ns on a cpu, ns able to run without one. False when it is gone. */
static bool task_cpu_ns(pid_t pid, pid_t tid, uint64_t *ret, uint64_t *ret_delay)
{
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 256, &text);
	bool ok = !err && text.len;
	err_free(err);
	unsigned long long run = 0, delay = 0;
	ok = ok && sscanf(text.data, "%llu %llu", &run, &delay) == 2;
	*ret = run;
	*ret_delay = delay;
	return ok;
}

/* utime and stime of /proc/PID/stat, in ticks: also counts threads that have ended. */
static bool process_cpu_ns(pid_t pid, uint64_t *ret)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 4096, &text);
	const char *after = !err && text.len ? strrchr(text.data, ')') : NULL;
	err_free(err);
	unsigned long long user, system;
	if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		return false;
	*ret = (user + system) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	return true;
}

static void for_tasks(struct sampling *g, void (*each)(struct sampling *g, pid_t tid))
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)g->exam->patient->target.pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (atoi(e->d_name) > 0)
			each(g, atoi(e->d_name));
	}
	if (dir)
		closedir(dir);
}

/* Thread ids of events are those of the target's own pid namespace. */
static uint32_t own_tid(pid_t pid, pid_t tid)
{
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 16384, &text);
	const char *line = !err && text.len ? strstr(text.data, "\nNSpid:") : NULL;
	err_free(err);
	if (!line)
		return (uint32_t)tid;
	unsigned long last = (unsigned long)tid;
	char *at, *end;
	for (at = strchr(line + 1, ':') + 1; *at && *at != '\n'; at = end) {
		unsigned long n = strtoul(at, &end, 10);
		if (end == at)
			break;
		last = n;
	}
	return (uint32_t)last;
}

static uint32_t thread_of(struct sampling *g, uint32_t tid)
{
	bool new;
	uint32_t thread = samples_thread(g->samples, tid, &new);
	if (!new || g->agent)
		return thread;
	pid_t pid = g->exam->patient->target.pid;
	char path[80];
	snprintf(path, sizeof(path), "/proc/%d/task/%u/comm", (int)pid, tid);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 64, &text);
	if (!err && text.len)
		samples_thread_name(g->samples, thread, text.data, strcspn(text.data, "\n"));
	err_free(err);
	if (g->exam->patient->target.other_pid_ns)
		g->samples->threads.v[thread].own_tid = own_tid(pid, (pid_t)tid);
	return thread;
}

static void note_start(struct sampling *g, pid_t tid)
{
	uint64_t ns, delay;
	if (!task_cpu_ns(g->exam->patient->target.pid, tid, &ns, &delay))
		return;
	uint32_t thread = thread_of(g, (uint32_t)tid);
	g->facts->delay_ns -= delay; /* the end's are added */
	g->samples->threads.v[thread].start_cpu_ns = ns;
}

static void note_end(struct sampling *g, pid_t tid)
{
	uint64_t ns, delay;
	if (!task_cpu_ns(g->exam->patient->target.pid, tid, &ns, &delay))
		return;
	g->facts->delay_ns += delay;
	/* One that began in the window started from nothing. */
	struct samples_thread *t = &g->samples->threads.v[thread_of(g, (uint32_t)tid)];
	t->cpu_ns = ns - MIN(ns, t->start_cpu_ns);
}

/* The same, told by our library in the process. */
static void note_thread(void *user, const struct attach_thread *t)
{
	struct sampling *g = user;
	uint32_t thread = thread_of(g, t->tid);
	struct samples_thread *to = &g->samples->threads.v[thread];
	if (*t->name)
		samples_thread_name(g->samples, thread, t->name, strlen(t->name));
	g->facts->delay_ns += t->last ? t->delay_ns : -t->delay_ns;
	if (t->last)
		to->cpu_ns = t->cpu_ns - MIN(t->cpu_ns, to->start_cpu_ns);
	else
		to->start_cpu_ns = t->cpu_ns;
}

/* --- names --- */

static bool find_method(void *user, uint64_t address, struct unwind_method *ret)
{
	struct sampling *g = user;
	const struct method *m = methods_find(g->methods, address);
	if (!m)
		return false;
	*ret = (struct unwind_method){ .start = m->start, .size = m->size, .version = m->order };
	return true;
}

enum frame_kind method_kind(const char *space)
{
	/* No space, or this one: stubs that the runtime compiles for calls out of managed code. */
	bool stub = !*space || str_eq(space, "dynamicClass");
	return stub || method_is_framework(space) ? FRAME_FRAMEWORK : FRAME_CODE;
}

static uint32_t method_frame(struct sampling *g, const struct method *m)
{
	bool new;
	uint64_t *place = map_u64_put(&g->by_method, hash_u64(m->start) ^ m->order, &new);
	if (!new)
		return (uint32_t)*place;
	buf_clear(&g->text);
	method_show(m->space, m->name, &g->text);
	uint32_t frame = samples_frame(g->samples, buf_cstr(&g->text), NULL, method_kind(m->space));
	*map_u64_put(&g->by_method, hash_u64(m->start) ^ m->order, NULL) = frame;
	return frame;
}

/* Code that may yet turn out to be a method. */
static uint32_t later_frame(struct sampling *g, uint64_t address)
{
	bool new;
	uint64_t *place = map_u64_put(&g->later_index, address, &new);
	if (!new)
		return (uint32_t)*place;
	char name[40];
	snprintf(name, sizeof(name), "[code at 0x%llx]", (unsigned long long)address);
	uint32_t frame = samples_frame(g->samples, name, NULL, FRAME_OTHER);
	vec_push(&g->later, ((struct later){ frame, address }));
	*map_u64_put(&g->later_index, address, NULL) = frame;
	return frame;
}

enum frame_kind native_code_kind(const char *module)
{
	if (str_starts(module, "libclrjit"))
		return FRAME_JIT;
	return str_starts(module, "libclrgc") ? FRAME_GC : FRAME_NATIVE;
}

static uint32_t native_frame(struct sampling *g, uint64_t address)
{
	uint64_t *known = map_u64_get(&g->by_address, address);
	if (known)
		return (uint32_t)*known;
	const struct space_map *map = space_find(g->space, address);
	if (!map || !map->object)
		return later_frame(g, address);
	struct space_object *o = space_open(g->space, map);
	if (o->pe)
		return later_frame(g, address);
	buf_clear(&g->text);
	if (!space_symbol(g->space, map, address, &g->text))
		buf_printf(&g->text, "[%s]", o->name);
	uint32_t frame = samples_frame(g->samples, buf_cstr(&g->text), o->name, native_code_kind(o->name));
	*map_u64_put(&g->by_address, address, NULL) = frame;
	return frame;
}

static uint32_t kernel_frame(struct sampling *g, uint64_t address)
{
	uint64_t *known = map_u64_get(&g->by_address, address);
	if (known)
		return (uint32_t)*known;
	const char *name = kernel_symbol(g->kernel, address);
	g->facts->kernel_names |= name != NULL;
	uint32_t frame = samples_frame(g->samples, name ? name : "[kernel]", "kernel", FRAME_KERNEL);
	*map_u64_put(&g->by_address, address, NULL) = frame;
	return frame;
}

static uint32_t user_frame(struct sampling *g, uint64_t address)
{
	const struct method *m = methods_find(g->methods, address);
	return m ? method_frame(g, m) : native_frame(g, address);
}

/* --- records --- */

static size_t add_kernel(struct sampling *g, const struct record *r, size_t n)
{
	for (size_t i = 0; i < r->n_kernel && n < KERNEL_FRAMES_MAX; i++) {
		uint64_t ip = record_kernel_ip(r, i);
		if (ip)
			g->frames[n++] = kernel_frame(g, ip);
	}
	return n;
}

static void on_gc_event(void *user, const struct nettrace_event *event)
{
	gc_marks_event(&((struct sampling *)user)->gc, event);
}

static size_t add_user(struct sampling *g, const struct record *r, size_t n)
{
	struct unwound *u = &g->unwound;
	if (!r->has_regs) {
		u->end = UNWIND_ROOT;
		u->guessed = 0;
		return n;
	}
	unwind(g->unwinder, &r->regs, &r->stack, u);
	for (size_t i = 0; i < u->n; i++)
		g->frames[n++] = user_frame(g, u->ips[i] - !unwound_exact(u, i));
	/* What is missing is shown where it is missing: at the root. */
	if (u->end == UNWIND_CUT || u->end == UNWIND_DEEP)
		g->frames[n++] = samples_frame(g->samples, "[truncated]", NULL, FRAME_OTHER);
	else if (u->end == UNWIND_LOST)
		g->frames[n++] = samples_frame(g->samples, "[incomplete]", NULL, FRAME_OTHER);
	return n;
}

/* The stack of a record; counts how it ended. */
static uint32_t stack_of(struct sampling *g, const struct record *r)
{
	struct sampling_facts *f = g->facts;
	size_t n = add_user(g, r, add_kernel(g, r, 0));
	const struct unwound *u = &g->unwound;
	f->samples++;
	f->ends[u->end]++;
	f->guessed += u->guessed > 0;
	g->seen++;
	g->cut += u->end == UNWIND_CUT;
	return samples_stack(g->samples, g->frames, n, u->end, u->guessed > 0);
}

/* Stands the processor in a method of the user's own? */
static void hit_line(struct sampling *g, const struct record *r)
{
	const struct unwound *u = &g->unwound;
	uint64_t address = u->n && r->has_regs ? u->ips[0] : 0;
	const struct method *m = address ? methods_find(g->methods, address) : NULL;
	if (m && method_kind(m->space) == FRAME_CODE)
		lines_hit(g->lines, m, address, method_frame(g, m), r->period);
}

static void on_sample(struct sampling *g, const struct record *r)
{
	uint32_t stack = stack_of(g, r), thread = thread_of(g, r->tid);
	if (g->lines && !r->n_kernel)
		hit_line(g, r);
	uint64_t since = r->time - MIN(r->time, g->exam->start_ns);
	if (g->switches)
		switches_sample(g->switches, thread, r->time, stack);
	else
		samples_add(g->samples, since / 1000, thread, stack, r->period, 0);
}

static void on_record(void *user, const struct record *r)
{
	struct sampling *g = user;
	if (r->kind == RECORD_SAMPLE)
		on_sample(g, r);
	else if (r->kind == RECORD_SWITCH && g->switches && ++g->heard)
		switches_switch(g->switches, thread_of(g, r->tid), r->time, r->out, r->preempted);
	else if (r->kind == RECORD_COMM && r->pid == (uint32_t)g->exam->patient->target.pid)
		samples_thread_name(g->samples, thread_of(g, r->tid), r->comm, r->comm_len);
}

/* --- what threads wait in when the window begins --- */

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
	size_t n = add_user(g, &r, 0);
	const struct unwound *u = &g->unwound;
	if (!n)
		return;
	uint32_t stack = samples_stack(g->samples, g->frames, n, u->end, u->guessed > 0);
	if (stack == SAMPLES_FULL)
		return;
	enum wait_kind kind =
		number == 0 || number == 1 ? file_kind(pid, arg) : wait_kind_of(g->samples, stack, number);
	switches_before(g->switches, thread_of(g, (uint32_t)tid), stack, kind);
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

static uint64_t stack_every(double rate)
{
	return rate > STACKS_PER_S ? (uint64_t)(rate / STACKS_PER_S) + 1 : 1;
}

/* --- the window --- */

static const struct sampler_facts *facts_of(const struct sampling *g)
{
	return g->agent ? agent_source_facts(g->agent) : sampler_facts(g->sampler);
}

static void drain(struct sampling *g, uint64_t until_ns)
{
	if (g->agent)
		agent_source_drain(g->agent, until_ns, on_record, note_thread, g);
	else
		sampler_drain(g->sampler, until_ns, on_record, g);
}

static struct err *start_agent(struct sampling *g, uint32_t stack_bytes)
{
	TRY(agent_source_start(g->agent, g->exam, g->options->period, stack_bytes, g->options->window_ms));
	g->exam->start_ns = clock_mono_ns();
	return NULL;
}

static struct err *start(void *user)
{
	struct sampling *g = user;
	pid_t pid = g->exam->patient->target.pid;
	/* Who did not answer just now would keep us waiting again. */
	g->facts->named = g->facts->named && g->compiled->opened;
	if (g->facts->named)
		TRY(exam_methods_now(g->exam, g->methods, "early-names"));
	else
		g->facts->from_files = code_files_read(&g->exam->patient->target, g->methods) > 0;
	struct sampler_config config = { .pid = pid,
					 .kind = g->options->kind,
					 .period = g->options->period,
					 .stack_bytes =
						 g->options->stack_bytes ? g->options->stack_bytes : STACK_BYTES };
	if (g->agent)
		return start_agent(g, config.stack_bytes);
	g->share = 1;
	if (g->switches) {
		/* A first look at how often it switches: what is heard before that is known may already be too much. */
		g->rate_ns = clock_mono_ns();
		g->rate_switches = process_switches(g);
		struct pollfd cancel = { .fd = g->exam->cancel_fd, .events = POLLIN };
		poll(&cancel, 1, FIRST_LOOK_MS);
		double rate = switch_rate(g);
		g->share = rate > HEARD_PER_S ? MAX(HEARD_PER_S / rate, LISTEN_LEAST) : 1;
		config.period = stack_every(rate);
	}
	TRY(sampler_open(&config, &g->sampler));
	for_tasks(g, note_start);
	if (!process_cpu_ns(pid, &g->start_cpu_ns))
		g->start_cpu_ns = UINT64_MAX;
	if (g->switches) {
		/* Before the events begin: a switch that follows ends the wait that was seen here. */
		g->stack = mem_alloc(SAMPLER_STACK_MAX);
		for_tasks(g, snapshot);
	}
	g->turned_ns = g->exam->start_ns = clock_mono_ns();
	if (g->switches)
		switches_started(g->switches, g->exam->start_ns);
	sampler_start(g->sampler);
	return NULL;
}

static int fd(void *user)
{
	struct sampling *g = user;
	if (g->agent)
		return agent_source_fd(g->agent);
	return g->sampler ? sampler_fd(g->sampler) : -1;
}

/* Copies that are too small cost the roots of deep stacks; larger ones cost the target a little more. */
static void grow(struct sampling *g)
{
	const struct sampler_facts *f = facts_of(g);
	if (g->seen < CUT_LEAST || (double)g->cut < CUT_SHARE * (double)g->seen || f->stack_bytes >= SAMPLER_STACK_MAX)
		return;
	g->seen = g->cut = 0;
	struct err *err = NULL;
	if (g->agent)
		agent_source_grow(g->agent, f->stack_bytes * 2);
	else
		err = sampler_change(g->sampler, f->stack_bytes * 2, f->period);
	if (!err) {
		exam_log(g->exam, "deep stacks: copies of %s from now on", fmt_bytes(f->stack_bytes).s);
		return;
	}
	exam_log(g->exam, "sampling could not go on with larger copies: %s", err_text(err));
	exam_cut(g->exam, "sampling ended after %s", fmt_duration_ns(clock_mono_ns() - g->exam->start_ns).s);
	err_free(err);
}

static void thin(struct sampling *g)
{
	const struct sampler_facts *f = sampler_facts(g->sampler);
	if (clock_mono_ns() - g->rate_ns < RATE_LOOK_NS)
		return;
	double rate = switch_rate(g), share = rate > HEARD_PER_S ? MAX(HEARD_PER_S / rate, LISTEN_LEAST) : 1;
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
		sampler_drain(g->sampler, UINT64_MAX, on_record, g);
		switches_rest(g->switches, now);
		g->resting = true;
		g->turned_ns = now;
	} else if (g->resting && (double)since >= (double)LISTEN_NS * (1 / g->share - 1)) {
		g->snapshots = 0;
		for_tasks(g, snapshot);
		struct err *err = sampler_go_on(g->sampler);
		if (err)
			exam_log(g->exam, "%s", err_text(err));
		err_free(err);
		g->turned_ns = clock_mono_ns();
		switches_go_on(g->switches, g->turned_ns);
		g->resting = false;
	}
}

/* Puts names to code that has got one by now. */
static void name_known(struct sampling *g)
{
	size_t n = 0;
	vec_each(l, &g->later) {
		const struct method *m = methods_find(g->methods, l->address);
		if (!m) {
			g->later.v[n++] = *l;
			continue;
		}
		/* On its own: it may move the frames. */
		uint32_t same = method_frame(g, m);
		g->samples->frames.v[l->frame] = g->samples->frames.v[same];
	}
	g->later.n = n;
}

static void turn(void *user)
{
	struct sampling *g = user;
	drain(g, clock_mono_ns() - LAG_NS);
	grow(g);
	if (g->switches) {
		thin(g);
		take_turns(g);
	}
	if (!g->options->on_samples)
		return;
	name_known(g);
	gc_marks_apply(&g->gc, g->samples, g->exam->start_ns, false);
	g->options->on_samples(g->options->user, g->samples, facts_of(g), clock_mono_ns() - g->exam->start_ns);
}

/* What is still in the queue is unwound with its help: it leaves afterwards. */
static void stop_agent(struct sampling *g)
{
	struct attach_cpu_facts cost;
	struct err *err = agent_source_stop(g->agent, &cost);
	if (err) {
		exam_log(g->exam, "%s", err_text(err));
		exam_cut(g->exam, "%s", err_text(err));
		err_free(err);
		return;
	}
	g->facts->cpu_ns = cost.cpu_ns - MIN(cost.cpu_ns, cost.own_cpu_ns);
	g->facts->handled = cost.handled;
	g->facts->handler_ns = cost.handler_ns;
	g->facts->handler_max_ns = cost.handler_max_ns;
	g->facts->untimed = cost.untimed;
	g->facts->shared_signal = cost.chained;
}

static void stop(void *user)
{
	struct sampling *g = user;
	uint64_t ns;
	if (g->agent)
		stop_agent(g);
	if (!g->sampler)
		return;
	sampler_stop(g->sampler);
	if (g->start_cpu_ns != UINT64_MAX && process_cpu_ns(g->exam->patient->target.pid, &ns))
		g->facts->cpu_ns = ns - MIN(ns, g->start_cpu_ns);
	for_tasks(g, note_end);
}

/* --- afterwards --- */

/* The last word on code that had no name when it was seen. */
static void name_later(struct sampling *g)
{
	struct samples *s = g->samples;
	uint32_t stub = strtab_add_cstr(&s->strings, "[stub]");
	name_known(g);
	vec_each(l, &g->later)
		s->frames.v[l->frame].name = stub;
}

static uint64_t unnamed(struct sampling *g)
{
	uint64_t n = 0;
	vec_each(l, &g->later)
		n += !methods_find(g->methods, l->address);
	return n;
}

static bool is_there(const struct exam *exam)
{
	return !exam->patient->target.pid || target_alive(&exam->patient->target);
}

static struct err *finish(struct sampling *g)
{
	if (!g->sampler && !g->agent)
		return NULL;
	drain(g, UINT64_MAX);
	const struct sampler_facts f = *facts_of(g);
	agent_source_free(STEAL(g->agent));
	/* Threads that ended in between are missing in the second sum. */
	if (g->facts->delay_ns > UINT64_MAX / 2)
		g->facts->delay_ns = 0;
	if (g->switches) {
		switches_finish(g->switches, g->exam->end_ns);
		struct switches_facts w = switches_facts(g->switches);
		g->facts->switches = w.switches;
		g->facts->waits = w.waits;
		g->facts->waits_with_stack = w.with_stack;
		g->facts->unseen_ns = w.unseen_ns;
		g->facts->listened_ns = w.listened_ns;
	}
	if (g->facts->named && unnamed(g) && !g->exam->cancelled && is_there(g->exam))
		TRY(exam_methods_now(g->exam, g->methods, "late-names"));
	else if (g->facts->from_files && unnamed(g) && target_alive(&g->exam->patient->target))
		code_files_read(&g->exam->patient->target, g->methods);
	name_later(g);
	if (g->switches)
		gc_marks_waits(&g->gc, g->samples, g->exam->start_ns);
	else
		gc_marks_apply(&g->gc, g->samples, g->exam->start_ns, true);
	if (g->lines && g->facts->named && !g->exam->cancelled) {
		lines_resolve(g->lines, g->exam, g->options->lines);
		lines_save(g->options->lines, g->samples, g->exam);
	}
	g->facts->kernel = f.kernel;
	g->facts->per_cpu = f.per_cpu;
	g->facts->lost = f.lost;
	g->facts->throttled = f.throttled;
	g->facts->period = f.period;
	g->facts->stack_bytes = f.stack_bytes;
	g->facts->cpus = (uint32_t)f.cpus;
	g->facts->threads = (uint32_t)f.threads;
	sampling_save(g->exam, g->samples, g->facts);
	return NULL;
}

static struct err *samples_live(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				struct sampling_facts *facts)
{
	struct sampling *g = mem_zalloc(sizeof(*g));
	g->exam = exam;
	g->options = options;
	g->facts = facts;
	g->samples = samples_new();
	g->methods = methods_new();
	facts->by_agent = exam->way == WAY_AGENT;
	g->agent = facts->by_agent ? agent_source_new() : NULL;
	g->space = g->agent ? agent_source_space(g->agent) : space_new(exam->patient->target.pid);
	g->kernel = kernel_new();
	g->unwinder = unwinder_new(g->space, find_method, g);
	if (options->lines)
		g->lines = lines_new();
	if (options->kind == SAMPLER_SWITCHES)
		g->switches = switches_new(g->samples, 0);
	facts->cpu_ns = UINT64_MAX;
	facts->named = exam->patient->answered && exam->patient->target.socket;
	static const struct ipc_provider gc = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 };
	struct events_stream streams[] = {
		exam_compiled_stream(g->methods),
		{ .name = "pauses", .providers = &gc, .n_providers = 1, .event = on_gc_event, .user = g },
	};
	streams[0].anytime = streams[0].optional = true;
	streams[1].anytime = streams[1].optional = true;
	g->compiled = &streams[0];
	size_t n_streams = facts->named ? ARRAY_SIZE(streams) : 0;
	struct events_beside beside = { start, fd, turn, stop, g, "sampling" };
	struct err *err = exam_events_beside(exam, streams, n_streams, options->window_ms, &beside);
	if (!err)
		err = finish(g);
	if (!err)
		*ret = STEAL(g->samples);
	sampler_free(g->sampler);
	agent_source_free(g->agent);
	switches_free(g->switches);
	lines_free(g->lines);
	mem_free(g->stack);
	unwinder_free(g->unwinder);
	kernel_free(g->kernel);
	space_free(g->space);
	methods_free(g->methods);
	samples_free(g->samples);
	map_u64_free(&g->by_address);
	map_u64_free(&g->by_method);
	map_u64_free(&g->later_index);
	vec_free(&g->later);
	gc_marks_fini(&g->gc);
	buf_free(&g->text);
	mem_free(g);
	return err;
}

struct err *exam_samples(struct exam *exam, const struct sampling_options *options, struct samples **ret,
			 struct sampling_facts *ret_facts)
{
	*ret_facts = (struct sampling_facts){ 0 };
	if (exam->replay) {
		TRY(exam_events_beside(exam, NULL, 0, 0, NULL));
		TRY(recorded_samples(exam->recording, ret, ret_facts));
		if (options->lines)
			lines_load(exam, *ret, options->lines);
		return NULL;
	}
	if (exam->way != WAY_EVENTS)
		return samples_live(exam, options, ret, ret_facts);
	TRY(options->kind == SAMPLER_CPU ? exam_samples_by_events(exam, options, ret, ret_facts)
					 : exam_waits_by_events(exam, options, ret, ret_facts));
	sampling_save(exam, *ret, ret_facts);
	return NULL;
}
