/* drdotnet symbols: names and lines for code whose symbols are kept elsewhere. */

#include "base/fd.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/launched.h"
#include "cli/progress.h"
#include "dac/missing.h"
#include "symbols/fetch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PUBLIC_SERVER "https://msdl.microsoft.com/download/symbols"
#define NAMES_SHOWN 8

/* ---- which servers, which files ---- */

static struct err *add_all(struct symbol_fetch *f, const struct args *args, const char *option, bool debuginfod)
{
	for (size_t i = 0; i < args->n_given; i++)
		if (str_eq(args->given[i].option->name, option))
			TRY(symbol_fetch_add_servers(f, args->given[i].value, debuginfod));
	return NULL;
}

static struct err *choose_servers(struct symbol_fetch *f, const struct args *args)
{
	const char *configured = getenv("DRDOTNET_SYMBOL_SERVERS"), *debuginfod = getenv("DEBUGINFOD_URLS");
	f->ca_file = args_value(args, "--ca-certificates");
	TRY(add_all(f, args, "--from", false));
	TRY(add_all(f, args, "--debuginfod", true));
	if (f->servers.n)
		return NULL;
	TRY_WRAP(symbol_fetch_add_servers(f, str_empty(configured) ? PUBLIC_SERVER : configured, false),
		 "DRDOTNET_SYMBOL_SERVERS");
	if (!str_empty(debuginfod))
		TRY_WRAP(symbol_fetch_add_servers(f, debuginfod, true), "DEBUGINFOD_URLS");
	return NULL;
}

static void choose_kinds(struct dac_missing *m, const struct args *args)
{
	for (int k = 0; k < SYMBOL_KINDS; k++) {
		m->wanted[k] = !args_has(args, "--only");
		for (size_t i = 0; i < args->n_given; i++)
			m->wanted[k] |= str_eq(args->given[i].option->name, "--only") &&
					str_eq(args->given[i].value, symbol_kind_word((enum symbol_kind)k));
	}
}

static bool is_file(const char *word)
{
	struct stat st;
	return strchr(word, '/') || (stat(word, &st) == 0 && S_ISREG(st.st_mode));
}

static struct err *find_missing(const struct args *args, struct dac_missing *m, char **ret_title)
{
	const char *core = args_value(args, "--core"), *word = args->n_words > 1 ? args->words[1] : NULL;
	if (!core == !word)
		return err_new(ERR_USAGE, "'drdotnet symbols fetch' needs a TARGET, a FILE or --core FILE");
	choose_kinds(m, args);
	*ret_title = mem_strdup(core ? core : word);
	if (!word)
		return dac_missing_of_core(m, core);
	if (is_file(word))
		return dac_missing_of_file(m, word);
	CLEANUP(patient_fini) struct patient p = { 0 };
	TRY(patient_look(word, FIND_TIMEOUT_MS, &p));
	if (!p.target.pid)
		return err_new(ERR_UNSUPPORTED, "its process is not visible from here");
	mem_free(*ret_title);
	*ret_title = mem_printf("%s (%d)", patient_name(&p), p.target.id);
	return dac_missing_of_process(m, &p.target);
}

/* ---- what came of it ---- */

/* "debug file of libcoreclr.so", "shop.pdb" */
static void add_name(struct buf *out, const struct symbol_file *f)
{
	if (f->kind == SYMBOL_DEBUG)
		buf_printf(out, "%s of ", symbol_kind_show(f->kind));
	buf_str(out, f->name);
}

struct result {
	const char *title;
	const struct dac_missing *missing;
	const struct symbol_fetch *fetch;
	struct symbol_fetched *each; /* by file */
	size_t done, not_there, failed;
	uint64_t bytes;
	char *folder;
};

static void say_not_there(const struct result *r, struct buf *out)
{
	size_t shown = 0;
	buf_printf(out, "not on any server: ");
	for (size_t i = 0; i < r->missing->files.n; i++) {
		if (r->each[i].end != SYMBOL_FETCH_NOT_THERE || shown++ >= NAMES_SHOWN)
			continue;
		buf_str(out, shown > 1 ? ", " : "");
		add_name(out, &r->missing->files.v[i]);
	}
	if (shown > NAMES_SHOWN)
		buf_printf(out, " and %zu more", shown - NAMES_SHOWN);
	buf_char(out, '\n');
}

