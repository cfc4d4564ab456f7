/* What a command of ours does on a process and gives back: stacks, traces, core files. Each runs as a process of its
 * own; its output is the answer. */

#include "server/api.h"
#include "server/child.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TRACE_SECONDS_MAX 3600

static void on_ready(void *user)
{
	request_unpark(user);
}

static struct err *process_id(const struct request *r)
{
	uint64_t id;
	return str_to_u64(r->params[0], &id) && id && id <= INT32_MAX
		       ? NULL
		       : err_new(ERR_USAGE, "'%s' is no id of a process", r->params[0]);
}

/* The words of the command line, where the contract has its own. */
static struct err *in_words_of_rest(const struct request *r, struct err *err)
{
	if (!err || err_kind(err) != ERR_NOT_FOUND || !str_starts(r->route->pattern, "/api/processes/{id}"))
		return err;
	err_free(err);
	return err_new(ERR_NOT_FOUND, "No process found with pid '%s'", r->params[0]);
}

/* Round 0: the command is started. The request is called again when there is something to answer. */
static struct err *start(struct request *r, struct child_order *order)
{
	order->ready = on_ready;
	order->user = r;
	order->client_fd = r->connection_fd;
	return api_start_child(r, order);
}

/* Round 1: output streams through, or it has failed. */
static struct err *answer_output(struct request *r, const char *type)
{
	if (child_ended(r->child)) {
		struct err *err = child_error(r->child);
		if (err)
			return in_words_of_rest(r, err);
	}
	respond(r, 200, type);
	respond_header(r, "Cache-Control", "no-store");
	r->response.stream = child_output(r->child);
	return NULL;
}

/* Round 1 of commands that write a file into their folder. */
struct err *api_answer_file(struct request *r, struct child *child, const char *name, const char *type)
{
	struct err *err = child_error(child);
	if (err)
		return in_words_of_rest(r, err);
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", child_folder(child), name);
	CLOSE_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", name);
	/* The open descriptor keeps it; its name is not needed. */
	unlink(path);
	respond(r, 200, type);
	respond_headerf(r, "Content-Disposition", "attachment; filename=\"%s\"", name);
	respond_header(r, "Cache-Control", "no-store");
	r->response.fd_bytes = (uint64_t)st.st_size;
	r->response.fd = fd_steal(&fd);
	return NULL;
}

struct err *api_start_child(struct request *r, struct child_order *order)
{
	request_park(r);
	struct err *err = child_start(r->server->children, order, &r->child);
	if (err)
		r->parked = false;
	return err;
}

struct err *api_make_folder(struct request *r, char **ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/XXXXXX", r->server->work_dir);
	if (!mkdtemp(path))
		return err_errno(errno, "make a folder in '%s'", r->server->work_dir);
	*ret = STEAL(path);
	return NULL;
}

/* ---- stacks ---- */

struct err *api_stacks(struct request *r)
{
	bool json = request_accepts(r, "application/json");
	if (r->round)
		return answer_output(r, json ? TYPE_JSON : TYPE_TEXT);
	uint64_t pause_ms;
	char pause[32];
	TRY(process_id(r));
	TRY(request_query_u64(r, "maxPauseMs", 1, 60000, 100, &pause_ms));
	snprintf(pause, sizeof(pause), "%llums", (unsigned long long)pause_ms);
	struct child_order order = { .argv = child_words("stacks", r->params[0], "--max-pause", pause,
							 json ? "--json" : NULL, NULL) };
	log_line(r->server->log, LOG_INFO, "audit: %s looks at the stacks of %s", r->client, r->params[0]);
	return start(r, &order);
}

/* ---- traces ---- */

static const struct trace_format {
	const char *name, *file, *type;
} trace_formats[] = {
	{ "nettrace", "trace.nettrace", "application/octet-stream" },
	{ "pprof", "trace.pb.gz", "application/octet-stream" },
	{ "speedscope", "trace.speedscope.json", TYPE_JSON },
	{ "chromium", "trace.chromium.json", TYPE_JSON },
	{ "folded", "trace.folded", TYPE_TEXT },
};

static struct err *trace_format(const struct request *r, const struct trace_format **ret)
{
	const char *word = request_query(r, "format");
	for (size_t i = 0; i < ARRAY_SIZE(trace_formats); i++) {
		if (str_empty(word) || str_eq(word, trace_formats[i].name)) {
			*ret = &trace_formats[i];
			return NULL;
		}
	}
	return err_new(ERR_USAGE, "'format' takes nettrace, pprof, speedscope, chromium or folded, not '%s'", word);
}

/* What to collect; the command checks it. A word that looks like an option is refused. */
static struct err *trace_words(const char *profile, const char *providers, const char **ret_option,
			       const char **ret_value)
{
	bool named = !str_empty(providers);
	*ret_option = named ? "--providers" : "--profile";
	*ret_value = named ? providers : str_empty(profile) ? "cpu" : profile;
	return !str_empty(profile) && named ? err_new(ERR_USAGE, "give either a profile or providers") : NULL;
}

