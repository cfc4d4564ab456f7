#include "sampling/sampling.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "sampling/agent_source.h"
#include "sampling/code_files.h"
#include "sampling/sampling_parts.h"

/* The runtime reports new code every 100 ms: samples wait in the rings until their code must be known. */
#define LAG_NS (250 * NS_PER_MS)
/* From this share of cut stacks on the copies grow; fewer cut ones may be chance. A number of all stacks is not waited
 * for: a target that is mostly idle gives few. */
#define CUT_SHARE 0.005
#define CUT_LEAST 3

/* --- records --- */

/* Is the processor in a method of the user's own? */
static void hit_line(struct sampling *g, const struct record *r)
{
	const struct unwound *u = &g->unwound;
	uint64_t address = u->n && r->has_regs ? u->ips[0] : 0;
	const struct method *m = address ? methods_find(g->methods, address) : NULL;
	if (m && method_kind(g->exam->whose, m->space) == FRAME_CODE)
		sample_lines_hit(g->lines, m, address, sampling_method_frame(g, m), r->period);
}

static void on_sample(struct sampling *g, const struct record *r)
{
	uint32_t stack = sampling_stack(g, r), thread = sampling_thread(g, r->tid);
	if (g->lines && !r->n_kernel)
		hit_line(g, r);
	uint64_t since = r->time - MIN(r->time, g->exam->start_ns);
	if (g->switches)
		switches_sample(g->switches, thread, r->time, stack);
	else
		samples_add(g->samples, since / 1000, thread, stack, r->period, 0);
}

void sampling_on_record(void *user, const struct record *r)
{
	struct sampling *g = user;
	/* Our library in the process reports that process only. */
	bool its_own = g->agent || r->pid == (uint32_t)g->exam->patient->target.pid;
	if (r->kind == RECORD_COMM && r->exec && its_own && !g->exec_ns)
		g->exec_ns = r->time;
	if (g->exec_ns && r->time >= g->exec_ns)
		return;
	if (!its_own) {
		sampling_on_started(g, r);
		return;
	}
	if (r->kind == RECORD_SAMPLE)
		on_sample(g, r);
	else if (r->kind == RECORD_SWITCH && g->switches)
		switches_switch(g->switches, sampling_thread(g, r->tid), r->time, r->out, r->preempted);
	else if (r->kind == RECORD_COMM)
		samples_thread_name(g->samples, sampling_thread(g, r->tid), r->comm, r->comm_len);
}

/* --- names --- */

static void on_code(void *user, const struct nettrace_event *event)
{
	struct sampling *g = user;
	methods_event(g->methods, event);
	if (g->single_file)
		jit_marks_event(&g->jit, event);
	if (g->lines)
		sample_lines_event(g->lines, event);
}

/* All code there is. Asked for when the stream of new code is open, so that nothing falls in between; to ask again when
 * the window is over would take the longer half of the time until the report. */
static struct err *list_code(struct sampling *g, const char *part)
{
	struct events_stream s = exam_methods_stream(NULL, g->methods);
	s.name = part;
	s.event = on_code;
	s.user = g;
	s.rundown = g->lines ? SAMPLE_LINES_KEYWORDS : s.rundown;
	exam_progress(g->exam, -1, "asking for method names");
	return exam_rundown(g->exam, &s);
}

/* --- the window --- */

static const struct sampler_facts *facts_of(const struct sampling *g)
{
	return g->agent ? agent_source_facts(g->agent) : sampler_facts(g->sampler);
}

