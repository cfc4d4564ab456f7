/* Judges the five ways to look into a process: open or closed, why, and what would open it. Works on facts that
 * rights.c has collected; changes nothing. */

#include "base/buf.h"
#include "base/fmt.h"
#include "base/str.h"
#include "ipc/patient.h"
#include "ipc/rights.h"
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#define CAP_BIT(cap) ((uint64_t)1 << (cap))

static const char *const way_names[WAY_COUNT] = { "auto", "events", "samples", "image", "agent", "proc" };

const char *way_name(enum way way)
{
	return way_names[way];
}

struct err *way_parse(const char *word, enum way *ret)
{
	for (size_t i = 0; i < WAY_COUNT; i++) {
		if (!str_eq_nocase(word, way_names[i]))
			continue;
		*ret = (enum way)i;
		return NULL;
	}
	return err_new(ERR_USAGE,
		       "'%s' is not a way to look into a process: auto, events, samples, image, agent or proc", word);
}

void way_check_fini(struct way_check *check)
{
	mem_free(check->how);
	mem_free(check->why);
	mem_free(check->fix);
	*check = (struct way_check){ 0 };
}

static void open_way(struct way_check *c, const char *fmt, ...) PRINTF(2, 3);
static void open_way(struct way_check *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	*c = (struct way_check){ .open = true, .how = mem_vprintf(fmt, ap) };
	va_end(ap);
}

static void close_way(struct way_check *c, const char *why, const char *fix_fmt, ...) PRINTF(3, 4);
static void close_way(struct way_check *c, const char *why, const char *fix_fmt, ...)
{
	va_list ap;
	va_start(ap, fix_fmt);
	*c = (struct way_check){ .why = mem_strdup(why), .fix = mem_vprintf(fix_fmt, ap) };
	va_end(ap);
}

static bool have(const struct rights *r, int cap)
{
	return r->caps & CAP_BIT(cap);
}

static bool is_invisible(const struct patient *p, struct way_check *c)
{
	if (p->target.pid)
		return false;
	close_way(
		c, "its process is not visible from here: it is in another pid namespace",
		"share its pid namespace ('docker run --pid=container:NAME', 'shareProcessNamespace: true' in the pod) "
		"or run drdotnet on the host ('--pid=host', 'hostPID: true')");
	return true;
}

/* ---- events ---- */

/* Access is denied: which right is missing? */
static void close_for_rights(const struct patient *p, const struct rights *r, struct way_check *c)
{
	if (r->uid == 0 || r->uid == p->target.uid)
		close_way(c, "we may not look into its file system",
			  "give drdotnet CAP_SYS_PTRACE ('docker run --cap-add SYS_PTRACE', 'capabilities: { add: "
			  "[SYS_PTRACE] }'), or share the process's /tmp as a volume with drdotnet's");
	else
		close_way(c, "its diagnostics socket is open only to its own user and to root", "run drdotnet as %s%s",
			  p->target.uid ? "root or as user " : "root", p->target.uid ? p->target.user : "");
}

static void close_for_silence(const struct patient *p, struct way_check *c)
{
	const struct target *t = &p->target;
	if (t->tracer)
		close_way(c, "it is held by a debugger and does not answer",
			  "let the debugger (process %d) go on or detach", t->tracer);
	else if (t->stopped)
		close_way(c, "it is stopped (SIGSTOP) and cannot answer", "kill -CONT %d", t->pid);
	else
		close_way(c, "its runtime takes the call and does not answer",
			  "try again with more time; if it stays silent its diagnostics thread is stuck, and only a "
			  "restart frees it");
}

static bool close_for_socket(const struct patient *p, const struct rights *r, struct way_check *c)
{
	switch (p->target.socket_state) {
	case TARGET_SOCKET_DISABLED:
		close_way(c, "its diagnostics were switched off at start",
			  "start it without DOTNET_EnableDiagnostics=0 and DOTNET_EnableDiagnostics_IPC=0 (environment "
			  "or "
			  "runtimeconfig.json)");
		return true;
	case TARGET_SOCKET_AOT:
		close_way(c, "it is NativeAOT, built without diagnostics",
			  "publish it with <EventSourceSupport>true</EventSourceSupport>");
		return true;
	case TARGET_SOCKET_MISSING:
		close_way(c, "its runtime listens, but the socket is no longer in its temporary folder",
			  "restart it, and keep cleaners of /tmp away from dotnet-diagnostic-*");
		return true;
	case TARGET_SOCKET_STARTING:
		close_way(c, "it began a moment ago and does not listen yet", "try again in a second");
		return true;
	case TARGET_SOCKET_HIDDEN:
		close_for_rights(p, r, c);
		return true;
	case TARGET_SOCKET_PRESENT:
	case TARGET_SOCKET_NONE:
		return false;
	}
	return false;
}

