/* drdotnet ps: the .NET processes that can be seen from here. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/command.h"
#include "ipc/patient.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 1000
#define SCREEN_COLUMNS 100
#define GAP 2
/* Names are cut to this when the table is too wide for the screen. */
#define NAME_COLUMNS 20

enum ps_column { ID, NAME, ASSEMBLY, RUNTIME, ARCH, USER, CONTAINER, UPTIME, CPU, RSS, REMARK, COLUMNS };

static const struct {
	const char *title;
	bool right, name; /* aligned to the right; may be cut */
} columns[COLUMNS] = {
	[ID] = { "PID", true, false },
	[NAME] = { "NAME", false, true },
	[ASSEMBLY] = { "ASSEMBLY", false, true },
	[RUNTIME] = { "RUNTIME", false, false },
	[ARCH] = { "ARCH", false, false },
	[USER] = { "USER", false, false },
	[CONTAINER] = { "CONTAINER", false, false },
	[UPTIME] = { "UPTIME", true, false },
	[CPU] = { "CPU %", true, false },
	[RSS] = { "RSS", true, false },
	[REMARK] = { "REMARK", false, false },
};

/* Text that is safe to show, and its width; rows are in arena-less strings because a list is short. */
struct row {
	char *cells[COLUMNS];
};

static char *visible(const char *s, size_t max)
{
	struct buf b = { 0 };
	str_add_visible(&b, str_empty(s) ? "-" : s, str_empty(s) ? 1 : strlen(s), max);
	return buf_steal(&b);
}

/* "10.0.0-rc.1+abcdef" without what only the builders know. */
static char *short_version(const char *version)
{
	CLEANUP(mem_freep) char *s = version ? mem_strndup(version, strcspn(version, "+")) : NULL;
	return visible(s, 24);
}

static char *cpu_text(const struct target *t)
{
	if (t->cpu_ratio < 0)
		return mem_strdup("-");
	return mem_printf("%.*f", t->cpu_ratio < 0.9995 ? 1 : 0, t->cpu_ratio * 100);
}

static struct row make_row(const struct patient *p, size_t name_max)
{
	const struct target *t = &p->target;
	return (struct row){ .cells = {
				     [ID] = mem_printf("%d", t->id),
				     [NAME] = visible(patient_process(p), name_max),
				     [ASSEMBLY] = visible(p->info.entry_assembly, name_max),
				     [RUNTIME] = short_version(p->info.runtime_version),
				     [ARCH] = visible(p->info.arch, 12),
				     [USER] = visible(t->user, 16),
				     [CONTAINER] = visible(t->pod ? t->pod : t->container, 0),
				     [UPTIME] = mem_strdup(t->pid ? fmt_duration_ns(t->uptime_ns).s : "-"),
				     [CPU] = cpu_text(t),
				     [RSS] = mem_strdup(t->pid ? fmt_bytes(t->rss_bytes).s : "-"),
				     [REMARK] = p->remark ? visible(p->remark, 200) : mem_strdup(""),
			     } };
}

struct ps_table {
	VEC(struct row) rows;
	size_t widths[COLUMNS];
	bool shown[COLUMNS];
};

static void table_fini(struct ps_table *table)
{
	vec_each(row, &table->rows)
		for (size_t c = 0; c < COLUMNS; c++)
			mem_free(row->cells[c]);
	vec_free(&table->rows);
	*table = (struct ps_table){ 0 };
}

static void table_make(struct ps_table *table, const struct patient_list *list, size_t name_max)
{
	table_fini(table);
	for (size_t c = 0; c < COLUMNS; c++) {
		table->widths[c] = strlen(columns[c].title);
		table->shown[c] = c != CONTAINER && c != REMARK;
	}
	for (size_t i = 0; i < list->n; i++) {
		struct row row = make_row(&list->v[i], name_max);
		table->shown[CONTAINER] |= list->v[i].target.container != NULL;
		table->shown[REMARK] |= list->v[i].remark != NULL;
		for (size_t c = 0; c < COLUMNS; c++)
			table->widths[c] = MAX(table->widths[c], utf8_width(row.cells[c]));
		vec_push(&table->rows, row);
	}
}

