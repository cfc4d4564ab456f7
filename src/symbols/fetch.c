#include "symbols/fetch.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "http/client.h"
#include <errno.h>
#include <string.h>

#define ANSWER_MS 30000
#define SILENCE_MS 30000
#define HOPS_MAX 5
#define PIECE_BYTES ((size_t)64 << 10)
#define FILE_BYTES_MAX ((uint64_t)4 << 30)
#define SERVERS_MAX 16

struct err *symbol_fetch_add_servers(struct symbol_fetch *f, const char *text, bool debuginfod)
{
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, " ,;\t\n");
		if (len && f->servers.n >= SERVERS_MAX)
			return err_new(ERR_USAGE, "more than %d symbol servers", SERVERS_MAX);
		if (len) {
			CLEANUP(mem_freep) char *url = mem_strndup(p, len);
			if (!http_is_address(url))
				return err_new(ERR_USAGE, "'%s' is no address such as https://symbols.example.com",
					       url);
			for (size_t n = strlen(url); url[n - 1] == '/'; n--)
				url[n - 1] = '\0';
			vec_push(&f->servers, ((struct symbol_server){ .url = STEAL(url), .debuginfod = debuginfod }));
		}
		p += len;
		p += strspn(p, " ,;\t\n");
	}
	return NULL;
}

void symbol_fetch_fini(struct symbol_fetch *f)
{
	vec_each(s, &f->servers) {
		mem_free(s->url);
		mem_free(s->silent);
	}
	vec_free(&f->servers);
}

/* ---- one address ---- */

static struct err *ask(const struct symbol_fetch *f, const char *address, struct http_client **ret)
{
	CLEANUP(mem_freep) char *site = NULL, *path = NULL;
	http_split(address, &site, &path);
	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p >= 127)
			return err_new(ERR_BAD_DATA, "it sends us to an address that is none");
	struct http_order order = { .url = site, .method = "GET", .path = path, .ca_file = f->ca_file };
	return http_open(&order, deadline_in_ms(ANSWER_MS), ret);
}

/* Where an answer sends us; never from a protected connection to an open one. */
static struct err *follow(const char *address, const char *location, char **ret)
{
	bool whole = location && http_is_address(location);
	if (!location || (!whole && location[0] != '/'))
		return err_new(ERR_BAD_DATA, "it sends us to an address that is none");
	if (whole && str_starts(address, "https://") && !str_starts(location, "https://"))
		return err_new(ERR_DENIED, "it sends us from https to http");
	CLEANUP(mem_freep) char *site = NULL, *path = NULL;
	http_split(address, &site, &path);
	*ret = whole ? mem_strdup(location) : mem_printf("%s%s", site, location);
	return NULL;
}

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* The answer behind all that send us on. */
static struct err *open_address(const struct symbol_fetch *f, const char *url, const char *path,
				struct http_client **ret)
{
	CLEANUP(mem_freep) char *address = mem_printf("%s/%s", url, path);
	for (int hop = 0; address && hop < HOPS_MAX; hop++) {
		CLEANUP(http_freep) struct http_client *c = NULL;
		char *next = NULL;
		TRY(ask(f, address, &c));
		if (!is_redirect(http_status(c))) {
			*ret = STEAL(c);
			return NULL;
		}
		TRY(follow(address, http_header(c, "Location"), &next));
		mem_free(address);
		address = next;
	}
	return err_new(ERR_BAD_DATA, "it sends us on and on");
}

static struct err *download(const struct symbol_fetch *f, struct http_client *c, int fd, uint64_t *ret_bytes)
{
	CLEANUP(mem_freep) char *piece = mem_alloc(PIECE_BYTES);
	*ret_bytes = 0;
	for (size_t n = 1; n;) {
		TRY(http_read(c, piece, PIECE_BYTES, deadline_in_ms(SILENCE_MS), f->cancel_fd, &n));
		*ret_bytes += n;
		if (*ret_bytes > FILE_BYTES_MAX)
			return err_new(ERR_BAD_DATA, "it is larger than %s", fmt_bytes(FILE_BYTES_MAX).s);
		for (size_t done = 0; done < n;) {
			ssize_t written = write(fd, piece + done, n - done);
			if (written < 0 && errno != EINTR)
				return err_errno(errno, "write the file");
			done += (size_t)MAX(written, (ssize_t)0);
		}
	}
	return NULL;
}

/* ---- one file ---- */

static struct err *keep(const struct symbol_fetch *f, const struct symbol_file *file, struct http_client *c,
			uint64_t *ret_bytes)
{
	CLEANUP(mem_freep) char *path = NULL;
	CLOSE_FD int fd = -1;
	TRY(symbol_cache_begin(&fd, &path));
	struct err *err = download(f, c, fd, ret_bytes);
	if (!err)
		return symbol_cache_keep(file, fd, path);
	unlink(path);
	return err;
}

/* *ret_there: false when this server does not have it. */
static struct err *try_server(const struct symbol_fetch *f, struct symbol_server *s, const struct symbol_file *file,
			      bool *ret_there, uint64_t *ret_bytes)
{
	CLEANUP(buf_free) struct buf path = { 0 };
	CLEANUP(http_freep) struct http_client *c = NULL;
	*ret_there = false;
	if (!s->debuginfod)
		symbol_key(file, &path);
	else if (!symbol_debuginfod_path(file, &path))
		return NULL;
	struct err *err = open_address(f, s->url, buf_cstr(&path), &c);
	if (err) {
		s->silent = mem_strdup(err_text(err));
		return err;
	}
	int status = http_status(c);
	if (status == 404 || status == 410)
		return NULL;
	if (status != 200)
		return err_new(status == 401 || status == 403 ? ERR_DENIED : ERR_IO, "%s answered with status %d",
			       s->url, status);
	TRY_WRAP(keep(f, file, c, ret_bytes), "%s", s->url);
	*ret_there = true;
	return NULL;
}

struct err *symbol_fetch_file(struct symbol_fetch *f, const struct symbol_file *file, struct symbol_fetched *ret)
{
	*ret = (struct symbol_fetched){ .end = SYMBOL_FETCH_NOT_THERE };
	vec_each(s, &f->servers) {
		bool there = false;
		if (s->silent) {
			ret->end = SYMBOL_FETCH_FAILED;
			continue;
		}
		struct err *err = try_server(f, s, file, &there, &ret->bytes);
		if (err && err_kind(err) == ERR_CANCELLED)
			return err;
		if (err) {
			ret->end = SYMBOL_FETCH_FAILED;
			mem_free(ret->why);
			ret->why = mem_strdup(err_text(err));
			err_free(err);
		}
		if (there) {
			mem_free(ret->why);
			*ret = (struct symbol_fetched){ .end = SYMBOL_FETCH_DONE,
							.server = s->url,
							.bytes = ret->bytes };
			return NULL;
		}
	}
	return NULL;
}
