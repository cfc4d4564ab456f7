/* Why the process ended, from a core file. */

#include "profilers/crash.h"
#include "base/fmt.h"
#include "base/str.h"
#include "exam/profiler.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MAX_JSON ((size_t)16 << 20)
#define SHOWN_MESSAGE 300

struct crash {
	json_t *seen;
	struct image_exam_facts facts;
};

static struct err *take(void *user, struct cursor *in)
{
	struct crash *c = user;
	return json_parse((const char *)in->p, cursor_left(in), MAX_JSON, &c->seen);
}

static struct err *run(struct exam *exam)
{
	struct crash *c = exam->state = mem_zalloc(sizeof(*c));
	struct image_exam_part part = {
		.name = "crash", .version = CRASH_VERSION, .drain = crash_drain, .take = take, .user = c
	};
	TRY(exam_image(exam, &part));
	c->facts = part.facts;
	return NULL;
}

static void free_state(void *state)
{
	struct crash *c = state;
	json_decref(c->seen);
	mem_free(c);
}

/* ---- why it ended ---- */

static const json_t *exception_at(const json_t *seen, size_t i)
{
	return json_array_get(json_object_get(seen, "exceptions"), i);
}

static const char *finding_of(const json_t *seen)
{
	const json_t *signal = json_object_get(seen, "signal");
	const char *type = json_get_str(exception_at(seen, 0), "type", "");
	int64_t number = json_get_int(signal, "number", 0);
	if (!number)
		return "alive";
	if (str_eq(type, "System.StackOverflowException"))
		return "stack-overflow";
	if (json_is_string(json_object_get(seen, "failfast")))
		return "fail-fast";
	if (number != SIGABRT)
		return "native-crash";
	if (str_eq(type, "System.OutOfMemoryException"))
		return "out-of-memory";
	return *type ? "unhandled-exception" : "aborted";
}

static const char *signal_name(int64_t number)
{
	const char *name = number > 0 && number <= 64 ? sigabbrev_np((int)number) : NULL;
	return name ? name : "?";
}

/* "Orders.cs:12", or "" */
static void add_line(struct buf *out, const json_t *frame)
{
	struct pdb_line line = { .file = json_get_str(frame, "file", NULL),
				 .line = (uint32_t)json_get_int(frame, "line", 0) };
	if (line.file)
		dac_line_add(out, &line);
}

/* The innermost frame of the author's own code, else the innermost at all; NULL without. */
static const json_t *site(const json_t *frames)
{
	const json_t *frame;
	size_t i;
	json_array_foreach(frames, i, frame) if (!json_get_bool(frame, "framework", false)) return frame;
	return json_array_get(frames, 0);
}

static void say_site(struct rich *v, const char *before, const json_t *frames)
{
	const json_t *frame = site(frames);
	CLEANUP(buf_free) struct buf line = { 0 };
	if (!frame)
		return;
	rich_text(v, "%s", before);
	rich_code(v, json_get_str(frame, "name", "?"));
	add_line(&line, frame);
	if (line.len) {
		rich_text(v, " (");
		rich_code(v, buf_cstr(&line));
		rich_text(v, ")");
	}
}

static void say_message(struct rich *v, const char *before, const char *text)
{
	CLEANUP(buf_free) struct buf shown = { 0 };
	if (str_empty(text))
		return;
	str_add_message(&shown, text, SHOWN_MESSAGE);
	if (!shown.len)
		return;
	rich_text(v, "%s", before);
	rich_code(v, buf_cstr(&shown));
}

static void say_exception(struct rich *v, const json_t *e)
{
	rich_code(v, json_get_str(e, "type", "?"));
	say_message(v, ": ", json_get_str(e, "message", NULL));
}

static void say_thread(struct rich *v, const json_t *thread)
{
	const char *name = json_get_str(thread, "name", NULL);
	if (!thread)
		return;
	rich_text(v, " on thread ");
	if (name)
		rich_code(v, name);
	else
		rich_text(v, "%lld", (long long)json_get_int(thread, "id", 0));
}

/* Those that did not throw an exception through managed code have only the stack of their thread. */
static const json_t *frames_of_death(const json_t *seen)
{
	const json_t *frames = json_object_get(exception_at(seen, 0), "frames");
	return json_array_size(frames) ? frames : json_object_get(json_object_get(seen, "thread"), "frames");
}