static size_t table_width(const struct ps_table *table)
{
	size_t width = 0;
	for (size_t c = 0; c < COLUMNS; c++)
		if (table->shown[c])
			width += table->widths[c] + (width ? GAP : 0);
	return width;
}

static void add_line(struct buf *out, const struct ps_table *table, char *const cells[])
{
	size_t start = out->len;
	for (size_t c = 0; c < COLUMNS; c++) {
		if (!table->shown[c])
			continue;
		size_t pad = table->widths[c] - MIN(table->widths[c], utf8_width(cells[c]));
		buf_repeat(out, " ", (out->len > start ? GAP : 0) + (columns[c].right ? pad : 0));
		buf_str(out, cells[c]);
		buf_repeat(out, " ", columns[c].right ? 0 : pad);
	}
	while (out->len > start && out->data[out->len - 1] == ' ')
		out->len--;
	buf_char(out, '\n');
}

/* Remarks stand in the last column, or below their rows when the screen is too narrow for that. */
static void print_table(const struct patient_list *list)
{
	CLEANUP(table_fini) struct ps_table table = { 0 };
	CLEANUP(buf_free) struct buf out = { 0 };
	table_make(&table, list, 0);
	bool below = table.shown[REMARK] && table_width(&table) > SCREEN_COLUMNS;
	table.shown[REMARK] &= !below;
	if (table_width(&table) > SCREEN_COLUMNS) {
		table_make(&table, list, NAME_COLUMNS);
		table.shown[REMARK] &= !below;
	}
	struct row titles;
	for (size_t c = 0; c < COLUMNS; c++)
		titles.cells[c] = mem_strdup(columns[c].title);
	add_line(&out, &table, titles.cells);
	for (size_t c = 0; c < COLUMNS; c++)
		mem_free(titles.cells[c]);
	vec_each(row, &table.rows) {
		add_line(&out, &table, row->cells);
		if (below && row->cells[REMARK][0]) {
			buf_repeat(&out, " ", table.widths[ID] + GAP);
			buf_printf(&out, "└ %s\n", row->cells[REMARK]);
		}
	}
	fwrite(out.data, 1, out.len, stdout);
}

/* ---- JSON ---- */

static void add_cookie(struct jsonw *w, const struct patient *p)
{
	char hex[33];
	for (size_t i = 0; i < 16; i++)
		snprintf(hex + i * 2, 3, "%02x", p->info.cookie[i]);
	jsonw_str(w, "cookie", p->answered ? hex : NULL);
}

static void add_numbers(struct jsonw *w, const struct target *t)
{
	if (!t->pid) {
		static const char *const keys[] = { "uptimeSeconds", "cpuPercent", "cpuWindowMs", "cpuSeconds",
						    "rssBytes" };
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			jsonw_null(w, keys[i]);
		return;
	}
	jsonw_num(w, "uptimeSeconds", (double)t->uptime_ns / NS_PER_S);
	if (t->cpu_ratio < 0)
		jsonw_null(w, "cpuPercent");
	else
		jsonw_num(w, "cpuPercent", t->cpu_ratio * 100);
	if (t->cpu_window_ns)
		jsonw_num(w, "cpuWindowMs", (double)t->cpu_window_ns / NS_PER_MS);
	else
		jsonw_null(w, "cpuWindowMs");
	jsonw_num(w, "cpuSeconds", (double)t->cpu_ns / NS_PER_S);
	jsonw_u64(w, "rssBytes", t->rss_bytes);
}

static void add_patient(struct jsonw *w, const struct patient *p)
{
	const struct target *t = &p->target;
	jsonw_object(w, NULL);
	jsonw_i64(w, "id", t->id);
	if (t->pid)
		jsonw_i64(w, "pid", t->pid);
	else
		jsonw_null(w, "pid");
	jsonw_i64(w, "namespacePid", t->ns_pid);
	jsonw_str(w, "name", patient_process(p));
	jsonw_str(w, "assembly", p->info.entry_assembly);
	jsonw_str(w, "runtime", p->info.runtime_version);
	jsonw_str(w, "architecture", p->info.arch);
	jsonw_str(w, "os", p->info.os);
	jsonw_str(w, "rid", p->info.rid);
	jsonw_str(w, "user", t->user);
	jsonw_u64(w, "uid", t->uid);
	jsonw_str(w, "container", t->container);
	jsonw_str(w, "pod", t->pod);
	add_numbers(w, t);
	jsonw_str(w, "commandLine", t->command_line);
	jsonw_bool(w, "answered", p->answered);
	add_cookie(w, p);
	jsonw_str(w, "socket", t->socket);
	jsonw_str(w, "diagnosticPorts", t->diagnostic_ports);
	jsonw_str(w, "remark", p->remark);
	jsonw_object_end(w);
}

