/* drdotnet serve: the REST API and the web UI. */

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/secret.h"
#include "http/client.h"
#include "server/server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_MS 10000
#define LINK_BYTES_MAX ((size_t)64 << 10)

/* Of the contract: on unless the variable says no. */
static struct err *switched_on(const struct args *args, const char *option, const char *variable, bool *ret)
{
	const char *text = getenv(variable);
	*ret = true;
	if (!str_empty(text) && !str_to_bool(text, ret))
		return err_new(ERR_USAGE, "%s takes true or false, not '%s'", variable, text);
	if (args_has(args, option))
		*ret = false;
	return NULL;
}

static void on_ready(void *user, const char *url)
{
	(void)user;
	printf("%s\n", url);
	fflush(stdout);
}

struct names { /* a VEC */
	const char **v;
	size_t n, cap;
	char *text;
};

static void names_free(struct names *names)
{
	vec_free(names);
	mem_free(names->text);
}

/* By the command line, which others see for a moment, by a file, or by the environment. */
static struct err *read_token(const struct args *args, const char *option, const char *variable, char **ret)
{
	CLEANUP(mem_freep) char *file_option = mem_printf("%s-file", option);
	const char *given = args_value(args, option), *file = args_value(args, file_option);
	if (given && file)
		return err_new(ERR_USAGE, "either %s or %s", option, file_option);
	if (file)
		return secret_read(file, ret);
	given = given ? given : getenv(variable);
	*ret = given ? mem_strdup(given) : NULL;
	return NULL;
}

static struct err *read_auth(const struct args *args, struct server_options *o, struct names *hosts)
{
	const char *auth = getenv("DRDOTNET_AUTH"), *more = getenv("DRDOTNET_ALLOWED_HOSTS");
	if (!str_empty(auth) && !str_eq(auth, "none") && !str_eq(auth, "token"))
		return err_new(ERR_USAGE, "DRDOTNET_AUTH takes none or token, not '%s'", auth);
	o->no_auth = args_has(args, "--no-auth") || str_eq(auth, "none");
	for (size_t i = 0; i < args->n_given; i++)
		if (str_eq(args->given[i].option->name, "--allow-host"))
			vec_push(hosts, args->given[i].value);
	hosts->text = mem_strdup(more ? more : "");
	for (char *rest = hosts->text, *word; (word = strsep(&rest, ", "));)
		if (*word)
			vec_push(hosts, word);
	vec_push(hosts, NULL);
	o->hosts = hosts->v;
	return NULL;
}

static struct err *read_work(const struct args *args, struct server_options *o)
{
	const char *most = args_value(args, "--max-sessions"), *format = getenv("DRDOTNET_LOG_FORMAT");
	uint64_t n = 4;
	if (most && (!str_to_u64(most, &n) || n < 1 || n > 100))
		return err_new(ERR_USAGE, "--max-sessions takes a number from 1 to 100, not '%s'", most);
	if (!str_empty(format) && !str_eq(format, "text") && !str_eq(format, "json"))
		return err_new(ERR_USAGE, "DRDOTNET_LOG_FORMAT takes text or json, not '%s'", format);
	format = args_value(args, "--log-format") ? args_value(args, "--log-format") : format;
	o->max_running = n;
	o->finish = str_eq(args_value(args, "--on-stop"), "finish");
	o->log_json = str_eq(format, "json");
	o->webhook = args_value(args, "--webhook");
	if (o->webhook)
		TRY(server_check_webhook(o->webhook));
	o->tls_cert = args_value(args, "--tls-cert");
	o->tls_key = args_value(args, "--tls-key");
	if (!o->tls_cert != !o->tls_key)
		return err_new(ERR_USAGE, "TLS needs both --tls-cert and --tls-key");
	return NULL;
}

