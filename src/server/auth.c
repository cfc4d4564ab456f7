#include "server/auth.h"
#include "server/route.h"
#include "server/token.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COOKIE "drdotnet_token"
#define SHARE_COOKIE "drdotnet_share"
#define PAGE_COOKIE "drdotnet_page"
#define FAILURES_MAX 30
#define FAILURES_NS (60 * NS_PER_S)
#define SHARES_MAX 1000
#define SHARES_BYTES_MAX ((size_t)1 << 20)
#define DAY_NS (86400 * NS_PER_S)

struct auth_share {
	char token[TOKEN_LEN + 1], guid[37];
	int64_t created_ns, expires_ns;
};

struct auth {
	enum auth_mode mode;
	char *token, *read_token;
	char page[TOKEN_LEN + 1]; /* of this run */
	char **hosts;
	bool tls, check_host;
	char *shares_path;
	pthread_mutex_t lock; /* of all below */
	VEC(struct auth_share) shares;
	uint64_t failures_since_ns;
	unsigned failures;
};

/* As long for a wrong token as for a right one. */
static bool same(const char *a, const char *b)
{
	if (str_empty(a) || str_empty(b))
		return false;
	size_t na = strlen(a), nb = strlen(b);
	unsigned char differ = na != nb;
	for (size_t i = 0; i < nb; i++)
		differ |= (unsigned char)(a[i % na] ^ b[i]);
	return !differ;
}

/* ---- share links on disk ---- */

static void read_shares(struct auth *a)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	json_t *j = NULL;
	/* Without the file, or with a damaged one, no link opens anything. */
	struct err *err = file_read(a->shares_path, SHARES_BYTES_MAX, &text);
	if (!err)
		err = json_parse(buf_cstr(&text), text.len, SHARES_BYTES_MAX, &j);
	err_free(err);
	for (size_t i = 0; i < json_array_size(j) && i < SHARES_MAX; i++) {
		const json_t *o = json_array_get(j, i);
		struct auth_share s = { .created_ns = json_get_int(o, "createdUnixNs", 0),
					.expires_ns = json_get_int(o, "expiresUnixNs", 0) };
		str_copy(s.token, sizeof(s.token), json_get_str(o, "token", ""));
		str_copy(s.guid, sizeof(s.guid), json_get_str(o, "guid", ""));
		if (strlen(s.token) == TOKEN_LEN)
			vec_push(&a->shares, s);
	}
	json_decref(j);
}

static struct err *write_shares(struct auth *a)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, true);
	jsonw_array(&w, NULL);
	vec_each(s, &a->shares) {
		jsonw_object(&w, NULL);
		jsonw_str(&w, "token", s->token);
		jsonw_str(&w, "guid", s->guid);
		jsonw_i64(&w, "createdUnixNs", s->created_ns);
		jsonw_i64(&w, "expiresUnixNs", s->expires_ns);
		jsonw_object_end(&w);
	}
	jsonw_array_end(&w);
	buf_char(&text, '\n');
	return file_write_atomic(a->shares_path, text.data, text.len, 0600);
}

static void forget_expired(struct auth *a)
{
	size_t kept = 0;
	int64_t now_ns = clock_real_ns();
	for (size_t i = 0; i < a->shares.n; i++)
		if (a->shares.v[i].expires_ns > now_ns)
			a->shares.v[kept++] = a->shares.v[i];
	a->shares.n = kept;
}

static void json_share(struct jsonw *w, const struct auth_share *s)
{
	CLEANUP(mem_freep) char *path = mem_printf("/share/%s", s->token);
	jsonw_object(w, NULL);
	jsonw_str(w, "token", s->token);
	jsonw_str(w, "guid", s->guid);
	jsonw_str(w, "path", path);
	jsonw_str(w, "created", fmt_time_iso(s->created_ns).s);
	jsonw_str(w, "expires", fmt_time_iso(s->expires_ns).s);
	jsonw_object_end(w);
}

struct err *auth_share(struct auth *a, const char *guid, uint64_t days, struct jsonw *w)
{
	struct auth_share s = { .created_ns = clock_real_ns() };
	s.expires_ns = s.created_ns + (int64_t)days * DAY_NS;
	str_copy(s.guid, sizeof(s.guid), guid);
	TRY(token_make(s.token));
	pthread_mutex_lock(&a->lock);
	forget_expired(a);
	struct err *err = a->shares.n >= SHARES_MAX
				  ? err_new(ERR_BUSY, "%d share links are kept already: revoke some", SHARES_MAX)
				  : NULL;
	if (!err) {
		vec_push(&a->shares, s);
		err = write_shares(a);
		a->shares.n -= err != NULL;
	}
	pthread_mutex_unlock(&a->lock);
	if (!err)
		json_share(w, &s);
	return err;
}