static void print_text(const struct result *r)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	size_t n = r->missing->files.n;
	str_add_visible(&out, r->title, strlen(r->title), 100);
	if (!n)
		buf_str(&out, ": nothing is missing\n");
	else
		buf_printf(&out, ": %s missing, %s fetched (%s)\n", fmt_plural(n, "file", "files").s,
			   fmt_count(r->done).s, fmt_bytes(r->bytes).s);
	for (size_t i = 0; i < n; i++) {
		const struct symbol_fetched *f = &r->each[i];
		if (f->end == SYMBOL_FETCH_NOT_THERE || (f->end == SYMBOL_FETCH_FAILED && !f->why))
			continue;
		buf_str(&out, "  ");
		add_name(&out, &r->missing->files.v[i]);
		if (f->end == SYMBOL_FETCH_DONE)
			buf_printf(&out, ", %s, from %s\n", fmt_bytes(f->bytes).s, f->server);
		else
			buf_printf(&out, ": %s\n", f->why);
	}
	if (r->not_there)
		say_not_there(r, &out);
	if (r->done)
		buf_printf(&out, "kept in %s and used from now on\n", r->folder);
	fwrite(out.data, 1, out.len, stdout);
}

static void print_json(const struct result *r)
{
	static const char *const ends[] = { "fetched", "not-there", "failed" };
	CLEANUP(buf_free) struct buf out = { 0 }, key = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "of", r->title);
	jsonw_str(&w, "folder", r->folder);
	jsonw_u64(&w, "here", r->missing->here);
	jsonw_array(&w, "files");
	for (size_t i = 0; i < r->missing->files.n; i++) {
		const struct symbol_file *f = &r->missing->files.v[i];
		buf_clear(&key);
		symbol_key(f, &key);
		jsonw_object(&w, NULL);
		jsonw_str(&w, "name", f->name);
		jsonw_str(&w, "kind", symbol_kind_word(f->kind));
		jsonw_str(&w, "key", buf_cstr(&key));
		jsonw_str(&w, "state", ends[r->each[i].end]);
		if (r->each[i].end == SYMBOL_FETCH_DONE) {
			jsonw_u64(&w, "bytes", r->each[i].bytes);
			jsonw_str(&w, "server", r->each[i].server);
		}
		if (r->each[i].why)
			jsonw_str(&w, "why", r->each[i].why);
		jsonw_object_end(&w);
	}
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	buf_char(&out, '\n');
	fwrite(out.data, 1, out.len, stdout);
}

/* Nothing came though something is missing: that is a failure, and says whose. */
static struct err *verdict(const struct result *r)
{
	size_t n = r->missing->files.n;
	if (!n || r->done)
		return NULL;
	for (size_t i = 0; i < n && r->failed; i++)
		if (r->each[i].why)
			return err_new(ERR_IO, "nothing could be fetched: %s", r->each[i].why);
	CLEANUP(buf_free) struct buf servers = { 0 };
	vec_each(s, &r->fetch->servers)
		buf_printf(&servers, "%s%s", servers.len ? ", " : "", s->url);
	return err_new(ERR_NOT_FOUND, "none of %s is on %s", fmt_plural(n, "missing file", "missing files").s,
		       buf_cstr(&servers));
}

static struct err *fetch_all(struct symbol_fetch *f, const struct dac_missing *m, struct result *r,
			     struct progress *progress)
{
	for (size_t i = 0; i < m->files.n; i++) {
		progress_update(progress, (double)i / (double)m->files.n, "asking servers");
		progress_draw(progress);
		TRY(symbol_fetch_file(f, &m->files.v[i], &r->each[i]));
		r->done += r->each[i].end == SYMBOL_FETCH_DONE;
		r->not_there += r->each[i].end == SYMBOL_FETCH_NOT_THERE;
		r->failed += r->each[i].end == SYMBOL_FETCH_FAILED;
		r->bytes += r->each[i].bytes;
	}
	return NULL;
}

