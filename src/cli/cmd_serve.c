/* drdotnet serve: the REST API and the web UI. */

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/secret.h"
#include "config/config.h"
#include "http/client.h"
#include "server/server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_MS 10000
#define LINK_BYTES_MAX ((size_t)64 << 10)

static void on_ready(void *user, const char *url)
{
	(void)user;
	printf("%s\n", url);
	fflush(stdout);
}

/* Two ways to say the same: what the command line says by one makes the other void. */
static struct err *either(const struct args *args, enum setting_id a, enum setting_id b)
{
	bool first = args_has(args, settings[a].option), second = args_has(args, settings[b].option);
	if (first && second)
		return err_new(ERR_USAGE, "either %s or %s", settings[a].option, settings[b].option);
	if (first || second)
		unsetenv(settings[first ? b : a].variable);
	return NULL;
}

/* What was said on the command line, as the variables that all settings are read from. Names are added to those that are
 * known already. */
static struct err *take_options(const struct args *args)
{
	for (size_t i = 0; i < args->n_given; i++) {
		const struct setting *s = setting_of_option(args->given[i].option->name);
		const char *value = args->given[i].value;
		if (!s)
			continue;
		value = value ? value : s->by_option;
		if (str_empty(value))
			return err_new(ERR_USAGE, "%s needs a value", s->option);
		TRY(setting_check(s, s->option, value));
		const char *before = s->kind == SETTING_NAMES ? getenv(s->variable) : NULL;
		CLEANUP(mem_freep)
		char *all = mem_printf("%s%s%s", before ? before : "", str_empty(before) ? "" : ",", value);
		setenv(s->variable, all, 1);
	}
	return NULL;
}

struct names { /* a VEC */
	const char **v;
	size_t n, cap;
	char *text, *token, *read_token, *public_host;
};

static void names_free(struct names *names)
{
	vec_free(names);
	mem_free(names->text);
	mem_free(names->token);
	mem_free(names->read_token);
	mem_free(names->public_host);
}

/* By the command line, which others see for a moment, by the environment, or by a file. Processes that are started later
 * have no use for it. */
static struct err *take_secret(enum setting_id id, enum setting_id file_id, char **ret)
{
	const char *value, *file;
	TRY(setting_get(id, &value));
	TRY(setting_get(file_id, &file));
	if (value)
		*ret = mem_strdup(value);
	else if (file)
		TRY(secret_read(file, ret));
	unsetenv(settings[id].variable);
	return NULL;
}

/* "https://dr.example.com:8443" is also a name that it is known by. */
static struct err *read_public_url(struct server_options *o, struct names *names)
{
	TRY(setting_get(SETTING_PUBLIC_URL, &o->public_url));
	if (!o->public_url)
		return NULL;
	const char *at = strstr(o->public_url, "://");
	if (!http_is_address(o->public_url) || strpbrk(o->public_url, " \t\r\n?#@") || !at || !at[3])
		return err_new(ERR_USAGE, "%s takes an address such as http://localhost:8000, not '%s'",
			       settings[SETTING_PUBLIC_URL].variable, o->public_url);
	const char *host = at + 3;
	size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
	names->public_host = mem_strndup(host, len);
	vec_push(names, names->public_host);
	return NULL;
}

static struct err *read_auth(struct server_options *o, struct names *names)
{
	const char *auth, *hosts;
	TRY(setting_get(SETTING_AUTH, &auth));
	TRY(setting_get(SETTING_ALLOWED_HOSTS, &hosts));
	TRY(take_secret(SETTING_TOKEN, SETTING_TOKEN_FILE, &names->token));
	TRY(take_secret(SETTING_READ_TOKEN, SETTING_READ_TOKEN_FILE, &names->read_token));
	o->no_auth = str_eq(auth, "none");
	o->token = names->token;
	o->read_token = names->read_token;
	TRY(read_public_url(o, names));
	names->text = mem_strdup(hosts ? hosts : "");
	for (char *rest = names->text, *word; (word = strsep(&rest, ", "));)
		if (*word)
			vec_push(names, word);
	vec_push(names, NULL);
	o->hosts = names->v;
	return NULL;
}

