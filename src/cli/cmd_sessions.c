/* drdotnet sessions: lists, shows, exports, compares, deletes and prunes kept sessions. */

#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "report/compare.h"
#include "session/session.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIST_LIMIT 50
#define SHORT_GUID 8
#define PROCESS_COLUMNS 20

static void add_cell(struct buf *out, const char *s, size_t columns)
{
	struct buf cell = { 0 };
	s = str_empty(s) ? "-" : s;
	str_add_visible(&cell, s, strlen(s), columns);
	buf_str(out, buf_cstr(&cell));
	size_t width = utf8_width(buf_cstr(&cell));
	buf_repeat(out, " ", width < columns ? columns - width : 0);
	buf_free(&cell);
}

static void add_trimmed_newline(struct buf *out)
{
	while (out->len && out->data[out->len - 1] == ' ')
		out->len--;
	buf_char(out, '\n');
}

/* What a person wants to know first: the verdict, or why there is none. */
static char *summary_of(const struct store_row *row)
{
	if (!store_state_finished(row->state))
		return mem_strdup(fmt_percent(row->progress).s);
	if (row->error)
		return mem_strdup(row->error);
	return mem_strdup(row->verdict ? row->verdict : "");
}

static void print_table(const struct store_rows *rows, struct buf *out)
{
	size_t process = strlen("PROCESS"), profiler = strlen("PROFILER");
	vec_each(r, rows) {
		process = MAX(process, r->process ? strlen(r->process) : 1);
		profiler = MAX(profiler, r->profiler ? strlen(r->profiler) : 1);
	}
	process = MIN(process, (size_t)PROCESS_COLUMNS);
	profiler = MIN(profiler, (size_t)PROCESS_COLUMNS);
	size_t used = SHORT_GUID + 2 + 20 + 2 + process + 2 + profiler + 2 + 9 + 2;
	size_t columns = output_columns(STDOUT_FILENO), rest = columns > used + 10 ? columns - used - 1 : 10;
	buf_printf(out, "%-*s  %-20s  %-*s  %-*s  %-9s  VERDICT\n", SHORT_GUID, "SESSION", "WHEN", (int)process,
		   "PROCESS", (int)profiler, "PROFILER", "STATE");
	vec_each(r, rows) {
		CLEANUP(mem_freep) char *summary = summary_of(r);
		buf_printf(out, "%.*s  %-20s  ", SHORT_GUID, r->guid, fmt_time_utc(r->created_ns).s);
		add_cell(out, r->process, process);
		buf_str(out, "  ");
		add_cell(out, r->profiler, profiler);
		buf_printf(out, "  %-9s  ", store_state_name(r->state));
		add_cell(out, summary, rest);
		add_trimmed_newline(out);
	}
}

static void print_json(const struct store_rows *rows, struct buf *out)
{
	struct jsonw w = jsonw_make(out, true);
	jsonw_array(&w, NULL);
	vec_each(r, rows) {
		jsonw_object(&w, NULL);
		store_row_json(&w, r);
		jsonw_u64(&w, "bytes", r->bytes);
		jsonw_object_end(&w);
	}
	jsonw_array_end(&w);
	buf_char(out, '\n');
}

static struct err *list(struct store *store, const struct args *args)
{
	struct store_filter filter = { .limit = LIST_LIMIT };
	const char *limit = args_value(args, "--limit");
	uint64_t n;
	if (limit && (!str_to_u64(limit, &n) || n < 1 || n > 100000))
		return err_new(ERR_USAGE, "--limit takes a number from 1 to 100000, not '%s'", limit);
	if (limit)
		filter.limit = n;
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	TRY(store_list(store, &filter, &rows));
	struct buf out = { 0 };
	if (args_has(args, "--json"))
		print_json(&rows, &out);
	else if (rows.n)
		print_table(&rows, &out);
	else
		fputs("No sessions yet; 'drdotnet run PROFILER TARGET' makes one.\n", stderr);
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	return NULL;
}

static void add_line(struct buf *out, const char *label, const char *value)
{
	if (str_empty(value))
		return;
	buf_printf(out, "%-12s", label);
	str_add_visible(out, value, strlen(value), 0);
	buf_char(out, '\n');
}

