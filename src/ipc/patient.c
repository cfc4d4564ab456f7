#include "ipc/patient.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "ipc/ask.h"
#include "ipc/connect.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <fcntl.h>
#include <unistd.h>

/* Above any pid (pid_max is at most 2^22), within int. */
#define FIRST_FREE_ID 0x40000000

#define SUGGESTIONS_MAX 8

void patient_fini(struct patient *p)
{
	target_fini(&p->target);
	ipc_process_info_fini(&p->info);
	mem_free(p->remark);
	*p = (struct patient){ 0 };
}

void patient_list_free(struct patient_list *list)
{
	vec_each(p, list)
		patient_fini(p);
	vec_free(list);
}

const char *patient_name(const struct patient *p)
{
	if (!str_empty(p->info.entry_assembly))
		return p->info.entry_assembly;
	return str_empty(p->target.name) ? "?" : p->target.name;
}

const char *patient_process(const struct patient *p)
{
	return str_eq(p->target.name, "dotnet") ? patient_name(p) : p->target.name;
}

/* ---- remarks ---- */

static void remark(struct patient *p, const char *fmt, ...) PRINTF(2, 3);
static void remark(struct patient *p, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	char *all = p->remark ? mem_printf("%s; %s", p->remark, text) : mem_strdup(text);
	mem_free(p->remark);
	p->remark = all;
}

static void remark_denied(struct patient *p)
{
	if (p->target.uid)
		remark(p, "needs root or user %s", p->target.user);
	else
		remark(p, "needs root");
}

static void remark_socket(struct patient *p)
{
	const struct target *t = &p->target;
	switch (t->socket_state) {
	case TARGET_SOCKET_DISABLED:
		remark(p, "its diagnostics were switched off at start");
		break;
	case TARGET_SOCKET_AOT:
		remark(p, "NativeAOT, built without diagnostics");
		break;
	case TARGET_SOCKET_MISSING:
		remark(p, "its diagnostics socket is missing");
		break;
	case TARGET_SOCKET_STARTING:
		remark(p, "it began a moment ago and does not listen yet");
		break;
	case TARGET_SOCKET_HIDDEN:
		p->failure = ERR_DENIED;
		remark_denied(p);
		break;
	case TARGET_SOCKET_PRESENT:
	case TARGET_SOCKET_NONE:
		break;
	}
}

static void remark_error(struct patient *p, const struct err *err, uint64_t timeout_ms)
{
	p->failure = err_kind(err);
	switch (err_kind(err)) {
	case ERR_TIMEOUT:
		remark(p, "does not answer (waited %s)", fmt_duration_ns(timeout_ms * NS_PER_MS).s);
		break;
	case ERR_DENIED:
		remark_denied(p);
		break;
	case ERR_UNSUPPORTED:
		remark(p, "older than .NET 5");
		break;
	default:
		remark(p, "%s", err_text(err));
	}
}

static void remark_state(struct patient *p)
{
	const struct target *t = &p->target;
	if (t->tracer)
		remark(p, "held by a debugger (process %d)", t->tracer);
	else if (t->stopped)
		remark(p, "stopped (SIGSTOP), cannot answer");
	if (!str_empty(t->diagnostic_ports))
		remark(p, "dials out to %s", t->diagnostic_ports);
}

/* A stopped process takes the call into its queue and never answers it. */
static bool worth_asking(const struct target *t)
{
	return t->socket && (!t->stopped || t->tracer);
}

/* ---- asking ---- */

static int id_of_cookie(const uint8_t cookie[16])
{
	return FIRST_FREE_ID | (int)(hash_bytes(cookie, 16, 0) & (FIRST_FREE_ID - 1));
}

/* For one that does not say its cookie. */
static int id_of_name(const char *socket)
{
	const char *slash = strrchr(socket, '/');
	const char *name = slash ? slash + 1 : socket;
	return FIRST_FREE_ID | (int)(hash_bytes(name, strlen(name), 0) & (FIRST_FREE_ID - 1));
}

/* What is known of a process that we do not see, from its socket alone. */
static void name_by_answer(struct patient *p)
{
	p->target.id = id_of_cookie(p->info.cookie);
	const char *line = p->info.command_line ? p->info.command_line : "";
	size_t len = strcspn(line, " ");
	const char *start = line;
	for (const char *c = line; c < line + len; c++)
		if (*c == '/')
			start = c + 1;
	mem_free(p->target.name);
	mem_free(p->target.command_line);
	p->target.name = mem_strndup(start, (size_t)(line + len - start));
	p->target.command_line = mem_strdup(line);
}