static void drain(struct sampling *g, uint64_t until_ns)
{
	if (g->agent)
		agent_source_drain(g->agent, until_ns, sampling_on_record, sampling_on_thread, g);
	else
		sampler_drain(g->sampler, until_ns, sampling_on_record, g);
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
	/* A runtime that did not answer just now would make us wait again. */
	g->facts->named = g->facts->named && g->compiled->opened;
	bool watch_lives = g->options->kind == SAMPLER_CPU && !g->agent;
	if (watch_lives)
		sampling_lives_begin(g);
	if (g->facts->named)
		TRY(list_code(g, "early-names"));
	else
		g->facts->from_files = code_files_read(&g->exam->patient->target, g->methods) > 0;
	struct sampler_config config = { .pid = pid,
					 .kind = g->options->kind,
					 .period = g->options->period,
					 .stack_bytes = g->options->stack_bytes ? g->options->stack_bytes
										: SAMPLING_STACK_BYTES };
	if (g->agent)
		return start_agent(g, config.stack_bytes);
	g->facts->short_lived = config.whole_cpus = watch_lives && sampling_lives_are_short(g);
	g->share = 1;
	if (g->switches) {
		switching_begin(g);
		config.period = switching_period(g, config.stack_bytes);
	}
	TRY(sampler_open(&config, &g->sampler));
	sampling_clocks_start(g);
	/* Before the events begin: a switch that follows ends the wait that was seen here. */
	if (g->switches)
		switching_started(g);
	g->exam->start_ns = clock_mono_ns();
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
	if (g->cut < CUT_LEAST || (double)g->cut < CUT_SHARE * (double)g->seen || f->stack_bytes >= SAMPLER_STACK_MAX)
		return;
	g->seen = g->cut = 0;
	struct err *err = NULL;
	if (g->agent)
		agent_source_grow(g->agent, f->stack_bytes * 2);
	else
		err = sampler_change(g->sampler, f->stack_bytes * 2,
				     g->switches ? switching_period(g, f->stack_bytes * 2) : f->period);
	if (!err) {
		exam_log(g->exam, "deep stacks: copies of %s from now on", fmt_bytes(f->stack_bytes).s);
		return;
	}
	exam_log(g->exam, "sampling could not go on with larger copies: %s", err_text(err));
	/* The end of the process is said by the window's loop, which is about to see it. */
	if (err_kind(err) != ERR_NOT_FOUND)
		exam_cut(g->exam, "sampling ended after %s", fmt_duration_ns(clock_mono_ns() - g->exam->start_ns).s);
	err_free(err);
}

static void turn(void *user)
{
	struct sampling *g = user;
	drain(g, clock_mono_ns() - LAG_NS);
	grow(g);
	if (g->switches)
		switching_turn(g);
	if (!g->options->on_samples)
		return;
	sampling_name_known(g);
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
	if (g->agent)
		stop_agent(g);
	if (!g->sampler)
		return;
	sampler_stop(g->sampler);
	sampling_clock_stop(g);
	if (g->switches)
		switching_ended(g);
}

/* It takes a while to ask the clocks of many threads, and the runtime must not wait for that. */
static void stopped(void *user)
{
	struct sampling *g = user;
	if (g->sampler)
		sampling_clocks_stop(g);
}

/* --- afterwards --- */

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
	if (g->facts->from_files && sampling_unnamed(g) && target_alive(&g->exam->patient->target))
		code_files_read(&g->exam->patient->target, g->methods);
	if (g->facts->named && (g->compiled->lost || sampling_unlisted(g)))
		TRY(list_code(g, "late-names"));
	sampling_name_rest(g);
	sampling_name_lambdas(g);
	if (g->switches)
		gc_marks_waits(&g->gc, g->samples, g->exam->start_ns);
	else
		gc_marks_apply(&g->gc, g->samples, g->exam->start_ns, true);
	if (g->single_file && !g->switches)
		jit_marks_apply(&g->jit, g->samples, g->gc.runtime, g->exam->start_ns);
	if (g->lines && g->facts->named && !g->exam->cancelled) {
		sample_lines_resolve(g->lines, g->exam, g->options->lines);
		sample_lines_save(g->options->lines, g->samples, g->exam);
	}
	g->facts->kernel = f.kernel;
	g->facts->kernel_names |= !g->kernel_seen;
	g->facts->per_cpu = f.per_cpu;
	g->facts->short_lived &= f.per_cpu;
	sampling_started_sum(g);
	g->facts->collections = g->gc.collections;
	g->facts->induced = g->gc.induced;
	g->facts->lost = f.lost;
	g->facts->throttled = f.throttled;
	g->facts->period = f.period;
	g->facts->stack_bytes = f.stack_bytes;
	g->facts->cpus = (uint32_t)f.cpus;
	g->facts->threads = (uint32_t)f.threads;
	sampling_save(g->exam, g->samples, g->facts);
	return NULL;
}

static void on_gc_event(void *user, const struct nettrace_event *event)
{
	gc_marks_event(&((struct sampling *)user)->gc, event);
}

/* Where the collector's code is: in a program that is one file, in that. */
static char *runtime_file(const struct exam *exam)
{
	CLEANUP(mem_freep) char *path = NULL;
	struct err *err = target_runtime_path(&exam->patient->target, &path);
	const char *slash = err ? NULL : strrchr(path, '/');
	err_free(err);
	return slash ? mem_strdup(slash + 1) : NULL;
}

