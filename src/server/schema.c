#include "server/schema.h"
#include "base/str.h"
#include <string.h>

#define FIELDS(...)                                                                                                    \
	(const struct schema_field[])                                                                                  \
	{                                                                                                              \
		__VA_ARGS__,                                                                                           \
		{                                                                                                      \
			0                                                                                              \
		}                                                                                                      \
	}

#define PROCESS_FIELDS                                                                                                 \
	{ "id", "integer",                                                                                             \
	  "What it is named by: its pid, or for a socket without a visible process a stable number." },                \
		{ "managedAssemblyName", "string", "Its entry assembly, else the name of the process." },              \
		{ "version", "string", "Of its runtime; empty when it did not answer." }, { "pid", "integer?", "" },   \
		{ "name", "string", "Of the process." }, { "architecture", "string?", "" }, { "os", "string?", "" },   \
		{ "user", "string?", "" }, { "container", "string?", "The first digits of its container's id." },      \
		{ "pod", "string?", "Of Kubernetes: namespace/pod/container." }, { "uptimeSeconds", "number?", "" },   \
		{ "cpuPercent", "number?", "Of one core, over cpuWindowMs, or since its start when that is null." },   \
		{ "cpuWindowMs", "number?", "" }, { "cpuSeconds", "number?", "Since its start." },                     \
		{ "rssBytes", "number?", "" }, { "commandLine", "string?", "With what looks like a secret masked." },  \
		{ "answered", "boolean", "Did its runtime answer? Otherwise it cannot be examined by events." },       \
	{                                                                                                              \
		"remark", "string?", "Why not, or what else is unusual."                                               \
	}

#define COMPARED_STATUS "grew, shrank, new, gone, or same: within noise."

