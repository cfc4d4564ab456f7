/* drdotnet dump: core files of living processes. */

#include "base/fd.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/launched.h"
#include "cli/progress.h"
#include "image/image.h"
#include "ipc/patient.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FIND_TIMEOUT_MS 3000
#define MAX_PAUSE_LIMIT_MS 60000

struct order {
	const char *path;
	struct image_limits limits;
	int signal_fd;
	bool json;
};

struct result {
	struct image_cost cost;
	struct image_core_written written;
};

static struct err *max_pause(const struct args *args, uint64_t *ret)
{
	const char *text = args_value(args, "--max-pause");
	if (!text || (str_to_duration_ms(text, ret) && *ret > 0 && *ret <= MAX_PAUSE_LIMIT_MS))
		return NULL;
	return err_new(ERR_USAGE, "--max-pause takes a time such as 50ms or 1s, at most 60s, not '%s'", text);
}

/* Could it be written? Nobody is made to stand still for a file that cannot be. */
static struct err *check_path(const char *path)
{
	struct stat st;
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return err_new(ERR_USAGE, "'%s' exists and is not a file", path);
	const char *slash = strrchr(path, '/');
	CLEANUP(mem_freep)
	char *folder = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
	if (access(folder, W_OK | X_OK) < 0)
		return err_errno(errno, "'%s' cannot be written into", folder);
	return NULL;
}

static struct err *parse(const struct args *args, struct order *ret)
{
	if (!str_eq(args->words[0], "collect"))
		return err_new(ERR_USAGE, "'dump' knows 'collect TARGET', not '%s'", args->words[0]);
	if (args->n_words < 2)
		return err_new(ERR_USAGE, "'dump collect' needs a TARGET: a pid, or the name of a process or assembly");
	ret->path = args_value(args, "--output");
	if (!ret->path || !*ret->path)
		return err_new(ERR_USAGE, "'dump collect' needs -o FILE");
	if (!args_has(args, "--fast"))
		return err_new(ERR_USAGE,
			       "give --fast: a dump by the runtime itself, which holds the process until the file "
			       "is written, is not offered");
	ret->json = args_has(args, "--json");
	ret->limits.max_pause_ms = IMAGE_MAX_PAUSE_MS;
	TRY(max_pause(args, &ret->limits.max_pause_ms));
	return check_path(ret->path);
}

struct watch {
	struct progress *progress;
	int signal_fd;
};

static bool on_progress(void *user, uint64_t done, uint64_t whole)
{
	struct watch *w = user;
	bool typed;
	progress_update(w->progress, whole ? (double)done / (double)whole : -1, "writing");
	return !signals_take(w->signal_fd, &typed);
}

static struct err *collect(const struct order *o, const struct patient *p, struct progress *progress,
			   struct result *ret)
{
	CLEANUP(image_closep) struct image *img = NULL;
	TRY(image_take_snapshot(&p->target, &o->limits, &img));
	struct watch watch = { progress, o->signal_fd };
	TRY(image_write_core(img, o->path, &(struct image_progress){ on_progress, &watch }, &ret->written));
	ret->cost = image_cost(img);
	return NULL;
}

static void print_text(const struct order *o, const struct patient *p, const struct result *r)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	const struct image_cost *c = &r->cost;
	buf_str(&out, o->path);
	buf_printf(&out, ": core file of ");
	str_add_visible(&out, patient_name(p), strlen(patient_name(p)), 60);
	buf_printf(&out, " (%d), %s of memory, %s on disk\n", p->target.id, fmt_bytes(r->written.bytes).s,
		   fmt_bytes(r->written.disk_bytes).s);
	buf_printf(&out, "it stood still for %s (about %s was expected); the copy lived %s and cost it %s of memory\n",
		   fmt_duration_ns(c->pause_ns).s, fmt_duration_ns(c->predicted_ns).s,
		   fmt_duration_ns(c->lifetime_ns).s, fmt_bytes(c->copied_bytes).s);
	if (c->left_bytes)
		buf_printf(&out, "%s of memory that it shares with others are not in the file\n",
			   fmt_bytes(c->left_bytes).s);
	fwrite(out.data, 1, out.len, stdout);
}