static void print_json(const struct patient_list *list)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	jsonw_array(&w, NULL);
	for (size_t i = 0; i < list->n; i++)
		add_patient(&w, &list->v[i]);
	jsonw_array_end(&w);
	buf_char(&out, '\n');
	fwrite(out.data, 1, out.len, stdout);
}

/* Shells expand what they are told: no sign that means something to one. */
static bool is_plain(const char *name)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	return *name && *name != '-' && !name[strspn(name, plain)];
}

/* For completion, which must be quick and needs no more: what can stand for a TARGET. */
static void print_ids(const struct patient_list *list)
{
	vec_each(p, list)
		printf("%d\n", p->target.id);
	vec_each(p, list)
		if (is_plain(patient_name(p)))
			printf("%s\n", patient_name(p));
}

/* ---- the command ---- */

static struct err *duration(const struct args *args, const char *option, uint64_t otherwise, uint64_t *ret)
{
	const char *text = args_value(args, option);
	*ret = otherwise;
	if (!text || (str_to_duration_ms(text, ret) && *ret > 0 && *ret <= 600000))
		return NULL;
	return err_new(ERR_USAGE, "%s takes a time such as 500ms or 2s, at most 10m, not '%s'", option, text);
}

static void measure_cpu(struct patient_list *list, uint64_t window_ms)
{
	poll(NULL, 0, (int)window_ms);
	vec_each(p, list)
		target_measure_cpu(&p->target);
}

/* The number of the first pid namespace is part of the kernel's interface. */
static bool in_container(void)
{
	char name[64];
	ssize_t n = readlink("/proc/self/ns/pid", name, sizeof(name) - 1);
	name[MAX(n, 0)] = '\0';
	return n > 0 && !str_eq(name, "pid:[4026531836]");
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	uint64_t timeout_ms, window_ms;
	TRY(duration(args, "--timeout", TIMEOUT_MS, &timeout_ms));
	TRY(duration(args, "--cpu", 0, &window_ms));
	CLEANUP(patient_list_free) struct patient_list list = { 0 };
	TRY(patient_find_all(timeout_ms, &list));
	if (window_ms)
		measure_cpu(&list, window_ms);
	if (args_has(args, "--ids"))
		print_ids(&list);
	else if (args_has(args, "--json"))
		print_json(&list);
	else if (list.n)
		print_table(&list);
	else
		fprintf(stderr, "no .NET process can be seen from here%s%s\n",
			geteuid() ? " (those of other users need root)" : "",
			in_container() ? "; one in another container needs a volume that is /tmp in both, or its pid "
					 "namespace ('docker run --pid=container:NAME')"
				       : "");
	return NULL;
}

static const struct option options[] = {
	{ .name = "--cpu", .value = "TIME", .help = "measure the CPU over this time instead of since each start" },
	{ .name = "--timeout", .value = "TIME", .help = "how long a runtime may take to answer (1s)" },
	{ .name = "--json", .help = "print an array of objects with raw numbers" },
	{ .name = "--ids", .help = "print only what can stand for a TARGET, one a line", .hidden = true },
	{ 0 },
};

const struct command cmd_ps = {
	.name = "ps",
	.words = NULL,
	.summary = "List the .NET processes that can be seen from here.",
	.example = "drdotnet ps            every .NET process, what it is and how it is\n"
		   "drdotnet ps --cpu 1s   the same, with the CPU used during one second\n",
	.details = "A process that does not answer is listed with the reason and delays the list by no more than the "
		   "timeout. One that is seen only through its socket in a shared /tmp has a number of its own, which "
		   "works "
		   "wherever a pid does.\n\n"
		   "CPU % is of one core: 200 means two cores busy. Without --cpu it is the average since the process "
		   "started.",
	.options = options,
	.remote = true,
	.run = run,
};