static struct sampling *sampling_new(struct exam *exam, const struct sampling_options *options,
				     struct sampling_facts *facts)
{
	struct sampling *g = mem_zalloc(sizeof(*g));
	g->exam = exam;
	g->options = options;
	g->facts = facts;
	facts->by_agent = exam->way == WAY_AGENT;
	facts->cpu_ns = UINT64_MAX;
	facts->named = exam->patient->answered && exam->patient->target.socket;
	g->samples = samples_new();
	g->samples->whose = exam->whose;
	g->samples->lock_frames = exam_runtime_major(exam) >= 10;
	g->methods = methods_new();
	g->gc.runtime = runtime_file(exam);
	g->single_file = g->gc.runtime && !str_starts(g->gc.runtime, "libcoreclr");
	g->agent = facts->by_agent ? agent_source_new() : NULL;
	g->space = g->agent ? agent_source_space(g->agent) : space_new(exam->patient->target.pid);
	g->kernel = kernel_new();
	g->unwinder = unwinder_new(g->space, sampling_find_method, g);
	g->lines = options->lines ? sample_lines_new(exam->whose) : NULL;
	g->switches = options->kind == SAMPLER_SWITCHES ? switches_new(g->samples, 0) : NULL;
	return g;
}

static void sampling_free(struct sampling *g)
{
	if (!g)
		return;
	sampler_free(g->sampler);
	agent_source_free(g->agent);
	switches_free(g->switches);
	sample_lines_free(g->lines);
	mem_free(g->stack);
	unwinder_free(g->unwinder);
	kernel_free(g->kernel);
	space_free(g->space);
	methods_free(g->methods);
	samples_free(g->samples);
	map_u64_free(&g->by_address);
	map_u64_free(&g->by_method);
	map_u64_free(&g->later_index);
	map_u64_free(&g->first_runs);
	sampling_lives_fini(g);
	vec_free(&g->later);
	gc_marks_fini(&g->gc);
	jit_marks_fini(&g->jit);
	buf_free(&g->text);
	mem_free(g);
}
DEFINE_CLEANUP(sampling_free, struct sampling *)

/* New code, and pauses for the collector; both only help. */
static struct err *run_window(struct sampling *g)
{
	static const struct ipc_provider gc = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 };
	struct events_stream streams[] = {
		exam_compiled_stream(g->methods),
		{ .name = "pauses", .providers = &gc, .n_providers = 1, .event = on_gc_event, .user = g },
	};
	struct ipc_provider code = streams[0].providers[0];
	code.keywords |= g->lines ? SAMPLE_LINES_KEYWORDS : 0;
	streams[0].providers = &code;
	streams[0].event = on_code;
	streams[0].user = g;
	streams[0].anytime = streams[0].optional = true;
	streams[1].anytime = streams[1].optional = true;
	/* The end of the first is an event in the second, which shows that nothing older is missing there. */
	streams[1].brief = true;
	g->compiled = &streams[0];
	struct events_beside beside = { .start = start,
					.fd = fd,
					.turn = turn,
					.stop = stop,
					.stopped = stopped,
					.user = g,
					.doing = "sampling",
					.prompt = true };
	TRY(exam_events_beside(g->exam, streams, g->facts->named ? ARRAY_SIZE(streams) : 0, g->options->window_ms,
			       &beside));
	return finish(g);
}

static struct err *samples_live(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				struct sampling_facts *facts)
{
	CLEANUP(sampling_freep) struct sampling *g = sampling_new(exam, options, facts);
	TRY(run_window(g));
	*ret = STEAL(g->samples);
	return NULL;
}

struct err *exam_samples(struct exam *exam, const struct sampling_options *options, struct samples **ret,
			 struct sampling_facts *ret_facts)
{
	*ret_facts = (struct sampling_facts){ 0 };
	if (exam->replay) {
		TRY(exam_events_beside(exam, NULL, 0, 0, NULL));
		TRY(recorded_samples(exam->recording, ret, ret_facts));
		(*ret)->whose = exam->whose;
		sampling_prove(exam, options->kind, *ret, ret_facts);
		if (options->lines)
			sample_lines_load(exam, *ret, options->lines);
		return NULL;
	}
	if (exam->way != WAY_EVENTS) {
		struct err *err = samples_live(exam, options, ret, ret_facts);
		if (!err && !options->on_samples)
			sampling_prove(exam, options->kind, *ret, ret_facts);
		if (!err)
			return NULL;
		TRY(exam_next_way(exam, err));
		return exam_samples(exam, options, ret, ret_facts);
	}
	TRY(options->kind == SAMPLER_CPU ? exam_samples_by_events(exam, options, ret, ret_facts)
					 : exam_waits_by_events(exam, options, ret, ret_facts));
	sampling_save(exam, *ret, ret_facts);
	return NULL;
}
