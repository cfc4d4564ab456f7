/* Who may ask the server for what: tokens, origins, names, share links. */

#include "unit.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "server/auth.h"
#include "server/token.h"
#include "server_request.h"
#include <sys/stat.h>

#define TOKEN "full-token-0123456789"
#define READ_TOKEN "read-token-0123456789"

static struct auth *make_auth(bool loopback, bool off, const char *token)
{
	static const char *const hosts[] = { "diag.example.com", NULL };
	static char dir[64];
	static unsigned n;
	struct auth *a = NULL;
	if (!dir[0])
		unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/shares%u.json", dir, n);
	CLEANUP(mem_freep) char *kept = mem_printf("%s/token%u", dir, n++);
	struct auth_options o = { .loopback = loopback,
				  .off = off,
				  .token = token,
				  .read_token = READ_TOKEN,
				  .hosts = hosts,
				  .token_path = kept,
				  .shares_path = path };
	assert_ok(auth_new(&o, &a));
	return a;
}

struct ask {
	const char *method, *path, *host, *origin, *bearer, *cookie, *site, *mode;
	enum http_local_peer peer;
};

/* The status, 0 when it may pass. */
static int check(struct auth *a, struct ask ask)
{
	struct request *r = make_request(ask.method, ask.path);
	const struct pair all[] = { { "Host", ask.host ? ask.host : "127.0.0.1:9292" },
				    { "Origin", ask.origin },
				    { "Authorization", ask.bearer },
				    { "Cookie", ask.cookie },
				    { "Sec-Fetch-Site", ask.site },
				    { "Sec-Fetch-Mode", ask.mode } };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].value)
			vec_push(&r->headers, all[i]);
	unsigned allowed;
	routes_find(r, &allowed);
	r->peer = ask.peer;
	auth_check(a, r);
	int status = r->response.status;
	request_free(r);
	return status;
}

static void loopback_needs_a_token_and_a_name_of_ours(void **state UNUSED)
{
	struct auth *a = make_auth(true, false, NULL);
	assert_int_equal(auth_mode(a), AUTH_TOKEN);
	CLEANUP(mem_freep) char *bearer = mem_printf("Bearer %s", auth_token(a));
	static const char *const methods[] = { "GET", "POST", "DELETE" };
	size_t n;
	const struct route *all = routes_all(&n);
	for (size_t i = 0; i < n; i++)
		for (size_t m = 0; m < ARRAY_SIZE(methods); m++)
			if (method_parse(methods[m]) == all[i].method)
				assert_int_equal(check(a, (struct ask){ .method = methods[m], .path = all[i].pattern }),
						 all[i].scope == SCOPE_NONE ? 0 : 401);
	static const char *const good[] = { "localhost",   "localhost:8000", "127.0.0.1",	 "[::1]:9292",
					    "10.0.0.7:92", "LOCALHOST",	     "diag.example.com", "a.localhost" };
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(check(a, (struct ask){ .method = "GET",
							.path = "/api/sessions",
							.host = good[i],
							.bearer = bearer }),
				 0);
	static const char *const bad[] = { "evil.example.com",
					   "evil.example.com:9292",
					   "127.0.0.1.evil.com",
					   "localhost.evil.com",
					   "",
					   ":80",
					   "[evil",
					   "[::1].evil.com",
					   "[::1].evil.com:9292",
					   "[::1]evil",
					   "127.0.0.1:9292.evil.com",
					   "localhost:evil",
					   "drdotnet:92",
					   "com",
					   "[evil.com]:1" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(check(a, (struct ask){ .method = "GET",
							.path = "/api/sessions",
							.host = bad[i],
							.bearer = bearer }),
				 421);
	auth_free(a);
}

static void the_socket_in_the_home_needs_no_token(void **state UNUSED)
{
	struct auth *a = make_auth(true, false, NULL);
	struct ask start = { .method = "POST", .path = "/api/sessions", .host = "any", .peer = HTTP_LOCAL_TRUSTED };
	assert_int_equal(check(a, start), 0);
	/* A token narrows what one may do also here; and no page of another site gets in this way. */
	start.bearer = "Bearer " READ_TOKEN;
	assert_int_equal(check(a, start), 403);
	start.bearer = NULL;
	start.origin = "http://evil.example.com";
	assert_int_equal(check(a, start), 403);
	start.origin = NULL;
	start.peer = HTTP_LOCAL_STRANGER;
	assert_int_equal(check(a, start), 401);
	auth_free(a);
}

static void the_token_is_kept_in_a_safe_file(void **state UNUSED)
{
	char dir[64];
	struct stat st;
	CLEANUP(mem_freep) char *one = NULL, *again = NULL, *none = NULL;
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/token", dir);
	CLEANUP(mem_freep) char *other = mem_printf("%s/other", dir);
	assert_ok(token_keep(path, &one));
	assert_ok(token_keep(path, &again));
	assert_string_equal(one, again);
	assert_int_equal(strlen(one), TOKEN_LEN);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0666 };
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_err(token_keep(path, &none), ERR_DENIED);
	}
	assert_int_equal(chmod(path, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
		assert_err(token_keep(path, &none), ERR_DENIED);
		assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	}
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_err(token_keep(path, &none), ERR_DENIED);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_err(token_keep(path, &none), ERR_DENIED);
	assert_int_equal(unlink(path), 0);
	assert_ok(file_put(path, "short\n", 6, 0600));
	assert_err(token_keep(path, &none), ERR_USAGE);
	assert_null(none);
	assert_ok(dir_remove(dir));
}

