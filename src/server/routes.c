/* The table of all routes; dispatch, OpenAPI and the documentation read it. */

#include "server/api.h"

static const struct route_query list_query[] = {
	{ "profiler", "string", "Only of this profiler (its id or guid).", false },
	{ "process", "string", "Only of this process, by name.", false },
	{ "processId", "integer", "Only of this process, by id.", false },
	{ "state", "string", "queued, running, analysing, done, failed, cancelled, finished or unfinished.", false },
	{ "q", "string", "Only with this text in process, profiler, verdict, error or guid.", false },
	{ "limit", "integer", "At most so many, newest first.", false },
	{ 0 },
};
static const struct route_query file_query[] = {
	{ "download", "boolean", "As an attachment.", false },
	{ 0 },
};
static const struct route_query since_query[] = {
	{ "since", "integer", "Only what came after the line of this number.", false },
	{ 0 },
};

static const struct route_query since_ms_query[] = {
	{ "since", "integer", "Only points after this time, in milliseconds since 1970.", false },
	{ 0 },
};
static const struct route_query counters_query[] = {
	{ "since", "integer", "Points after this time, in milliseconds since 1970; 0 = all that are kept.", false },
	{ "provider", "string", "Only of this provider.", false },
	{ "name", "string", "Only of this name.", false },
	{ 0 },
};
static const struct route_query pause_query[] = {
	{ "maxPauseMs", "integer", "Refuse when it would stand still for longer (100).", false },
	{ 0 },
};
static const struct route_query trace_query[] = {
	{ "seconds", "integer", "How long, from 1 to 3600 (10).", false },
	{ "profile", "string",
	  "cpu (otherwise), gc, alloc, contention, exceptions, threading, jit, loader, http; several "
	  "with commas.",
	  false },
	{ "providers", "string", "Instead: Name[:keywords[:level[:args]]],...", false },
	{ "format", "string", "nettrace (otherwise), pprof, speedscope, chromium or folded.", false },
	{ 0 },
};
static const struct route_query pprof_query[] = {
	{ "seconds", "integer", "How long (30).", false },
	{ "pid", "integer", "The process; not needed when there is only one.", false },
	{ 0 },
};
static const struct route_query pprof_heap_query[] = {
	{ "pid", "integer", "The process; not needed when there is only one.", false },
	{ 0 },
};
static const struct route_query events_query[] = {
	{ "vitals", "boolean", "Also `vitals`, every two seconds: [{id, points: [[unixMs, ...]]}].", false },
	{ 0 },
};

#define REPORT_TYPES "text/markdown text/html text/plain"

