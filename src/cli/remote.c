#include "cli/remote.h"
#include "cli/secret.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/partfile.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/launched.h"
#include "cli/output.h"
#include "http/client.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MS 30000
#define INTERRUPT_MS 5000
#define PIECE_LINE_MAX 64

/* ---- there ---- */

const struct option remote_options[] = {
	{ .name = "--server", .value = "URL", .help = "Do it on the machine where 'drdotnet serve' runs" },
	{ .name = "--token",
	  .value = "TOKEN",
	  .help = "What that server wants; else $DRDOTNET_TOKEN. Your own server on this machine wants none" },
	{ .name = "--token-file", .value = "FILE", .help = "The same, out of the first line of a file" },
	{ .name = "--ca-file", .value = "FILE", .help = "Trust these certificates (PEM) instead of the system's" },
	{ 0 },
};

/* The command works in an empty folder of its own: a plain name cannot refer to anything outside. */
static struct err *check_name(const char *name)
{
	return strchr(name, '/') || name[0] == '.'
		       ? err_new(ERR_DENIED, "a command that another machine asked for takes no path: '%s'", name)
		       : NULL;
}

struct err *remote_check(const struct args *args)
{
	if (!args->command->remote)
		return err_new(ERR_DENIED, "'%s' cannot be run from another machine", args->command->name);
	if (args->program)
		return err_new(ERR_DENIED, "no program is started for another machine");
	for (size_t i = 0; i < args->n_given; i++) {
		const char *value = args->given[i].option->value;
		if (value && (str_eq(value, "FILE") || str_eq(value, "DIR") || str_eq(value, "FOLDER")))
			TRY(check_name(args->given[i].value));
	}
	for (size_t i = 0; i < args->n_words; i++)
		TRY(check_name(args->words[i]));
	if (str_eq(args->command->name, "inspect") && !args_has(args, "--command") && !args_has(args, "--help"))
		return err_new(ERR_USAGE, "another machine has no prompt here: ask with -c COMMAND");
	if (str_eq(args->command->name, "cpu") && !args_has(args, "--output") && !args_has(args, "--help"))
		return err_new(ERR_USAGE,
			       "one file comes from another machine, no folder: 'cpu collect -o prof.tar.gz'");
	return NULL;
}

/* ---- here ---- */

static bool is_option(const char *word, const char *name, const char **ret_value)
{
	size_t len = strlen(name);
	*ret_value = word[len] == '=' ? word + len + 1 : NULL;
	return str_starts(word, name) && (!word[len] || word[len] == '=');
}

struct err *remote_take(int *argc, char **argv, struct remote *ret, bool *ret_given)
{
	const char *file = NULL;
	const struct {
		const char *name, **to;
	} options[] = { { "--server", &ret->url },
			{ "--token", &ret->token },
			{ "--token-file", &file },
			{ "--ca-file", &ret->ca_file } };
	int kept = 0;
	bool own = *argc > 0 && str_eq(argv[0], "serve"), over = false;
	*ret = (struct remote){ 0 };
	for (int i = 0; i < *argc; i++) {
		const char *value = NULL, **to = NULL;
		over |= str_eq(argv[i], "--");
		for (size_t k = 0; k < ARRAY_SIZE(options) && !to && !own && !over; k++)
			if (is_option(argv[i], options[k].name, &value))
				to = options[k].to;
		if (!to) {
			argv[kept++] = argv[i];
			continue;
		}
		if (!value && i + 1 >= *argc)
			return err_new(ERR_USAGE, "%s needs a value", argv[i]);
		*to = value ? value : argv[++i];
	}
	*ret_given = ret->url != NULL;
	if (!ret->url && (ret->token || file || ret->ca_file))
		return err_new(ERR_USAGE, "--token, --token-file and --ca-file go with --server URL");
	if (file) {
		static char *token; /* for as long as we run */
		TRY(secret_read(file, &token));
		ret->token = token;
	}
	ret->token = ret->token ? ret->token : getenv("DRDOTNET_TOKEN");
	*argc = kept;
	return NULL;
}

