#pragma once
/* A patient: a target whose runtime was asked for its ProcessInfo. What the rest of the program works with. */

#include "base/vec.h"
#include "ipc/ipc.h"
#include "target/target.h"

/* How long a runtime is waited for that somebody named. */
#define FIND_TIMEOUT_MS 3000

struct patient {
	struct target target;
	struct ipc_process_info info; /* zero when it did not answer */
	bool answered;
	enum err_kind
		failure; /* why it did not answer: ERR_DENIED we lack the right to ask; 0 = it did or was not asked */
	char *remark;	 /* in words, when something is not as usual: "stopped (SIGSTOP), does not answer"; else NULL */
};
VEC_TYPE(patient_list, struct patient);

/* All of them, sorted by id; each runtime gets timeout_ms to answer, all are asked in parallel. Sockets without a
 * process and without a listener are left out. */
struct err *patient_find_all(uint64_t timeout_ms, struct patient_list *ret) MUST_USE;
/* By id, process name or assembly name. A pid that no .NET process has here may be the one that a process has for itself
 * of which only the socket is seen, as from another container. Several matches: ERR_USAGE with a text that lists them, one a line. No such:
 * ERR_NOT_FOUND. One that we lack the right to ask: ERR_DENIED. */
struct err *patient_find(const char *spec, uint64_t timeout_ms, struct patient *ret) MUST_USE;
/* The same, but one that we may not ask is found as well. */
struct err *patient_look(const char *spec, uint64_t timeout_ms, struct patient *ret) MUST_USE;
void patient_fini(struct patient *p);
void patient_list_free(struct patient_list *list);
/* The name to show: entry assembly, else process name. */
const char *patient_name(const struct patient *p);
/* The process's own name, where that is one: "dotnet" is what starts any program, and then it is its assembly's. */
const char *patient_process(const struct patient *p);

/* The five ways to look into a patient. By proc only the kernel's files are read, those of /proc and of control groups: the
 * process takes no part in it. */
enum way { WAY_AUTO, WAY_EVENTS, WAY_SAMPLES, WAY_IMAGE, WAY_AGENT, WAY_PROC, WAY_COUNT };
const char *way_name(enum way way); /* "auto", "events" ... */
struct err *way_parse(const char *word, enum way *ret) MUST_USE;

/* Which of them are open from here, and what would open the closed ones. */
struct way_check {
	bool open;
	char *how;	   /* open: what we will get ("user and kernel frames") */
	uint64_t pause_ns; /* open: about how long it stands still for that; 0 = not at all, or not known */
	char *why;	   /* closed: the reason */
	char *fix;	   /* closed: the exact right, setting or mount that would open it */
};
void patient_check(const struct patient *p, uint64_t timeout_ms, struct way_check ret[WAY_COUNT]);
void way_check_fini(struct way_check *check);
