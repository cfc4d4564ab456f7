/* What open-files found: issues by weight, then what is open. */

#include "base/fmt.h"
#include "base/str.h"
#include "profilers/open_files.h"
#include <math.h>
#include <string.h>

/* Connections that the other side has closed: one that is about to be closed is no leak, so they must be there in each look. */
#define NOT_CLOSED_MANY 50
#define NOT_CLOSED_VERY_MANY 500
#define NOT_ACCEPTED_MANY 20
/* Growth over the window that a working day's load does not explain. */
#define FILES_GROW 20
#define CONNECTIONS_GROW 50
#define WATCHERS_GROW 5
#define OTHERS_GROW 50
/* Open at one place at once. */
#define FILES_MANY 200
#define CONNECTIONS_MANY 200
#define SHARE_MANY 0.25
/* Ports towards one address that are held, as share of all. */
#define PORTS_SOME 0.05

struct open_view {
	const struct open_files *o;
	struct exam *exam;
	struct report *report;
	const struct open_look *first, *last; /* NULL = its descriptors are hidden */
	struct issues issues;
	struct limits_list limits;
};

/* ---- growth ---- */

/* Were there looks enough to tell a growth? */
static bool can_grow(const struct open_view *v)
{
	static const double growing[] = { 1, 2, 3 };
	if (v->o->looks.n < 3 || exam_is_young(v->exam))
		return false;
	const uint64_t middle_ns = v->first->at_ns + (v->last->at_ns - v->first->at_ns) / 2;
	return !isnan(limits_trend((const uint64_t[]){ v->first->at_ns, middle_ns, v->last->at_ns }, growing, 3));
}

/* What something grew by over the window, if that was a steady growth; else 0. */
static double steady(const struct open_files *o, double (*number)(const struct open_look *l, const void *of),
		     const void *of)
{
	uint64_t at_ns[PROC_LOOKS_MAX];
	double values[PROC_LOOKS_MAX];
	size_t n = 0;
	vec_each(l, &o->looks) {
		if (l->hidden || n == ARRAY_SIZE(values))
			continue;
		at_ns[n] = l->at_ns;
		values[n++] = number(l, of);
	}
	if (n < 3 || exam_is_young(o->limits.exam) || isnan(limits_trend(at_ns, values, n)))
		return 0;
	return values[n - 1] - values[0];
}

static double of_kind(const struct open_look *l, const void *kind)
{
	return (double)l->of[*(const enum descriptor_kind *)kind];
}

static bool is_made(const struct open_row *r)
{
	return !r->udp && !r->incoming;
}

static double made(const struct open_look *l, const void *none UNUSED)
{
	double n = 0;
	vec_each(r, &l->peers)
		n += is_made(r) ? (double)r->n : 0;
	return n;
}

static double of_other_kinds(const struct open_look *l, const void *none UNUSED)
{
	return (double)(l->n - MIN(l->of[DESCRIPTOR_FILE] + l->of[DESCRIPTOR_SOCKET] + l->of[DESCRIPTOR_INOTIFY] +
					   l->of[DESCRIPTOR_PROGRAM],
				   l->n));
}

static int64_t row_grown(const struct open_rows *before, const struct open_row *now)
{
	const struct open_row *old = open_row_like(before, now);
	return (int64_t)now->n - (int64_t)(old ? old->n : 0);
}

/* The row that grew most, or NULL. */
static const struct open_row *most_grown(const struct open_rows *before, const struct open_rows *now,
					 bool (*counts)(const struct open_row *r))
{
	const struct open_row *most = NULL;
	vec_each(r, now) {
		if (counts(r) && row_grown(before, r) > (most ? row_grown(before, most) : 0))
			most = r;
	}
	return most;
}

static bool any_row(const struct open_row *r UNUSED)
{
	return true;
}

/* ---- issues ---- */

/* ", 300 of them", or ", all of them". */
static void add_of_them(struct buf *out, uint64_t n, double all)
{
	buf_printf(out, ", %s of them", (double)n >= all ? "all" : fmt_count(n).s);
}