static void add_files(struct buf *out, const json_t *files)
{
	for (size_t i = 0; i < json_array_size(files); i++) {
		const json_t *f = json_array_get(files, i);
		const char *name = json_get_str(f, "name", "?");
		buf_printf(out, "%-12s", i ? "" : "files");
		add_cell(out, name, 20);
		buf_printf(out, "  %s\n", fmt_bytes((uint64_t)MAX(json_get_int(f, "bytes", 0), 0)).s);
	}
}

/* "duration=10 stacks=true" */
static char *parameters_text(const struct store_row *row)
{
	struct buf text = { 0 };
	json_t *o = NULL;
	if (row->parameters)
		err_ignore(json_parse(row->parameters, strlen(row->parameters), 65536, &o));
	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
		const char *value = json_string_value(json_object_iter_value(it));
		buf_printf(&text, "%s%s=%s", text.len ? " " : "", json_object_iter_key(it), value ? value : "?");
	}
	json_decref(o);
	return buf_steal(&text);
}

static void add_facts(struct buf *out, const struct store_row *row, const char *dir)
{
	CLEANUP(mem_freep)
	char *process = mem_printf("%s (%lld)%s%s", row->process ? row->process : "?", (long long)row->target_id,
				   row->runtime ? ", .NET " : "", row->runtime ? row->runtime : "");
	CLEANUP(mem_freep) char *took = NULL;
	if (row->finished_ns > row->started_ns && row->started_ns)
		took = mem_printf("%s, took %s", fmt_time_utc(row->created_ns).s,
				  fmt_duration_ns((uint64_t)(row->finished_ns - row->started_ns)).s);
	CLEANUP(mem_freep) char *parameters = parameters_text(row);
	add_line(out, "session", row->guid);
	add_line(out, "profiler", row->profiler);
	add_line(out, "process", process);
	add_line(out, "when", took ? took : fmt_time_utc(row->created_ns).s);
	add_line(out, "state", store_state_name(row->state));
	if (!store_state_finished(row->state))
		add_line(out, "progress", fmt_percent(row->progress).s);
	add_line(out, "partial", row->partial);
	add_line(out, "error", row->error);
	add_line(out, "verdict", row->verdict);
	add_line(out, "parameters", parameters);
	add_line(out, "folder", dir);
}

static struct err *show(struct store *store, const struct args *args)
{
	struct store_row row;
	TRY(store_get(store, args->words[1], &row));
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row.guid);
	json_t *record = NULL;
	/* Not there while it runs. */
	err_ignore(store_record_json(dir, &record));
	const json_t *files = json_object_get(record, "files");
	struct buf out = { 0 };
	if (args_has(args, "--json")) {
		struct jsonw w = jsonw_make(&out, true);
		char *text = json_dumps(files ? files : json_null(), JSON_INDENT(2) | JSON_ENCODE_ANY);
		jsonw_object(&w, NULL);
		store_row_json(&w, &row);
		jsonw_u64(&w, "bytes", row.bytes);
		jsonw_str(&w, "folder", dir);
		jsonw_raw(&w, "files", text);
		jsonw_object_end(&w);
		buf_char(&out, '\n');
		free(text);
	} else {
		add_facts(&out, &row, dir);
		add_files(&out, files);
	}
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	json_decref(record);
	store_row_fini(&row);
	return NULL;
}

static struct err *write_report(struct store *store, const struct args *args, const struct output *output)
{
	struct store_row row;
	TRY(store_get(store, args->words[1], &row));
	struct err *err = store_state_finished(row.state)
				  ? output_write(output, store, &row)
				  : err_new(ERR_BUSY, "session %s is still %s", row.guid, store_state_name(row.state));
	store_row_fini(&row);
	return err;
}

static struct err *report(struct store *store, const struct args *args)
{
	struct output output;
	TRY(output_parse(args, &output));
	TRY(output_check(&output));
	return write_report(store, args, &output);
}

static struct err *export(struct store *store, const struct args *args)
{
	struct output output;
	if (!args_has(args, "--output"))
		return err_new(ERR_USAGE,
			       "'drdotnet sessions export' needs -o FILE, whose ending says what: .zip, .html ...");
	TRY(output_parse(args, &output));
	TRY(output_check(&output));
	TRY(write_report(store, args, &output));
	if (output.path)
		fprintf(stderr, "Written to %s\n", output.path);
	return NULL;
}