const struct schema schemas[] = {
	{ "ProcessInfo", "A .NET process.", FIELDS(PROCESS_FIELDS) },
	{ "ProcessDetails", "A .NET process and the ways into it.",
	  FIELDS(PROCESS_FIELDS, { "ways", "Way[]", "All five." }) },
	{ "Way", "A way to look into a process.",
	  FIELDS({ "way", "string", "events, samples, image, agent or proc." }, { "open", "boolean", "" },
		 { "how", "string?", "What it gives." },
		 { "pauseMs", "number?", "About how long the process stands still for it." },
		 { "why", "string?", "Why it is closed." }, { "fix", "string?", "What would open it." }) },
	{ "ProfilerParameter", "A parameter of a profiler.",
	  FIELDS({ "key", "string", "" }, { "name", "string", "" }, { "description", "string", "" },
		 { "type", "integer", "1 string, 2 int, 3 float, 4 boolean." },
		 { "value", "string", "The value used; of a profiler its default." }, { "valueInt32", "integer", "" },
		 { "valueFloat32", "number", "" }, { "valueBoolean", "boolean", "" }, { "defaultValue", "string", "" },
		 { "unit", "string?", "s, ms, bytes ..." }, { "min", "number?", "Of numbers." },
		 { "max", "number?", "Of numbers." }, { "maxBytes", "integer?", "Of texts, in UTF-8." },
		 { "choices", "string[]", "The accepted words; none = any." }) },
	{ "ProfilerInfo", "A profiler answers one symptom.",
	  FIELDS({ "guid", "string", "Lower case." }, { "uuid", "string", "As the contract writes it." },
		 { "id", "string", "Its name on the command line." }, { "name", "string", "" },
		 { "label", "string", "The symptom in a few words." }, { "symptom", "string", "In a user's words." },
		 { "description", "string", "Markdown." }, { "summary", "string", "Its first sentence." },
		 { "cost", "string?", "For the target." }, { "effect", "string", "The cost in a few words: no stop." },
		 { "durationKey", "string?", "The parameter that says for how many seconds it listens." },
		 { "chapter", "string", "What it is about: Memory, ..." }, { "experimental", "boolean", "" },
		 { "forCore", "boolean", "Asks core files; of a living process it can only say that it lives." },
		 { "ways", "string[]", "In order of preference." }, { "parameters", "ProfilerParameter[]", "" }) },
	{ "SessionInfo", "One profiler on one process.",
	  FIELDS({ "guid", "string", "" }, { "uuid", "string", "The same." },
		 { "timestampDate", "string", "When it was asked for, UTC: 2026-11-15T02:52:10." },
		 { "timestamp", "string", "MM/dd/yyyy HH:mm:ss, UTC." },
		 { "path", "string", "Its folder on the server." },
		 { "isCompleted", "boolean", "Done, failed or cancelled." }, { "processName", "string?", "" },
		 { "processId", "integer", "" }, { "runtime", "string?", "" },
		 { "state", "string", "queued, running, analysing, done, failed or cancelled." },
		 { "progress", "number", "0 to 1." }, { "progressText", "string?", "What it does now." },
		 { "news", "string?",
		   "What is known while it runs, a line each: the first impression of a diagnosis, or that its looks wait "
		   "for another one." },
		 { "created", "string?", "" }, { "createdUnixMs", "integer?", "" }, { "started", "string?", "" },
		 { "startedUnixMs", "integer?", "" }, { "finished", "string?", "" },
		 { "finishedUnixMs", "integer?", "" }, { "health", "string?", "ok, info, warn or bad." },
		 { "finding", "string?", "A stable word for what was found." }, { "verdict", "string?", "" },
		 { "partial", "string?", "Why the window was cut short." }, { "error", "string?", "Why it failed." },
		 { "parameters", "object", "Key to value, as texts." }, { "bytes", "integer", "Of its folder." },
		 { "drdotnetVersion", "string?", "That ran it." },
		 { "profiler", "ProfilerInfo", "With the values used." }) },
	{ "StartSession", "What to examine. Names in any case.",
	  FIELDS({ "profilerGuid", "string", "Or the profiler's id." },
		 { "processId", "integer*", "This, or a core file." },
		 { "core", "string*", "The name of a kept core file, for a profiler whose first way is image." },
		 { "parameters", "ParameterValue[]?*", "Those that shall differ from the defaults." },
		 { "way", "string?*", "One of the profiler's ways; otherwise the best that is open." },
		 { "keepRecording", "boolean*", "Also when it is large." },
		 { "webhook", "string*", "An address that gets its SessionInfo by POST when it has ended." }) },
	{ "ParameterValue", "A parameter and its value. Other members of ProfilerParameter are allowed and ignored.",
	  FIELDS({ "key", "string", "" },
		 { "value", "any*", "As text, number or true or false. Goes before the others." },
		 { "valueInt32", "integer*", "" }, { "valueFloat32", "number*", "" },
		 { "valueBoolean", "boolean*", "" }) },
	{ "Counters", "Counters of a process.",
	  FIELDS({ "now", "integer", "The server's time in milliseconds since 1970." }, { "intervalMs", "integer", "" },
		 { "lostEvents", "integer", "" }, { "notes", "string[]", "What is unusual." },
		 { "series", "CounterSeries[]", "" }) },
	{ "CounterSeries", "A counter and its history.",
	  FIELDS({ "provider", "string", "" }, { "name", "string", "" }, { "displayName", "string", "" },
		 { "unit", "string?", "" }, { "kind", "string", "gauge, rate or histogram." },
		 { "tags", "string?", "" }, { "value", "number?", "The newest of the first column." },
		 { "columns", "string[]", "Of a point, behind its time." },
		 { "points", "any[]", "[unixMs, ...columns], null = not measured; an hour of them is kept." }) },
	{ "Vitals", "The few numbers of every process.",
	  FIELDS({ "now", "integer", "The server's time in milliseconds since 1970." }, { "intervalMs", "integer", "" },
		 { "columns", "string[]", "Of a point, behind its time." }, { "processes", "VitalsOfProcess[]", "" }) },
	{ "VitalsOfProcess", "The few numbers of one process.",
	  FIELDS({ "id", "integer", "" },
		 { "points", "any[]",
		   "[unixMs, cpuPercent, rssBytes, gcHeapBytes, exceptionsPerSecond, gcPercent]; null = not measured." },
		 { "condition", "Condition?",
		   "What the rules of a diagnosis make of it, some seconds after it was first asked for." }) },
	{ "Condition", "What is unusual about a process as far as it can be seen without an examination.",
	  FIELDS({ "severity", "integer", "0 = nothing; from 50 on worth a look, from 75 on serious." },
		 { "finding", "string?", "As a diagnosis calls it." }, { "text", "string?", "The fact, in words." },
		 { "profiler", "string?", "That would find the place; null = the vital signs are all." }) },
	{ "Stacks", "Every managed thread and every frame, as `drdotnet stacks --json` prints them.",
	  FIELDS({ "source", "string", "" }, { "runtime", "string?", "" }, { "pauseMs", "number?", "" },
		 { "threads", "any[]", "" }) },
	{ "StartTrace", "What to trace.",
	  FIELDS({ "processId", "integer", "" },
		 { "profile", "string*",
		   "cpu (otherwise), gc, alloc, contention, exceptions, threading, jit, loader, http; several with "
		   "commas." },
		 { "providers", "string*", "Instead: Name[:keywords[:level[:args]]],..." },
		 { "maxSeconds", "integer*", "It stops by itself after so long (600)." }) },
	{ "TraceInfo", "A trace that was started.",
	  FIELDS({ "id", "string", "" }, { "processId", "integer", "" }, { "processName", "string", "" },
		 { "what", "string", "The profile or the providers." }, { "started", "string", "" },
		 { "seconds", "number", "Since then." },
		 { "running", "boolean", "False: it has ended by itself and waits to be fetched by stop." }) },
	{ "CoreList", "Kept core files.",
	  FIELDS({ "folder", "string", "Where they lie; what is put there is listed too." },
		 { "files", "CoreInfo[]", "Newest first." }) },
	{ "CoreInfo", "A kept core file.",
	  FIELDS({ "name", "string", "" }, { "bytes", "integer", "" },
		 { "diskBytes", "integer", "Less, where it has holes." }, { "written", "string", "" },
		 { "writtenUnixMs", "integer", "" }) },
	{ "TakeCore", "Of what, and how much.",
	  FIELDS({ "processId", "integer", "" },
		 { "type", "string*", "full (otherwise), heap: without mapped files, or mini: threads and stacks." },
		 { "maxPauseMs", "integer*", "Refuse when it would stand still for longer (100)." }) },
	{ "Comparison",
	  "Two sessions of one profiler, by the one rule of what is a change: 2 points of a share, a tenth of "
	  "anything else.",
	  FIELDS({ "before", "string", "Its guid." }, { "after", "string", "Its guid." }, { "profiler", "string", "" },
		 { "verdictBefore", "string?", "" }, { "verdictAfter", "string?", "" },
		 { "figures", "ComparedFigure[]", "" }, { "tables", "ComparedTable[]", "" },
		 { "findings", "ComparedFinding[]", "Of reports that list findings." },
		 { "report", "Report", "What changed, as `drdotnet sessions compare` prints it." }) },
	{ "ComparedFigure", "A key figure in both. Missing on one side is null.",
	  FIELDS({ "label", "string", "" }, { "kind", "string", "As in reports." }, { "before", "number?", "" },
		 { "after", "number?", "" }, { "change", "number?", "" }, { "ratio", "number?", "After to before." },
		 { "status", "string", COMPARED_STATUS }) },
	{ "ComparedFinding", "A finding in one or both, and how serious.",
	  FIELDS({ "finding", "string", "" }, { "before", "number?", "Its severity." }, { "after", "number?", "" },
		 { "status", "string", "new, worse, same, better, gone, or not seen: not looked at again." }) },
	{ "ComparedTable", "A table or flame graph that both have; of each row its names and the column that counts.",
	  FIELDS({ "title", "string", "" }, { "columns", "string[]", "Of the names." },
		 { "value", "string", "The column that counts." }, { "kind", "string", "Of its values." },
		 { "rows", "ComparedRow[]", "" }, { "rowsCut", "integer", "" }) },
	{ "ComparedRow", "A row of a table in both.",
	  FIELDS({ "names", "string[]", "" }, { "before", "number?", "" }, { "after", "number?", "" },
		 { "change", "number?", "Null where a side that shows not all of its rows does not show it." },
		 { "ratio", "number?", "" }, { "status", "string", COMPARED_STATUS }) },
	{ "RunCommand", "A command.",
	  FIELDS({ "arguments", "string[]", "Its words. Names of files are plain names." },
		 { "columns", "integer*", "Of the terminal (100)." }, { "utf8", "boolean*", "" },
		 { "colour", "boolean*", "" }) },
	{ "Alerts", "What Alertmanager sends.",
	  FIELDS({ "alerts", "any[]", "Objects with status, labels and annotations." }) },
	{ "AlertAnswer", "What came of an alert.",
	  FIELDS({ "alert", "string?", "Its name." },
		 { "session", "string?", "The guid of the session that was started." },
		 { "path", "string?", "Of its page." }, { "error", "string?", "Why none was." }) },
	{ "ShareSession", "How to share.", FIELDS({ "days", "integer*", "Until it expires, from 1 to 365 (7)." }) },
	{ "Share", "A share link.",
	  FIELDS({ "token", "string", "" }, { "guid", "string", "Of the session." },
		 { "path", "string", "Behind the server's address." }, { "created", "string", "" },
		 { "expires", "string", "" }) },
	{ "Login", "The token.", FIELDS({ "token", "string", "" }) },
	{ "FileInfo", "A file of a session.",
	  FIELDS({ "name", "string", "" }, { "bytes", "integer", "" }, { "mediaType", "string", "" }) },
	{ "Report", "A report: verdict, key figures, blocks, how it was measured. See docs/internals/reports.md.",
	  FIELDS({ "format", "any*", "" },
		 { "nextProfiler", "string*", "The id of the profiler that its next step is to run." }) },
	{ "ServerInfo", "This server.",
	  FIELDS({ "version", "string", "" }, { "host", "string", "" }, { "uptimeSeconds", "number", "" },
		 { "root", "boolean", "Does it run as root?" }, { "scope", "string", "What you may do: read or full." },
		 { "cores", "integer", "Of this machine." },
		 { "exposed", "boolean", "It listens beyond the loopback address." },
		 { "auth", "string", "token, or off: whoever can reach it may do everything." },
		 { "restApi", "boolean", "Is the REST API open to others than the pages?" },
		 { "warning", "string?", "To be shown." }, { "running", "integer", "Sessions." },
		 { "queued", "integer", "Sessions." }) },
	{ "Link", "Where a browser opens the pages.",
	  FIELDS({ "link", "string", "With the token in it, where one is needed." }) },
	{ "LogLine", "A line of the server's log.",
	  FIELDS({ "number", "integer", "" }, { "time", "string", "" }, { "level", "string", "info, warn or error." },
		 { "text", "string", "" }) },
	{ "Problem", "An error, as RFC 9457 has it.",
	  FIELDS({ "type", "string", "" }, { "title", "string", "" }, { "status", "integer", "" },
		 { "detail", "string", "What is wrong and what to do, in a sentence." },
		 { "parameter", "string*", "The key of the parameter that is wrong." }) },
	{ 0 },
};