static void find_files(struct open_view *v)
{
	static const enum descriptor_kind kind = DESCRIPTOR_FILE;
	double grown = steady(v->o, of_kind, &kind);
	const struct open_row *row = most_grown(&v->first->files, &v->last->files, any_row), *most = NULL;
	struct issue *i = NULL;
	if (grown >= FILES_GROW && row && (i = issue_new(&v->issues, REPORT_WARN, "files-grow", "files-grow"))) {
		buf_printf(&i->strong, "%s more files are open", fmt_count((uint64_t)grown).s);
		buf_printf(&i->text, " than %s before", fmt_duration_ns(v->last->at_ns - v->first->at_ns).s);
		add_of_them(&i->text, (uint64_t)row_grown(&v->first->files, row), grown);
		buf_str(&i->text, " at ");
		i->where = row->name;
		return;
	}
	most = v->last->files.n ? &v->last->files.v[0] : NULL;
	if (most && most->n >= FILES_MANY && (double)most->n >= SHARE_MANY * (double)v->last->n &&
	    (i = issue_new(&v->issues, REPORT_INFO, "many-files", "many-files"))) {
		buf_printf(&i->strong, "%s files are open", fmt_count(most->n).s);
		buf_printf(&i->text, " at one place, %s of all its descriptors%s: ",
			   fmt_percent((double)most->n / (double)v->last->n).s,
			   can_grow(v) ? ", and their number does not grow" : "");
		i->where = most->name;
	}
}

static void find_many_connections(struct open_view *v)
{
	struct issue *i = NULL;
	vec_each(r, &v->last->peers) {
		if (!is_made(r) || r->state != CONNECTION_ESTABLISHED || r->n < CONNECTIONS_MANY ||
		    (double)r->n < SHARE_MANY * (double)v->last->n ||
		    !(i = issue_new(&v->issues, REPORT_INFO, "many-connections", "connections-grow")))
			continue;
		buf_printf(&i->strong, "%s connections are open to one address", fmt_count(r->n).s);
		buf_printf(&i->text,
			   ", %s of all its descriptors%s: ", fmt_percent((double)r->n / (double)v->last->n).s,
			   can_grow(v) ? ", and their number does not grow" : "");
		i->where = r->name;
	}
}

static void find_connections(struct open_view *v)
{
	double grown = steady(v->o, made, NULL);
	const struct open_row *row = most_grown(&v->first->peers, &v->last->peers, is_made);
	struct issue *i = NULL;
	if (grown < CONNECTIONS_GROW || !row) {
		find_many_connections(v);
		return;
	}
	if (!(i = issue_new(&v->issues, REPORT_WARN, "connections-grow", "connections-grow")))
		return;
	buf_printf(&i->strong, "It has %s more connections that it made itself", fmt_count((uint64_t)grown).s);
	buf_printf(&i->text, " than %s before", fmt_duration_ns(v->last->at_ns - v->first->at_ns).s);
	add_of_them(&i->text, (uint64_t)row_grown(&v->first->peers, row), grown);
	buf_str(&i->text, " to ");
	i->where = row->name;
}

static void find_others(struct open_view *v)
{
	static const enum descriptor_kind watchers = DESCRIPTOR_INOTIFY;
	double grown = steady(v->o, of_kind, &watchers), others = steady(v->o, of_other_kinds, NULL);
	struct issue *i = NULL;
	if (grown >= WATCHERS_GROW && (i = issue_new(&v->issues, REPORT_WARN, "watchers-grow", "watchers-grow"))) {
		buf_printf(&i->strong, "It has %s more watchers of files (inotify)", fmt_count((uint64_t)grown).s);
		buf_printf(&i->text, " than %s before: %s.", fmt_duration_ns(v->last->at_ns - v->first->at_ns).s,
			   fmt_count(v->last->of[DESCRIPTOR_INOTIFY]).s);
	}
	if (others >= OTHERS_GROW && (i = issue_new(&v->issues, REPORT_WARN, "descriptors-grow", "descriptors-grow"))) {
		buf_printf(&i->strong, "It has %s more descriptors", fmt_count((uint64_t)others).s);
		buf_printf(&i->text, " that are neither files nor sockets than %s before.",
			   fmt_duration_ns(v->last->at_ns - v->first->at_ns).s);
	}
}