static void other_sites_are_kept_out(void **state UNUSED)
{
	struct auth *a = make_auth(true, true, NULL);
	static const char local[] = "localhost:9292";
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = "/api/sessions",
						.host = local,
						.origin = "http://localhost:9292" }),
			 0);
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = "/api/sessions",
						.host = local,
						.origin = "https://diag.example.com" }),
			 0);
	static const char *const bad[] = { "http://evil.com", "null", "http://localhost:1",
					   "http://localhost.evil.com:9292", "x" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(check(a, (struct ask){ .method = "POST",
							.path = "/api/sessions",
							.host = local,
							.origin = bad[i] }),
				 403);
		assert_int_equal(check(a, (struct ask){ .method = "GET",
							.path = "/api/sessions",
							.host = local,
							.origin = bad[i] }),
				 403);
	}
	/* Without an origin, as pictures and links are asked for. */
	struct ask image = { .method = "GET",
			     .path = "/api/processes/1/stacks",
			     .host = local,
			     .site = "cross-site",
			     .mode = "no-cors" };
	assert_int_equal(check(a, image), 403);
	struct ask link = {
		.method = "GET", .path = "/api/sessions", .host = local, .site = "cross-site", .mode = "navigate"
	};
	assert_int_equal(check(a, link), 0);
	link.path = "/api/processes/1/stacks";
	assert_int_equal(check(a, link), 403);
	struct ask page = {
		.method = "GET", .path = "/sessions", .host = local, .site = "cross-site", .mode = "navigate"
	};
	assert_int_equal(check(a, page), 0);
	auth_free(a);
}

static void elsewhere_a_token_is_needed(void **state UNUSED)
{
	struct auth *a = make_auth(false, false, TOKEN);
	assert_int_equal(auth_mode(a), AUTH_TOKEN);
	static const char sessions[] = "/api/sessions", any[] = "host.example.org";
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = sessions, .host = any }), 401);
	assert_int_equal(
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer " TOKEN }), 0);
	assert_int_equal(
		check(a, (struct ask){ .method = "POST", .path = sessions, .host = any, .bearer = "bearer  " TOKEN }),
		0);
	assert_int_equal(
		check(a,
		      (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer " READ_TOKEN }),
		0);
	assert_int_equal(
		check(a,
		      (struct ask){ .method = "POST", .path = sessions, .host = any, .bearer = "Bearer " READ_TOKEN }),
		403);
	assert_int_equal(check(a, (struct ask){ .method = "GET",
						.path = sessions,
						.host = any,
						.cookie = "x=1; drdotnet_token=" TOKEN }),
			 0);
	/* "pprof:" and the token, "x:" and the read token: the password of an address. */
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = sessions,
						.host = any,
						.bearer = "Basic cHByb2Y6ZnVsbC10b2tlbi0wMTIzNDU2Nzg5" }),
			 0);
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = sessions,
						.host = any,
						.bearer = "Basic eDpyZWFkLXRva2VuLTAxMjM0NTY3ODk=" }),
			 403);
	static const char *const wrong[] = {
		"Bearer", "Bearer ",	    "Bearer x", "Bearer " TOKEN "x",  "Bearer full-token-012345678",
		TOKEN,	  ("Basic " TOKEN), "Basic ",	"Basic cHByb2Y6eA==", "Basic ====!",
	};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(
			check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = wrong[i] }),
			401);
	assert_int_equal(check(a, (struct ask){ .method = "GET",
						.path = sessions,
						.host = any,
						.cookie = "drdotnet_token=; drdotnet_token2=" TOKEN }),
			 401);
	/* Each port of a host has its own. */
	struct ask port = { .method = "GET",
			    .path = sessions,
			    .host = "localhost:9292",
			    .cookie = "drdotnet_token_9292=" TOKEN "; drdotnet_token_8000=x" };
	assert_int_equal(check(a, port), 0);
	port.host = "localhost:8000";
	assert_int_equal(check(a, port), 401);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = "/healthz", .host = any }), 0);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = "/metrics", .host = any }), 401);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = "/sessions", .host = any }), 0);
	/* Guessing is slow. */
	for (int i = 0; i < 40; i++)
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer guess" });
	assert_int_equal(
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer guess" }),
		429);
	/* But nobody else pays for it: neither who has the token, by any way, nor who has shown none. */
	assert_int_equal(
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer " TOKEN }), 0);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = sessions, .host = any }), 401);
	struct request *r = make_request("GET", "/");
	assert_null(auth_cookie(a, r, "guess"));
	assert_non_null(auth_cookie(a, r, TOKEN));
	request_free(r);
	auth_free(a);
}