static struct err *fetch_and_tell(const struct args *args, struct symbol_fetch *f, const struct dac_missing *m,
				  const char *title)
{
	struct result r = { .title = title, .missing = m, .fetch = f };
	struct progress progress;
	TRY(symbol_cache_path(&r.folder));
	r.each = mem_array(m->files.n + 1, sizeof(*r.each));
	memset(r.each, 0, (m->files.n + 1) * sizeof(*r.each));
	CLEANUP(mem_freep) char *head = mem_printf("symbols of %s", title);
	progress_init(&progress, head, args_has(args, "--quiet") || !m->files.n);
	progress_state(&progress, STORE_RUNNING);
	struct err *err = fetch_all(f, m, &r, &progress);
	progress_fini(&progress);
	if (!err) {
		if (args_has(args, "--json"))
			print_json(&r);
		else if (r.done || !m->files.n)
			print_text(&r);
		err = verdict(&r);
	}
	for (size_t i = 0; i < m->files.n; i++)
		mem_free(r.each[i].why);
	mem_free(r.each);
	mem_free(r.folder);
	return err;
}

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	CLEANUP(dac_missing_fini) struct dac_missing missing = { 0 };
	CLEANUP(symbol_fetch_fini) struct symbol_fetch fetch = { 0 };
	CLEANUP(mem_freep) char *title = NULL;
	if (!str_eq(args->words[0], "fetch"))
		return err_new(ERR_USAGE, "'drdotnet symbols' does fetch, not '%s'", args->words[0]);
	CLOSE_FD int signal_fd = -1;
	TRY(choose_servers(&fetch, args));
	TRY(find_missing(args, &missing, &title));
	TRY(signals_open(false, &signal_fd));
	fetch.cancel_fd = signal_fd;
	return fetch_and_tell(args, &fetch, &missing, title);
}

static const char *const kind_words[] = { "debug", "library", "dac", "pdb", "assembly", NULL };

const struct command cmd_symbols = {
	.name = "symbols",
	.words = "fetch TARGET|FILE",
	.summary = "Download symbols, so that frames of the runtime and of libraries have names and lines.",
	.example = "drdotnet symbols fetch 1234               what this process lacks\n"
		   "drdotnet symbols fetch --core shop.core   also libraries and what reads the core\n"
		   "drdotnet symbols fetch libcoreclr.so --only debug",
	.details = "Asked for are debug files of stripped libraries, portable PDBs, the runtime's data-access library "
		   "and, "
		   "for a core from another machine, libraries and assemblies: only what is not there. Servers learn "
		   "build "
		   "ids and file names, nothing else. What comes is checked to be of exactly that build, kept in the "
		   "folder "
		   "'symbols' of DRDOTNET_HOME, and used by every command from then on. No other command downloads "
		   "anything.\n\n"
		   "Servers are those of --from and --debuginfod; else those that DRDOTNET_SYMBOL_SERVERS "
		   "(" PUBLIC_SERVER " when it is not set) and DEBUGINFOD_URLS name.",
	.options =
		(const struct option[]){
			{ .name = "--core", .value = "FILE", .help = "Of a core file instead of a process" },
			{ .name = "--only",
			  .value = "KIND",
			  .help = "Only such files: debug, library, dac, pdb or assembly; may be given more than once",
			  .choices = kind_words,
			  .repeat = true },
			{ .name = "--from",
			  .value = "URL",
			  .help = "A symbol server; may be given more than once",
			  .repeat = true },
			{ .name = "--debuginfod",
			  .value = "URL",
			  .help = "A debuginfod server; may be given more than once",
			  .repeat = true },
			{ .name = "--ca-certificates",
			  .value = "FILE",
			  .help = "Trust these certificates (PEM) instead of the system's" },
			{ .name = "--json", .help = "Print what came of it as JSON" },
			{ .name = "--quiet", .short_name = 'q', .help = "No progress" },
			{ 0 },
		},
	.min_words = 1,
	.max_words = 2,
	.remote = true,
	.run = run,
};