struct stream_in {
	struct http_client *client;
	struct partfile file;
	const char *path; /* of -o, or NULL */
	mode_t mode;
	bool open, opened;
	char line[PIECE_LINE_MAX];
	size_t n_line;
	char kind; /* of the piece that comes */
	uint64_t left;
	int exit_code;
	bool ended;
};

/* The word behind -o or --output, and only its plain name for the other side. */
static char *output_name(int argc, char **argv, const char **ret_path)
{
	for (int i = 0; i < argc; i++) {
		const char *value = NULL;
		bool is_long = is_option(argv[i], "--output", &value) || is_option(argv[i], "--csv", &value);
		if (!is_long && strncmp(argv[i], "-o", 2) != 0)
			continue;
		if (!is_long && argv[i][2])
			value = argv[i] + 2;
		const char *path = value ? value : i + 1 < argc ? argv[i + 1] : NULL;
		if (!path || str_eq(path, "-"))
			continue;
		const char *slash = strrchr(path, '/');
		*ret_path = path;
		return mem_strdup(slash ? slash + 1 : path);
	}
	return NULL;
}

static void add_arguments(struct jsonw *w, int argc, char **argv, const char *path, const char *name)
{
	jsonw_array(w, "arguments");
	for (int i = 0; i < argc; i++) {
		const char *at = path ? strstr(argv[i], path) : NULL;
		if (at && str_eq(at, path) && (at == argv[i] || argv[i][0] == '-')) {
			CLEANUP(mem_freep) char *word = mem_printf("%.*s%s", (int)(at - argv[i]), argv[i], name);
			jsonw_str(w, NULL, word);
		} else {
			jsonw_str(w, NULL, argv[i]);
		}
	}
	jsonw_array_end(w);
}

static struct err *problem(struct http_client *c)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	json_t *j = NULL;
	int status = http_status(c);
	err_ignore(http_read_all(c, 65536, deadline_in_ms(OPEN_MS), &text));
	err_ignore(json_parse(buf_cstr(&text), text.len, 65536, &j));
	enum err_kind kind = status == 400				       ? ERR_USAGE
			     : status == 404				       ? ERR_NOT_FOUND
			     : status == 401 || status == 403 || status == 421 ? ERR_DENIED
			     : status == 409 || status == 429		       ? ERR_BUSY
									       : ERR_IO;
	struct err *err = err_new(kind, "the server refused: %s", json_get_str(j, "detail", "it did not say why"));
	json_decref(j);
	return err;
}

static struct err *take_line(struct stream_in *s)
{
	s->line[s->n_line] = '\0';
	s->n_line = 0;
	char *blank = strchr(s->line, ' ');
	if (!blank || !str_to_u64(blank + 1, &s->left))
		return err_new(ERR_BAD_DATA, "the server's answer makes no sense");
	s->kind = s->line[0]; /* out, err, file, exit */
	if (s->kind == 'e' && s->line[1] == 'x') {
		s->exit_code = (int)s->left;
		s->ended = true;
		s->left = 0;
	}
	return NULL;
}

static struct err *take_bytes(struct stream_in *s, const char *data, size_t n)
{
	if (s->kind == 'f') {
		if (!s->path)
			return NULL;
		if (!s->opened)
			TRY(partfile_open(s->path, s->mode, &s->file));
		s->opened = true;
		return fd_write_full(s->file.fd, data, n, DEADLINE_NEVER);
	}
	FILE *to = s->kind == 'o' ? stdout : stderr;
	if (fwrite(data, 1, n, to) == n && fflush(to) == 0)
		return NULL;
	/* The server ends the command when we hang up. */
	s->ended = to == stdout && output_is_unread();
	return s->ended ? NULL : err_new(ERR_IO, "cannot write the result to standard output");
}

