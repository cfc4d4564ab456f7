/* CPU hotpaths: which code uses the processor, on which paths, on which threads.
 *
 * Samples of CPU time with whole stacks (managed, native, kernel): a thread that waits is never counted. Weights are
 * the CPU time between two samples, so shares are shares of CPU time and their sum is how many cores were busy. */

#include "profilers/cpu_hotpaths.h"
#include "base/clock.h"
#include "exam/profiler.h"

/* A little longer than whole milliseconds, so as not to march in step with timers of the target. */
#define OFF_STEP 1.01

static void cpu_free(void *state)
{
	struct cpu_state *c = state;
	samples_free(c->samples);
	sample_line_list_free(&c->lines);
	knowledge_fini(&c->known);
	mem_free(c);
}

static bool is_idle(const struct exam *exam, const struct cpu_state *c)
{
	double ns = 0;
	vec_each(x, &c->samples->list)
		ns += (double)x->weight;
	return ns < CPU_IDLE_CORES * (double)(exam->end_ns - exam->start_ns);
}

static struct err *run(struct exam *exam)
{
	struct cpu_state *c = exam->state = mem_zalloc(sizeof(*c));
	double interval_ms = (double)params_int(exam->params, "time_interval_ms");
	struct sampling_options options = {
		.kind = SAMPLER_CPU,
		.period = (uint64_t)(interval_ms * NS_PER_MS * OFF_STEP),
		.window_ms = exam_duration_ms(exam),
		.lines = &c->lines,
	};
	cpu_budget_begin(exam, &c->budget);
	TRY(exam_samples(exam, &options, &c->samples, &c->facts));
	cpu_budget_end(exam, &c->budget);
	if (c->budget.cores <= 0)
		c->budget.cores = c->facts.cpus;
	knowledge_look(
		exam, &(struct knowledge_wanted){ .requests = true, .nothing = is_idle(exam, c) ? "it is idle" : NULL },
		&c->known);
	return NULL;
}

const struct profiler profiler_cpu_hotpaths = {
	.id = "cpu-hotpaths",
	.uuid = "805A308B-061C-47F3-9B30-A485B2056E71",
	.name = "CPU hotpaths",
	.chapter = CHAPTER_CPU,
	.label = "The CPU is high",
	.symptom = "the CPU is high, or a request is slow and something computes",
	.description =
		"Samples what the processor works on, with whole stacks through managed, native and kernel code: the "
		"hottest methods, the paths to them, a flame graph, and the split by thread and subsystem. Threads "
		"that wait are never counted. Of a web server, one look into memory at the end names the HTTP requests "
		"that the hot paths serve.",
	.cost = "of web servers " LOOK_COST ", else no stop; about 10 µs of its CPU a sample, well under 1 % at the "
		"default rate",
	.contract_files = (const char *const[]){ "cpu_hotpaths.html", NULL },
	.params =
		(const struct param[]){
			{ .key = "duration_seconds",
			  .name = "Duration",
			  .description = "How long to sample.",
			  .type = PARAM_INT,
			  .unit = "s",
			  .default_value = "10",
			  .min = 1,
			  .max = 3600 },
			{ .key = "time_interval_ms",
			  .name = "Interval",
			  .description = "CPU time of a thread between two of its samples.",
			  .type = PARAM_INT,
			  .unit = "ms",
			  .default_value = "10",
			  .min = 1,
			  .max = 60000 },
			{ .key = "filter_suspended_threads",
			  .name = "Only threads that ran",
			  .description = "Leave threads without CPU time out of the list of threads.",
			  .type = PARAM_BOOL,
			  .default_value = "true" },
			{ .key = "caller_to_callee",
			  .name = "Callers first",
			  .description = "Show the call tree from the callers down before the one from the hottest up.",
			  .type = PARAM_BOOL,
			  .default_value = "false" },
			{ .key = "max_stacks",
			  .name = "Rows",
			  .description = "The most rows of a table; more than 1,000 are not shown.",
			  .type = PARAM_INT,
			  .default_value = "100",
			  .min = 1,
			  .max = 1e6 },
			PARAM_NO_LOOK,
			PARAM_LOOK_PAUSE,
		},
	.n_params = 7,
	.ways = { WAY_SAMPLES, WAY_AGENT, WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "hot-path",
			  "Look at that path in the flame graph: is the work needed, and needed that often?" },
			{ "starved", "Other processes take the CPU: look at the machine." },
			{ "throttled",
			  "Raise the container's CPU limit or take it away: once it is used up, every thread stands "
			  "still until the next period (as a rule 100 ms), which requests feel. Or make that path "
			  "cheaper." },
			{ "no-names",
			  "To see whose code it is, let the runtime answer ('drdotnet check' says what it needs), or "
			  "start it with DOTNET_PerfMapEnabled=1." },
			{ "spread-out",
			  "Look at the flame graph for work that many paths share, and at the subsystems." },
			{ "gc-heavy",
			  "Allocate less: run allocations to see what and where, and gc-stats for what it costs." },
			{ "gc-induced", "Take those calls away, or make them rare: gc-stats names who makes them." },
			{ "jit-heavy", "Code is still being compiled: measure again when it has run for a minute; "
				       "ReadyToRun shortens the "
				       "start." },
			{ "jit-heavy-later", "It started long ago and still compiles: run jit, which says what is made "
					     "and compiled again and again." },
			{ "other-processes", "The work is done by processes that it starts: look at what they do, and "
					     "whether they must be started that often." },
			{ "short-lived-threads", "Do not start a thread for each piece of work: the thread pool keeps "
						 "its own. Run cpu-hotpaths again, as root, to see what they do." },
			{ "outside-your-code", "Look at the threads and the flame graph: native libraries and the "
					       "runtime work on their own here." },
		},
	.n_advice = 12,
	.runs = (const struct advice_run[]){ { "gc-heavy", "allocations" },
					     { "gc-induced", "gc-stats" },
					     { "jit-heavy-later", "jit" },
					     { "short-lived-threads", "cpu-hotpaths" },
					     { 0 } },
	.run = run,
	.analyse = cpu_report,
	.free_state = cpu_free,
};