/* ---- what comes in ---- */

static const struct {
	const char *type, *words, *plural;
} kinds[] = {
	{ "string", "a text", "texts" },      { "integer", "a whole number", "whole numbers" },
	{ "number", "a number", "numbers" },  { "boolean", "true or false", "true or false" },
	{ "object", "an object", "objects" },
};

/* The index in kinds; those of another schema are objects, and the rest is anything. */
static size_t kind_of(const char *type, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strlen(kinds[i].type) == len && !memcmp(kinds[i].type, type, len))
			return i;
	return len == 3 && !memcmp(type, "any", 3) ? ARRAY_SIZE(kinds) : ARRAY_SIZE(kinds) - 1;
}

static bool is_kind(const json_t *value, size_t kind)
{
	bool is[] = { json_is_string(value), json_is_integer(value), json_is_number(value), json_is_boolean(value),
		      json_is_object(value) };
	return kind >= ARRAY_SIZE(is) || is[kind];
}

static struct err *check_member(const struct schema_field *f, const json_t *value)
{
	size_t kind = kind_of(f->type, strcspn(f->type, "[?*"));
	bool array = strstr(f->type, "[]") != NULL, fits = array ? json_is_array(value) : is_kind(value, kind);
	if (json_is_null(value) && strpbrk(f->type, "?*"))
		return NULL;
	for (size_t i = 0; array && fits && i < json_array_size(value); i++)
		fits = is_kind(json_array_get(value, i), kind);
	if (fits)
		return NULL;
	if (array)
		return err_new(ERR_USAGE, "'%s' must be an array%s%s", f->name, kind < ARRAY_SIZE(kinds) ? " of " : "",
			       kind < ARRAY_SIZE(kinds) ? kinds[kind].plural : "");
	return err_new(ERR_USAGE, "'%s' must be %s", f->name, kinds[kind].words);
}

struct err *schema_check(const char *name, const json_t *object)
{
	const struct schema *s = schemas;
	void *o = (void *)(uintptr_t)object; /* jansson's iterator takes no const */
	while (s->name && !str_eq(s->name, name))
		s++;
	if (!s->name)
		return NULL;
	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
		const struct schema_field *f = s->fields;
		while (f->name && !str_eq(f->name, json_object_iter_key(it)))
			f++;
		if (!f->name)
			return err_new(ERR_USAGE, "the body has no field '%s'", json_object_iter_key(it));
		TRY(check_member(f, json_object_iter_value(it)));
	}
	return NULL;
}
