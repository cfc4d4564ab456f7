/* libmicrohttpd: connections in, requests out, responses back. Handlers that may wait run in jobs' threads while their
 * connection is suspended; no callback here ever sleeps. */

#include "server/internal.h"
#include "server/auth.h"
#include "http/tls.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define THREADS 2
#define CONNECTIONS_MAX 2000
#define GUESTS_MAX 1500 /* beyond, the one that is idle for longest has to go */
#define TIMEOUT_S 60
#define PATIENCE_NS (60 * NS_PER_S)	/* for a whole request */
#define MEMORY_BYTES ((size_t)16 << 10) /* of a connection: also the limit of its headers */
#define MESSAGE_EVERY_NS (10 * NS_PER_S)
#define PEM_BYTES_MAX ((size_t)1 << 20)
#define URL_BYTES_MAX 4096
#define BACKLOG 1024
#define FILE_BLOCK ((size_t)64 << 10)

/* A connection, from its first byte on. Those that wait for a request are kept in the order in which they began to. */
struct guest {
	int fd;
	bool working; /* a whole request is here */
	uint64_t since_ns;
	struct guest *next, *before;
};

struct connections {
	struct server *server;
	struct MHD_Daemon *daemon, *local; /* over TCP, and by the socket in the home */
	int listen_fd, local_fd;
	unsigned port;
	char *url;
	bool loopback;
	atomic_uint_fast64_t requests, said_ns;
	atomic_bool stopping;
	pthread_mutex_t guests_lock;
	struct guest *oldest, *newest; /* that do not work */
	size_t guests;
};

/* ---- responses ---- */

/* A response that is no whole page must not be taken for one by anybody in between. */
static void add_common_headers(struct MHD_Response *m)
{
	MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(m, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(m, "X-Frame-Options", "DENY");
	MHD_add_response_header(m, "Cross-Origin-Resource-Policy", "same-origin");
}

static void sleep_reader(void *user)
{
	MHD_suspend_connection(user);
}

static void wake_reader(void *user)
{
	MHD_resume_connection(user);
}

static ssize_t read_stream(void *user, uint64_t pos, char *data, size_t max)
{
	(void)pos;
	size_t n = 0;
	switch (stream_read(user, data, max, &n)) {
	case STREAM_DATA:
		return (ssize_t)n;
	case STREAM_WAIT:
		return 0;
	case STREAM_END:
		return MHD_CONTENT_READER_END_OF_STREAM;
	default:
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
}

static void done_stream(void *user)
{
	stream_detach(user);
	stream_unref(user);
}

static struct MHD_Response *make_response(struct request *r)
{
	struct response *p = &r->response;
	if (p->stream) {
		struct stream_reader reader = { sleep_reader, wake_reader, r->connection };
		stream_attach(p->stream, &reader);
		return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FILE_BLOCK, read_stream, STEAL(p->stream),
							 done_stream);
	}
	if (p->fd >= 0)
		return MHD_create_response_from_fd64(p->fd_bytes, fd_steal(&p->fd));
	if (p->bytes)
		return MHD_create_response_from_buffer(p->n_bytes, (void *)(uintptr_t)p->bytes, MHD_RESPMEM_PERSISTENT);
	size_t len = p->body.len;
	void *body = len ? buf_steal(&p->body) : NULL;
	return MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer(struct request *r)
{
	struct response *p = &r->response;
	int status = p->status;
	struct MHD_Response *m = make_response(r);
	if (!m)
		return MHD_NO;
	if (p->type)
		MHD_add_response_header(m, "Content-Type", p->type);
	add_common_headers(m);
	vec_each(h, &p->headers)
		MHD_add_response_header(m, h->name, h->value);
	enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)status, m);
	MHD_destroy_response(m);
	return result;
}

/* ---- connections ----
 *
 * A client that opens connections and sends nothing, or a request byte by byte, must neither fill our memory nor keep
 * others out: after a while, or when there are too many, the connection that has been idle for longest is closed. */

static void guest_link(struct connections *connections, struct guest *g)
{
	g->since_ns = clock_mono_ns();
	g->next = NULL;
	g->before = connections->newest;
	*(connections->newest ? &connections->newest->next : &connections->oldest) = g;
	connections->newest = g;
}

static void guest_unlink(struct connections *connections, struct guest *g)
{
	*(g->before ? &g->before->next : &connections->oldest) = g->next;
	*(g->next ? &g->next->before : &connections->newest) = g->before;
	g->next = g->before = NULL;
}

