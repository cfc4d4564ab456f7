/* CPU samples where the kernel's sampling is not allowed: the runtime's own sampler says where each managed thread is,
 * /proc says which threads used the CPU meanwhile.
 *
 * The runtime samples all threads alike, waiting or not. So a sample by itself has no weight: the CPU time that a
 * thread used between two readings of /proc is spread over its samples between them. A thread that waits used none, and
 * its samples are dropped. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "sampling/event_frames.h"
#include "exam/lambda_lines.h"
#include "exam/events.h"
#include "sampling/sampling.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_EVERY_NS (50 * NS_PER_MS)
#define LOOKS_MAX (1u << 20)

/* A thread used so much CPU between two looks. */
struct event_sampling_look {
	uint32_t thread;
	uint64_t from_ns, to_ns, cpu_ns;
};

struct watching {
	struct exam *exam;
	struct samples *samples;
	struct methods *methods;
	struct sampling_facts *facts;
	struct map_u64 own; /* tid the thread knows itself by -> ours */
	VEC(struct event_sampling_look) looks;
	VEC(uint64_t) last_cpu, last_look; /* by thread */
	VEC(uint64_t) times;		   /* of samples, by index */
	uint64_t looked_ns;
	struct event_frames frames;
};

static uint32_t thread_of(struct watching *w, uint32_t tid)
{
	bool new;
	uint32_t thread = samples_thread(w->samples, tid, &new);
	while (w->last_cpu.n <= thread) {
		vec_push(&w->last_cpu, 0);
		vec_push(&w->last_look, 0);
	}
	return thread;
}

static void look_at(struct watching *w, pid_t tid, bool first)
{
	pid_t pid = w->exam->patient->target.pid;
	char path[80];
	uint64_t now = clock_mono_ns();
	CLEANUP(buf_free) struct buf text = { 0 };
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
	struct err *err = file_read(path, 256, &text);
	bool gone = err || !text.len;
	err_free(err);
	if (gone)
		return;
	uint64_t cpu = strtoull(text.data, NULL, 10);
	uint32_t thread = thread_of(w, (uint32_t)tid);
	struct samples_thread *t = &w->samples->threads.v[thread];
	if (t->name == STRTAB_NONE) {
		buf_clear(&text);
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
		err_ignore(file_read(path, 64, &text));
		samples_thread_name(w->samples, thread, buf_cstr(&text), text.len ? text.len - 1 : 0);
		t = &w->samples->threads.v[thread];
		t->cpu_ns = 0;
		*map_u64_put(&w->own, t->own_tid, NULL) = (uint64_t)tid;
	}
	uint64_t before = w->last_cpu.v[thread], since = w->last_look.v[thread];
	if (!first && cpu > before && w->looks.n < LOOKS_MAX) {
		/* A thread that began in the window used all of its time in it. */
		vec_push(&w->looks, ((struct event_sampling_look){ thread, since ? since : w->exam->start_ns, now,
								   cpu - before }));
		t->cpu_ns += cpu - before;
	}
	w->last_cpu.v[thread] = cpu;
	w->last_look.v[thread] = now;
}

static void look(struct watching *w, bool first)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)w->exam->patient->target.pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (atoi(e->d_name) > 0)
			look_at(w, atoi(e->d_name), first);
	}
	if (dir)
		closedir(dir);
	w->looked_ns = clock_mono_ns();
}

static void on_sample(void *user, const struct nettrace_event *event)
{
	struct watching *w = user;
	if (!event->n_frames)
		return;
	const uint64_t *tid = map_u64_get(&w->own, event->thread_id);
	uint32_t thread = thread_of(w, tid ? (uint32_t)*tid : (uint32_t)event->thread_id);
	uint32_t stack = event_frames_stack(&w->frames, event);
	size_t had = w->samples->list.n;
	samples_add(w->samples, (event->time - MIN(event->time, w->exam->start_ns)) / 1000, thread, stack, 0, 0);
	if (w->samples->list.n > had)
		vec_push(&w->times, event->time);
}

/* --- afterwards --- */

struct event_sampling_order {
	uint32_t thread, index;
	uint64_t time;
};

static int by_thread_then_time(const void *a, const void *b)
{
	const struct event_sampling_order *x = a, *y = b;
	return CMP(x->thread, y->thread) ?: CMP(x->time, y->time);
}

