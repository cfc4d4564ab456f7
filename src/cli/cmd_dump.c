/* drdotnet dump: core files of living processes. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/launched.h"
#include "cli/progress.h"
#include "dump/dump.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_PAUSE_LIMIT_MS 60000

/* ---- collect ---- */

static struct err *max_pause(const struct args *args, uint64_t *ret)
{
	const char *text = args_value(args, "--max-pause");
	if (!text || (str_to_duration_ms(text, ret) && *ret > 0 && *ret <= MAX_PAUSE_LIMIT_MS))
		return NULL;
	return err_new(ERR_USAGE, "--max-pause takes a time such as 50ms or 1s, at most 60s, not '%s'", text);
}

/* The name is made by us: the process's name is chosen by the process and not trusted. */
static char *default_path(const struct patient *p)
{
	char when[20];
	time_t now = (time_t)(clock_real_ns() / NS_PER_S);
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	return mem_printf("dump-%d-%s.core", p->target.id, when);
}

struct dump_watch {
	struct progress *progress;
	int signal_fd;
};

static bool on_progress(void *user, double ratio, const char *what)
{
	struct dump_watch *w = user;
	bool typed;
	progress_update(w->progress, ratio, what);
	return !signals_take(w->signal_fd, &typed);
}

static void print_text(const struct dump_order *o, const struct patient *p, const struct dump_result *r)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	const struct image_cost *c = &r->cost;
	buf_str(&out, o->path);
	buf_printf(&out, ": %s core file of ", dump_type_name(o->type));
	str_add_visible(&out, patient_name(p), strlen(patient_name(p)), 60);
	buf_printf(&out, " (%d)", p->target.id);
	if (r->bytes)
		buf_printf(&out, ", %s of memory", fmt_bytes(r->bytes).s);
	buf_printf(&out, ", %s on disk\n", fmt_bytes(r->disk_bytes).s);
	if (o->agent)
		buf_printf(&out, "it stood still for %s; a library in it made a copy, which lived %s\n",
			   fmt_duration_ns(c->pause_ns).s, fmt_duration_ns(c->lifetime_ns).s);
	else if (r->by_runtime)
		buf_printf(&out,
			   "its runtime wrote it; it stood still for up to %s. A copy would hold it for milliseconds\n",
			   fmt_duration_ns(r->held_ns).s);
	else
		buf_printf(
			&out,
			"it stood still for %s (about %s was expected); the copy lived %s and cost it %s of memory\n",
			fmt_duration_ns(c->pause_ns).s, fmt_duration_ns(c->predicted_ns).s,
			fmt_duration_ns(c->lifetime_ns).s, fmt_bytes(c->copied_bytes).s);
	if (c->limit_ns && c->pause_ns > c->limit_ns)
		buf_printf(&out, "that is longer than the limit of %s\n", fmt_duration_ns(c->limit_ns).s);
	if (c->left_bytes)
		buf_printf(&out, "%s of memory that it shares with others are not in the file\n",
			   fmt_bytes(c->left_bytes).s);
	fwrite(out.data, 1, out.len, stdout);
}

static void print_json(const struct dump_order *o, const struct patient *p, const struct dump_result *r)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	const struct image_cost *c = &r->cost;
	jsonw_object(&w, NULL);
	jsonw_str(&w, "path", o->path);
	jsonw_i64(&w, "id", p->target.id);
	jsonw_str(&w, "name", patient_name(p));
	jsonw_str(&w, "type", dump_type_name(o->type));
	jsonw_str(&w, "by", r->by_runtime ? "runtime" : o->agent ? "agent" : "copy");
	jsonw_u64(&w, "diskBytes", r->disk_bytes);
	jsonw_num(&w, "pauseMs", (double)r->held_ns / NS_PER_MS);
	if (!r->by_runtime) {
		jsonw_u64(&w, "memoryBytes", r->bytes);
		jsonw_u64(&w, "unreadBytes", r->unread_bytes);
		jsonw_u64(&w, "leftBytes", c->left_bytes);
		jsonw_num(&w, "copyLifetimeMs", (double)c->lifetime_ns / NS_PER_MS);
	}
	if (!r->by_runtime && !o->agent) {
		jsonw_num(&w, "predictedPauseMs", (double)c->predicted_ns / NS_PER_MS);
		jsonw_u64(&w, "copiedBytes", c->copied_bytes);
		jsonw_u64(&w, "threads", c->threads);
	}
	jsonw_object_end(&w);
	buf_char(&out, '\n');
	fwrite(out.data, 1, out.len, stdout);
}

