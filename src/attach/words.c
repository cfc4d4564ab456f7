#include "attach/words.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define MAPS_MAX ((size_t)64 << 20)

/* ---- another profiler ---- */

/* Libraries that belong to the runtime, the C library or the application's usual company say nothing. */
static bool is_suspect(const char *file)
{
	static const char *const words[] = { "profil",	    "instrument", "datadog", "newrelic", "dynatrace",
					     "appdynamics", "apm",	  "elastic", "otel",	 "opentelem",
					     "contrast",    "stackify",	  "monitor", "agent",	 "trac" };
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_contains_nocase(file, words[i]))
			return !str_contains_nocase(file, "drdotnet") && !str_contains_nocase(file, "System.") &&
			       !str_contains_nocase(file, "coreclrtraceptprovider");
	return false;
}

/* The library of the other profiler, as far as its name gives it away; NULL = not found. The caller frees. */
static char *other_profiler(const struct target *t)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/maps", (int)t->pid);
	char *named = target_env(t, "CORECLR_PROFILER_PATH"), *found = NULL;
	if (named)
		return named;
	struct err *err = t->pid ? file_read(path, MAPS_MAX, &text) : err_new(ERR_DENIED, "hidden");
	for (char *line = err ? NULL : text.data; line && *line && !found;) {
		char *end = strchr(line, '\n'), *file = strchr(line, '/');
		if (end)
			*end = '\0';
		const char *slash = file ? strrchr(line, '/') : NULL;
		if (slash && strstr(slash, ".so") && is_suspect(slash + 1))
			found = mem_strdup(file);
		line = end ? end + 1 : NULL;
	}
	err_free(err);
	return found;
}

static struct err *already_one(const struct patient *p)
{
	CLEANUP(mem_freep) char *other = other_profiler(&p->target);
	CLEANUP(buf_free) struct buf shown = { 0 };
	if (!other)
		return err_new(ERR_BUSY, "other profilers are attached to it, and its runtime takes no more");
	str_add_visible(&shown, other, strlen(other), 200);
	return err_new(ERR_BUSY, "other profilers are attached to it (%s), and its runtime takes no more",
		       buf_cstr(&shown));
}

/* ---- the runtime's answer ---- */

struct err *words_refused(const struct patient *p, uint32_t hresult)
{
	static const struct {
		uint32_t hresult;
		enum err_kind kind;
		const char *words;
	} known[] = {
		{ 0x80131367, ERR_BUSY, "a profiler is just leaving it; try again in a second" },
		{ 0x80131368, ERR_UNSUPPORTED, "its runtime takes no profilers while it runs" },
		{ 0x8013136e, ERR_UNSUPPORTED, "its runtime does not accept our library" },
		{ 0x80131371, ERR_BUSY, "its runtime is still starting" },
		{ 0x80131378, ERR_DENIED,
		  "its runtime was told to take no profilers (DOTNET_EnableDiagnostics_Profiler=0)" },
		{ 0x80131385, ERR_UNSUPPORTED, "its runtime is too old to load a profiler while it runs" },
		{ 0x80131515, ERR_UNSUPPORTED, "its runtime cannot load a profiler while it runs" },
		{ 0x80004002, ERR_UNSUPPORTED, "its runtime is too old: .NET 5 or later is needed" },
		{ 0x80004005, ERR_IO,
		  "its runtime could not use our library; is the folder it was put into the same for both?" },
		{ 0x8007007e, ERR_NOT_FOUND,
		  "its runtime does not find our library in its temporary folder: that folder is not the one we see" },
		{ 0x80070002, ERR_NOT_FOUND,
		  "its runtime does not find our library in its temporary folder: that folder is not the one we see" },
	};
	if (hresult == 0x8013136a)
		return already_one(p);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].hresult == hresult)
			return err_new(known[i].kind, "%s", known[i].words);
	return err_new(ERR_IO, "its runtime refused to load our library (0x%08x)", hresult);
}

/* ---- the library's own messages ---- */

static struct err *copy_failed(int32_t status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return err_new(ERR_IO, "the copy of the process was killed before it was read: by its time limit, or "
				       "because memory became short");
	if (WIFSIGNALED(status))
		return err_new(ERR_IO, "the copy of the process died of signal %d before it was read",
			       WTERMSIG(status));
	switch (code) {
	case WIRE_AGENT_EXIT_DESCRIPTORS:
		return err_new(ERR_UNSUPPORTED, "a copy of it could not have descriptors of its own: its kernel is "
						"older than 5.9, or its seccomp filter forbids both "
						"close_range and unshare");
	case WIRE_AGENT_EXIT_PROC:
		return err_new(ERR_UNSUPPORTED, "a copy of it cannot read its own /proc/self/pagemap");
	case WIRE_AGENT_EXIT_CONNECT:
		return err_new(ERR_DENIED, "a copy of it could not call us back");
	case WIRE_AGENT_EXIT_UNBURIED:
		return err_new(ERR_UNSUPPORTED, "its seccomp filter does not let it wait for a child process");
	case WIRE_AGENT_EXIT_SEND:
		return err_new(ERR_TIMEOUT, "we took too long to read it");
	default:
		return err_new(ERR_IO, "the copy of the process ended before it was read (%d)", code);
	}
}

struct err *words_failed(const struct patient *p, const struct wire_agent_note *refusal, bool copied, int32_t status)
{
	(void)p;
	if (copied)
		return copy_failed(status);
	switch (refusal->kind ? refusal->why : 0) {
	case WIRE_AGENT_PAUSE_TOO_LONG:
		return err_new(ERR_UNSUPPORTED, "it would stand still for about %s, longer than is allowed",
			       fmt_duration_ns(refusal->values[WIRE_AGENT_PAUSE_NS]).s);
	case WIRE_AGENT_NO_SUSPEND:
		return err_new(ERR_BUSY, "its runtime did not let itself be suspended (0x%08x)",
			       (uint32_t)refusal->code);
	case WIRE_AGENT_NO_MEMORY:
		return err_new(ERR_UNSUPPORTED, "there is no memory left in the process for our buffers");
	case WIRE_AGENT_NO_PROC:
		return err_new(ERR_UNSUPPORTED, "the process cannot read its own /proc/self: %s",
			       strerror(refusal->code));
	case WIRE_AGENT_NO_CLONE:
		return err_new(ERR_UNSUPPORTED, "the process cannot make a copy of itself: %s",
			       strerror(refusal->code));
	case WIRE_AGENT_UNBURIED:
		return err_new(ERR_UNSUPPORTED,
			       "its seccomp filter does not let it wait for a child process: an earlier "
			       "copy of it is still in the table of processes");
	case WIRE_AGENT_NO_TIMER:
		return err_new(ERR_UNSUPPORTED, "its threads cannot have timers of their CPU time: %s",
			       strerror(refusal->code));
	default:
		return err_new(ERR_IO, "our library left the process without saying why");
	}
}