/* Takes the answer over. */
static void settle(struct patient *p, struct question *q, uint64_t timeout_ms)
{
	p->answered = !q->err;
	p->info = q->info;
	q->info = (struct ipc_process_info){ 0 };
	if (p->answered && !p->target.pid)
		name_by_answer(p);
	remark_state(p);
	remark_socket(p);
	if (q->err)
		remark_error(p, q->err, timeout_ms);
	err_free(STEAL(q->err));
}

/* Does /proc show our own pid namespace? The kernel gives the pid of a socket's other end in our own namespace. */
static bool proc_is_ours(void)
{
	char link[32];
	uint64_t pid;
	ssize_t n = readlink("/proc/self", link, sizeof(link) - 1);
	link[MAX(n, 0)] = '\0';
	return str_to_u64(link, &pid) && (pid_t)pid == getpid();
}

/* By its name the socket is that of a process that we see, but who listens is not seen from here. Two processes in different pid
 * namespaces may have the same pid and the same start time, as the first ones of two containers that were started together. */
static bool is_of_another(const struct target *t, const struct question *q)
{
	bool connected = !q->err || err_kind(q->err) == ERR_TIMEOUT;
	return t->pid && connected && !q->peer_pid && proc_is_ours();
}

static void disown(struct target *t)
{
	struct target other;
	if (!target_of_socket(t->socket, &other))
		return;
	target_fini(t);
	*t = other;
}

/* Asks every patient of the list that should be asked; peers (as many) gets the pid of each listener, where known. */
static void ask_patients(struct patient_list *list, uint64_t timeout_ms, pid_t *peers)
{
	CLEANUP(mem_freep) struct question *questions = mem_zalloc((list->n + 1) * sizeof(*questions));
	CLEANUP(mem_freep) size_t *of = mem_zalloc((list->n + 1) * sizeof(*of));
	size_t n = 0;
	for (size_t i = 0; i < list->n; i++) {
		struct target *t = &list->v[i].target;
		if (!worth_asking(t))
			continue;
		of[n] = i;
		questions[n++] = (struct question){ .socket = t->socket, .expect_pid = t->pid };
	}
	ask_all(questions, n, timeout_ms);
	for (size_t i = 0, asked = 0; i < list->n; i++) {
		if (asked < n && of[asked] == i) {
			peers[i] = questions[asked].peer_pid;
			if (is_of_another(&list->v[i].target, &questions[asked]))
				disown(&list->v[i].target);
			settle(&list->v[i], &questions[asked++], timeout_ms);
		} else {
			remark_state(&list->v[i]);
			remark_socket(&list->v[i]);
		}
	}
}

/* ---- sockets without a process ---- */

static bool same_runtime(const struct patient *a, const struct patient *b)
{
	return a->answered && b->answered && !memcmp(a->info.cookie, b->info.cookie, sizeof(a->info.cookie));
}

/* There is a listener, whether it answers or not. */
static bool is_alive(const struct patient *orphan)
{
	return orphan->answered || orphan->failure == ERR_TIMEOUT || orphan->failure == ERR_BUSY ||
	       orphan->failure == ERR_UNSUPPORTED;
}

/* The socket turned out to be that of a visible process whose name for it we could not compute. */
static void adopt(struct patient *owner, struct patient *orphan)
{
	if (owner->target.socket)
		return;
	struct patient merged = *orphan;
	*orphan = (struct patient){ 0 };
	char *socket = STEAL(merged.target.socket);
	target_fini(&merged.target);
	merged.target = owner->target;
	merged.target.socket = socket;
	merged.target.socket_state = TARGET_SOCKET_PRESENT;
	owner->target = (struct target){ 0 };
	patient_fini(owner);
	*owner = merged;
}

/* The runtimes behind the sockets in our own folder: some are those of patients we have already. */
static bool stands_alone(struct patient_list *list, struct patient *orphan, pid_t peer)
{
	if (!is_alive(orphan))
		return false;
	vec_each(p, list) {
		if (p == orphan || !p->target.pid)
			continue;
		if (peer && p->target.pid == peer)
			adopt(p, orphan);
		else if (!same_runtime(p, orphan))
			continue;
		return false;
	}
	struct patient owner = { 0 };
	struct err *err = peer ? target_find_pid(peer, &owner.target) : NULL;
	err_free(err);
	if (owner.target.pid) {
		mem_free(STEAL(owner.target.socket)); /* it began after the list: the socket that answered is its own */
		adopt(&owner, orphan);
		*orphan = owner;
		return true;
	}
	if (!orphan->answered)
		orphan->target.id = id_of_name(orphan->target.socket);
	remark(orphan, "seen by its socket only");
	return true;
}