void rights_judge_events(const struct patient *p, const struct rights *r, const struct err *asked,
			 const struct ipc_process_info *info, struct way_check *ret)
{
	if (close_for_socket(p, r, ret))
		return;
	if (!asked) {
		CLEANUP(buf_free) struct buf version = { 0 };
		const char *v = info->runtime_version ? info->runtime_version : "";
		str_add_visible(&version, v, strcspn(v, "+"), 40);
		open_way(ret, "runtime %s answers", version.len ? buf_cstr(&version) : "(version unknown)");
		return;
	}
	switch (err_kind(asked)) {
	case ERR_DENIED:
		close_for_rights(p, r, ret);
		break;
	case ERR_TIMEOUT:
		close_for_silence(p, ret);
		break;
	case ERR_UNSUPPORTED:
		open_way(ret, "a runtime before .NET 5 answers");
		break;
	default:
		close_way(ret, err_text(asked), "try again; if it stays so, restart the process");
	}
}

/* ---- samples ---- */

static void open_samples(const struct rights *r, bool events, struct way_check *ret)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	bool kernel = !r->perf_kernel_err;
	bool kernel_names = r->kptr_restrict == 0 || (r->kptr_restrict == 1 && have(r, CAP_SYSLOG));
	if (kernel && kernel_names)
		buf_str(&b, "user and kernel frames, time off the CPU");
	else if (kernel)
		buf_str(&b, "user and kernel frames, time off the CPU; names of kernel frames need 'sysctl "
			    "kernel.kptr_restrict=0'");
	else
		buf_str(&b, "user frames; kernel frames and time off the CPU need CAP_PERFMON or 'sysctl "
			    "kernel.perf_event_paranoid=1'");
	if (!events)
		buf_str(&b, "; managed frames without names (those need events)");
	open_way(ret, "%s", buf_cstr(&b));
}

void rights_judge_samples(const struct patient *p, const struct rights *r, bool events, struct way_check *ret)
{
	if (is_invisible(p, ret))
		return;
	int err = r->perf_user_err;
	bool strong = have(r, CAP_PERFMON) || have(r, CAP_SYS_ADMIN);
	if (!r->perf_kernel_err || !err) {
		open_samples(r, events, ret);
	} else if (r->paranoid < 0 || err == ENOSYS || err == EOPNOTSUPP) {
		close_way(ret, "this kernel has no perf events", "use a kernel built with CONFIG_PERF_EVENTS");
	} else if (r->seccomp && err == EPERM) {
		close_way(ret, "our own seccomp profile forbids perf_event_open",
			  "give drdotnet CAP_PERFMON ('docker run --cap-add PERFMON'; older engines: "
			  "--cap-add SYS_ADMIN)");
	} else if (!strong && r->paranoid > 2) {
		CLEANUP(mem_freep)
		char *why =
			mem_printf("kernel.perf_event_paranoid is %d: only privileged users may sample", r->paranoid);
		close_way(ret, why, "'sysctl kernel.perf_event_paranoid=2' on the host, or give drdotnet CAP_PERFMON%s",
			  r->uid == 0 ? " ('docker run --cap-add PERFMON')" : ", or run it as root");
	} else if (!strong && r->uid != p->target.uid) {
		CLEANUP(mem_freep) char *why = mem_printf("it belongs to another user (%s)", p->target.user);
		close_way(ret, why, "run drdotnet as root%s%s, or give it CAP_PERFMON and CAP_SYS_PTRACE",
			  p->target.uid ? " or as user " : "", p->target.uid ? p->target.user : "");
	} else {
		CLEANUP(mem_freep) char *why = mem_printf("perf_event_open: %s", strerror(err));
		close_way(ret, why, "give drdotnet CAP_PERFMON and CAP_SYS_PTRACE on the host");
	}
}

/* ---- image ---- */

/* What a filter allows shows only when its threads are stopped to read it. */
static const char *filter_words(const struct rights *r)
{
	return r->filter == IMAGE_FILTER_READABLE
		       ? ", if its seccomp filter allows that: an examination reads it first, "
			 "and takes the next way if not"
		       : "";
}

/* The kernel said no: first what outranks every right, then the rights in the order in which it asks for them. */
static void close_for_ptrace(const struct patient *p, const struct rights *r, struct way_check *ret)
{
	const struct target *t = &p->target;
	if (r->ptrace_scope == 3)
		close_way(ret, "kernel.yama.ptrace_scope is 3: nobody may attach until the next boot",
			  "boot with kernel.yama.ptrace_scope=2 or lower");
	else if (have(r, CAP_SYS_PTRACE))
		close_way(ret, "it is outside of our user namespace, where our rights do not count",
			  "run drdotnet in the process's user namespace or on the host");
	else if (r->uid != t->uid && r->uid != 0)
		close_way(ret, "it belongs to another user", "run drdotnet as root, or give it CAP_SYS_PTRACE");
	else if (r->ptrace_scope == 1 || r->ptrace_scope == 2)
		close_way(ret,
			  r->ptrace_scope == 1 ? "kernel.yama.ptrace_scope is 1: only its ancestors may attach"
					       : "kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may attach",
			  "%sgive drdotnet CAP_SYS_PTRACE (root; 'docker run --cap-add SYS_PTRACE')%s",
			  r->ptrace_scope == 1 ? "'sysctl kernel.yama.ptrace_scope=0', or " : "", "");
	else
		close_way(ret, "we lack the right to attach to it",
			  "give drdotnet CAP_SYS_PTRACE ('docker run --cap-add SYS_PTRACE', 'capabilities: { add: "
			  "[SYS_PTRACE] }')");
}

