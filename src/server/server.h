#pragma once
/* drdotnet over HTTP: the REST API, live updates, and the pages of the web UI, for one home of sessions.
 *
 * server_run() is everything: it listens, serves and examines until it is told to stop. Sessions run in worker
 * processes of their own (session/), and so do commands of our own program. Of all that comes from targets, only the
 * runtime's ProcessInfo and counters are parsed in this process. Uses threads; the one that called server_run() starts and watches the
 * processes. */

#include "base/err.h"

struct server_options {
	const char *listen;	/* "127.0.0.1:9292"; port 0 = any that is free */
	const char *public_url; /* where browsers reach it: "http://localhost:8000"; NULL = where it listens */
	bool web_ui, rest_api;
	/* Tokens that open everything, or only reading; NULL = the one that is kept in the home, or none. */
	const char *token, *read_token;
	bool no_auth;			/* no token anywhere, for anyone who can connect */
	const char *const *hosts;	/* further names that we are known by, ended by NULL */
	size_t max_running;		/* sessions at once; further ones wait */
	bool finish;			/* on stopping let running sessions finish, instead of cancelling them */
	const char *webhook;		/* the address that is told of every session's end; NULL = none */
	const char *tls_cert, *tls_key; /* PEM files; NULL = plain HTTP */
	bool log_json, log_file;
	bool quiet; /* nothing on standard error but failures to start */
	/* Called once, when it can be reached; the address holds the token unless that was configured. */
	void (*on_ready)(void *user, const char *url);
	void *user;
};
#define SERVER_LISTEN_DEFAULT "127.0.0.1:9292"

struct err *server_check_webhook(const char *url) MUST_USE;
struct err *server_run(const struct server_options *options) MUST_USE;