/* The least of all looks. */
static uint64_t least(const struct open_files *o, const struct open_row *like, bool unread)
{
	uint64_t n = UINT64_MAX;
	vec_each(l, &o->looks) {
		const struct open_row *r = l->hidden ? like : open_row_like(&l->peers, like);
		n = MIN(n, !r ? 0 : unread ? r->unread : r->n);
	}
	return n;
}

static void find_not_closed(struct open_view *v)
{
	const struct open_row *most = NULL;
	uint64_t all = 0, of_most = 0;
	vec_each(r, &v->last->peers) {
		uint64_t n = r->state == CONNECTION_CLOSE_WAIT ? least(v->o, r, false) : 0;
		all += n;
		if (n > of_most) {
			of_most = n;
			most = r;
		}
	}
	if (all < NOT_CLOSED_MANY)
		return;
	struct issue *i = issue_new(&v->issues, all >= NOT_CLOSED_VERY_MANY ? REPORT_BAD : REPORT_WARN, "not-closed",
				    "not-closed");
	if (!i)
		return;
	buf_printf(&i->strong, "%s were closed by the other side and not by this process",
		   fmt_plural(all, "connection", "connections").s);
	buf_printf(&i->text, " (CLOSE_WAIT) for at least %s", fmt_duration_ns(v->last->at_ns - v->first->at_ns).s);
	add_of_them(&i->text, of_most, (double)all);
	buf_str(&i->text, most->incoming ? " that came to " : " to ");
	i->where = most->name;
}

static void find_not_accepted(struct open_view *v)
{
	vec_each(r, &v->last->peers) {
		uint64_t n = r->state == CONNECTION_LISTEN && !r->udp ? least(v->o, r, true) : 0;
		struct issue *i = NULL;
		if (!n || v->o->looks.n < 2 ||
		    !(i = issue_new(&v->issues, n >= NOT_ACCEPTED_MANY ? REPORT_WARN : REPORT_INFO, "not-accepted",
				    "not-accepted")))
			continue;
		buf_printf(&i->strong, "%s to be accepted", fmt_plural(n, "connection waits", "connections wait").s);
		buf_str(&i->text, " all the time, at ");
		i->where = r->name;
	}
}

/* What is closed belongs to nobody: it may be another process's of the same network, unless this one goes there too. */
static bool goes_to(const struct open_view *v, const char *address)
{
	vec_each(l, &v->o->looks) {
		vec_each(r, &l->peers) {
			if (is_made(r) && str_eq(r->name, address))
				return true;
		}
	}
	return false;
}

static void find_ports(struct open_view *v, const struct limit *l)
{
	struct issue *i = NULL;
	size_t before = v->issues.n;
	if (!l->where || !goes_to(v, l->where))
		return;
	issue_of_limit(&v->issues, l);
	if (v->issues.n > before || limit_ratio(l) < PORTS_SOME ||
	    !(i = issue_new(&v->issues, REPORT_INFO, "connections-made-anew", "connections-made-anew")))
		return;
	buf_printf(&i->strong, "%s ports are held by connections to one address", fmt_count((uint64_t)l->used).s);
	buf_printf(&i->text,
		   ", of %s that can be, by all processes of its network together: most are closed already "
		   "where connections are made for each request. The address is ",
		   fmt_count((uint64_t)l->most).s);
	i->where = l->where;
}

