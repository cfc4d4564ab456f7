/* drdotnet counters: live numbers of one process, for people (a screen, lines) and for programs (JSON, CSV,
 * Prometheus). Keeps no session: what is seen is not stored unless it is written to a file. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/counters_export.h"
#include "cli/counters_screen.h"
#include "eventpipe/settle.h"
#include "ipc/patient.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#define OPEN_TIMEOUT_MS 10000
#define STOP_GRACE_MS 2000
#define MAX_GROUPS 64
#define MAX_ITEMS 100
#define MAX_INTERVAL_MS 3600000
#define RUNTIME "System.Runtime"
#define FIRST_WITH_RUNTIME_METER 9
#define FIRST_WITH_WILDCARD 9

/* ---- what is asked for ---- */

struct asked_group {
	char *text; /* owns the words */
	const char **items;
	struct counters_group group;
};
typedef VEC(struct asked_group) groups_vec;

enum form { FORM_PLAIN, FORM_SCREEN, FORM_JSON, FORM_PROMETHEUS, FORM_NONE };

struct counters_order {
	const char *target, *csv;
	groups_vec counters, meters;
	bool all, once;
	enum form form;
	uint64_t interval_ms, duration_ms; /* duration 0 = until told otherwise */
};

static void groups_free(groups_vec *groups)
{
	vec_each(g, groups) {
		mem_free(g->text);
		mem_free(g->items);
	}
	vec_free(groups);
}

static void order_fini(struct counters_order *o)
{
	groups_free(&o->counters);
	groups_free(&o->meters);
}

static struct err *bad_group(const char *option, const char *text)
{
	return err_new(ERR_USAGE,
		       "%s takes a name such as System.Runtime or System.Runtime[cpu-usage,gc-count], not '%s'", option,
		       text);
}

/* They travel in a list of key=value;... that knows no quoting. */
static bool is_name(const char *s)
{
	for (const char *p = s; *p; p++)
		if (strchr(",;=\\\"[]", *p) || iscntrl((unsigned char)*p))
			return false;
	return *s && strlen(s) < 200;
}

static struct err *add_group(groups_vec *groups, const char *option, const char *text, bool optional)
{
	if (groups->n >= MAX_GROUPS)
		return err_new(ERR_USAGE, "%s can be given %d times at most", option, MAX_GROUPS);
	struct asked_group *g = vec_add(groups);
	*g = (struct asked_group){ .text = mem_strdup(text) };
	char *bracket = strchr(g->text, '['), *end = g->text + strlen(g->text) - 1;
	if (bracket) {
		if (*end != ']' || bracket == g->text)
			return bad_group(option, text);
		*bracket = *end = '\0';
		char *rest = bracket + 1, *word;
		g->items = mem_array(MAX_ITEMS, sizeof(*g->items));
		while ((word = strsep(&rest, ","))) {
			if (!is_name(word) || g->group.n_items == MAX_ITEMS)
				return bad_group(option, text);
			g->items[g->group.n_items++] = word;
		}
	}
	if (!is_name(g->text))
		return bad_group(option, text);
	g->group.name = g->text;
	g->group.items = g->items;
	g->group.optional = optional;
	return NULL;
}

static struct err *read_time(const struct args *args, const char *option, uint64_t min_ms, uint64_t max_ms,
			     uint64_t *ret)
{
	const char *text = args_value(args, option);
	uint64_t ms;
	if (!text)
		return NULL;
	if (!str_to_duration_ms(text, &ms) || ms < min_ms || ms > max_ms)
		return err_new(ERR_USAGE, "%s takes a time from %s to %s, such as 1s or 2m, not '%s'", option,
			       fmt_duration_ns(min_ms * NS_PER_MS).s, fmt_duration_ns(max_ms * NS_PER_MS).s, text);
	*ret = ms;
	return NULL;
}

static struct err *choose_form(const struct args *args, struct counters_order *o)
{
	bool json = args_has(args, "--json"), prometheus = args_has(args, "--prometheus"),
	     plain = args_has(args, "--plain");
	if (json + prometheus + plain > 1)
		return err_new(ERR_USAGE, "choose one of --plain, --json and --prometheus");
	const char *term = getenv("TERM");
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !str_empty(term) && !str_eq(term, "dumb");
	o->once = args_has(args, "--once") || prometheus;
	o->csv = args_value(args, "--csv");
	bool to_stdout = str_eq(o->csv, "-");
	if (to_stdout && (json || prometheus || plain))
		return err_new(ERR_USAGE, "--csv - and another form cannot both go to standard output");
	if (o->csv && !*o->csv)
		return err_new(ERR_USAGE, "--csv needs the name of a file");
	o->form = json			 ? FORM_JSON
		  : prometheus		 ? FORM_PROMETHEUS
		  : plain		 ? FORM_PLAIN
		  : to_stdout		 ? FORM_NONE
		  : terminal && !o->once ? FORM_SCREEN
		  : o->csv && !terminal	 ? FORM_NONE
					 : FORM_PLAIN;
	return NULL;
}