/* The library sees the end of the connection and closes it. */
static void guest_dismiss(struct connections *connections, struct guest *g)
{
	guest_unlink(connections, g);
	g->working = true;
	shutdown(g->fd, SHUT_RDWR);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct connections *connections = user;
	struct guest *g = *context;
	pthread_mutex_lock(&connections->guests_lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *fd =
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		*context = g = mem_zalloc(sizeof(*g));
		g->fd = fd ? fd->connect_fd : -1;
		guest_link(connections, g);
		connections->guests++;
		if (connections->guests > GUESTS_MAX && connections->oldest != g)
			guest_dismiss(connections, connections->oldest);
	} else if (g) {
		if (!g->working)
			guest_unlink(connections, g);
		connections->guests--;
		mem_free(g);
		*context = NULL;
	}
	pthread_mutex_unlock(&connections->guests_lock);
}

static void set_working(struct connections *connections, struct MHD_Connection *connection, bool working)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct guest *g = info ? info->socket_context : NULL;
	pthread_mutex_lock(&connections->guests_lock);
	if (g && g->working != working) {
		if (working)
			guest_unlink(connections, g);
		else
			guest_link(connections, g);
		g->working = working;
	}
	pthread_mutex_unlock(&connections->guests_lock);
}

void connections_dismiss_idle(struct connections *connections)
{
	pthread_mutex_lock(&connections->guests_lock);
	uint64_t now_ns = clock_mono_ns();
	while (connections->oldest && now_ns - connections->oldest->since_ns > PATIENCE_NS)
		guest_dismiss(connections, connections->oldest);
	pthread_mutex_unlock(&connections->guests_lock);
}

/* ---- requests ---- */

struct request_copy {
	struct request *r;
	struct pairs *to;
	size_t max;
	bool more; /* than that */
};

static enum MHD_Result copy_value(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
	(void)kind;
	struct request_copy *c = user;
	c->more = c->to->n >= c->max;
	if (c->more)
		return MHD_NO;
	struct pair pair = { arena_strdup(&c->r->arena, name), arena_strdup(&c->r->arena, value ? value : "") };
	vec_push(c->to, pair);
	return MHD_YES;
}

static const char *client_of(struct request *r)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	char host[NI_MAXHOST] = "?";
	if (info && info->client_addr) {
		bool v6 = info->client_addr->sa_family == AF_INET6;
		getnameinfo(info->client_addr, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), host,
			    sizeof(host), NULL, 0, NI_NUMERICHOST);
	}
	return arena_strdup(&r->arena, host);
}

static struct request *open_request(struct connections *connections, struct MHD_Connection *connection, const char *url,
				    const char *method)
{
	struct request *r = request_new(connections->server);
	r->connection = connection;
	r->path = arena_strdup(&r->arena, url);
	r->method_name = arena_strdup(&r->arena, method);
	r->method = method_parse(method);
	r->start_ns = clock_mono_ns();
	struct request_copy headers = { r, &r->headers, REQUEST_HEADERS_MAX, false },
			    query = { r, &r->query, REQUEST_QUERY_MAX, false };
	MHD_get_connection_values(connection, MHD_HEADER_KIND, copy_value, &headers);
	MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, copy_value, &query);
	r->too_many = headers.more || query.more;
	const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	r->connection_fd = fd ? fd->connect_fd : -1;
	uid_t uid;
	r->peer = http_local_peer(r->connection_fd, &uid);
	r->client = r->peer == HTTP_LOCAL_NONE ? client_of(r) : arena_printf(&r->arena, "uid %u", (unsigned)uid);
	atomic_fetch_add(&connections->requests, 1);
	return r;
}

static void allow_header(struct request *r, unsigned allowed)
{
	struct buf list = { 0 };
	for (unsigned m = METHOD_GET; m <= METHOD_DELETE; m <<= 1)
		if (allowed & m)
			buf_printf(&list, "%s%s%s", list.len ? ", " : "", method_word(m),
				   m == METHOD_GET ? ", HEAD" : "");
	respond_header(r, "Allow", buf_cstr(&list));
	buf_free(&list);
}