/* What most of its descriptors are, when most of them are one thing. */
static void add_most(const struct open_look *look, struct issue *i)
{
	const struct open_row *files = look->files.n ? &look->files.v[0] : NULL, *peer = NULL;
	vec_each(r, &look->peers) {
		if (!peer || r->n > peer->n)
			peer = r;
	}
	const struct open_row *most = files && (!peer || files->n >= peer->n) ? files : peer;
	if (!most || i->where || (double)most->n < SHARE_MANY * (double)look->n)
		return;
	buf_printf(&i->text, most == files ? ", %s of them files in " : ", %s of them connections with ",
		   fmt_count(most->n).s);
	i->where = most->name;
}

static void find_issues(struct open_view *v)
{
	limits_list_of(&v->o->limits, &v->limits);
	vec_each(l, &v->limits) {
		bool descriptors = str_eq(l->advice, "near-descriptors");
		size_t before = v->issues.n;
		if (descriptors || str_eq(l->advice, "near-watchers"))
			issue_of_limit(&v->issues, l);
		if (descriptors && v->last && v->issues.n > before)
			add_most(v->last, &v->issues.v[before]);
	}
	if (!v->last)
		return;
	find_not_closed(v);
	find_not_accepted(v);
	find_files(v);
	find_connections(v);
	find_others(v);
	vec_each(l, &v->limits) {
		if (str_eq(l->advice, "near-ports"))
			find_ports(v, l);
	}
}

/* ---- words and numbers ---- */

static const struct limit *limit_named(const struct open_view *v, const char *advice)
{
	vec_each(l, &v->limits) {
		if (str_eq(l->advice, advice))
			return l;
	}
	return NULL;
}

static void say_all_clear(struct open_view *v)
{
	if (!v->last) {
		rich_text(report_verdict(v->report, REPORT_INFO, "hidden"),
			  "Its descriptors are hidden from this user: run drdotnet as root or as its user.");
		return;
	}
	const struct limit *l = limit_named(v, "near-descriptors");
	struct rich *text = report_verdict(v->report, REPORT_OK, "nothing-found");
	rich_text(text, "No problem here: %s are open", fmt_plural(v->last->n, "descriptor", "descriptors").s);
	if (l)
		rich_text(text, ", %s of the %s that it may open", fmt_percent(limit_ratio(l)).s,
			  fmt_count((uint64_t)l->most).s);
	rich_text(text, "%s, and no connection was left unclosed.", can_grow(v) ? "; no kind of them grows" : "");
}

static void add_figures(struct open_view *v)
{
	const struct limit *l = limit_named(v, "near-descriptors"), *watchers = limit_named(v, "near-watchers");
	CLEANUP(mem_freep) char *of = l ? mem_printf("of %s", fmt_count((uint64_t)l->most).s) : NULL;
	report_figure(v->report, "Descriptors", V_COUNT(v->last->n), of);
	report_figure(v->report, "Files", V_COUNT(v->last->of[DESCRIPTOR_FILE]), NULL);
	report_figure(v->report, "Sockets", V_COUNT(v->last->of[DESCRIPTOR_SOCKET]), NULL);
	report_figure(v->report, "Not closed", V_COUNT(v->last->states[CONNECTION_CLOSE_WAIT]), "CLOSE_WAIT");
	CLEANUP(mem_freep)
	char *user = watchers ? mem_printf("%s of %s that its user may have", fmt_count((uint64_t)watchers->used).s,
					   fmt_count((uint64_t)watchers->most).s)
			      : NULL;
	report_figure(v->report, "Watchers", V_COUNT(v->last->of[DESCRIPTOR_INOTIFY]), user);
}

