#pragma once
/* What we may do to a process, found out without attaching, stopping or writing. Private to ipc.
 *
 * rights_read asks the system; rights_judge_* put the facts into words and ask nothing, so that tests can use any
 * facts. */

#include "image/image.h"
#include "ipc/patient.h"

struct rights {
	uid_t uid;	     /* ours, effective */
	uint64_t caps;	     /* ours, effective */
	bool seccomp;	     /* we run under a filter ourselves */
	int paranoid;	     /* kernel.perf_event_paranoid; -1 = the kernel has no perf */
	int kptr_restrict;   /* kernel.kptr_restrict */
	int ptrace_scope;    /* kernel.yama.ptrace_scope; -1 = no Yama */
	int perf_kernel_err; /* errno of a sampling event with kernel frames, 0 = it opened */
	int perf_user_err;   /* ... without */
	int memory_err;	     /* errno of opening its memory for reading: the kernel applies the rules of attaching */
	int ptrace_err; /* errno of a ptrace call that cannot succeed: EPERM only if our seccomp profile forbids it */
	enum image_filter filter; /* of any thread of it */
	char *folder;		  /* from which it can load a library of ours; NULL = none */
	char *folder_why;	  /* then: the reason */
	bool folder_noexec;	  /* there is one, but nothing in it can be loaded */
	char *copy_why;		  /* why no copy of it can be made; NULL = one can */
	char *copy_fix;		  /* ... and what would help */
	uint64_t copy_pause_ns;	  /* how long it would be stopped for one */
	bool attach_off;	  /* DOTNET_EnableDiagnostics_Profiler=0 */
	char *profiler;		  /* loaded since its start, or NULL */
};
void rights_read(const struct patient *p, struct rights *ret);
void rights_fini(struct rights *r);

void rights_judge_events(const struct patient *p, const struct rights *r, const struct err *asked,
			 const struct ipc_process_info *info, struct way_check *ret);
void rights_judge_samples(const struct patient *p, const struct rights *r, bool events, struct way_check *ret);
void rights_judge_image(const struct patient *p, const struct rights *r, struct way_check *ret);
void rights_judge_agent(const struct rights *r, bool events, struct way_check *ret);
void rights_judge_proc(const struct patient *p, const struct rights *r, struct way_check *ret);