static struct err *parse(const struct args *args, struct dump_order *ret)
{
	const char *type = args_value(args, "--type");
	if (args->n_words < 2)
		return err_new(ERR_USAGE,
			       "'drdotnet dump collect' needs a TARGET: a pid, or the name of a process or assembly");
	*ret = (struct dump_order){ .path = args_value(args, "--output"),
				    .type = DUMP_FULL,
				    .by_runtime = args_has(args, "--by-runtime") };
	if (ret->path && !*ret->path)
		return err_new(ERR_USAGE, "-o needs the name of a file");
	if (type)
		TRY(dump_type_parse(type, &ret->type));
	if (ret->by_runtime && args_has(args, "--fast"))
		return err_new(ERR_USAGE, "from a copy (--fast) or by the runtime (--by-runtime), not both");
	if (ret->by_runtime && args_has(args, "--way"))
		return err_new(ERR_USAGE, "--way says how a copy is made: it does not go with --by-runtime");
	if (ret->by_runtime && args_has(args, "--max-pause"))
		return err_new(ERR_USAGE, "--max-pause does not go with --by-runtime: how long the runtime takes "
					  "cannot be known");
	return max_pause(args, &ret->limits.max_pause_ms);
}

/* The copy is made from outside by us, unless that is not possible and our library can. */
static struct err *choose_copy(const struct args *args, const struct patient *p, struct dump_order *o)
{
	enum way way = WAY_AUTO;
	struct way_check checks[WAY_COUNT] = { 0 };
	if (args_value(args, "--way"))
		TRY(way_parse(args_value(args, "--way"), &way));
	o->agent = way == WAY_AGENT;
	if (way != WAY_AUTO)
		return NULL;
	patient_check(p, FIND_TIMEOUT_MS, checks);
	o->agent = !checks[WAY_IMAGE].open && checks[WAY_AGENT].open;
	for (size_t i = 0; i < WAY_COUNT; i++)
		way_check_fini(&checks[i]);
	return NULL;
}

/* The runtime's own dump stops the process for long: it is taken only on demand, but mentioned when no copy can be
 * made. */
static struct err *name_other_way(struct err *err, const struct patient *p, const struct dump_order *o)
{
	struct dump_order unhurried = *o;
	uint64_t ns;
	enum err_kind kind = err_kind(err);
	unhurried.limits.max_pause_ms = MAX_PAUSE_LIMIT_MS;
	if (o->by_runtime || !p->answered || (kind != ERR_DENIED && kind != ERR_UNSUPPORTED))
		return err;
	struct err *still = dump_check(p, &unhurried, &ns);
	if (!still) /* only the pause is too long, and the runtime's would be longer */
		return err;
	err_free(still);
	struct err *both = err_new(kind,
				   "%s; --by-runtime has its own runtime write the file, which holds the process until "
				   "it is written (seconds for each GB)",
				   err_text(err));
	err_free(err);
	return both;
}

static struct err *collect(const struct args *args)
{
	struct dump_order o = { 0 };
	CLEANUP(patient_fini) struct patient p = { 0 };
	CLEANUP(mem_freep) char *path = NULL;
	uint64_t pause_ns = 0;
	TRY(parse(args, &o));
	TRY(patient_look(args->words[1], FIND_TIMEOUT_MS, &p));
	if (!o.path)
		o.path = path = default_path(&p);
	if (p.answered)
		o.limits.cookie = p.info.cookie;
	CLEANUP(mem_freep) char *title = mem_printf("dump of %s (%d)", patient_name(&p), p.target.id);
	CLEANUP(progress_fini) struct progress progress;
	progress_init(&progress, title, args_has(args, "--quiet"));
	if (!o.by_runtime)
		TRY(choose_copy(args, &p, &o));
	struct err *err = dump_check(&p, &o, &pause_ns);
	if (err)
		return err_wrap(name_other_way(err, &p, &o), "no dump of %s (%d)", patient_name(&p), p.target.id);
	CLOSE_FD int signal_fd = -1;
	TRY(signals_open(false, &signal_fd));
	o.limits.cancel_fd = signal_fd;
	CLEANUP(mem_freep)
	char *warning = o.agent	       ? mem_strdup("a library in it makes a copy")
			: o.by_runtime ? mem_strdup("it stands still until the file is written")
				       : mem_printf("it will stand still for about %s", fmt_duration_ns(pause_ns).s);
	struct dump_watch watch = { &progress, signal_fd };
	o.on = on_progress;
	o.user = &watch;
	progress_state(&progress, STORE_RUNNING);
	progress_update(&progress, 0, warning);
	struct dump_result r;
	TRY_WRAP(dump_collect(&p, &o, &r), "no core file of %s (%d)", patient_name(&p), p.target.id);
	if (args_has(args, "--json"))
		print_json(&o, &p, &r);
	else
		print_text(&o, &p, &r);
	return NULL;
}