struct err *api_trace(struct request *r)
{
	const struct trace_format *format = trace_formats;
	const char *option, *value;
	uint64_t seconds;
	TRY(trace_format(r, &format));
	bool raw = format == trace_formats;
	if (r->round && !raw)
		return api_answer_file(r, r->child, format->file, format->type);
	if (r->round) {
		respond_headerf(r, "Content-Disposition", "attachment; filename=\"%s\"", format->file);
		return answer_output(r, format->type);
	}
	TRY(process_id(r));
	TRY(request_query_u64(r, "seconds", 1, TRACE_SECONDS_MAX, 10, &seconds));
	TRY(trace_words(request_query(r, "profile"), request_query(r, "providers"), &option, &value));
	char duration[32];
	snprintf(duration, sizeof(duration), "%llus", (unsigned long long)seconds);
	struct child_order order = { 0 };
	CLEANUP(mem_freep) char *path = NULL, *result = NULL;
	if (!raw) {
		TRY(api_make_folder(r, &order.folder));
		path = mem_printf("%s/trace.nettrace", order.folder);
		result = mem_printf("%s/%s", order.folder, format->file);
		order.then = child_words("trace", "convert", path, "-o", result, "--to", format->name, "--quiet", NULL);
	}
	order.argv = child_words("trace", "collect", r->params[0], "-o", raw ? "-" : path, "--duration", duration,
				 option, value, "--quiet", NULL);
	log_line(r->server->log, LOG_INFO, "audit: %s traces %s for %s", r->client, r->params[0], duration);
	return start(r, &order);
}

/* ---- core files ---- */

struct err *api_dump(struct request *r)
{
	if (r->round)
		return api_answer_file(r, r->child, "core", "application/octet-stream");
	uint64_t pause_ms;
	char pause[32];
	TRY(process_id(r));
	TRY(request_query_u64(r, "maxPauseMs", 1, 60000, 100, &pause_ms));
	snprintf(pause, sizeof(pause), "%llums", (unsigned long long)pause_ms);
	struct child_order order = { 0 };
	TRY(api_make_folder(r, &order.folder));
	CLEANUP(mem_freep) char *path = mem_printf("%s/core", order.folder);
	order.argv = child_words("dump", "collect", r->params[0], "-o", path, "--max-pause", pause, "--quiet", NULL);
	log_line(r->server->log, LOG_INFO, "audit: %s takes a core file of %s", r->client, r->params[0]);
	return start(r, &order);
}

/* ---- commands of the command line, for `drdotnet --server` ---- */

#define ARGUMENTS_MAX 200

/* The command itself checks what it may do here: see the CLI's remote.c. */
static struct err *remote_words(const json_t *body, char ***ret)
{
	const json_t *arguments = json_object_get(body, "arguments");
	size_t n = json_array_size(arguments);
	if (!n || n > ARGUMENTS_MAX)
		return err_new(ERR_USAGE, "'arguments' must be an array of words");
	char **words = child_words("_remote", NULL);
	words = mem_realloc_array(words, n + 2, sizeof(*words));
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(arguments, i));
		words[i + 1] = word ? mem_strdup(word) : NULL;
		if (!word) {
			child_words_free(words);
			return err_new(ERR_USAGE, "'arguments' must be an array of words");
		}
	}
	words[n + 1] = NULL;
	*ret = words;
	return NULL;
}

static char **remote_environment(const json_t *body)
{
	CLEANUP(mem_freep)
	char *columns = mem_printf("DRDOTNET_COLUMNS=%lld", (long long)json_get_int(body, "columns", 100));
	return child_words(json_get_bool(body, "utf8", true) ? "LC_ALL=C.UTF-8" : "LC_ALL=C", columns,
			   json_get_bool(body, "colour", false) ? "DRDOTNET_COLOUR=1" : "NO_COLOR=1", NULL);
}

struct err *api_command(struct request *r)
{
	if (r->round) {
		respond(r, 200, "application/octet-stream");
		respond_header(r, "Cache-Control", "no-store");
		respond_headerf(r, "X-Drdotnet-Command", "%llu", (unsigned long long)child_id(r->child));
		r->response.stream = child_output(r->child);
		return NULL;
	}
	CLEANUP(json_decrefp) json_t *body = NULL;
	struct child_order order = { .framed = true, .send_file = true };
	TRY(request_body(r, &body));
	TRY(remote_words(body, &order.argv));
	struct err *err = api_make_folder(r, &order.folder);
	if (err) {
		child_words_free(order.argv);
		return err;
	}
	order.environment = remote_environment(body);
	log_line(r->server->log, LOG_INFO, "audit: %s runs '%s %s'", r->client, order.argv[1],
		 order.argv[2] ? order.argv[2] : "");
	return start(r, &order);
}

struct err *api_command_interrupt(struct request *r)
{
	uint64_t id;
	CLEANUP(child_unrefp) struct child *child = NULL;
	if (!str_to_u64(r->params[0], &id))
		return err_new(ERR_USAGE, "'%s' is no id of a command", r->params[0]);
	TRY(child_find(r->server->children, id, &child));
	child_stop(child, SIGINT);
	respond(r, 204, NULL);
	return NULL;
}