/* One that is done, by its guid. */
static struct err *report_of(struct store *store, const char *guid, struct report **ret)
{
	struct store_row row;
	TRY(store_get(store, guid, &row));
	struct err *err = session_report_of(store, &row, ret);
	store_row_fini(&row);
	return err;
}

static struct err *compare(struct store *store, const struct args *args)
{
	struct output output;
	CLEANUP(report_freep) struct report *before = NULL, *after = NULL, *changes = NULL;
	TRY(output_parse(args, &output));
	if (output.format == OUTPUT_ZIP || output.format == OUTPUT_PROFILE)
		return err_new(ERR_USAGE, "a comparison is one file: .txt, .md, .html or .json");
	TRY(output_check(&output));
	TRY(report_of(store, args->words[1], &before));
	TRY(report_of(store, args->words[2], &after));
	TRY(report_compare(before, after, &changes));
	if (str_eq(report_facts(after)->profiler, "heap-stats") && !str_eq(report_finding(changes), "no-change"))
		rich_text(report_next(changes), "drdotnet memory-leaks --before %.8s --session %.8s says who holds it.",
			  report_facts(before)->session ? report_facts(before)->session : "",
			  report_facts(after)->session ? report_facts(after)->session : "");
	if (output.mask)
		report_mask(changes);
	TRY(output_report(&output, changes));
	if (output.path)
		fprintf(stderr, "Written to %s\n", output.path);
	return NULL;
}

static struct err *delete (struct store *store, const struct args *args)
{
	/* All are looked up before the first is gone: a wrong word must not leave half of the work done. */
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	for (size_t i = 1; i < args->n_words; i++) {
		struct store_row row;
		TRY(store_get(store, args->words[i], &row));
		vec_push(&rows, row);
	}
	vec_each(row, &rows) {
		TRY(session_delete(store, row));
		fprintf(stderr, "Deleted session %s\n", row->guid);
	}
	return NULL;
}

static struct err *prune(struct store *store, const struct args *args)
{
	struct session_retention limits;
	const char *age = args_value(args, "--older-than"), *keep = args_value(args, "--keep"),
		   *bytes = args_value(args, "--max-bytes");
	TRY(session_retention_default(&limits));
	if (age && !str_to_age_ns(age, &limits.max_age_ns))
		return err_new(ERR_USAGE, "--older-than takes a time such as 7d or 12h, not '%s'", age);
	if (keep && !str_to_u64(keep, &limits.max_count))
		return err_new(ERR_USAGE, "--keep takes a number of sessions, not '%s'", keep);
	if (bytes && !str_to_bytes(bytes, &limits.max_bytes))
		return err_new(ERR_USAGE, "--max-bytes takes a size such as 500M or 2G, not '%s'", bytes);
	bool dry_run = args_has(args, "--dry-run");
	CLEANUP(store_rows_free) struct store_rows gone = { 0 };
	TRY(session_prune(store, &limits, dry_run, &gone));
	uint64_t sum = 0;
	vec_each(row, &gone) {
		printf("%s  %s  %s\n", row->guid, fmt_time_utc(row->created_ns).s, row->profiler ? row->profiler : "-");
		sum += row->bytes;
	}
	fprintf(stderr, "%s %s, %s\n", dry_run ? "Would delete" : "Deleted",
		fmt_plural(gone.n, "session", "sessions").s, fmt_bytes(sum).s);
	return NULL;
}

static const char *const no_options[] = { NULL };
static const struct sessions_verb {
	const char *name;
	size_t min_words, max_words;
	const char *const *options;
	struct err *(*run)(struct store *store, const struct args *args);
} verbs[] = {
	{ "list", 0, 0, (const char *const[]){ "--json", "--limit", NULL }, list },
	{ "show", 1, 1, (const char *const[]){ "--json", NULL }, show },
	{ "report", 1, 1, (const char *const[]){ "--json", "--format", "--output", "--mask", NULL }, report },
	{ "export", 1, 1, (const char *const[]){ "--format", "--output", "--mask", NULL }, export },
	{ "compare", 2, 2, (const char *const[]){ "--json", "--format", "--output", "--mask", NULL }, compare },
	{ "delete", 1, SIZE_MAX, no_options, delete },
	{ "prune", 0, 0, (const char *const[]){ "--older-than", "--keep", "--max-bytes", "--dry-run", NULL }, prune },
};