void auth_shares_json(struct auth *a, const char *guid, struct jsonw *w)
{
	pthread_mutex_lock(&a->lock);
	forget_expired(a);
	vec_each(s, &a->shares)
		if (str_eq(s->guid, guid))
			json_share(w, s);
	pthread_mutex_unlock(&a->lock);
}

struct err *auth_unshare(struct auth *a, const char *guid, const char *token)
{
	struct err *err = err_new(ERR_NOT_FOUND, "No share link found with token '%s'", token);
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->shares.n; i++) {
		if (!str_eq(a->shares.v[i].guid, guid) || !same(token, a->shares.v[i].token))
			continue;
		a->shares.v[i] = a->shares.v[--a->shares.n];
		err_free(err);
		err = write_shares(a);
		break;
	}
	pthread_mutex_unlock(&a->lock);
	return err;
}

bool auth_shared(struct auth *a, const char *token, char ret_guid[37])
{
	bool found = false;
	pthread_mutex_lock(&a->lock);
	forget_expired(a);
	vec_each(s, &a->shares) {
		if (!same(token, s->token))
			continue;
		found = true;
		memcpy(ret_guid, s->guid, sizeof(s->guid));
	}
	pthread_mutex_unlock(&a->lock);
	return found;
}

/* ---- where it comes from ---- */

/* "host", "host:8000", "[::1]:8000" without the port, into out; false for anything else. */
static bool split_host(const char *text, char *out, size_t size)
{
	size_t len = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
	if (!len || len > strlen(text) || len >= size)
		return false;
	const char *port = text + len;
	if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")]))
		return false;
	memcpy(out, text, len);
	out[len] = '\0';
	return true;
}

static bool is_address(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;
	char inner[INET6_ADDRSTRLEN + 1];
	if (inet_pton(AF_INET, host, &v4) == 1)
		return true;
	size_t len = strlen(host);
	if (len < 3 || len - 2 >= sizeof(inner) || host[0] != '[')
		return false;
	memcpy(inner, host + 1, len - 2);
	inner[len - 2] = '\0';
	return inet_pton(AF_INET6, inner, &v6) == 1;
}

/* Against DNS rebinding: a name that an attacker points at us. Addresses, localhost and our own name cannot be pointed elsewhere;
 * any other can, one of a single word too: in a local network whoever asks for a name gets it. */
static bool host_ok(const struct auth *a, const char *host_text)
{
	char host[256], own[256] = "";
	if (str_empty(host_text) || !split_host(host_text, host, sizeof(host)))
		return false;
	gethostname(own, sizeof(own) - 1);
	if (is_address(host) || str_eq_nocase(host, "localhost") || str_eq_nocase(host, own))
		return true;
	for (char **h = a->hosts; h && *h; h++)
		if (str_eq_nocase(*h, host))
			return true;
	size_t len = strlen(host);
	return len > 10 && str_eq_nocase(host + len - 10, ".localhost");
}

/* A page may ask where it came from, or from a name that was configured (a proxy in front changes the host). */
static bool origin_ok(const struct auth *a, const char *origin, const char *host_text)
{
	const char *rest = strstr(origin, "://");
	char host[256];
	if (!rest || !split_host(rest + 3, host, sizeof(host)))
		return false;
	if (str_eq_nocase(rest + 3, host_text))
		return true;
	for (char **h = a->hosts; h && *h; h++)
		if (str_eq_nocase(*h, host))
			return true;
	return false;
}

/* ---- tokens ---- */

/* Browsers keep the cookies of all ports of a host together: two servers on one machine would sign each other out. */
static const char *cookie_name(struct request *r, const char *name)
{
	const char *host = request_header(r, "Host"), *colon = host ? strrchr(host, ':') : NULL;
	uint64_t port;
	return colon && str_to_u64(colon + 1, &port) ? arena_printf(&r->arena, "%s_%u", name, (unsigned)port) : name;
}