static struct err *order_read(const struct args *args, struct counters_order *o)
{
	o->target = args->words[0];
	o->all = args_has(args, "--all");
	o->interval_ms = COUNTERS_INTERVAL_MS;
	for (size_t i = 0; i < args->n_given; i++) {
		const struct args_given *g = &args->given[i];
		if (str_eq(g->option->name, "--meter"))
			TRY(add_group(&o->meters, "--meter", g->value, false));
		else if (str_eq(g->option->name, "--counter"))
			TRY(add_group(&o->counters, "--counter", g->value, false));
	}
	TRY(read_time(args, "--interval", COUNTERS_MIN_INTERVAL_MS, MAX_INTERVAL_MS, &o->interval_ms));
	TRY(read_time(args, "--duration", 1, (uint64_t)30 * 86400000, &o->duration_ms));
	return choose_form(args, o);
}

static bool has_release(const struct patient *p, int release)
{
	return p->info.runtime_version && atoi(p->info.runtime_version) >= release;
}

/* What that means for a runtime of this age. */
static struct err *complete_order(struct counters_order *o, const struct patient *p)
{
	bool has_meter = has_release(p, FIRST_WITH_RUNTIME_METER);
	if (o->all) {
		for (size_t i = has_meter ? 1 : 0; counters_usual[i]; i++)
			TRY(add_group(&o->counters, "--all", counters_usual[i], true));
	} else if (!o->counters.n && !o->meters.n) {
		TRY(add_group(has_meter ? &o->meters : &o->counters, "", RUNTIME, false));
	}
	return NULL;
}

/* ---- receiving ---- */

struct counters_listening {
	const struct counters_order *order;
	struct patient patient;
	struct counters *c;
	struct counters_view view;
	struct counters_screen *screen;
	int csv; /* a file, or -1 */
	int signal_fd;
	uint64_t ticks;
	bool said_missing, first_done, broken; /* broken: the reader of our output has gone */
	size_t notes_said;
	int write_errno;
};

static struct err *listen_to_signals(int *ret_fd)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_errno(errno, "listen for signals");
	return NULL;
}

static void say(const char *text, size_t len)
{
	CLEANUP(buf_free) struct buf safe = { 0 };
	str_add_visible(&safe, text, len, 0);
	fprintf(stderr, "drdotnet: %s\n", buf_cstr(&safe));
}

static void say_lines(const char *text)
{
	for (const char *p = text, *end; (end = strchr(p, '\n')); p = end + 1)
		say(p, (size_t)(end - p));
}

/* On standard error, unless the screen shows them. */
static void say_news(struct counters_listening *l)
{
	for (const char *note; !l->screen && (note = counters_note(l->c, l->notes_said)); l->notes_said++)
		say(note, strlen(note));
	if (l->screen || l->said_missing || !counters_complete(l->c))
		return;
	l->said_missing = true;
	CLEANUP(buf_free) struct buf missing = { 0 };
	counters_missing(l->c, &missing);
	say_lines(buf_cstr(&missing));
}

/* Never blocks in a write: a reader that does not read must not keep us from handling a signal. What poll calls
 * writable takes PIPE_BUF bytes at once. */
static void write_out(struct counters_listening *l, int fd, const struct buf *text)
{
	for (size_t done = 0; done < text->len && !l->broken;) {
		struct pollfd fds[] = { { .fd = fd, .events = POLLOUT }, { .fd = l->signal_fd, .events = POLLIN } };
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			l->broken = true;
		else if (fds[0].revents) {
			ssize_t n = write(fd, text->data + done, MIN(text->len - done, (size_t)PIPE_BUF));
			if (n < 0 && errno != EINTR && errno != EAGAIN) {
				l->broken = true;
				l->write_errno = errno;
			}
			done += n > 0 ? (size_t)n : 0;
		} else if (fds[1].revents) {
			l->broken = true;
		}
	}
}

static void show_interval(struct counters_listening *l)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(buf_free) struct buf csv = { 0 };
	switch (l->order->form) {
	case FORM_SCREEN:
		counters_screen_draw(l->screen);
		break;
	case FORM_PLAIN:
		counters_plain(&l->view, !l->first_done, &text);
		break;
	case FORM_JSON:
		counters_json(&l->view, &l->patient, &text);
		break;
	case FORM_PROMETHEUS:
		counters_prometheus(&l->view, &text);
		break;
	case FORM_NONE:
		break;
	}
	write_out(l, STDOUT_FILENO, &text);
	if (l->csv >= 0) {
		counters_csv(&l->view, &csv);
		write_out(l, l->csv, &csv);
	}
	l->first_done = true;
}