static struct err *take(struct stream_in *s, const char *data, size_t n)
{
	while (n && !s->ended) {
		if (s->left) {
			size_t part = (size_t)MIN((uint64_t)n, s->left);
			TRY(take_bytes(s, data, part));
			s->left -= part;
			data += part;
			n -= part;
			continue;
		}
		if (*data == '\n')
			TRY(take_line(s));
		else if (s->n_line + 1 < sizeof(s->line))
			s->line[s->n_line++] = *data;
		else
			return err_new(ERR_BAD_DATA, "the server's answer makes no sense");
		data++;
		n--;
	}
	return NULL;
}

/* What Ctrl-C does here is done there. */
static void interrupt(const struct remote *r, const struct http_client *c)
{
	const char *id = http_header(c, "X-Drdotnet-Command");
	CLEANUP(http_freep) struct http_client *ask = NULL;
	if (!id)
		return;
	CLEANUP(mem_freep) char *path = mem_printf("/api/commands/%s/interrupt", id);
	struct http_order order = { .url = r->url,
				    .method = "POST",
				    .path = path,
				    .token = r->token,
				    .ca_file = r->ca_file,
				    .way = r->token ? HTTP_NETWORK : HTTP_LOCAL_FIRST,
				    .type = "application/json",
				    .body = "" };
	err_ignore(http_open(&order, deadline_in_ms(INTERRUPT_MS), &ask));
}

static struct err *receive(const struct remote *r, struct stream_in *s)
{
	static char data[65536];
	CLOSE_FD int signal_fd = -1;
	unsigned signals = 0;
	TRY(signals_open(false, &signal_fd));
	while (!s->ended) {
		size_t n;
		struct err *err = http_read(s->client, data, sizeof(data), DEADLINE_NEVER, signal_fd, &n);
		bool typed;
		if (err && err_kind(err) == ERR_CANCELLED && signals_take(signal_fd, &typed)) {
			if (++signals > 2)
				return err;
			err_free(err);
			interrupt(r, s->client);
			continue;
		}
		TRY(err);
		if (!n)
			return err_new(ERR_IO, "the server ended the answer too early");
		TRY(take(s, data, n));
	}
	return NULL;
}

struct err *remote_run(const struct remote *r, int argc, char **argv, int *ret_exit)
{
	CLEANUP(buf_free) struct buf body = { 0 };
	/* A core file holds all the secrets of its process, here as well as there. */
	struct stream_in s = { .file = { .fd = -1 }, .mode = argc && str_eq(argv[0], "dump") ? 0600 : 0666 };
	CLEANUP(mem_freep) char *name = output_name(argc, argv, &s.path);
	if (s.path)
		TRY(partfile_check(s.path));
	struct jsonw w = jsonw_make(&body, false);
	jsonw_object(&w, NULL);
	add_arguments(&w, argc, argv, s.path, name);
	jsonw_i64(&w, "columns", output_columns(STDOUT_FILENO));
	jsonw_bool(&w, "utf8", output_is_utf8());
	jsonw_bool(&w, "colour",
		   isatty(STDOUT_FILENO) && str_empty(getenv("NO_COLOR")) && !str_eq(getenv("TERM"), "dumb"));
	jsonw_object_end(&w);
	struct http_order order = { .url = r->url,
				    .method = "POST",
				    .path = "/api/commands",
				    .token = r->token,
				    .ca_file = r->ca_file,
				    .way = r->token ? HTTP_NETWORK : HTTP_LOCAL_FIRST,
				    .type = "application/json",
				    .body = body.data,
				    .body_len = body.len };
	CLEANUP(http_freep) struct http_client *client = NULL;
	TRY(http_open(&order, deadline_in_ms(OPEN_MS), &client));
	if (http_status(client) != 200)
		return problem(client);
	s.client = client;
	struct err *err = receive(r, &s);
	if (!err && s.opened)
		err = partfile_commit(&s.file);
	if (s.opened)
		partfile_fini(&s.file, false);
	*ret_exit = s.exit_code;
	return err;
}