/* Of the one that runs already: it is asked by the socket in the home, as its port may be any. */
static struct err *print_link(const char *listen)
{
	const char *colon = strrchr(listen, ':');
	CLEANUP(mem_freep) char *url = mem_printf("http://localhost%s", colon ? colon : "");
	CLEANUP(http_freep) struct http_client *client = NULL;
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(json_decrefp) json_t *answer = NULL;
	struct http_order order = { .url = url, .method = "GET", .path = "/api/link", .way = HTTP_LOCAL_ONLY };
	struct deadline deadline = deadline_in_ms(LINK_MS);
	TRY(http_open(&order, deadline, &client));
	TRY(http_read_all(client, LINK_BYTES_MAX, deadline, &text));
	TRY(json_parse(buf_cstr(&text), text.len, LINK_BYTES_MAX, &answer));
	const char *link = json_get_str(answer, "link", NULL);
	if (http_status(client) != 200 || !link)
		return err_new(ERR_IO, "the server does not tell its link: %s", json_get_str(answer, "detail", ""));
	printf("%s\n", link);
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	const char *listen = args_value(args, "--listen"), *from_env = getenv("DRDOTNET_LISTEN");
	bool console;
	CLEANUP(names_free) struct names hosts = { 0 };
	struct server_options o = {
		.listen = listen		 ? listen
			  : !str_empty(from_env) ? from_env
						 : SERVER_LISTEN_DEFAULT,
		.on_ready = on_ready,
	};
	if (args_has(args, "--link"))
		return print_link(o.listen);
	CLEANUP(mem_freep) char *token = NULL, *to_read = NULL;
	TRY(read_token(args, "--token", "DRDOTNET_TOKEN", &token));
	TRY(read_token(args, "--read-token", "DRDOTNET_READ_TOKEN", &to_read));
	o.token = token;
	o.read_token = to_read;
	TRY(read_auth(args, &o, &hosts));
	TRY(read_work(args, &o));
	TRY(switched_on(args, "--no-web-ui", "WEB_UI_ENABLED", &o.web_ui));
	TRY(switched_on(args, "--no-rest-api", "REST_API_ENABLED", &o.rest_api));
	TRY(switched_on(args, "--no-console-logging", "CONSOLE_LOGGING_ENABLED", &console));
	TRY(switched_on(args, "--no-file-logging", "FILE_LOGGING_ENABLED", &o.log_file));
	o.quiet = !console;
	return server_run(&o);
}

static const char *const stops[] = { "cancel", "finish", NULL }, *const log_formats[] = { "text", "json", NULL };
static const struct option options[] = {
	{ .name = "--listen",
	  .value = "ADDR:PORT",
	  .help = "Where to listen (127.0.0.1:9292); port 0 takes a free one" },
	{ .name = "--link", .help = "Print the link of the server that runs already, and serve nothing" },
	{ .name = "--token", .value = "TOKEN", .help = "What opens everything; otherwise one is made and kept" },
	{ .name = "--token-file", .value = "FILE", .help = "The same, out of the first line of a file" },
	{ .name = "--read-token", .value = "TOKEN", .help = "What opens reading only" },
	{ .name = "--read-token-file", .value = "FILE", .help = "The same, out of the first line of a file" },
	{ .name = "--no-auth", .help = "No token: whoever can reach it, every local user too, may examine everything" },
	{ .name = "--allow-host",
	  .value = "NAME",
	  .help = "A further name it is known by, as behind a proxy",
	  .repeat = true },
	{ .name = "--tls-cert", .value = "FILE", .help = "Serve https with this certificate (PEM)" },
	{ .name = "--tls-key", .value = "FILE", .help = "Its key (PEM)" },
	{ .name = "--max-sessions", .value = "N", .help = "Sessions that run at once; further ones wait (4)" },
	{ .name = "--on-stop",
	  .value = "WHAT",
	  .help = "cancel what runs (otherwise), or finish it",
	  .choices = stops },
	{ .name = "--webhook", .value = "URL", .help = "Gets every session's end by POST, as JSON" },
	{ .name = "--log-format",
	  .value = "FORMAT",
	  .help = "text (otherwise) or json, a line each",
	  .choices = log_formats },
	{ .name = "--no-web-ui", .help = "Only the REST API" },
	{ .name = "--no-rest-api", .help = "Only the web UI" },
	{ .name = "--no-file-logging", .help = "No app.log in the home" },
	{ .name = "--no-console-logging", .help = "Nothing on standard error" },
	{ 0 },
};

const struct command cmd_serve = {
	.name = "serve",
	.summary = "Serve the web UI and the REST API.",
	.example = "drdotnet serve                          http://127.0.0.1:9292, for this machine only\n"
		   "drdotnet serve --link                   the link of that server again\n"
		   "drdotnet serve --listen 127.0.0.1:0     on any free port; the link is printed\n"
		   "drdotnet serve --listen 0.0.0.0:9292    for other machines too\n",
	.details =
		"The link is printed on standard output once the server can be reached. It holds the token, which is "
		"needed on every address, since any user of this machine reaches 127.0.0.1; programs send "
		"'Authorization: Bearer TOKEN'. The token is kept in the file 'token' of the home and is the same "
		"after a restart; one that was given is not printed and not kept. Commands with --server, run by "
		"root or by the user of the server with the same home, need none on this machine: they use the "
		"socket PORT.sock of the home. DRDOTNET_TOKEN, DRDOTNET_READ_TOKEN, DRDOTNET_AUTH=none, "
		"DRDOTNET_LISTEN and DRDOTNET_ALLOWED_HOSTS say the same as the options.\n\n"
		"Ends with SIGINT or SIGTERM; what runs then is cancelled and keeps what it has.",
	.options = options,
	.run = run,
};