static void on_ticks(struct counters_listening *l)
{
	if (l->ticks == counters_ticks(l->c))
		return;
	l->ticks = counters_ticks(l->c);
	say_news(l);
	if (!l->order->once || counters_complete(l->c))
		show_interval(l);
}

/* Until the duration is over, the process ends, or the user stops it. */
static struct err *listen_on(struct counters_listening *l)
{
	struct deadline end = l->order->duration_ms ? deadline_in_ms(l->order->duration_ms) : DEADLINE_NEVER;
	bool ended = false;
	if (l->screen)
		counters_screen_draw(l->screen);
	while (!ended && !l->broken && !deadline_passed(end) && !(l->order->once && l->first_done)) {
		struct pollfd fds[COUNTERS_MAX_FDS + 2];
		size_t n = counters_fds(l->c, fds);
		fds[n] = (struct pollfd){ .fd = l->signal_fd, .events = POLLIN };
		fds[n + 1] = (struct pollfd){ .fd = l->screen ? STDIN_FILENO : -1, .events = POLLIN };
		struct deadline due = counters_due(l->c);
		due.at_ns = MIN(due.at_ns, end.at_ns);
		bool interrupted = poll(fds, n + 2, deadline_poll_ms(due)) < 0;
		if (interrupted && errno != EINTR)
			return err_errno(errno, "poll");
		if (!interrupted && fds[n].revents)
			return NULL;
		if (l->screen && (interrupted || fds[n + 1].revents)) { /* a signal reports a new size */
			if (counters_screen_keys(l->screen) == COUNTERS_QUIT ||
			    (!interrupted && fds[n + 1].revents & POLLHUP))
				return NULL;
		}
		TRY(counters_pump(l->c, &ended));
		on_ticks(l);
	}
	if (l->write_errno && l->write_errno != EPIPE)
		return err_errno(l->write_errno, "cannot write what was heard");
	if (ended)
		say("the process has ended", strlen("the process has ended"));
	return NULL;
}

static struct err *open_csv(struct counters_listening *l)
{
	if (!l->order->csv)
		return NULL;
	l->csv = str_eq(l->order->csv, "-") ? dup(STDOUT_FILENO)
					    : open(l->order->csv, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (l->csv < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EISDIR)) /* not found is said of targets */
		return err_new(ERR_USAGE, "cannot write to '%s': %s", l->order->csv, strerror(errno));
	if (l->csv < 0)
		return err_errno(errno, "cannot write to '%s'", l->order->csv);
	CLEANUP(buf_free) struct buf head = { 0 };
	counters_csv_head(&head);
	write_out(l, l->csv, &head);
	return NULL;
}

static char *title_of(const struct patient *p)
{
	struct buf title = { 0 };
	const char *name = patient_name(p), *version = p->info.runtime_version;
	str_add_visible(&title, name, strlen(name), 40);
	buf_printf(&title, " (%d)", p->target.id);
	if (version) {
		buf_str(&title, "  .NET ");
		str_add_visible(&title, version, strcspn(version, "+"), 20);
	}
	return buf_steal(&title);
}

/* Also after a failure: the runtime must not be left with a session that ends at a bad moment. */
static struct err *stop(struct counters_listening *l, struct err *failed)
{
	struct signalfd_siginfo info;
	while (read(l->signal_fd, &info, sizeof(info)) > 0)
		;
	uint64_t patience_ms = 2 * counters_interval_ms(l->c) + STOP_GRACE_MS;
	struct err *err = counters_stop(l->c, deadline_in_ms(patience_ms), l->signal_fd);
	if (failed) {
		err_ignore(err);
		return failed;
	}
	if (err)
		say(err_text(err), strlen(err_text(err)));
	err_ignore(err);
	return NULL;
}

