#include "http/client.h"
#include "base/fd.h"
#include "base/str.h"
#include "http/local.h"
#include "http/tls.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define HEAD_BYTES_MAX ((size_t)64 << 10)
#define READ_BYTES 16384

struct http_client {
	int fd;
	gnutls_session_t tls;
	gnutls_certificate_credentials_t credentials;
	struct buf in;	 /* read and not yet given */
	struct buf head; /* lines ended by NUL */
	int status;
	bool chunked, ended, until_close;
	uint64_t left; /* of the chunk or body */
	bool chunk_open;
};

void http_free(struct http_client *c)
{
	if (!c)
		return;
	if (c->tls)
		gnutls_deinit(c->tls);
	if (c->credentials)
		gnutls_certificate_free_credentials(c->credentials);
	fd_closep(&c->fd);
	buf_free(&c->in);
	buf_free(&c->head);
	mem_free(c);
}

/* ---- where ---- */

bool http_is_address(const char *text)
{
	return str_starts(text, "http://") || str_starts(text, "https://");
}

void http_split(const char *address, char **ret_site, char **ret_path)
{
	const char *host = address + (str_starts(address, "https://") ? 8 : 7), *rest = host + strcspn(host, "/?#");
	*ret_site = mem_strndup(address, (size_t)(rest - address));
	*ret_path = mem_printf("%s%.*s", *rest == '/' ? "" : "/", (int)strcspn(rest, "#"), rest);
}

struct http_place {
	bool tls, usual_port;
	char host[256], port[8]; /* names of hosts are shorter */
	char *prefix;
};

static void place_fini(struct http_place *p)
{
	mem_free(p->prefix);
}

static struct err *read_url(const char *url, struct http_place *p)
{
	p->tls = str_starts(url, "https://");
	if (!http_is_address(url))
		return err_new(ERR_USAGE, "'%s' is no address such as http://host:9292", url);
	const char *host = url + (p->tls ? 8 : 7);
	size_t all = strcspn(host, "/?#"), len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
	uint64_t port = p->tls ? 443 : 80;
	if (!len || len > all || memchr(host, '@', all) || strpbrk(url, " \t\r\n"))
		return err_new(ERR_USAGE, "'%s' is no address such as http://host:9292", url);
	if (host[len] == ':') {
		CLEANUP(mem_freep) char *text = mem_strndup(host + len + 1, all - len - 1);
		if (!str_to_u64(text, &port) || !port || port > 65535)
			return err_new(ERR_USAGE, "'%s' has no port in it that there is", url);
	}
	bool v6 = host[0] == '[';
	if (len >= sizeof(p->host))
		return err_new(ERR_USAGE, "'%s': no name of a host is that long", url);
	memcpy(p->host, host + v6, len - 2 * v6);
	p->host[len - 2 * v6] = '\0';
	snprintf(p->port, sizeof(p->port), "%u", (unsigned)port);
	p->usual_port = port == (p->tls ? 443 : 80);
	p->prefix = mem_strndup(host + all, strcspn(host + all, "?#"));
	for (size_t n = strlen(p->prefix); n && p->prefix[n - 1] == '/'; n--)
		p->prefix[n - 1] = '\0';
	return NULL;
}

static struct err *connect_one(const struct addrinfo *a, struct deadline deadline, int *ret)
{
	CLOSE_FD int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(errno, "make a socket");
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)
		return err_errno(errno, "connect");
	TRY(fd_wait(fd, POLLOUT, deadline));
	int errnum = 0, on = 1;
	socklen_t len = sizeof(errnum);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0 || errnum)
		return err_errno(errnum, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	*ret = fd_steal(&fd);
	return NULL;
}

static struct err *connect_to(const struct http_place *p, struct deadline deadline, int *ret)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	int rc = getaddrinfo(p->host, p->port, &hints, &found);
	if (rc)
		return err_new(ERR_IO, "'%s': %s", p->host, gai_strerror(rc));
	struct err *err = err_new(ERR_IO, "'%s' has no address", p->host);
	for (const struct addrinfo *a = found; a && err; a = a->ai_next) {
		err_free(err);
		err = connect_one(a, deadline, ret);
	}
	freeaddrinfo(found);
	return err;
}

static bool is_loopback(const char *host)
{
	return str_eq_nocase(host, "localhost") || str_starts(host, "127.") || str_eq(host, "::1");
}

/* *ret stays -1 when the network is to be used. */
static struct err *connect_local(const struct http_place *p, enum http_way way, struct deadline deadline, int *ret)
{
	if (way == HTTP_NETWORK || !is_loopback(p->host))
		return NULL;
	struct err *err = http_local_connect((unsigned)atoi(p->port), deadline, ret);
	if (way == HTTP_LOCAL_ONLY)
		return err;
	err_free(err);
	return NULL;
}

/* ---- bytes ---- */

static struct err *tls_error(int rc)
{
	return err_new(ERR_IO, "TLS: %s", gnutls_strerror(rc));
}