static void add_kinds(struct open_view *v)
{
	static const char *const sockets[OPEN_SOCKETS] = { "TCP sockets", "UDP sockets", "Unix sockets",
							   "other sockets" };
	struct report_table *t = report_table(v->report, "Descriptors by kind");
	report_column(t, "Kind", VALUE_TEXT, 0);
	report_column(t, "Open", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Change", VALUE_COUNT, COLUMN_SIGNED);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	double all = (double)MAX(v->last->n, (uint64_t)1);
	for (enum descriptor_kind k = 0; k < DESCRIPTOR_KINDS; k++) {
		uint64_t n = v->last->of[k];
		if (k != DESCRIPTOR_SOCKET && (n || v->first->of[k]))
			report_row(t, (struct value[]){ V_TEXT(descriptor_kind_name(k)), V_COUNT(n),
							V_COUNT((double)n - (double)v->first->of[k]),
							V_RATIO((double)n / all) });
	}
	for (size_t k = 0; k < OPEN_SOCKETS; k++) {
		uint64_t n = v->last->sockets[k];
		if (n || v->first->sockets[k])
			report_row(t, (struct value[]){ V_TEXT(sockets[k]), V_COUNT(n),
							V_COUNT((double)n - (double)v->first->sockets[k]),
							V_RATIO((double)n / all) });
	}
}

static void add_files(struct open_view *v)
{
	if (!v->last->files.n)
		return;
	struct report_table *t = report_table(v->report, "Files");
	report_column(t, "File or folder", VALUE_CODE, 0);
	report_column(t, "Open", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Change", VALUE_COUNT, COLUMN_SIGNED);
	vec_each(r, &v->last->files)
		report_row(t,
			   (struct value[]){ V_CODE(r->name), V_COUNT(r->n), V_COUNT(row_grown(&v->first->files, r)) });
	if (v->last->more_files)
		report_rest(t, (struct value[]){ V_TEXT("others"), V_COUNT(v->last->more_files), V_NONE });
}

static void add_connections(struct open_view *v)
{
	if (!v->last->peers.n)
		return;
	struct report_table *t = report_table(v->report, "Connections");
	report_column(t, "Address", VALUE_CODE, 0);
	report_column(t, "State", VALUE_TEXT, 0);
	report_column(t, "Sockets", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Change", VALUE_COUNT, COLUMN_SIGNED);
	report_column(t, "Waiting", VALUE_BYTES, 0);
	vec_each(r, &v->last->peers) {
		bool listens = !r->udp && r->state == CONNECTION_LISTEN;
		CLEANUP(mem_freep)
		char *state = r->udp ? mem_strdup("UDP")
				     : mem_printf("%s%s", connection_state_name(r->state),
						  listens	? ""
						  : r->incoming ? ", came to it"
								: ", made by it");
		report_row(t, (struct value[]){ V_CODE(r->name), V_TEXT(state), V_COUNT(r->n),
						V_COUNT(row_grown(&v->first->peers, r)),
						listens ? V_COUNT(r->unread) : V_BYTES(r->unread) });
	}
	if (v->last->more_peers)
		report_rest(t,
			    (struct value[]){ V_TEXT("others"), V_NONE, V_COUNT(v->last->more_peers), V_NONE, V_NONE });
}

static void add_how(struct open_view *v)
{
	report_how(v->report, "Way", V_TEXT("proc"), "names of descriptors and lists of sockets in /proc were read");
	report_how(v->report, "Pause imposed", V_TEXT("none"), NULL);
	report_how(v->report, "Looks", V_COUNT(v->o->looks.n), "at what is open; its number was read once a second");
	if (v->last && v->last->cut)
		report_how(v->report, "Left out", V_TEXT("descriptors"), "it has more than are looked at");
	if (!limit_named(v, "near-ports"))
		report_how(v->report, "Not known", V_TEXT("ports"), "it is in another network than drdotnet");
	if (exam_is_young(v->exam))
		report_how(v->report, "No growth", V_TEXT("it has just been started"),
			   "what grows now need not do so later");
}

struct err *open_files_report(struct exam *exam, struct report *report)
{
	struct open_view v = { .o = exam->state, .exam = exam, .report = report };
	vec_each(l, &v.o->looks) {
		if (l->hidden)
			continue;
		v.first = v.first ? v.first : l;
		v.last = l;
	}
	find_issues(&v);
	if (!issues_say(&v.issues, exam->profiler, report))
		say_all_clear(&v);
	if (v.last) {
		add_figures(&v);
		add_kinds(&v);
		add_files(&v);
		add_connections(&v);
	}
	add_how(&v);
	issues_fini(&v.issues);
	vec_free(&v.limits);
	return NULL;
}