static void say_unhandled(struct rich *v, const json_t *seen)
{
	size_t n = json_array_size(json_object_get(seen, "exceptions"));
	rich_strong(v, "An exception that nobody caught ended the process");
	say_thread(v, json_object_get(seen, "thread"));
	rich_text(v, ": ");
	say_exception(v, exception_at(seen, 0));
	say_site(v, ", thrown in ", frames_of_death(seen));
	rich_text(v, ".");
	if (n < 2)
		return;
	const json_t *cause = exception_at(seen, n - 1);
	rich_text(v, " The first cause was ");
	say_exception(v, cause);
	say_site(v, " in ", json_object_get(cause, "frames"));
	rich_text(v, ".");
}

static void say_overflow(struct rich *v, const json_t *seen)
{
	const json_t *thread = json_object_get(seen, "thread"), *frames = json_object_get(thread, "frames"), *frame;
	size_t i;
	rich_strong(v, "The stack overflowed");
	say_thread(v, thread);
	json_array_foreach(frames, i, frame)
	{
		int64_t times = json_get_int(frame, "times", 1), run_length = json_get_int(frame, "run", 1);
		if (times < 2)
			continue;
		rich_text(v, ": ");
		rich_code(v, json_get_str(frame, "name", "?"));
		CLEANUP(buf_free) struct buf line = { 0 };
		add_line(&line, frame);
		if (line.len) {
			rich_text(v, " (");
			rich_code(v, buf_cstr(&line));
			rich_text(v, ")");
		}
		if (run_length > 1)
			rich_text(v, " and %lld more call each other,", (long long)run_length - 1);
		else
			rich_text(v, " calls itself,");
		rich_text(v, " %s%s deep.", json_get_bool(thread, "deeper", false) ? "more than " : "",
			  fmt_plural((uint64_t)times, "time", "times").s);
		return;
	}
	rich_text(v, ", %s deep.", fmt_plural((uint64_t)json_get_int(thread, "deep", 0), "frame", "frames").s);
}

static void say_memory(struct rich *v, const json_t *seen)
{
	const json_t *heap = json_object_get(seen, "heap");
	rich_strong(v, "Memory ran out");
	say_thread(v, json_object_get(seen, "thread"));
	say_site(v, " in ", frames_of_death(seen));
	if (heap)
		rich_text(v, "; the managed heap held %s then", fmt_bytes((uint64_t)json_get_int(heap, "bytes", 0)).s);
	rich_text(v, ".");
}

static void say_fail_fast(struct rich *v, const json_t *seen)
{
	rich_strong(v, "The program ended itself by Environment.FailFast");
	say_thread(v, json_object_get(seen, "thread"));
	say_site(v, " in ", json_object_get(json_object_get(seen, "thread"), "frames"));
	say_message(v, ", saying: ", json_get_str(seen, "failfast", NULL));
	rich_text(v, ".");
}

static void say_native(struct rich *v, const json_t *seen)
{
	const json_t *signal = json_object_get(seen, "signal"), *native = json_object_get(seen, "native");
	int64_t number = json_get_int(signal, "number", 0);
	rich_strong(v, "Native code crashed with SIG%s", signal_name(number));
	say_thread(v, json_object_get(seen, "thread"));
	if (number == SIGSEGV || number == SIGBUS)
		rich_text(v, " when it touched address %s", json_get_str(signal, "address", "?"));
	if (native) {
		const char *function = json_get_str(native, "function", NULL);
		rich_text(v, ", in ");
		if (function) {
			rich_code(v, function);
			rich_text(v, " of ");
		}
		rich_code(v, json_get_str(native, "module", "?"));
	}
	say_site(v, ", called from ", json_object_get(json_object_get(seen, "thread"), "frames"));
	rich_text(v, ".");
}

static void say_aborted(struct rich *v, const json_t *seen)
{
	const json_t *native = json_object_get(seen, "native");
	rich_strong(v, "Native code aborted the process");
	say_thread(v, json_object_get(seen, "thread"));
	if (native) {
		rich_text(v, ", in ");
		rich_code(v, json_get_str(native, "module", "?"));
	}
	say_site(v, ", called from ", json_object_get(json_object_get(seen, "thread"), "frames"));
	rich_text(v, "; no managed exception was in flight.");
}