static const struct sessions_verb *find_verb(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (str_eq(verbs[i].name, word))
			return &verbs[i];
	return NULL;
}

static struct err *check_options(const struct sessions_verb *verb, const struct args *args)
{
	for (size_t i = 0; i < args->n_given; i++) {
		const char *const *o = verb->options;
		while (*o && !str_eq(*o, args->given[i].option->name))
			o++;
		if (!*o)
			return err_new(ERR_USAGE, "'drdotnet sessions %s' takes no %s", verb->name,
				       args->given[i].option->name);
	}
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	const struct sessions_verb *verb = find_verb(args->n_words ? args->words[0] : "list");
	if (!verb)
		return err_new(
			ERR_USAGE,
			"'drdotnet sessions' knows list, show, report, export, compare, delete and prune, not '%s'",
			args->words[0]);
	size_t words = args->n_words ? args->n_words - 1 : 0;
	if (words < verb->min_words)
		return err_new(ERR_USAGE, "'drdotnet sessions %s' needs %s, or the first 4 digits or more", verb->name,
			       verb->min_words > 1 ? "two sessions: their guids" : "a session: its guid");
	if (words > verb->max_words)
		return err_new(ERR_USAGE, "'drdotnet sessions %s' does not expect '%s'", verb->name,
			       args->words[1 + verb->max_words]);
	TRY(check_options(verb, args));
	CLEANUP(store_closep) struct store *store = NULL;
	TRY(session_open_store(&store));
	if (store_repaired(store))
		fprintf(stderr, "drdotnet: %s\n", store_repaired(store));
	return verb->run(store, args);
}

const struct command cmd_sessions = {
	.name = "sessions",
	.words = "[list|show|report|export|compare|delete|prune] [SESSION]",
	.summary = "List, show, export and delete kept examinations.",
	.example = "drdotnet sessions\n"
		   "drdotnet sessions report 7f3c                    print its report again\n"
		   "drdotnet sessions export 7f3c -o report.zip      all its files; .html for one page\n"
		   "drdotnet sessions compare 7f3c 81aa -o diff.html what changed from the first to the second\n"
		   "drdotnet sessions prune --older-than 7d --keep 50",
	.details =
		"SESSION is a guid or its first digits, at least 4.\n\n"
		"list is meant when no word is given. prune deletes what passes the limits, by their end, oldest first, but never "
		"the newest "
		"and never one that runs; after each run the limits of DRDOTNET_KEEP_AGE (30d), DRDOTNET_KEEP_COUNT "
		"(200) and "
		"DRDOTNET_KEEP_BYTES (2G) are applied.\n\n"
		"Sessions are kept in $DRDOTNET_HOME, else /var/lib/drdotnet for root, else "
		"$XDG_STATE_HOME/drdotnet, else "
		"~/.local/state/drdotnet.",
	.options =
		(const struct option[]){
			{ .name = "--json", .help = "list, show, report, compare: print as JSON" },
			{ .name = "--limit", .value = "N", .help = "list: at most so many, newest first (50)" },
			{ .name = "--format",
			  .short_name = 'f',
			  .value = "FORMAT",
			  .help = "report, export, compare: form of the report",
			  .choices = output_formats },
			{ .name = "--output",
			  .short_name = 'o',
			  .value = "FILE",
			  .help = "report, export, compare: write to a file: .txt, .md, .html, .json or .zip; of "
				  "samples also "
				  ".svg, "
				  ".folded, .pb.gz or .speedscope.json" },
			{ .name = "--mask", .help = "report, export, compare: values of strings only as their shape" },
			{ .name = "--older-than",
			  .value = "AGE",
			  .help = "prune: sessions that ended so long ago: 7d, 12h" },
			{ .name = "--keep", .value = "N", .help = "prune: keep at most so many" },
			{ .name = "--max-bytes", .value = "SIZE", .help = "prune: keep at most so much: 500M, 2G" },
			{ .name = "--dry-run", .help = "prune: only say what would go" },
			{ 0 },
		},
	.max_words = 1000,
	.remote = true,
	.run = run,
};