/* ---- open ---- */

static struct err *open_file(const struct args *args)
{
	CLEANUP(inspect_closep) struct inspect *in = NULL;
	if (args->n_words < 2)
		return err_new(ERR_USAGE, "'drdotnet dump open' needs a FILE");
	TRY(inspect_open_core(args->words[1], &in));
	return inspect_ask(args, in);
}

/* The words of one verb are not those of the other. */
static struct err *check_options(const struct args *args, bool opens)
{
	static const char *const of_open[] = { "--command", "--json" };
	for (size_t i = 0; i < args->n_given; i++) {
		const char *name = args->given[i].option->name;
		bool known = str_eq(name, of_open[0]) || str_eq(name, of_open[1]);
		if (opens ? !known : str_eq(name, of_open[0]))
			return err_new(ERR_USAGE, "'drdotnet dump %s' does not take %s", args->words[0], name);
	}
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	bool opens = str_eq(args->words[0], "open");
	if (!opens && !str_eq(args->words[0], "collect"))
		return err_new(ERR_USAGE, "'dump' knows 'collect TARGET' and 'open FILE', not '%s'", args->words[0]);
	TRY(check_options(args, opens));
	return opens ? open_file(args) : collect(args);
}

static const char *const types[] = { "mini", "heap", "full", NULL };
static const char *const ways[] = { "auto", "image", "agent", NULL };
static const struct option options[] = {
	{ .name = "--output", .short_name = 'o', .value = "FILE", .help = "Where to write it (dump-PID-TIME.core)" },
	{ .name = "--type",
	  .value = "TYPE",
	  .choices = types,
	  .help = "mini: threads and stacks; heap: all data too; full: mapped files too (full)" },
	{ .name = "--way",
	  .value = "WAY",
	  .choices = ways,
	  .help = "Copy it from outside (image) or by a library in it (agent); auto: as is possible (auto)" },
	{ .name = "--max-pause",
	  .value = "TIME",
	  .help = "Refuse when it would stand still for longer (100ms; of a large process 40ms a GB)" },
	{ .name = "--by-runtime", .help = "Its own runtime writes the file and holds the process until the last byte" },
	{ .name = "--fast", .help = "From a copy, as without it; for scripts of earlier versions" },
	{ .name = "--quiet", .short_name = 'q', .help = "No progress" },
	{ .name = "--command",
	  .short_name = 'c',
	  .value = "COMMAND",
	  .help = "open: ask this and end; may be given more than once",
	  .repeat = true },
	{ .name = "--json", .help = "Print what was written and what it cost, or the answers, as JSON" },
	{ 0 },
};

const struct command cmd_dump = {
	.name = "dump",
	.words = "collect TARGET | open FILE",
	.summary = "Write a core file of a process, or ask one about threads, objects, locks and code.",
	.example = "drdotnet dump collect 1234                      everything in its memory, at one instant\n"
		   "drdotnet dump collect 1234 --type mini          its threads and stacks only: a few MB\n"
		   "drdotnet dump collect 1234 --by-runtime         written by the runtime itself\n"
		   "drdotnet dump open shop.core                    a prompt; 'help' lists what can be asked\n"
		   "drdotnet dump open shop.core -c 'heap stat'     one answer\n",
	.details = "The file is a standard core: gdb and the tools built on ClrMD open it. It holds the memory of the "
		   "process, with all its secrets: only its owner may read it.\n\n"
		   "The process stands still while its page tables are copied, about 24 ms for each GB; "
		   "then it runs on and pays for the pages that it writes to until the copy is read. Nothing is "
		   "started that would take too long, or that its memory limit leaves no room for.\n\n"
		   "With --by-runtime its own runtime writes the file, holds the process until the last byte (seconds "
		   "for each GB) and prints a few lines to its standard output. That way is never taken without the "
		   "word: where no copy can be made, the error says so.",
	.options = options,
	.min_words = 1,
	.max_words = 2,
	.remote = true,
	.run = run,
};