static void say_alive(struct rich *v, const json_t *seen)
{
	rich_strong(v, "It had not died");
	rich_text(v, " when this was taken: no signal had struck it.");
	if (!exception_at(seen, 0))
		return;
	rich_text(v, " An exception was in flight");
	say_thread(v, json_object_get(seen, "thread"));
	rich_text(v, ": ");
	say_exception(v, exception_at(seen, 0));
	rich_text(v, ".");
}

static const struct {
	const char *finding;
	void (*say)(struct rich *v, const json_t *seen);
} deaths[] = {
	{ "unhandled-exception", say_unhandled },
	{ "stack-overflow", say_overflow },
	{ "out-of-memory", say_memory },
	{ "fail-fast", say_fail_fast },
	{ "native-crash", say_native },
	{ "aborted", say_aborted },
	{ "alive", say_alive },
};

static void add_verdict(struct exam *exam, struct report *report, const json_t *seen)
{
	const char *finding = finding_of(seen);
	struct rich *v = report_verdict(report, str_eq(finding, "alive") ? REPORT_INFO : REPORT_BAD, finding);
	for (size_t i = 0; i < ARRAY_SIZE(deaths); i++)
		if (str_eq(deaths[i].finding, finding))
			deaths[i].say(v, seen);
	report_advice(report, exam->profiler, finding);
}

/* ---- the proof ---- */

static void add_figures(struct report *report, const json_t *seen)
{
	const json_t *signal = json_object_get(seen, "signal"), *heap = json_object_get(seen, "heap"),
		     *thread = json_object_get(seen, "thread");
	char name[24];
	snprintf(name, sizeof(name), "SIG%s", signal_name(json_get_int(signal, "number", 0)));
	report_figure(report, "Signal", json_is_object(signal) ? V_TEXT(name) : V_TEXT("none"), NULL);
	if (thread) {
		char tid[32];
		snprintf(tid, sizeof(tid), "tid %lld", (long long)json_get_int(thread, "tid", 0));
		report_figure(report, "Thread", V_TEXT(tid), NULL);
	}
	report_figure(report, "Managed heap", json_is_object(heap) ? V_BYTES(json_get_int(heap, "bytes", 0)) : V_NONE,
		      !json_is_object(heap)		   ? "not in the core"
		      : json_get_bool(heap, "valid", true) ? NULL
							   : "a collection was at work");
	report_figure(report, "Threads", V_COUNT(json_get_int(seen, "threads", 0)), "managed, alive");
}

static void add_frame_lines(struct report_row *row, const json_t *frames)
{
	const json_t *frame;
	size_t i;
	json_array_foreach(frames, i, frame)
	{
		CLEANUP(buf_free) struct buf right = { 0 };
		int64_t times = json_get_int(frame, "times", 1);
		add_line(&right, frame);
		if (times > 1)
			buf_printf(&right, "%s×%s", right.len ? "  " : "", fmt_count((uint64_t)times).s);
		report_row_line(row, VALUE_CODE, json_get_str(frame, "name", "?"), right.len ? buf_cstr(&right) : NULL);
	}
}

static void add_exceptions(struct report *report, const json_t *seen)
{
	const json_t *all = json_object_get(seen, "exceptions"), *e;
	size_t i;
	if (!json_array_size(all))
		return;
	struct report_table *table = report_table(
		report, json_array_size(all) > 1 ? "Exceptions, each caused by the next" : "The exception");
	report_column(table, "Type", VALUE_CODE, COLUMN_MAIN);
	report_column(table, "Message", VALUE_CODE, 0);
	json_array_foreach(all, i, e)
	{
		const char *message = json_get_str(e, "message", NULL);
		struct value cells[] = { V_CODE(json_get_str(e, "type", "?")), V_CODE(message ? message : "") };
		add_frame_lines(report_row(table, cells), json_object_get(e, "frames"));
	}
}