static struct err *read_work(struct server_options *o)
{
	const char *format, *stop;
	TRY(setting_get_u64(SETTING_MAX_SESSIONS, &o->max_running));
	TRY(setting_get(SETTING_LOG_FORMAT, &format));
	TRY(setting_get(SETTING_ON_STOP, &stop));
	TRY(setting_get(SETTING_WEBHOOK, &o->webhook));
	TRY(setting_get(SETTING_TLS_CERTIFICATE, &o->tls_cert));
	TRY(setting_get(SETTING_TLS_KEY, &o->tls_key));
	o->finish = str_eq(stop, "finish");
	o->log_json = str_eq(format, "json");
	if (o->webhook)
		TRY(server_check_webhook(o->webhook));
	if (!o->tls_cert != !o->tls_key)
		return err_new(ERR_USAGE, "TLS needs both --tls-cert and --tls-key");
	return NULL;
}

static struct err *read_switches(struct server_options *o)
{
	bool console = true;
	TRY(setting_get_bool(SETTING_WEB_UI, &o->web_ui));
	TRY(setting_get_bool(SETTING_REST_API, &o->rest_api));
	TRY(setting_get_bool(SETTING_LOG_FILE, &o->log_file));
	TRY(setting_get_bool(SETTING_LOG_CONSOLE, &console));
	o->quiet = !console;
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

/* All, also those that are read only when a session ends: a wrong one is said now. */
static struct err *check_settings(void)
{
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const char *value;
		TRY(setting_get((enum setting_id)i, &value));
	}
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	CLEANUP(names_free) struct names names = { 0 };
	struct server_options o = { .on_ready = on_ready };
	TRY(either(args, SETTING_TOKEN, SETTING_TOKEN_FILE));
	TRY(either(args, SETTING_READ_TOKEN, SETTING_READ_TOKEN_FILE));
	TRY(take_options(args));
	TRY(check_settings());
	TRY(setting_get(SETTING_LISTEN, &o.listen));
	if (args_has(args, "--link"))
		return print_link(o.listen);
	TRY(read_auth(&o, &names));
	TRY(read_work(&o));
	TRY(read_switches(&o));
	return server_run(&o);
}

#define SETTING_OPTION(id, key_, option_, variable_, kind_, value_, by_, otherwise_, choices_, min_, max_, secret_,    \
		       help_)                                                                                          \
	{ .name = option_,                                                                                             \
	  .value = value_,                                                                                             \
	  .choices = (const char *)(value_) ? choices_ : NULL,                                                         \
	  .repeat = (kind_) == SETTING_NAMES,                                                                          \
	  .help = help_ },
static const struct option options[] = {
	SERVE_SETTINGS(SETTING_OPTION){ .name = "--link",
					.help = "Print the link of the server that runs already, and serve nothing" },
	{ .name = "--config", .value = "FILE", .help = "The configuration file, instead of " CONFIG_PATH },
	{ 0 },
};
#undef SETTING_OPTION

const struct command cmd_serve = {
	.name = "serve",
	.summary = "Serve the web UI and the REST API.",
	.example = "drdotnet serve                          http://127.0.0.1:9292, for this machine only\n"
		   "drdotnet serve --link                   the link of that server again\n"
		   "drdotnet serve --listen 127.0.0.1:0     on any free port; the link is printed\n"
		   "drdotnet serve --listen 0.0.0.0:9292    for other machines too\n"
		   "drdotnet serve --public-url https://dr.example.com    behind a proxy: so that the link is right\n",
	.details =
		"The link is printed on standard output once the server can be reached. It holds the token, which is "
		"needed on every address, since any user of this machine reaches 127.0.0.1; programs send "
		"'Authorization: Bearer TOKEN'. The token is kept in the file 'token' of the home and is the same "
		"after a restart; one that was given is not printed and not kept. Commands with --server, run by "
		"root or by the user of the server with the same home, need none on this machine: they use the "
		"socket PORT.sock of the home.\n\n"
		"Each option is also a variable of the environment and a key of the configuration file, which any user "
		"sees less of than of the command line: 'drdotnet config show' lists them.\n\n"
		"Ends with SIGINT or SIGTERM; what runs then is cancelled and keeps what it has.",
	.options = options,
	.run = run,
};