/* The value of a cookie, in the arena. */
static const char *cookie(struct request *r, const char *base)
{
	const char *text = request_header(r, "Cookie"), *name = cookie_name(r, base);
	size_t len = strlen(name);
	for (const char *p = text; p && *p;) {
		p += strspn(p, "; ");
		size_t all = strcspn(p, ";");
		if (all > len && !memcmp(p, name, len) && p[len] == '=')
			return arena_strndup(&r->arena, p + len + 1, all - len - 1);
		p += all;
	}
	return NULL;
}

static enum scope scope_of(const struct auth *a, const char *token)
{
	if (same(token, a->token))
		return SCOPE_FULL;
	return same(token, a->read_token) ? SCOPE_READ : SCOPE_NONE;
}

static void count_failure(struct auth *a)
{
	uint64_t now_ns = clock_mono_ns();
	pthread_mutex_lock(&a->lock);
	if (now_ns - a->failures_since_ns > FAILURES_NS) {
		a->failures_since_ns = now_ns;
		a->failures = 0;
	}
	a->failures++;
	pthread_mutex_unlock(&a->lock);
}

bool auth_too_many_failures(struct auth *a)
{
	pthread_mutex_lock(&a->lock);
	bool many = a->failures > FAILURES_MAX && clock_mono_ns() - a->failures_since_ns <= FAILURES_NS;
	pthread_mutex_unlock(&a->lock);
	return many;
}

const char *auth_cookie(struct auth *a, struct request *r, const char *token)
{
	char guid[37];
	bool share = auth_shared(a, token, guid);
	if (!share && scope_of(a, token) == SCOPE_NONE) {
		count_failure(a);
		return NULL;
	}
	return arena_printf(&r->arena, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
			    cookie_name(r, share ? SHARE_COOKIE : COOKIE), token, 30 * 86400, a->tls ? "; Secure" : "");
}

const char *auth_no_cookie(struct request *r)
{
	return arena_printf(&r->arena, "%s=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", cookie_name(r, COOKIE));
}

const char *auth_page_cookie(const struct auth *a, struct request *r)
{
	return arena_printf(&r->arena, "%s=%s; Path=" PAGES_PREFIX "; HttpOnly; SameSite=Strict%s",
			    cookie_name(r, PAGE_COOKIE), a->page, a->tls ? "; Secure" : "");
}

bool auth_from_page(const struct auth *a, struct request *r)
{
	return same(cookie(r, PAGE_COOKIE), a->page);
}

/* What a share link opens: everything about its session that only reads, and what a page needs beside it. */
static bool is_shared(struct auth *a, struct request *r)
{
	char guid[37], asked[37] = "";
	const char *token = cookie(r, SHARE_COOKIE);
	if (!token || !r->route || r->method != METHOD_GET || r->route->scope != SCOPE_READ ||
	    !auth_shared(a, token, guid))
		return false;
	if (str_eq(r->route->pattern, "/api/server") || str_eq(r->route->pattern, "/api/profilers"))
		return true;
	/* A comparison shows another session. */
	if (!str_starts(r->route->pattern, "/api/sessions/{guid}") || strstr(r->route->pattern, "shares") ||
	    strstr(r->route->pattern, "compare"))
		return false;
	str_copy(asked, sizeof(asked), r->params[0]);
	return str_eq_nocase(asked, guid);
}

/* ---- the check ---- */

static void refuse(struct request *r, int status, const char *why)
{
	if (status == 401)
		respond_header(r, "WWW-Authenticate", "Bearer realm=\"drdotnet\"");
	respond_problem(r, status, why);
}

/* Requests that another site made a browser send. */
static bool is_foreign(const struct auth *a, const struct request *r)
{
	const char *origin = request_header(r, "Origin"), *host = request_header(r, "Host"),
		   *site = request_header(r, "Sec-Fetch-Site"), *mode = request_header(r, "Sec-Fetch-Mode");
	bool changes = r->method != METHOD_GET || (r->route && r->route->scope == SCOPE_FULL);
	if (!r->route)
		return false; /* pages hold no secrets and do nothing */
	if (origin && !origin_ok(a, origin, host ? host : ""))
		return true;
	bool other = site && !str_eq(site, "same-origin") && !str_eq(site, "none");
	/* Following a link to a report is fine. */
	return other && !origin && (changes || !str_eq(mode, "navigate"));
}

/* NULL when it is none. */
static const char *decode_base64(struct arena *arena, const char *text)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strspn(text, digits), len = 0;
	char *out = arena_alloc(arena, n + 1);
	uint32_t bits = 0;
	for (size_t i = 0; i < n; i++) {
		bits = bits << 6 | (uint32_t)(strchr(digits, text[i]) - digits);
		if (i % 4)
			out[len++] = (char)(bits >> (6 - 2 * (i % 4)));
	}
	out[len] = '\0';
	return text[n + strspn(text + n, "=")] ? NULL : out;
}