/* An exception with a stack of its own says the same. */
static void add_stack(struct report *report, const json_t *seen)
{
	const json_t *thread = json_object_get(seen, "thread"), *frames = json_object_get(thread, "frames"), *frame;
	size_t i;
	bool repeated = false;
	if (!json_array_size(frames) || json_array_size(json_object_get(exception_at(seen, 0), "frames")))
		return;
	json_array_foreach(frames, i, frame) repeated |= json_get_int(frame, "times", 1) > 1;
	struct report_table *table = report_table(report, json_is_object(json_object_get(seen, "signal"))
								  ? "Stack of the thread that died"
								  : "Stack of the thread that throws");
	report_column(table, "Method", VALUE_CODE, COLUMN_MAIN);
	report_column(table, "Line", VALUE_CODE, 0);
	if (repeated)
		report_column(table, "Times", VALUE_COUNT, 0);
	json_array_foreach(frames, i, frame)
	{
		CLEANUP(buf_free) struct buf line = { 0 };
		add_line(&line, frame);
		struct value cells[] = { V_CODE(json_get_str(frame, "name", "?")), V_CODE(buf_cstr(&line)),
					 V_COUNT(json_get_int(frame, "times", 1)) };
		report_row(table, cells);
	}
}

static void add_others(struct report *report, const json_t *seen)
{
	const json_t *all = json_object_get(seen, "others"), *e;
	size_t i;
	if (!json_array_size(all))
		return;
	struct report_table *table = report_table(report, "Exceptions on other threads");
	report_column(table, "Thread", VALUE_CODE, 0);
	report_column(table, "Type", VALUE_CODE, COLUMN_MAIN);
	report_column(table, "Message", VALUE_CODE, 0);
	json_array_foreach(all, i, e)
	{
		char id[24];
		const char *message = json_get_str(e, "message", NULL);
		snprintf(id, sizeof(id), "%lld", (long long)json_get_int(e, "thread", 0));
		struct value cells[] = { V_CODE(json_get_str(e, "name", id)), V_CODE(json_get_str(e, "type", "?")),
					 V_CODE(message ? message : "") };
		report_row(table, cells);
	}
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	const struct crash *c = exam->state;
	const json_t *why;
	size_t i;
	if (!json_is_object(c->seen))
		return err_new(ERR_BAD_DATA, "the recording holds no crash");
	add_verdict(exam, report, c->seen);
	add_figures(report, c->seen);
	add_exceptions(report, c->seen);
	add_stack(report, c->seen);
	add_others(report, c->seen);
	image_exam_how(report, &c->facts, 1);
	json_array_foreach(json_object_get(c->seen, "noLines"), i, why)
		report_how(report, "No source lines", V_TEXT(json_is_string(why) ? json_string_value(why) : "?"), NULL);
	return NULL;
}

const struct profiler profiler_crash = {
	.id = "crash",
	.uuid = "5d2f1c84-7b0e-4f6a-9a3c-1e8d4b7f2c90",
	.name = "Crash",
	.chapter = CHAPTER_RUNTIME,
	.label = "It died and left a core file",
	.symptom = "it died and left a core file: why?",
	.description =
		"Reads a core file and says what the process died of: an exception that nobody caught, with those that "
		"caused it; a stack overflow and who calls whom; no memory left; native code; or the program itself "
		"(`Environment.FailFast`). With the thread, its stack and the source lines.\n\n"
		"A core is written when the process is started with `DOTNET_DbgEnableMiniDump=1` (name: "
		"`DOTNET_DbgMiniDumpName`, type: `DOTNET_DbgMiniDumpType=2`), or by the kernel.",
	.cost = "nothing: the process is dead",
	.params =
		(const struct param[]){
			PARAM_MAX_PAUSE,
		},
	.n_params = 1,
	.ways = { WAY_IMAGE },
	.for_core = true,
	.advice =
		(const struct advice[]){
			{ "unhandled-exception", "Catch it where it can be dealt with, or mend its cause. Exceptions "
						 "on threads and in async void "
						 "methods always end the process when nobody catches them." },
			{ "stack-overflow", "Find what should have ended the recursion; data nested too deep is the "
					    "usual cause. It cannot be "
					    "caught." },
			{ "out-of-memory",
			  "What fills the heap is in the same file: drdotnet dump open FILE -c 'heap stat'." },
			{ "fail-fast", "The program chose to end: the message says why, the stack says where." },
			{ "native-crash", "Look at what is passed to native code: freed memory, wrong sizes, wrong "
					  "signatures. gdb opens the "
					  "same file for the native stack." },
			{ "aborted", "Its standard error has the native code's own words; gdb opens the same file for "
				     "the native stack." },
			{ "alive", "Run merged-call-stacks --core FILE to see what its threads did." },
		},
	.n_advice = 7,
	.runs = (const struct advice_run[]){ { "alive", "merged-call-stacks" }, { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
