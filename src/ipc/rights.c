#include "ipc/rights.h"
#include "base/buf.h"
#include "base/closer.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/image.h"
#include "ipc/folder.h"
#include "target/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

static int read_setting(const char *path, int otherwise)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read(path, 64, &text);
	int value = err ? otherwise : atoi(buf_cstr(&text));
	err_free(err);
	return value;
}

static void read_own_status(struct proc_status *ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct err *err = file_read("/proc/self/status", 1 << 20, &text);
	if (err || !proc_parse_status(buf_cstr(&text), text.len, ret))
		*ret = (struct proc_status){ 0 };
	err_free(err);
}

/* The event is never enabled. */
static int try_perf(pid_t pid, bool kernel)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = 99,
		.freq = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.disabled = 1,
		.exclude_hv = 1,
		.exclude_guest = 1,
		.exclude_kernel = !kernel,
		.exclude_callchain_kernel = !kernel,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return errno;
	struct closer *closer = closer_new();
	closer_take(closer, &fd, 1);
	closer_free(closer);
	return 0;
}

static int try_memory(pid_t pid)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/mem", pid);
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? errno : 0;
}

/* Asks for the registers of a process that we do not hold: the kernel answers ESRCH, a seccomp profile EPERM. */
static int try_ptrace(pid_t pid)
{
	long n = ptrace(PTRACE_PEEKUSER, pid, NULL, NULL);
	return n == -1 ? errno : 0;
}

static void ask_for_copy(const struct patient *p, struct rights *r)
{
	struct image_forecast forecast;
	const struct image_limits limits = { .cookie = p->answered ? p->info.cookie : NULL };
	struct err *err = image_forecast(&p->target, &limits, &forecast);
	r->copy_pause_ns = forecast.pause_ns;
	if (err) {
		r->copy_why = mem_strdup(err_text(err));
		r->copy_fix = mem_strdup(forecast.fix ? forecast.fix : "try again");
	}
	err_free(err);
}

static void find_profiler(const struct target *t, struct rights *r)
{
	CLEANUP(mem_freep) char *on = target_env(t, "CORECLR_ENABLE_PROFILING");
	CLEANUP(mem_freep) char *off = target_env(t, "DOTNET_EnableDiagnostics_Profiler");
	if (str_eq(on, "1"))
		r->profiler = target_env(t, "CORECLR_PROFILER");
	r->attach_off = str_eq(off, "0");
}

static void find_folder(const struct target *t, struct rights *r)
{
	CLEANUP(patient_folder_fini) struct patient_folder f = PATIENT_FOLDER_NONE;
	struct err *err = patient_folder_for_library(t, &f);
	if (err)
		r->folder_why = mem_strdup(err_text(err));
	else
		r->folder = STEAL(f.path);
	r->folder_noexec = err && err_kind(err) == ERR_UNSUPPORTED;
	err_free(err);
}

void rights_read(const struct patient *p, struct rights *ret)
{
	struct proc_status self = { 0 };
	const struct target *t = &p->target;
	read_own_status(&self);
	*ret = (struct rights){
		.uid = geteuid(),
		.caps = self.cap_effective,
		.seccomp = self.seccomp != 0,
		.paranoid = read_setting("/proc/sys/kernel/perf_event_paranoid", -1),
		.kptr_restrict = read_setting("/proc/sys/kernel/kptr_restrict", 0),
		.ptrace_scope = read_setting("/proc/sys/kernel/yama/ptrace_scope", -1),
	};
	find_folder(t, ret);
	if (!t->pid)
		return;
	ret->filter = image_filter(t);
	ret->perf_kernel_err = try_perf(t->pid, true);
	ret->perf_user_err = ret->perf_kernel_err ? try_perf(t->pid, false) : 0;
	ret->memory_err = try_memory(t->pid);
	ret->ptrace_err = try_ptrace(t->pid);
	ask_for_copy(p, ret);
	find_profiler(t, ret);
}

void rights_fini(struct rights *r)
{
	mem_free(r->folder);
	mem_free(r->folder_why);
	mem_free(r->profiler);
	mem_free(r->copy_why);
	mem_free(r->copy_fix);
	*r = (struct rights){ 0 };
}