static void print_json(const struct order *o, const struct patient *p, const struct result *r)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	const struct image_cost *c = &r->cost;
	jsonw_object(&w, NULL);
	jsonw_str(&w, "path", o->path);
	jsonw_i64(&w, "id", p->target.id);
	jsonw_str(&w, "name", patient_name(p));
	jsonw_u64(&w, "memoryBytes", r->written.bytes);
	jsonw_u64(&w, "diskBytes", r->written.disk_bytes);
	jsonw_u64(&w, "unreadBytes", r->written.unread_bytes);
	jsonw_u64(&w, "leftBytes", c->left_bytes);
	jsonw_num(&w, "pauseMs", (double)c->pause_ns / 1e6);
	jsonw_num(&w, "predictedPauseMs", (double)c->predicted_ns / 1e6);
	jsonw_num(&w, "copyLifetimeMs", (double)c->lifetime_ns / 1e6);
	jsonw_u64(&w, "copiedBytes", c->copied_bytes);
	jsonw_u64(&w, "threads", c->threads);
	jsonw_object_end(&w);
	buf_char(&out, '\n');
	fwrite(out.data, 1, out.len, stdout);
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	struct order o = { 0 };
	CLEANUP(patient_fini) struct patient p = { 0 };
	struct image_forecast forecast;
	TRY(parse(args, &o));
	TRY(patient_look(args->words[1], FIND_TIMEOUT_MS, &p));
	if (p.answered)
		o.limits.cookie = p.info.cookie;
	TRY_WRAP(image_forecast(&p.target, &o.limits, &forecast), "no copy of %s (%d) can be made", patient_name(&p),
		 p.target.id);
	CLOSE_FD int signal_fd = -1;
	TRY(signals_open(false, &signal_fd));
	o.signal_fd = o.limits.cancel_fd = signal_fd;
	CLEANUP(mem_freep) char *title = mem_printf("dump of %s (%d)", patient_name(&p), p.target.id);
	CLEANUP(progress_fini) struct progress progress;
	progress_init(&progress, title, args_has(args, "--quiet"));
	CLEANUP(mem_freep)
	char *warning = mem_printf("it will stand still for about %s", fmt_duration_ns(forecast.pause_ns).s);
	progress_state(&progress, STORE_RUNNING);
	progress_update(&progress, 0, warning);
	struct result r;
	TRY_WRAP(collect(&o, &p, &progress, &r), "no core file of %s (%d)", patient_name(&p), p.target.id);
	if (o.json)
		print_json(&o, &p, &r);
	else
		print_text(&o, &p, &r);
	return NULL;
}

static const struct option options[] = {
	{ .name = "--output", .short_name = 'o', .value = "FILE", .help = "Where to write it" },
	{ .name = "--fast",
	  .help = "Copy the process in a pause of milliseconds and write from the copy, while it runs on" },
	{ .name = "--max-pause", .value = "TIME", .help = "Refuse when it would stand still for longer (100ms)" },
	{ .name = "--quiet", .short_name = 'q', .help = "No progress" },
	{ .name = "--json", .help = "Print an object with what was written and what it cost" },
	{ 0 },
};

const struct command cmd_dump = {
	.name = "dump",
	.words = "collect TARGET",
	.summary = "Write a core file of a process without holding it while the file is written",
	.example = "drdotnet dump collect 1234 --fast -o shop.core   everything in its memory, at one instant\n",
	.details = "The file is a standard core: gdb and the tools built on ClrMD open it. It holds the memory "
		   "of the "
		   "process, with all its secrets: only its owner may read it.\n\n"
		   "The process stands still while its page tables are copied, about 24 ms for each GB; then it runs "
		   "on and pays "
		   "for the pages that it writes to until the copy is read. Nothing is started that would take too "
		   "long, or that "
		   "its memory limit leaves no room for.",
	.options = options,
	.min_words = 1,
	.max_words = 2,
	.run = run,
};