static struct err *start_tls(struct http_client *c, const struct http_place *p, const char *ca_file,
			     struct deadline deadline)
{
	TRY(http_tls_load());
	int rc = gnutls_certificate_allocate_credentials(&c->credentials);
	if (rc >= 0)
		rc = ca_file ? gnutls_certificate_set_x509_trust_file(c->credentials, ca_file, GNUTLS_X509_FMT_PEM)
			     : gnutls_certificate_set_x509_system_trust(c->credentials);
	if (rc < 0)
		return tls_error(rc);
	rc = gnutls_init(&c->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
	if (rc < 0)
		return tls_error(rc);
	gnutls_set_default_priority(c->tls);
	gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->credentials);
	gnutls_server_name_set(c->tls, GNUTLS_NAME_DNS, p->host, strlen(p->host));
	gnutls_session_set_verify_cert(c->tls, p->host, 0);
	gnutls_transport_set_int(c->tls, c->fd);
	while ((rc = gnutls_handshake(c->tls)) < 0) {
		if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
			return err_new(ERR_DENIED, "the certificate of '%s' is not trusted", p->host);
		if (gnutls_error_is_fatal(rc))
			return tls_error(rc);
		TRY(fd_wait(c->fd, gnutls_record_get_direction(c->tls) ? POLLOUT : POLLIN, deadline));
	}
	return NULL;
}

static struct err *send_all(struct http_client *c, const char *data, size_t len, struct deadline deadline)
{
	if (!c->tls)
		return fd_write_full(c->fd, data, len, deadline);
	while (len) {
		ssize_t n = gnutls_record_send(c->tls, data, len);
		if (n < 0 && gnutls_error_is_fatal((int)n))
			return tls_error((int)n);
		if (n < 0) {
			TRY(fd_wait(c->fd, gnutls_record_get_direction(c->tls) ? POLLOUT : POLLIN, deadline));
			continue;
		}
		data += n;
		len -= (size_t)n;
	}
	return NULL;
}

