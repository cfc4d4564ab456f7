#pragma once
/* drdotnet over HTTP: the REST API, live updates, and the pages of the web UI, for one home of sessions.
 *
 * server_run() is everything: it listens, serves and examines until it is told to stop. Sessions run in worker
 * processes of their own (session/), commands in processes of our own program; nothing a target says is parsed here
 * except what the runtime answers about itself and its counters. Uses threads; the one that called server_run() starts
 * and watches the processes. */

#include "base/err.h"

struct server_options {
	const char *listen; /* "127.0.0.1:9292"; port 0 = any that is free */
	bool web_ui, rest_api;
	bool quiet;				       /* nothing on standard error but failures to start */
	void (*on_ready)(void *user, const char *url); /* once, when it can be reached */
	void *user;
};
#define SERVER_LISTEN_DEFAULT "127.0.0.1:9292"

struct err *server_run(const struct server_options *options) MUST_USE;