static void tokens_are_made_and_checked(void **state UNUSED)
{
	struct auth *a = make_auth(false, false, NULL), *b = make_auth(false, false, NULL),
		    *off = make_auth(false, true, NULL);
	assert_int_equal(strlen(auth_token(a)), 48);
	assert_string_not_equal(auth_token(a), auth_token(b));
	assert_int_equal(auth_mode(off), AUTH_OFF);
	assert_int_equal(check(off, (struct ask){ .method = "POST", .path = "/api/sessions" }), 0);
	assert_int_equal(
		check(off, (struct ask){ .method = "POST", .path = "/api/sessions", .host = "evil.example.com" }), 421);
	auth_free(a);
	auth_free(b);
	auth_free(off);
	struct auth_options o = { .token = "short", .shares_path = "/nonexistent" };
	assert_err(auth_new(&o, &a), ERR_USAGE);
	o.token = "with blanks in it";
	assert_err(auth_new(&o, &a), ERR_USAGE);
}

static void a_share_link_opens_one_session(void **state UNUSED)
{
	static const char one[] = "805a308b-061c-47f3-9b30-f785c3186e82",
			  other[] = "905a308b-061c-47f3-9b30-f785c3186e82";
	struct auth *a = make_auth(false, false, TOKEN);
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(json_decrefp) json_t *share = NULL;
	struct jsonw w = jsonw_make(&text, false);
	assert_ok(auth_share(a, one, 1, &w));
	assert_ok(json_parse(text.data, text.len, text.len, &share));
	const char *token = json_get_str(share, "token", "");
	CLEANUP(mem_freep) char *cookie = mem_printf("drdotnet_share_9292=%s", token);
	char guid[37], path[100];
	assert_true(auth_shared(a, token, guid));
	assert_string_equal(guid, one);
	static const struct {
		const char *method, *pattern, *guid;
		int status;
	} cases[] = {
		{ "GET", "/api/sessions/%s", one, 0 },
		{ "GET", "/api/sessions/%s/report", one, 0 },
		{ "GET", "/api/sessions/%s/files/x", one, 0 },
		{ "GET", "/api/sessions/%s", other, 401 },
		{ "DELETE", "/api/sessions/%s", one, 401 },
		{ "POST", "/api/sessions/%s/cancel", one, 401 },
		{ "GET", "/api/sessions/%s/shares", one, 401 },
		{ "GET", "/api/sessions", one, 401 },
		{ "GET", "/api/server", one, 0 },
		{ "GET", "/api/server/logs", one, 401 },
		{ "GET", "/api/processes", one, 401 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool has = strstr(cases[i].pattern, "%s") != NULL;
		str_copy(path, sizeof(path), cases[i].pattern);
		if (has) {
			CLEANUP(mem_freep) char *tail = mem_strdup(strstr(cases[i].pattern, "%s") + 2);
			snprintf(path, sizeof(path), "/api/sessions/%s%s", cases[i].guid, tail);
		}
		assert_int_equal(check(a, (struct ask){ .method = cases[i].method, .path = path, .cookie = cookie }),
				 cases[i].status);
	}
	assert_err(auth_unshare(a, other, token), ERR_NOT_FOUND);
	assert_ok(auth_unshare(a, one, token));
	assert_false(auth_shared(a, token, guid));
	snprintf(path, sizeof(path), "/api/sessions/%s", one);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = path, .cookie = cookie }), 401);
	auth_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_needs_a_token_and_a_name_of_ours),
		cmocka_unit_test(the_socket_in_the_home_needs_no_token),
		cmocka_unit_test(the_token_is_kept_in_a_safe_file),
		cmocka_unit_test(other_sites_are_kept_out),
		cmocka_unit_test(elsewhere_a_token_is_needed),
		cmocka_unit_test(tokens_are_made_and_checked),
		cmocka_unit_test(a_share_link_opens_one_session),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