void rights_judge_image(const struct patient *p, const struct rights *r, struct way_check *ret)
{
	const struct target *t = &p->target;
	if (is_invisible(p, ret))
		return;
	if (t->socket_state == TARGET_SOCKET_AOT)
		close_way(ret, "NativeAOT has no data access library to read its memory with",
			  "publish it without <PublishAot>");
	else if (t->tracer)
		close_way(ret, "a debugger holds it already", "detach process %d", t->tracer);
	else if (r->memory_err)
		close_for_ptrace(p, r, ret);
	else if (r->ptrace_err == EPERM)
		close_way(ret, "our own seccomp profile forbids ptrace",
			  "give drdotnet CAP_SYS_PTRACE ('docker run --cap-add SYS_PTRACE') or run it with "
			  "'--security-opt "
			  "seccomp=unconfined'");
	else if (r->copy_why)
		close_way(ret, r->copy_why, "%s", r->copy_fix);
	else {
		open_way(ret, "a copy of its memory in a pause of about %s%s", fmt_duration_ns(r->copy_pause_ns).s,
			 filter_words(r));
		ret->pause_ns = r->copy_pause_ns;
	}
}

/* ---- agent ---- */

void rights_judge_agent(const struct rights *r, bool events, struct way_check *ret)
{
	if (!events) {
		close_way(ret, "it is loaded through the diagnostics socket, as events are", "as for events");
	} else if (r->attach_off) {
		close_way(ret, "its runtime was told to take no profilers",
			  "start it without DOTNET_EnableDiagnostics_Profiler=0");
	} else if (!r->folder) {
		close_way(ret, r->folder_why ? r->folder_why : "there is no folder that both can use", "%s",
			  r->folder_noexec ? "mount its /tmp without noexec"
			  : r->uid == 0	   ? "give the process's user write access to its /tmp (a shared volume)"
					   : "give drdotnet write access to the process's /tmp (a shared volume), "
					     "or run it as root");
	} else {
		open_way(ret, "loaded from %s%s%s",
			 str_starts(r->folder, "/proc/") ? "its own temporary folder" : r->folder,
			 r->profiler ? ", beside the profiler it was started with" : "",
			 r->filter == IMAGE_FILTER_HIDDEN
				 ? "; its seccomp filter cannot be read from here, so only calls are made that .NET "
				   "makes "
				   "by itself"
				 : filter_words(r));
	}
}

/* ---- proc ---- */

void rights_judge_proc(const struct patient *p, const struct rights *r, struct way_check *ret)
{
	if (is_invisible(p, ret))
		return;
	bool own = r->uid == p->target.uid || have(r, CAP_SYS_PTRACE);
	open_way(ret, "the kernel's files about it and its control groups, read only%s",
		 p->target.no_access || !own ? "; its open descriptors are hidden from this user" : "");
}

/* ---- all ---- */

static struct err *ask_again(const struct patient *p, uint64_t timeout_ms, struct ipc_process_info *ret)
{
	const struct target *t = &p->target;
	if (!t->socket)
		return err_new(ERR_NOT_FOUND, "it has no diagnostics socket");
	if (t->stopped && !t->tracer)
		return err_new(ERR_TIMEOUT, "it is stopped");
	return ipc_process_info(t->socket, deadline_in_ms(timeout_ms), ret);
}

void patient_check(const struct patient *p, uint64_t timeout_ms, struct way_check ret[WAY_COUNT])
{
	CLEANUP(rights_fini) struct rights r = { 0 };
	CLEANUP(ipc_process_info_fini) struct ipc_process_info info = { 0 };
	ret[WAY_AUTO] = (struct way_check){ 0 };
	if (p->target.pid && !target_alive(&p->target)) {
		for (int way = WAY_EVENTS; way < WAY_COUNT; way++)
			close_way(&ret[way], "it has ended", "start it again");
		return;
	}
	CLEANUP(err_freep) struct err *asked = ask_again(p, timeout_ms, &info);
	rights_read(p, &r);
	rights_judge_events(p, &r, asked, &info, &ret[WAY_EVENTS]);
	bool events = ret[WAY_EVENTS].open;
	rights_judge_samples(p, &r, events, &ret[WAY_SAMPLES]);
	rights_judge_image(p, &r, &ret[WAY_IMAGE]);
	rights_judge_agent(&r, events, &ret[WAY_AGENT]);
	rights_judge_proc(p, &r, &ret[WAY_PROC]);
	for (int way = WAY_EVENTS; way < WAY_COUNT; way++)
		ret[WAY_AUTO].open |= ret[way].open;
}