/* Processes that ended while we asked are left out, and so are sockets without a listener. */
static void drop_the_gone(struct patient_list *list, const pid_t *peers)
{
	CLEANUP(mem_freep) bool *keep = mem_zalloc(list->n + 1);
	for (size_t i = 0; i < list->n; i++)
		keep[i] = list->v[i].target.pid ? list->v[i].answered || target_alive(&list->v[i].target)
						: stands_alone(list, &list->v[i], peers[i]);
	size_t kept = 0;
	for (size_t i = 0; i < list->n; i++) {
		if (keep[i])
			list->v[kept++] = list->v[i];
		else
			patient_fini(&list->v[i]);
	}
	list->n = kept;
}

static int by_id(const void *a, const void *b)
{
	const struct patient *x = a, *y = b;
	return CMP(x->target.id, y->target.id);
}

/* Without the right to ask it cannot be told whether there is a runtime, and most such sockets are left over. */
static bool is_worth(void *user, const char *socket)
{
	return connect_worth(*(const int *)user, socket);
}

struct err *patient_find_all(uint64_t timeout_ms, struct patient_list *ret)
{
	CLEANUP(target_list_free) struct target_list targets = { 0 };
	CLOSE_FD int probe_fd = connect_probe();
	struct target_probe probe = { is_worth, &probe_fd };
	TRY(target_find_all(&probe, &targets));
	struct patient_list list = { 0 };
	vec_each(t, &targets)
		vec_push(&list, ((struct patient){ .target = *t }));
	targets.n = 0;
	CLEANUP(mem_freep) pid_t *peers = mem_zalloc((list.n + 1) * sizeof(*peers));
	ask_patients(&list, timeout_ms, peers);
	drop_the_gone(&list, peers);
	vec_sort(&list, by_id);
	*ret = list;
	return NULL;
}

/* ---- finding one ---- */

static void describe(struct buf *b, const struct patient *p)
{
	buf_printf(b, "%d ", p->target.id);
	str_add_visible(b, patient_name(p), strlen(patient_name(p)), 60);
	if (p->target.user) {
		buf_str(b, " (user ");
		str_add_visible(b, p->target.user, strlen(p->target.user), 40);
		buf_char(b, ')');
	}
}

static struct err *not_a_patient(const struct target *t)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	str_add_visible(&name, t->name, strlen(t->name), 60);
	if (t->zombie)
		return err_new(ERR_NOT_FOUND, "process %d (%s) has ended: only its entry in the process table is left",
			       t->pid, buf_cstr(&name));
	return err_new(ERR_NOT_FOUND, "process %d (%s) is not a .NET process; 'drdotnet ps' lists those", t->pid,
		       buf_cstr(&name));
}

static struct err *look_at_pid(pid_t pid, uint64_t timeout_ms, struct patient *ret)
{
	struct patient p = { 0 };
	struct err *missing = target_find_pid(pid, &p.target);
	if (missing && err_kind(missing) != ERR_NOT_FOUND)
		return missing; /* a lack of ours */
	if (missing) {
		err_free(missing);
		return err_new(ERR_NOT_FOUND, "there is no process %d; 'drdotnet ps' lists the .NET processes", pid);
	}
	if (p.target.socket_state == TARGET_SOCKET_NONE) {
		struct err *err = not_a_patient(&p.target);
		patient_fini(&p);
		return err;
	}
	struct patient_list list = { .v = &p, .n = 1, .cap = 1 };
	pid_t peer;
	ask_patients(&list, timeout_ms, &peer);
	if (!p.target.pid) {
		patient_fini(&p);
		return err_new(ERR_NOT_FOUND, "process %d is not a .NET process; 'drdotnet ps' lists those", pid);
	}
	*ret = p;
	return NULL;
}

/* "shop" and "Shop.dll" are both Shop; 2 = letter by letter, 1 = but for case and ".dll", 0 = another. */
static int match_name(const char *name, const char *spec)
{
	if (!name || !*name)
		return 0;
	if (str_eq(name, spec))
		return 2;
	size_t a = strlen(name), b = strlen(spec);
	if (a > 4 && str_eq_nocase(name + a - 4, ".dll"))
		a -= 4;
	if (b > 4 && str_eq_nocase(spec + b - 4, ".dll"))
		b -= 4;
	return a == b && !strncasecmp(name, spec, a);
}

/* NAMESPACE/POD, or that with the container's name behind. */
static int match_pod(const char *pod, const char *spec)
{
	size_t len = strlen(spec);
	bool same = pod && strchr(spec, '/') && str_starts(pod, spec) && (!pod[len] || pod[len] == '/');
	return same ? 2 : 0;
}

static int match(const struct patient *p, const char *spec)
{
	int how = MAX(match_name(p->info.entry_assembly, spec), match_name(p->target.name, spec));
	return MAX(how, match_pod(p->target.pod, spec));
}