/* Everything that can be refused without the body; answers when it does. */
static void check_head(struct request *r)
{
	const char *length = request_header(r, "Content-Length");
	uint64_t bytes;
	unsigned allowed;
	if (r->peer == HTTP_LOCAL_STRANGER) {
		respond_problem(r, 403,
				"this socket is for root and the user of the server: use its address and a token");
		return;
	}
	if (r->too_many || request_header_count(r, "Host") > 1) {
		respond_problem(r, 400,
				r->too_many ? "the request has too many headers or arguments"
					    : "the request has two Hosts");
		return;
	}
	if (strlen(r->path) > URL_BYTES_MAX) {
		respond_problem(r, 414, "the address is too long");
		return;
	}
	if (length && (!str_to_u64(length, &bytes) || bytes > REQUEST_BODY_MAX)) {
		respond_problem(r, 413, "the body may have 256 KB at most");
		return;
	}
	pages_enter(r);
	bool api_on = r->server->options->rest_api || r->from_page;
	const struct route *route = routes_find(r, &allowed);
	if (route && !api_on && !(route->flags & ROUTE_ALWAYS))
		route = r->route = NULL;
	auth_check(r->server->auth, r);
	if (route || r->response.status)
		return;
	if (pages_take_token(r))
		return;
	if ((!allowed || !api_on) && r->method == METHOD_GET && pages_respond(r))
		return;
	if (allowed && api_on) {
		allow_header(r, allowed);
		if (str_eq(r->method_name, "OPTIONS"))
			respond(r, 204, NULL);
		else
			respond_problem(r, 405, "this address does not take that method");
		return;
	}
	respond_problem(r, 404, "there is nothing at this address");
}

/* In a job's thread, or inline. */
static void work(struct request *r)
{
	struct err *err = r->route->handle(r);
	if (err) {
		respond_error(r, err);
		if (r->response.status >= 500)
			log_line(r->server->log, LOG_WARN, "%s %s: %s", r->method_name, r->path, err_text(err));
		err_free(err);
		r->parked = false;
	} else if (!r->response.status && !r->parked) {
		respond_problem(r, 500, "no answer was made");
	}
}

void request_park(struct request *r)
{
	r->parked = true;
}

/* Both the thread that parked and the one that unparks come here; the second one continues. */
static bool both_here(struct request *r)
{
	if (atomic_fetch_add(&r->rendezvous, 1) == 0)
		return false;
	atomic_store(&r->rendezvous, 0);
	r->parked = false;
	r->round++;
	return true;
}

static void work_and_resume(struct request *r)
{
	do {
		work(r);
		if (r->parked && !both_here(r))
			return;
	} while (!r->response.status);
	MHD_resume_connection(r->connection);
}

void request_unpark(struct request *r)
{
	if (!both_here(r) || jobs_add(r->server->jobs, r))
		return;
	respond_problem(r, 503, "too many requests wait already; try again in a moment");
	MHD_resume_connection(r->connection);
}

static enum MHD_Result dispatch(struct request *r)
{
	r->dispatched = true;
	if (r->too_large) {
		respond_problem(r, 413, "the body may have 256 KB at most");
		return answer(r);
	}
	if (r->route->flags & ROUTE_INLINE) {
		work(r);
		return answer(r);
	}
	if (atomic_load(&r->server->connections->stopping)) {
		respond_problem(r, 503, "the server is stopping");
		return answer(r);
	}
	/* The library reads from a resumed connection before it asks for the answer, and drops a client that has shut down
	 * its side for writing; but connections with a time limit of their own are asked for the answer first. */
	MHD_set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)TIMEOUT_S + 1);
	MHD_suspend_connection(r->connection);
	if (!jobs_add(r->server->jobs, r)) {
		respond_header(r, "Retry-After", "2");
		respond_problem(r, 503, "too many requests wait already; try again in a moment");
		MHD_resume_connection(r->connection);
	}
	return MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
				  const char *version, const char *data, size_t *len, void **state)
{
	(void)version;
	struct request *r = *state;
	if (!r) {
		*state = r = open_request(user, connection, url, method);
		check_head(r);
		/* With a body on its way the answer must wait or the connection end; small bodies are dropped. */
		return r->response.status == 413 ? answer(r) : MHD_YES;
	}
	if (*len) {
		/* Of one that is refused nothing is kept, and no more read than else. */
		r->body_bytes += *len;
		if (r->response.status && r->body_bytes > REQUEST_BODY_MAX)
			return MHD_NO;
		if (!r->response.status)
			buf_add(&r->body, data, *len);
		r->too_large |= r->body.overflow;
		*len = 0;
		return MHD_YES;
	}
	if (!r->dispatched)
		set_working(user, connection, true);
	if (r->dispatched || r->response.status)
		return answer(r);
	return dispatch(r);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
			 enum MHD_RequestTerminationCode code)
{
	(void)code;
	request_free(*state);
	*state = NULL;
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)TIMEOUT_S);
	set_working(user, connection, false);
}