/* Of the header: the word itself, or for programs that know nothing but an address with a password in it, that one. */
static const char *shown_token(struct request *r)
{
	const char *text = request_header(r, "Authorization");
	if (text && !strncasecmp(text, "Bearer ", 7))
		return text + 7 + strspn(text + 7, " ");
	if (!text || strncasecmp(text, "Basic ", 6) != 0)
		return NULL;
	const char *both = decode_base64(&r->arena, text + 6), *colon = both ? strchr(both, ':') : NULL;
	return colon ? colon + 1 : "";
}

static void identify(struct auth *a, struct request *r)
{
	const char *token = shown_token(r);
	enum scope given = scope_of(a, token ? token : cookie(r, COOKIE));
	bool known = a->mode == AUTH_OFF || r->peer == HTTP_LOCAL_TRUSTED;
	/* A token may still narrow what one does. */
	r->scope = !known ? given : given == SCOPE_READ ? SCOPE_READ : SCOPE_FULL;
	if (token && given == SCOPE_NONE && !known)
		count_failure(a);
}

void auth_check(struct auth *a, struct request *r)
{
	bool open = !r->route || r->route->scope == SCOPE_NONE;
	identify(a, r);
	if (a->check_host && r->peer == HTTP_LOCAL_NONE && !host_ok(a, request_header(r, "Host"))) {
		refuse(r, 421,
		       "this name is not known as one of ours (DNS rebinding?): use an IP address or localhost, or "
		       "start the server with --allow-host NAME");
		return;
	}
	if (is_foreign(a, r)) {
		refuse(r, 403,
		       "a page of another site asked for this; start the server with --allow-host NAME when it is a "
		       "proxy of yours");
		return;
	}
	if (open || r->scope >= r->route->scope)
		return;
	if (is_shared(a, r)) {
		r->scope = SCOPE_READ;
		r->shared = true;
		return;
	}
	if (auth_too_many_failures(a) && (shown_token(r) || cookie(r, COOKIE)))
		refuse(r, 429, "too many wrong tokens were tried; wait a minute");
	else if (r->scope == SCOPE_READ)
		refuse(r, 403, "this token may only look: this needs the full one");
	else
		refuse(r, 401,
		       "a token is needed: open the link that 'drdotnet serve' printed and 'drdotnet serve --link' "
		       "prints again, or send 'Authorization: Bearer TOKEN'");
}

/* ---- life ---- */

static struct err *take_token(const char *given, const char *what, char **ret)
{
	if (str_empty(given))
		return NULL;
	TRY(token_check(given, what));
	*ret = mem_strdup(given);
	return NULL;
}

struct err *auth_new(const struct auth_options *o, struct auth **ret)
{
	CLEANUP(auth_freep) struct auth *a = mem_zalloc(sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	a->tls = o->tls;
	a->shares_path = mem_strdup(o->shares_path);
	TRY(token_make(a->page));
	TRY(take_token(o->token, "the token", &a->token));
	TRY(take_token(o->read_token, "the read-only token", &a->read_token));
	VEC(char *) hosts = { 0 };
	for (const char *const *h = o->hosts; h && *h; h++)
		vec_push(&hosts, mem_strdup(*h));
	vec_push(&hosts, NULL);
	a->hosts = hosts.v;
	a->mode = o->off ? AUTH_OFF : AUTH_TOKEN;
	/* A configured token suggests a proxy in front, which has names that we do not know. */
	a->check_host = o->off || (o->loopback && !a->token);
	if (a->mode == AUTH_TOKEN && !a->token)
		TRY(token_keep(o->token_path, &a->token));
	read_shares(a);
	*ret = STEAL(a);
	return NULL;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	mem_free(a->token);
	mem_free(a->read_token);
	for (char **h = a->hosts; h && *h; h++)
		mem_free(*h);
	mem_free(a->hosts);
	mem_free(a->shares_path);
	vec_free(&a->shares);
	pthread_mutex_destroy(&a->lock);
	mem_free(a);
}

const char *auth_token(const struct auth *a)
{
	return a->mode == AUTH_TOKEN ? a->token : NULL;
}

enum auth_mode auth_mode(const struct auth *a)
{
	return a->mode;
}