/* The first that fits is taken. */
static const struct route routes[] = {
	{ METHOD_GET, "/api/processes", SCOPE_READ, ROUTE_CONTRACT, api_processes, "listProcesses", "Processes",
	  "The .NET processes that can be seen from here, also those that cannot be examined, with the reason.",
	  .result = "ProcessInfo[]" },
	{ METHOD_GET, "/api/processes/vitals", SCOPE_READ, 0, api_vitals, "getVitals", "Processes",
	  "CPU, memory, GC heap and exceptions of every process over the last ten minutes, taken every two seconds "
	  "while somebody asks; live as the event `vitals` of /api/events?vitals=true.",
	  .query = since_ms_query, .result = "Vitals", .errors = "400" },
	{ METHOD_GET, "/api/processes/{id}", SCOPE_READ, 0, api_process, "getProcess", "Processes",
	  "One process, which ways into it are open, and what would open the others.", .result = "ProcessDetails",
	  .errors = "400 404" },
	{ METHOD_GET, "/api/processes/{id}/counters", SCOPE_READ, 0, api_counters, "getCounters", "Processes",
	  "EventCounters of the runtime and the usual libraries: the newest value of each, or with `since` all points "
	  "after it. The first question starts listening and waits for the first values; it ends twenty seconds "
	  "after the last.",
	  .query = counters_query, .result = "Counters", .errors = "400 404 409 501 504" },
	{ METHOD_GET, "/api/processes/{id}/counters/{provider}", SCOPE_READ, 0, api_counters, "getCountersOf",
	  "Processes", "The same of one provider, also of an event source of your own.", .query = since_ms_query,
	  .result = "Counters", .errors = "400 404 409 501 504" },
	{ METHOD_GET, "/api/processes/{id}/counters/{provider}/{name}", SCOPE_READ, 0, api_counters, "getCounter",
	  "Processes", "The same of one counter.", .query = since_ms_query, .result = "Counters",
	  .errors = "400 404 409 501 504" },
	{ METHOD_GET, "/api/processes/{id}/meters", SCOPE_READ, 0, api_meters, "getMeters", "Processes",
	  "Meters (System.Diagnostics.Metrics) of the runtime, its libraries and the app itself, in the same form. All "
	  "who listen to the meters of a process share one set: another tool that wants limits of its own is refused "
	  "meanwhile.",
	  .query = since_ms_query, .result = "Counters", .errors = "400 404 409 501 504" },
	{ METHOD_GET, "/api/processes/{id}/meters/{meter}", SCOPE_READ, 0, api_meters, "getMeter", "Processes",
	  "The same of one meter.", .query = since_ms_query, .result = "Counters", .errors = "400 404 409 501 504" },
	{ METHOD_GET, "/api/processes/{id}/meters/{meter}/{instrument}", SCOPE_READ, 0, api_meters, "getInstrument",
	  "Processes", "The same of one instrument, a series for each set of tags.", .query = since_ms_query,
	  .result = "Counters", .errors = "400 404 409 501 504" },
	{ METHOD_GET, "/api/processes/{id}/stacks", SCOPE_FULL, 0, api_stacks, "getStacks", "Processes",
	  "Where every managed thread is now. The process stands still for the few milliseconds that a copy of it "
	  "takes.",
	  .query = pause_query, .result = "Stacks", .types = "text/plain", .errors = "400 403 404 409" },
	{ METHOD_GET, "/api/processes/{id}/trace", SCOPE_FULL, 0, api_trace, "getTrace", "Traces",
	  "Collects events for some seconds and gives them back: a .nettrace as it comes, or converted.",
	  .query = trace_query, .types = "application/octet-stream application/json text/plain",
	  .errors = "400 403 404 409" },
	{ METHOD_GET, "/api/traces", SCOPE_READ, 0, api_traces_list, "listTraces", "Traces",
	  "The traces that were started and not yet fetched.", .result = "TraceInfo[]" },
	{ METHOD_POST, "/api/traces", SCOPE_FULL, 0, api_trace_start, "startTrace", "Traces",
	  "Starts a trace that goes on until it is stopped.", .body = "StartTrace", .result = "TraceInfo",
	  .errors = "400 403 404 409 415" },
	{ METHOD_POST, "/api/traces/{id}/stop", SCOPE_FULL, 0, api_trace_stop, "stopTrace", "Traces",
	  "Stops a trace; the answer is the .nettrace file. It is not kept.", .types = "application/octet-stream",
	  .errors = "400 404 409" },
	{ METHOD_DELETE, "/api/traces/{id}", SCOPE_FULL, 0, api_trace_delete, "deleteTrace", "Traces",
	  "Stops a trace and forgets it.", .errors = "400 404 409" },
	{ METHOD_POST, "/api/processes/{id}/dump", SCOPE_FULL, 0, api_dump, "takeDump", "Processes",
	  "A core file of the process, which stands still for the few milliseconds that a copy of it takes. It holds "
	  "all the secrets in its memory.",
	  .query = pause_query, .types = "application/octet-stream", .errors = "400 403 404 409" },
	{ METHOD_GET, "/api/cores", SCOPE_READ, 0, api_cores, "listCores", "Core files",
	  "The core files that are kept: taken here, or put into the folder by hand.", .result = "CoreList" },
	{ METHOD_POST, "/api/cores", SCOPE_FULL, 0, api_core_take, "takeCore", "Core files",
	  "Takes a core file of a process, which stands still for the few milliseconds that a copy of it takes, and "
	  "keeps it. It holds all the secrets in its memory.",
	  .body = "TakeCore", .result = "CoreInfo", .errors = "400 403 404 409 415" },
	{ METHOD_GET, "/api/cores/{name}", SCOPE_FULL, 0, api_core, "getCore", "Core files", "The file itself.",
	  .types = "application/octet-stream", .errors = "404" },
	{ METHOD_DELETE, "/api/cores/{name}", SCOPE_FULL, 0, api_core_delete, "deleteCore", "Core files",
	  "Deletes it. Nothing else does.", .errors = "404" },
	{ METHOD_GET, "/api/profilers", SCOPE_READ, ROUTE_CONTRACT, api_profilers, "listProfilers", "Profilers",
	  "The profilers: the symptom each answers, its parameters with defaults and ranges.",
	  .result = "ProfilerInfo[]" },
	{ METHOD_GET, "/api/sessions", SCOPE_READ, ROUTE_CONTRACT, api_sessions_list, "listSessions", "Sessions",
	  "Sessions, newest first.", .query = list_query, .result = "SessionInfo[]", .errors = "400" },
	{ METHOD_POST, "/api/sessions", SCOPE_FULL, ROUTE_CONTRACT, api_session_start, "startSession", "Sessions",
	  "Starts a profiler on a process. Everything is checked before the process is touched. Follow it by its "
	  "events, or ask for it until isCompleted.",
	  .body = "StartSession", .result = "SessionInfo", .errors = "400 404 409 413 415 503" },
	{ METHOD_GET, "/api/sessions/{guid}", SCOPE_READ, ROUTE_CONTRACT, api_session, "getSession", "Sessions",
	  "One session: state, progress, verdict.", .result = "SessionInfo", .errors = "400 404" },
	{ METHOD_DELETE, "/api/sessions/{guid}", SCOPE_FULL, 0, api_session_delete, "deleteSession", "Sessions",
	  "Deletes a finished session and its files.", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/download", SCOPE_READ, ROUTE_CONTRACT, api_session_download,
	  "downloadSession", "Sessions", "All files of a finished session as a zip.", .types = "application/zip",
	  .errors = "400 404 409" },
	{ METHOD_POST, "/api/sessions/{guid}/cancel", SCOPE_FULL, 0, api_session_cancel, "cancelSession", "Sessions",
	  "Asks a session to stop and keep what it has.", .result = "SessionInfo", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/report", SCOPE_READ, 0, api_session_report, "getReport", "Sessions",
	  "The report, as Accept says; JSON otherwise.", .result = "Report", .types = REPORT_TYPES,
	  .errors = "400 404 406 409" },
	{ METHOD_GET, "/api/sessions/{guid}/report.json", SCOPE_READ, 0, api_session_report, "getReportJson",
	  "Sessions", "The report as JSON.", .result = "Report", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/report.md", SCOPE_READ, 0, api_session_report, "getReportMarkdown",
	  "Sessions", "The report as Markdown.", .types = "text/markdown", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/report.html", SCOPE_READ, 0, api_session_report, "getReportHtml",
	  "Sessions", "The report as one HTML file.", .types = "text/html", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/report.txt", SCOPE_READ, 0, api_session_report, "getReportText", "Sessions",
	  "The report as the terminal shows it.", .types = "text/plain", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/files", SCOPE_READ, 0, api_session_files, "listFiles", "Sessions",
	  "The files of a session; none while it runs.", .result = "FileInfo[]", .errors = "400 404" },
	{ METHOD_GET, "/api/sessions/{guid}/files/{name}", SCOPE_READ, 0, api_session_file, "getFile", "Sessions",
	  "One file of a finished session.", .query = file_query, .types = "application/octet-stream",
	  .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/compare/{other}", SCOPE_READ, 0, api_session_compare, "compareSessions",
	  "Sessions", "What changed from this session to another of the same profiler, the largest change first.",
	  .result = "Comparison", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/log", SCOPE_READ, 0, api_session_log, "getLog", "Sessions",
	  "What the session said so far.", .types = "text/plain", .errors = "400 404" },
	{ METHOD_GET, "/api/sessions/{guid}/events", SCOPE_READ, 0, api_session_events, "followSession", "Live",
	  "Server-sent events of one session: `session` (SessionInfo, first and at every change of state), `progress` "
	  "({guid, progress, progressText}), `log` ({guid, number, time, text}; what was said before comes first), "
	  "`deleted`. Ends with the session.",
	  .types = "text/event-stream", .errors = "400 404 503" },
	{ METHOD_POST, "/api/sessions/{guid}/shares", SCOPE_FULL, 0, api_share, "shareSession", "Sessions",
	  "Makes a link that opens this session, read-only and without the token, until it expires. The body may be "
	  "left out.",
	  .body = "ShareSession", .result = "Share", .errors = "400 404 409" },
	{ METHOD_GET, "/api/sessions/{guid}/shares", SCOPE_FULL, 0, api_shares, "listShares", "Sessions",
	  "The links to this session that open it now.", .result = "Share[]", .errors = "400 404" },
	{ METHOD_DELETE, "/api/sessions/{guid}/shares/{token}", SCOPE_FULL, 0, api_unshare, "revokeShare", "Sessions",
	  "Revokes a link.", .errors = "400 404" },
	{ METHOD_GET, "/share/{token}", SCOPE_NONE, ROUTE_INLINE | ROUTE_ALWAYS | ROUTE_SECRET, api_share_open,
	  "openShare", "Sessions", "Sets the cookie of a share link and leads to its session.", .errors = "404" },
	{ METHOD_POST, "/api/alerts", SCOPE_FULL, 0, api_alerts, "takeAlerts", "Sessions",
	  "Alertmanager's webhook: every firing alert with the labels or annotations drdotnet_profiler and "
	  "drdotnet_target (a pid or a name; drdotnet_duration in seconds where wanted) starts a session.",
	  .body = "Alerts", .result = "AlertAnswer[]", .errors = "400 415" },
	{ METHOD_POST, "/api/commands", SCOPE_FULL, 0, api_command, "runCommand", "Commands",
	  "Runs a command of the command line here: what `drdotnet --server` does. The answer is a stream of pieces, "
	  "each behind a line: `out N`, `err N`, `file N` and N bytes, at last `exit CODE`. The header "
	  "X-Drdotnet-Command names it.",
	  .body = "RunCommand", .types = "application/octet-stream", .errors = "400 409 415" },
	{ METHOD_POST, "/api/commands/{id}/interrupt", SCOPE_FULL, 0, api_command_interrupt, "interruptCommand",
	  "Commands", "What Ctrl-C does.", .errors = "400 404" },
	{ METHOD_POST, "/api/login", SCOPE_NONE, ROUTE_INLINE | ROUTE_ALWAYS, api_login, "login", "Server",
	  "Sets the cookie for whoever knows the token.", .body = "Login", .errors = "400 401 415 429" },
	{ METHOD_POST, "/api/logout", SCOPE_NONE, ROUTE_INLINE | ROUTE_ALWAYS, api_logout, "logout", "Server",
	  "Takes the cookie away.", .errors = NULL },
	{ METHOD_GET, "/api/link", SCOPE_FULL, ROUTE_INLINE | ROUTE_ALWAYS, api_link, "getLink", "Server",
	  "The link that opens the pages, with the token: what `drdotnet serve --link` prints. Told by the socket in "
	  "the "
	  "home only, to root and the user that the server runs as.",
	  .result = "Link", .errors = "403" },
	{ METHOD_GET, "/api/events", SCOPE_READ, 0, api_events, "followAll", "Live",
	  "Server-sent events of all sessions that this server runs.", .query = events_query,
	  .types = "text/event-stream", .errors = "503" },
	{ METHOD_GET, "/debug/pprof/profile", SCOPE_FULL, 0, api_pprof_profile, "pprofProfile", "pprof",
	  "A CPU profile for `go tool pprof`, made by a session of cpu-hotpaths.", .query = pprof_query,
	  .types = "application/octet-stream", .errors = "400 404 409" },
	{ METHOD_GET, "/debug/pprof/heap", SCOPE_FULL, 0, api_pprof_heap, "pprofHeap", "pprof",
	  "A heap profile for `go tool pprof`, made by a session of gc-survivors: who keeps what alive.",
	  .query = pprof_heap_query, .types = "application/octet-stream", .errors = "400 404 409" },
	{ METHOD_GET, "/api/server", SCOPE_READ, ROUTE_INLINE | ROUTE_ALWAYS, api_server, "getServer", "Server",
	  "Version, host and state of this server.", .result = "ServerInfo" },
	{ METHOD_GET, "/api/server/logs", SCOPE_FULL, 0, api_logs, "getServerLogs", "Server",
	  "The last lines of the server's log.", .query = since_query, .result = "LogLine[]", .errors = "400" },
	{ METHOD_GET, "/swagger/v1/swagger.json", SCOPE_READ, 0, api_openapi, "getOpenApi", "Server",
	  "This API as an OpenAPI document.", .result = "any" },
	{ METHOD_GET, "/healthz", SCOPE_NONE, ROUTE_INLINE | ROUTE_ALWAYS, api_health, "health", "Server", "Says ok.",
	  .types = "text/plain" },
	{ METHOD_GET, "/metrics", SCOPE_READ, ROUTE_INLINE | ROUTE_ALWAYS, api_metrics, "metrics", "Server",
	  "Figures about the server itself, for Prometheus.", .types = "text/plain" },
};

const struct route *routes_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(routes);
	return routes;
}