/* ---- the daemon ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* %XX, but for the zero byte, which would end the text early: what stands behind it must not get lost. */
static size_t unescape(void *user, struct MHD_Connection *connection, char *text)
{
	(void)user, (void)connection;
	char *to = text;
	for (const char *p = text; *p; to++) {
		int high = *p == '%' ? hex_digit(p[1]) : -1, low = high >= 0 ? hex_digit(p[2]) : -1;
		bool escape = low >= 0 && (high || low);
		*to = (char)(escape ? high << 4 | low : *p);
		p += escape ? 3 : 1;
	}
	*to = '\0';
	return (size_t)(to - text);
}

/* Before the library reads its arguments: where they fill its memory it closes the connection without an answer. So only one more than
 * we take is left of them. */
static void *on_address(void *user, const char *address, struct MHD_Connection *connection)
{
	(void)user, (void)connection;
	char *at = strchr((char *)(uintptr_t)address, '?');
	for (size_t n = 0; at && n <= REQUEST_QUERY_MAX; n++)
		at = strchr(at + 1, '&');
	if (at)
		*at = '\0';
	return NULL;
}

static void on_message(void *user, const char *fmt, va_list ap) PRINTF(2, 0);
static void on_message(void *user, const char *fmt, va_list ap)
{
	struct connections *connections = user;
	/* Mostly about clients that closed their connection; a thousand of them are logged once. */
	uint64_t now_ns = clock_mono_ns(), said_ns = atomic_load(&connections->said_ns);
	if (now_ns - said_ns < MESSAGE_EVERY_NS ||
	    !atomic_compare_exchange_strong(&connections->said_ns, &said_ns, now_ns))
		return;
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_line(connections->server->log, LOG_WARN, "http: %s", text);
}

static struct err *split_address(const char *listen, char **ret_host, char **ret_port)
{
	const char *colon = strrchr(listen, ':');
	uint64_t port;
	if (!colon || !str_to_u64(colon + 1, &port) || port > 65535)
		return err_new(ERR_USAGE, "--listen takes ADDRESS:PORT such as 127.0.0.1:9292, not '%s'", listen);
	const char *host = listen;
	size_t len = (size_t)(colon - listen);
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	*ret_host = mem_strndup(host, len);
	*ret_port = mem_strdup(colon + 1);
	return NULL;
}

static struct err *open_socket(const struct addrinfo *a, const char *listen_text, int *ret)
{
	CLOSE_FD int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;
	if (fd < 0)
		return err_errno(errno, "make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0)
		return err_errno(errno, "listen on %s", listen_text);
	if (listen(fd, BACKLOG) < 0)
		return err_errno(errno, "listen on %s", listen_text);
	*ret = fd_steal(&fd);
	return NULL;
}

static struct err *open_listener(struct connections *connections, const char *text)
{
	CLEANUP(mem_freep) char *host = NULL, *port = NULL;
	TRY(split_address(text, &host, &port));
	const char *name_of = str_empty(host) || str_eq(host, "*") ? NULL : host;
	struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM }, *found = NULL;
	int rc = getaddrinfo(name_of, port, &hints, &found);
	if (rc)
		return err_new(ERR_USAGE, "cannot listen on '%s': %s", text, gai_strerror(rc));
	struct err *err = open_socket(found, text, &connections->listen_fd);
	freeaddrinfo(found);
	TRY(err);
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at;
	memset(&at, 0, sizeof(at));
	socklen_t len = sizeof(at);
	char number[NI_MAXSERV] = "", name[NI_MAXHOST] = "";
	if (getsockname(connections->listen_fd, &at.any, &len) < 0 ||
	    getnameinfo(&at.any, len, name, sizeof(name), number, sizeof(number), NI_NUMERICHOST | NI_NUMERICSERV))
		return err_errno(errno, "listen on %s", text);
	bool v6 = at.any.sa_family == AF_INET6;
	connections->port = ntohs(v6 ? at.v6.sin6_port : at.v4.sin_port);
	connections->loopback = v6 ? IN6_IS_ADDR_LOOPBACK(&at.v6.sin6_addr) : ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
	connections->url = mem_printf("%s://%s%s%s:%s", connections->server->options->tls_cert ? "https" : "http",
				      v6 ? "[" : "", name, v6 ? "]" : "", number);
	return NULL;
}