static struct err *listen_to(struct counters_listening *l, struct counters_order *o)
{
	VEC(struct counters_group) counters = { 0 }, meters = { 0 };
	const struct counters_group instead = { .name = RUNTIME };
	vec_each(g, &o->counters)
		vec_push(&counters, g->group);
	bool runtime = false;
	vec_each(g, &o->meters) {
		vec_push(&meters, g->group);
		runtime |= str_eq_nocase(g->group.name, RUNTIME) && !g->group.n_items;
	}
	const struct counters_want want = { .counters = counters.v,
					    .n_counters = counters.n,
					    .meters = meters.v,
					    .n_meters = meters.n,
					    .all_meters = o->all,
					    .wildcard = has_release(&l->patient, FIRST_WITH_WILDCARD),
					    .instead = runtime ? &instead : NULL,
					    .interval_ms = o->interval_ms };
	struct err *err = settle_wait(l->patient.target.socket, NULL, l->signal_fd);
	if (!err)
		err = counters_open(l->patient.target.socket, &want, deadline_in_ms(OPEN_TIMEOUT_MS), &l->c);
	if (!err) {
		l->view = (struct counters_view){ .c = l->c, .title = title_of(&l->patient), .filter = "" };
		if (o->form == FORM_SCREEN && !(l->screen = counters_screen_open(&l->view)))
			o->form = FORM_PLAIN;
		err = listen_on(l);
		counters_screen_close(l->screen);
		l->screen = NULL;
		say_news(l);
		err = stop(l, err);
		mem_free(l->view.title);
	}
	counters_free(l->c);
	vec_free(&counters);
	vec_free(&meters);
	return err;
}

/* A runtime that does not answer gives no counters; the kernel still has a few numbers. */
static struct err *silent(const struct patient *p)
{
	const struct target *t = &p->target;
	struct buf cpu = { 0 };
	if (t->cpu_ratio >= 0)
		buf_printf(&cpu, ", %s of one core since its start", fmt_percent(t->cpu_ratio).s);
	struct err *err = t->pid ? err_new(ERR_TIMEOUT, "%s (%d) does not answer%s%s; the kernel shows %s of memory%s",
					   patient_name(p), t->id, p->remark ? ": " : "", p->remark ? p->remark : "",
					   fmt_bytes(t->rss_bytes).s, buf_cstr(&cpu))
				 : err_new(ERR_TIMEOUT, "%s (%d) does not answer%s%s", patient_name(p), t->id,
					   p->remark ? ": " : "", p->remark ? p->remark : "");
	buf_free(&cpu);
	return err;
}

static struct err *carry_out(struct counters_order *o)
{
	CLOSE_FD int signal_fd = -1;
	struct counters_listening l = { .order = o, .csv = -1 };
	TRY(patient_find(o->target, FIND_TIMEOUT_MS, &l.patient));
	struct err *err = l.patient.answered ? listen_to_signals(&signal_fd) : silent(&l.patient);
	l.signal_fd = signal_fd;
	if (!err)
		err = complete_order(o, &l.patient);
	if (!err)
		err = open_csv(&l);
	if (!err)
		err = listen_to(&l, o);
	if (l.csv >= 0 && close(l.csv) != 0 && !err)
		err = err_errno(errno, "cannot write to '%s'", o->csv);
	patient_fini(&l.patient);
	return err;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	struct counters_order o = { 0 };
	struct err *err = order_read(args, &o);
	if (!err)
		err = carry_out(&o);
	order_fini(&o);
	return err;
}

static const struct option options[] = {
	{ .name = "--meter",
	  .value = "METER",
	  .help = "A meter of the app, or some of its instruments: Shop.Api[orders,carts]",
	  .repeat = true },
	{ .name = "--counter",
	  .value = "PROVIDER",
	  .help = "EventCounters of a provider, or some of them: System.Runtime[cpu-usage]",
	  .repeat = true },
	{ .name = "--all", .help = "Every meter, and the EventCounters of .NET and the usual libraries" },
	{ .name = "--interval", .value = "TIME", .help = "How often (1s, at least 500ms)" },
	{ .name = "--duration", .short_name = 'd', .value = "TIME", .help = "Stop after this time" },
	{ .name = "--once", .help = "Print the first complete set and end" },
	{ .name = "--plain", .help = "Lines instead of the screen" },
	{ .name = "--json", .help = "One JSON object a line and interval" },
	{ .name = "--prometheus", .help = "Prometheus text, once" },
	{ .name = "--csv", .value = "FILE", .help = "Also write every value to this file (- = standard output)" },
	{ 0 },
};

const struct command cmd_counters = {
	.name = "counters",
	.words = "TARGET",
	.summary = "Show the live counters and meters of a process.",
	.example = "drdotnet counters 1234                          the runtime's own numbers, live\n"
		   "drdotnet counters Shop.Api --meter Shop.Orders  a meter of the app\n"
		   "drdotnet counters Shop.Api --all --json         everything, for programs\n",
	.details =
		"Without --meter, --counter or --all it shows System.Runtime. Keys of the screen: q quit, p pause, "
		"arrows "
		"scroll, / filter, s sort, r reset, ? help.\n\n"
		"Meters are shared with other listeners such as dotnet-counters and dotnet-monitor; when the runtime "
		"refuses, that is said. Ending may take up to an interval: the runtime is left only between two "
		"collections.",
	.options = options,
	.min_words = 1,
	.max_words = 1,
	.remote = true,
	.run = run,
};