static struct err *no_match(const struct patient_list *list, const char *spec)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_str(&b, "no .NET process is called '");
	str_add_visible(&b, spec, strlen(spec), 80);
	buf_str(&b, list->n ? "'; there are: " : "'; none is running that can be seen from here");
	for (size_t i = 0; i < MIN(list->n, (size_t)SUGGESTIONS_MAX); i++) {
		if (i)
			buf_str(&b, ", ");
		describe(&b, &list->v[i]);
	}
	if (list->n > SUGGESTIONS_MAX)
		buf_printf(&b, " and %zu more ('drdotnet ps')", list->n - SUGGESTIONS_MAX);
	return err_new(ERR_NOT_FOUND, "%s", buf_cstr(&b));
}

static struct err *many_match(const struct patient_list *list, const char *spec, int how)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_str(&b, "several processes are called '");
	str_add_visible(&b, spec, strlen(spec), 80);
	buf_str(&b, "'; name one by its number:");
	for (size_t i = 0; i < list->n; i++) {
		if (match(&list->v[i], spec) != how)
			continue;
		buf_str(&b, "\n  ");
		describe(&b, &list->v[i]);
	}
	return err_new(ERR_USAGE, "%s", buf_cstr(&b));
}

static struct err *take_match(struct patient_list *list, const char *spec, struct patient *ret)
{
	int best = 0;
	size_t n = 0, found = 0;
	for (size_t i = 0; i < list->n; i++) {
		int how = match(&list->v[i], spec);
		if (how > best) {
			best = how;
			n = 0;
		}
		if (how && how == best && !n++)
			found = i;
	}
	if (!n)
		return no_match(list, spec);
	if (n > 1)
		return many_match(list, spec, best);
	*ret = list->v[found];
	list->v[found] = (struct patient){ 0 };
	return NULL;
}

static struct err *take_id(struct patient_list *list, int id, struct patient *ret)
{
	vec_each(p, list) {
		bool by_name = !p->target.pid && id_of_name(p->target.socket) == id;
		if (p->target.id != id && !by_name)
			continue;
		*ret = *p;
		*p = (struct patient){ 0 };
		return NULL;
	}
	return err_new(ERR_NOT_FOUND, "no .NET process has the number %d; 'drdotnet ps' lists those there are", id);
}

static bool is_called_so(const struct patient *p, pid_t pid)
{
	return !p->target.pid && target_socket_pid(&p->target) == pid;
}

static struct err *many_sockets(const struct patient_list *list, pid_t pid)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_printf(&b, "several processes are %d where they run; name one by its number here:", pid);
	vec_each(p, list) {
		if (!is_called_so(p, pid))
			continue;
		buf_str(&b, "\n  ");
		describe(&b, p);
	}
	return err_new(ERR_USAGE, "%s", buf_cstr(&b));
}

/* Of those that are seen by their sockets only, by the pid that each has for itself; `none` when there is no such. */
static struct err *look_at_socket(pid_t pid, uint64_t timeout_ms, struct err *none, struct patient *ret)
{
	CLEANUP(err_freep) struct err *otherwise = none;
	CLEANUP(patient_list_free) struct patient_list list = { 0 };
	struct patient *found = NULL;
	size_t n = 0;
	TRY(patient_find_all(timeout_ms, &list));
	vec_each(p, &list) {
		if (is_called_so(p, pid) && !n++)
			found = p;
	}
	if (n > 1)
		return many_sockets(&list, pid);
	if (!n)
		return STEAL(otherwise);
	*ret = *found;
	*found = (struct patient){ 0 };
	return NULL;
}

struct err *patient_look(const char *spec, uint64_t timeout_ms, struct patient *ret)
{
	if (str_empty(spec))
		return err_new(ERR_USAGE, "name a target: a process id, a process name or an assembly name");
	uint64_t number;
	bool is_number = str_to_u64(spec, &number);
	if (is_number && number > 0 && number < FIRST_FREE_ID) {
		struct err *err = look_at_pid((pid_t)number, timeout_ms, ret);
		bool unseen = err && err_kind(err) == ERR_NOT_FOUND;
		return unseen ? look_at_socket((pid_t)number, timeout_ms, err, ret) : err;
	}
	CLEANUP(patient_list_free) struct patient_list list = { 0 };
	TRY(patient_find_all(timeout_ms, &list));
	if (is_number && number <= INT32_MAX)
		return take_id(&list, (int)number, ret);
	return take_match(&list, spec, ret);
}

struct err *patient_find(const char *spec, uint64_t timeout_ms, struct patient *ret)
{
	struct patient p = { 0 };
	TRY(patient_look(spec, timeout_ms, &p));
	if (p.failure == ERR_DENIED) {
		struct err *err =
			err_new(ERR_DENIED, "process %d belongs to user %s: run drdotnet as that user or as root",
				p.target.id, p.target.user);
		patient_fini(&p);
		return err;
	}
	*ret = p;
	return NULL;
}
