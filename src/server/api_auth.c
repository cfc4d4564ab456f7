/* Signing in, the link, and share links. */

#include "server/api.h"
#include "server/auth.h"
#include "base/str.h"
#include <string.h>

#define SHARE_DAYS 7
#define SHARE_DAYS_MAX 365

struct err *api_login(struct request *r)
{
	CLEANUP(json_decrefp) json_t *body = NULL;
	TRY(request_body(r, &body));
	const char *token = json_get_str(body, "token", NULL), *cookie = auth_cookie(r->server->auth, r, token);
	if (!cookie && auth_too_many_failures(r->server->auth)) {
		r->error_status = 429;
		return err_new(ERR_BUSY, "too many wrong tokens were tried; wait a minute");
	}
	if (!cookie) {
		log_line(r->server->log, LOG_WARN, "audit: %s showed a wrong token", r->client);
		r->error_status = 401;
		return err_new(ERR_DENIED, "this is not the token of this server");
	}
	respond_header(r, "Set-Cookie", cookie);
	respond(r, 204, NULL);
	return NULL;
}

struct err *api_logout(struct request *r)
{
	respond_header(r, "Set-Cookie", auth_no_cookie(r));
	respond(r, 204, NULL);
	return NULL;
}

/* For users that could read the token's file anyway; over TCP the client has sent it already. */
struct err *api_link(struct request *r)
{
	if (r->peer != HTTP_LOCAL_TRUSTED)
		return err_new(ERR_DENIED, "the link is told by the socket in the home only: 'drdotnet serve --link'");
	CLEANUP(mem_freep) char *link = server_link(r->server);
	struct jsonw w = respond_json(r, 200);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "link", link);
	jsonw_object_end(&w);
	respond_header(r, "Cache-Control", "no-store");
	return NULL;
}

/* /share/TOKEN: the cookie, and on to the session. */
struct err *api_share_open(struct request *r)
{
	char guid[STORE_GUID_LEN + 1];
	if (!auth_shared(r->server->auth, r->params[0], guid)) {
		r->error_status = 404;
		return err_new(ERR_DENIED, "this link does not open anything any more: it has expired or was revoked");
	}
	respond_header(r, "Set-Cookie", auth_cookie(r->server->auth, r, r->params[0]));
	respond_headerf(r, "Location", "/sessions/%s", guid);
	respond(r, 303, NULL);
	return NULL;
}

static struct err *shared_guid(struct request *r, char ret[STORE_GUID_LEN + 1])
{
	struct store_row row;
	TRY(api_row(r, r->params[0], &row));
	memcpy(ret, row.guid, sizeof(row.guid));
	store_row_fini(&row);
	return NULL;
}

struct err *api_share(struct request *r)
{
	CLEANUP(json_decrefp) json_t *body = NULL;
	char guid[STORE_GUID_LEN + 1];
	if (r->body.len)
		TRY(request_body(r, &body));
	json_t *days = json_object_get(body, "days");
	int64_t n = json_get_int(body, "days", SHARE_DAYS);
	if (days && (!json_is_integer(days) || n < 1 || n > SHARE_DAYS_MAX))
		return err_new(ERR_USAGE, "'days' takes a whole number from 1 to %d", SHARE_DAYS_MAX);
	TRY(shared_guid(r, guid));
	struct jsonw w = respond_json(r, 201);
	TRY(auth_share(r->server->auth, guid, (uint64_t)n, &w));
	log_line(r->server->log, LOG_INFO, "audit: %s shares session %s for %lld days", r->client, guid, (long long)n);
	return NULL;
}

struct err *api_shares(struct request *r)
{
	char guid[STORE_GUID_LEN + 1];
	TRY(shared_guid(r, guid));
	struct jsonw w = respond_json(r, 200);
	jsonw_array(&w, NULL);
	auth_shares_json(r->server->auth, guid, &w);
	jsonw_array_end(&w);
	return NULL;
}

struct err *api_unshare(struct request *r)
{
	char guid[STORE_GUID_LEN + 1];
	TRY(shared_guid(r, guid));
	TRY(auth_unshare(r->server->auth, guid, r->params[1]));
	log_line(r->server->log, LOG_INFO, "audit: %s revokes a share link of session %s", r->client, guid);
	respond(r, 204, NULL);
	return NULL;
}
