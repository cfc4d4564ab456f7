/* drdotnet serve: the REST API and the web UI. */

#include "base/str.h"
#include "cli/commands.h"
#include "server/server.h"
#include <stdio.h>
#include <stdlib.h>

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

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	const char *listen = args_value(args, "--listen"), *from_env = getenv("DRDOTNET_LISTEN");
	bool console;
	struct server_options o = {
		.listen = listen		 ? listen
			  : !str_empty(from_env) ? from_env
						 : SERVER_LISTEN_DEFAULT,
		.on_ready = on_ready,
	};
	TRY(switched_on(args, "--no-web-ui", "WEB_UI_ENABLED", &o.web_ui));
	TRY(switched_on(args, "--no-rest-api", "REST_API_ENABLED", &o.rest_api));
	TRY(switched_on(args, "--no-console-logging", "CONSOLE_LOGGING_ENABLED", &console));
	o.quiet = !console;
	return server_run(&o);
}

static const struct option options[] = {
	{ .name = "--listen",
	  .value = "ADDR:PORT",
	  .help = "Where to listen (127.0.0.1:9292); port 0 takes a free one" },
	{ .name = "--no-web-ui", .help = "Only the REST API" },
	{ .name = "--no-rest-api", .help = "Only the web UI" },
	{ .name = "--no-console-logging", .help = "Nothing on standard error" },
	{ 0 },
};

const struct command cmd_serve = {
	.name = "serve",
	.summary = "Serve the web UI and the REST API.",
	.example = "drdotnet serve                          http://127.0.0.1:9292, for this machine only\n"
		   "drdotnet serve --listen 127.0.0.1:0     on any free port; the address is printed\n",
	.details =
		"The address is printed on standard output once it can be reached. Ends with SIGINT or SIGTERM; what "
		"runs then is cancelled and keeps what it has.",
	.options = options,
	.run = run,
};