/* The first sample of the thread at or after that time. */
static size_t first_from(const struct event_sampling_order *list, size_t n, uint32_t thread, uint64_t time)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		struct event_sampling_order key = { .thread = thread, .time = time };
		if (by_thread_then_time(&list[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The runtime's own threads that serve this very sampling. */
static bool serves_us(const struct watching *w, uint32_t thread)
{
	const char *name = samples_thread_show(w->samples, thread);
	return str_starts(name, ".NET EventPipe") || str_starts(name, ".NET SampleProf");
}

/* Spreads the CPU time over the samples; time without any becomes a sample of its own. */
static void weigh(struct watching *w)
{
	struct samples *s = w->samples;
	size_t n = s->list.n;
	struct event_sampling_order *list = mem_array(n + 1, sizeof(*list));
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct event_sampling_order){ s->list.v[i].thread, i, w->times.v[i] };
	if (n > 1)
		qsort(list, n, sizeof(*list), by_thread_then_time);
	uint32_t frame = samples_frame(s, "[not in managed code]", NULL, FRAME_NATIVE);
	uint32_t elsewhere = samples_stack(s, &frame, 1, UNWIND_ROOT, false);
	vec_each(l, &w->looks) {
		if (serves_us(w, l->thread))
			continue;
		size_t from = first_from(list, n, l->thread, l->from_ns), to = from;
		while (to < n && list[to].thread == l->thread && list[to].time < l->to_ns)
			to++;
		for (size_t i = from; i < to; i++)
			s->list.v[list[i].index].weight += l->cpu_ns / (to - from);
		if (from == to)
			samples_add(s, (l->from_ns - MIN(l->from_ns, w->exam->start_ns)) / 1000, l->thread, elsewhere,
				    l->cpu_ns, 0);
	}
	mem_free(list);
	size_t kept = 0;
	for (size_t i = 0; i < s->list.n; i++) {
		if (s->list.v[i].weight)
			s->list.v[kept++] = s->list.v[i];
	}
	s->list.n = kept;
	w->facts->samples = kept;
	w->facts->ends[UNWIND_ROOT] = kept;
}

/* --- the window --- */

static struct err *start(void *user)
{
	struct watching *w = user;
	w->exam->start_ns = clock_mono_ns();
	look(w, true);
	return NULL;
}

static int no_fd(void *user)
{
	(void)user;
	return -1;
}

static void turn(void *user)
{
	struct watching *w = user;
	if (clock_mono_ns() - w->looked_ns >= LOOK_EVERY_NS)
		look(w, false);
}

static void stop(void *user)
{
	look(user, false);
}

struct err *exam_samples_by_events(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				   struct sampling_facts *facts)
{
	static const struct ipc_provider provider = { .name = CLR_SAMPLE_PROVIDER, .keywords = 0, .level = 5 };
	if (!exam->patient->target.pid)
		return err_new(ERR_UNSUPPORTED,
			       "the process is not visible in our /proc, so nobody says what uses the CPU");
	struct watching w = { .exam = exam, .samples = samples_new(), .methods = methods_new(), .facts = facts };
	w.samples->whose = exam->whose;
	w.frames.samples = w.samples;
	struct events_stream streams[] = {
		exam_compiled_stream(w.methods),
		{ .name = "sampled",
		  .providers = &provider,
		  .n_providers = 1,
		  .stacks = true,
		  .unordered = true,
		  .certain = true,
		  .event = on_sample,
		  .user = &w },
	};
	streams[0].anytime = true;
	struct events_beside beside = {
		.start = start, .fd = no_fd, .turn = turn, .stop = stop, .user = &w, .doing = "sampling"
	};
	facts->named = true;
	facts->by_events = true;
	facts->cpu_ns = UINT64_MAX;
	facts->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	facts->period = 10 * NS_PER_MS;
	struct err *err = exam_events_beside(exam, streams, ARRAY_SIZE(streams), options->window_ms, &beside);
	if (!err && target_alive(&exam->patient->target))
		err = exam_methods_now(exam, w.methods, "late-names");
	if (!err) {
		facts->lost = streams[1].lost;
		facts->threads = (uint32_t)w.samples->threads.n;
		weigh(&w);
		lambda_lines_learn(exam, w.methods);
		event_frames_name(&w.frames, w.methods);
		*ret = STEAL(w.samples);
	}
	samples_free(w.samples);
	methods_free(w.methods);
	map_u64_free(&w.own);
	vec_free(&w.looks);
	vec_free(&w.last_cpu);
	vec_free(&w.last_look);
	vec_free(&w.times);
	event_frames_fini(&w.frames);
	return err;
}