static struct err *wait_for_bytes(struct http_client *c, struct deadline deadline, int wake_fd)
{
	struct pollfd fds[] = { { .fd = c->fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
	int n = poll(fds, 2, deadline_poll_ms(deadline));
	if (n < 0 && errno != EINTR)
		return err_errno(errno, "poll");
	if (fds[1].revents)
		return err_new(ERR_CANCELLED, "interrupted");
	return n == 0 ? err_new(ERR_TIMEOUT, "the server does not answer") : NULL;
}

/* Adds to c->in; *ret_ended when the other side has closed. */
static struct err *receive(struct http_client *c, struct deadline deadline, int wake_fd, bool *ret_ended)
{
	char *room = buf_room(&c->in, READ_BYTES);
	if (!room)
		return err_new(ERR_BAD_DATA, "the server says too much");
	for (;;) {
		ssize_t n = c->tls ? gnutls_record_recv(c->tls, room, READ_BYTES) : recv(c->fd, room, READ_BYTES, 0);
		if (n > 0) {
			c->in.len += (size_t)n;
			return NULL;
		}
		bool again =
			c->tls ? n < 0 && !gnutls_error_is_fatal((int)n) : n < 0 && (errno == EAGAIN || errno == EINTR);
		if (!again && n < 0)
			return c->tls ? tls_error((int)n) : err_errno(errno, "read");
		if (!again) {
			*ret_ended = true;
			return NULL;
		}
		TRY(wait_for_bytes(c, deadline, wake_fd));
	}
}

/* ---- HTTP ---- */

static struct err *send_request(struct http_client *c, const struct http_order *o, const struct http_place *p,
				struct deadline deadline)
{
	CLEANUP(buf_free) struct buf head = { 0 };
	bool v6 = strchr(p->host, ':') != NULL;
	buf_printf(&head, "%s %s%s HTTP/1.1\r\nHost: %s%s%s%s%s\r\nUser-Agent: drdotnet/%s\r\nConnection: close\r\n",
		   o->method, p->prefix, o->path, v6 ? "[" : "", p->host, v6 ? "]" : "", p->usual_port ? "" : ":",
		   p->usual_port ? "" : p->port, DRDOTNET_VERSION);
	buf_str(&head, "Accept: application/json, application/problem+json, */*\r\n");
	if (o->token)
		buf_printf(&head, "Authorization: Bearer %s\r\n", o->token);
	if (o->body)
		buf_printf(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n", o->type, o->body_len);
	buf_str(&head, "\r\n");
	buf_add(&head, o->body ? o->body : "", o->body ? o->body_len : 0);
	return send_all(c, head.data, head.len, deadline);
}

const char *http_header(const struct http_client *c, const char *name)
{
	size_t len = strlen(name);
	for (const char *p = c->head.data, *end = p + c->head.len; p && p < end; p += strlen(p) + 1)
		if (!strncasecmp(p, name, len) && p[len] == ':')
			return p + len + 1 + strspn(p + len + 1, " \t");
	return NULL;
}

static struct err *parse_head(struct http_client *c, size_t len)
{
	buf_add(&c->head, c->in.data, len);
	for (char *p = c->head.data; p < c->head.data + len; p++)
		if (*p == '\r' || *p == '\n')
			*p = '\0';
	buf_consume(&c->in, len);
	const char *first = c->head.data;
	if (!str_starts(first, "HTTP/1.") || strlen(first) < 12)
		return err_new(ERR_BAD_DATA, "this is no web server");
	c->status = atoi(first + 9);
	const char *length = http_header(c, "Content-Length"), *coding = http_header(c, "Transfer-Encoding");
	c->chunked = coding && str_contains_nocase(coding, "chunked");
	c->until_close = !c->chunked && !length;
	if (length && !str_to_u64(length, &c->left))
		return err_new(ERR_BAD_DATA, "the server's answer has no proper length");
	c->ended = c->status == 204 || c->status == 304 || (!c->chunked && length && !c->left);
	return NULL;
}

static struct err *read_head(struct http_client *c, struct deadline deadline)
{
	bool ended = false;
	for (;;) {
		char *end = c->in.len ? memmem(c->in.data, c->in.len, "\r\n\r\n", 4) : NULL;
		if (end)
			return parse_head(c, (size_t)(end + 4 - c->in.data));
		if (ended || c->in.len > HEAD_BYTES_MAX)
			return err_new(ERR_BAD_DATA,
				       ended ? "the server closed the connection" : "this is no web server");
		TRY(receive(c, deadline, -1, &ended));
	}
}

struct err *http_open(const struct http_order *o, struct deadline deadline, struct http_client **ret)
{
	CLEANUP(http_freep) struct http_client *c = mem_zalloc(sizeof(*c));
	CLEANUP(place_fini) struct http_place p = { 0 };
	c->fd = -1;
	TRY(read_url(o->url, &p));
	TRY(connect_local(&p, o->way, deadline, &c->fd));
	bool local = c->fd >= 0;
	if (!local)
		TRY_WRAP(connect_to(&p, deadline, &c->fd), "%s cannot be reached", o->url);
	if (p.tls && !local)
		TRY_WRAP(start_tls(c, &p, o->ca_file, deadline), "%s", o->url);
	TRY_WRAP(send_request(c, o, &p, deadline), "%s", o->url);
	TRY_WRAP(read_head(c, deadline), "%s", o->url);
	*ret = STEAL(c);
	return NULL;
}

int http_status(const struct http_client *c)
{
	return c->status;
}

/* The line before a chunk, when it is whole. */
static struct err *next_chunk(struct http_client *c, bool *ret_more)
{
	char *end;
	*ret_more = false;
	if (c->chunk_open) { /* the line end behind the last one */
		if (c->in.len < 2)
			return NULL;
		buf_consume(&c->in, 2);
		c->chunk_open = false;
	}
	if (!c->in.len || !(end = memmem(c->in.data, c->in.len, "\r\n", 2)))
		return c->in.len > 100 ? err_new(ERR_BAD_DATA, "a chunk has no size") : NULL;
	char *rest;
	errno = 0;
	c->left = strtoull(c->in.data, &rest, 16);
	if (rest == c->in.data || errno)
		return err_new(ERR_BAD_DATA, "a chunk has no size");
	buf_consume(&c->in, (size_t)(end + 2 - c->in.data));
	c->ended = !c->left;
	c->chunk_open = *ret_more = true;
	return NULL;
}

struct err *http_read(struct http_client *c, void *data, size_t max, struct deadline deadline, int wake_fd, size_t *ret)
{
	bool closed = false, more = false;
	*ret = 0;
	while (!c->ended) {
		if (c->chunked && !c->left) {
			TRY(next_chunk(c, &more));
			if (more)
				continue;
		} else if (c->in.len) {
			size_t n = MIN(c->in.len, max);
			if (!c->until_close && c->left < n)
				n = (size_t)c->left;
			memcpy(data, c->in.data, n);
			buf_consume(&c->in, n);
			c->left -= c->until_close ? 0 : n;
			c->ended = !c->chunked && !c->until_close && !c->left;
			*ret = n;
			return NULL;
		}
		if (closed && !c->until_close)
			return err_new(ERR_IO, "the server closed the connection too early");
		c->ended = closed;
		if (!closed)
			TRY(receive(c, deadline, wake_fd, &closed));
	}
	return NULL;
}

struct err *http_read_all(struct http_client *c, size_t max, struct deadline deadline, struct buf *out)
{
	char data[READ_BYTES];
	for (size_t n = 1; n;) {
		TRY(http_read(c, data, sizeof(data), deadline, -1, &n));
		if (out->len + n > max)
			return err_new(ERR_BAD_DATA, "the server says too much");
		buf_add(out, data, n);
	}
	return NULL;
}