static struct err *open_auth(struct connections *connections)
{
	const struct server_options *o = connections->server->options;
	CLEANUP(mem_freep) char *shares = mem_printf("%s/shares.json", connections->server->home);
	CLEANUP(mem_freep) char *token = mem_printf("%s/token", connections->server->home);
	struct auth_options a = { .loopback = connections->loopback,
				  .off = o->no_auth,
				  .token = o->token,
				  .read_token = o->read_token,
				  .hosts = o->hosts,
				  .tls = o->tls_cert != NULL,
				  .token_path = token,
				  .shares_path = shares };
	return auth_new(&a, &connections->server->auth);
}

static struct MHD_Daemon *start_daemon(struct connections *connections, int fd, unsigned more_flags,
				       struct MHD_OptionItem *more)
{
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | more_flags;
	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, connections, MHD_OPTION_EXTERNAL_LOGGER, on_message,
				connections, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_URI_LOG_CALLBACK,
				on_address, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
				(unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
				MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				MEMORY_BYTES, MHD_OPTION_NOTIFY_COMPLETED, on_completed, connections,
				MHD_OPTION_NOTIFY_CONNECTION, on_connection, connections, MHD_OPTION_THREAD_STACK_SIZE,
				(size_t)512 << 10, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

static struct err *start_tcp(struct connections *connections)
{
	const struct server_options *o = connections->server->options;
	CLEANUP(buf_free) struct buf cert = { 0 }, key = { 0 };
	if (o->tls_cert) {
		TRY(http_tls_load());
		TRY_WRAP(file_read(o->tls_cert, PEM_BYTES_MAX, &cert), "the certificate");
		TRY_WRAP(file_read(o->tls_key, PEM_BYTES_MAX, &key), "the key");
	}
	struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, cert.data },
					{ MHD_OPTION_HTTPS_MEM_KEY, 0, key.data },
					{ MHD_OPTION_END, 0, NULL } };
	struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
	connections->daemon = start_daemon(connections, connections->listen_fd, o->tls_cert ? MHD_USE_TLS : 0,
					   o->tls_cert ? tls : none);
	if (connections->daemon)
		return NULL;
	return err_new(o->tls_cert ? ERR_USAGE : ERR_IO, "the HTTP server could not be started%s",
		       o->tls_cert ? ": the certificate and the key must be PEM files that belong together" : "");
}

/* A home that cannot have a socket, as on some network file systems, costs its users the token, no more. */
static void start_local(struct connections *connections)
{
	struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
	struct err *err = http_local_listen(connections->server->home, connections->port, &connections->local_fd);
	if (!err && !(connections->local = start_daemon(connections, connections->local_fd, 0, none)))
		err = err_new(ERR_IO, "the HTTP server could not be started");
	if (err)
		log_line(connections->server->log, LOG_WARN, "clients on this machine need the token, too: %s",
			 err_text(err));
	err_free(err);
}

struct err *connections_start(struct server *server)
{
	struct connections *connections = mem_zalloc(sizeof(*connections));
	connections->server = server;
	connections->listen_fd = connections->local_fd = -1;
	pthread_mutex_init(&connections->guests_lock, NULL);
	server->jobs = jobs_new(work_and_resume);
	server->connections = connections;
	TRY(open_listener(connections, server->options->listen));
	TRY(open_auth(connections));
	TRY(start_tcp(connections));
	start_local(connections);
	return NULL;
}

/* The library closes the socket of a daemon that it has started. */
static void stop_daemon(struct MHD_Daemon *daemon, int *fd)
{
	if (daemon)
		MHD_stop_daemon(daemon);
	else
		fd_closep(fd);
}

void connections_stop(struct connections *connections)
{
	if (!connections)
		return;
	/* Suspended connections would keep the daemon from ending: jobs and listeners first. */
	atomic_store(&connections->stopping, true);
	jobs_free(connections->server->jobs);
	connections->server->jobs = NULL;
	sse_free(connections->server->live);
	connections->server->live = NULL;
	if (connections->local_fd >= 0)
		http_local_remove(connections->server->home, connections->port);
	stop_daemon(connections->daemon, &connections->listen_fd);
	stop_daemon(connections->local, &connections->local_fd);
	pthread_mutex_destroy(&connections->guests_lock);
	mem_free(connections->url);
	mem_free(connections);
}

const char *connections_url(const struct connections *connections)
{
	return connections->url;
}

size_t connections_count(struct connections *connections)
{
	pthread_mutex_lock(&connections->guests_lock);
	size_t n = connections->guests;
	pthread_mutex_unlock(&connections->guests_lock);
	return n;
}

uint64_t connections_requests(struct connections *connections)
{
	return atomic_load(&connections->requests);
}

bool connections_exposed(const struct connections *connections)
{
	return !connections->loopback;
}
