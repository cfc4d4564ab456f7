#pragma once
/* Who may do what. Over TCP a token is needed on every address, loopback too: every user of the machine, and containers
 * on its network, can connect to loopback, and we see more than they do. Only root and our own user can connect to the
 * socket in the home (http/local.h); they need no token. Browsers are a danger of their own: pages of other sites can make
 * them send requests to us.
 *
 * Checks headers only; knows no HTTP library. Any thread. */

#include "server/request.h"

struct auth;
struct auth_options {
	bool loopback; /* it listens on loopback only: requests for names that are not ours are refused */
	bool off;      /* set explicitly: no token anywhere */
	const char *token, *read_token; /* configured ones; NULL = the one that is kept, or none */
	const char *const *hosts;	/* host names of this server, ended by NULL; NULL = none */
	bool tls;
	const char *token_path, *shares_path; /* where the token and share links are kept */
};
/* ERR_USAGE when a token is too short to be one; ERR_DENIED when the file of the kept one is not safe. */
struct err *auth_new(const struct auth_options *options, struct auth **ret) MUST_USE;
void auth_free(struct auth *a);
DEFINE_CLEANUP(auth_free, struct auth *)

/* The token that opens everything, to be shown to the user who started the server; NULL when none is needed. */
const char *auth_token(const struct auth *a);
enum auth_mode { AUTH_TOKEN, AUTH_OFF };
enum auth_mode auth_mode(const struct auth *a);

/* Sets r->scope, or answers why not. Called with the route known; NULL = a page. */
void auth_check(struct auth *a, struct request *r);
/* The cookie for a client that sent this token; NULL when it is wrong. Allocated in the arena. */
const char *auth_cookie(struct auth *a, struct request *r, const char *token);
/* The cookie that removes it. */
const char *auth_no_cookie(struct request *r);
/* Have so many wrong tokens been tried lately that the next wrong one is told to wait? The right token is always accepted:
 * otherwise anybody could lock everybody out. */
bool auth_too_many_failures(struct auth *a);
/* The cookie that comes with every page: only a client that opened one reaches the routes of the pages (PAGES_PREFIX).
 * It opens nothing that needs a token. Allocated in the arena. */
const char *auth_page_cookie(const struct auth *a, struct request *r);
bool auth_from_page(const struct auth *a, struct request *r);

/* Share links: one session, read-only, until they expire. */
struct err *auth_share(struct auth *a, const char *guid, uint64_t days, struct jsonw *w) MUST_USE;
void auth_shares_json(struct auth *a, const char *guid, struct jsonw *w);
struct err *auth_unshare(struct auth *a, const char *guid, const char *token) MUST_USE;
/* The session a link opens; false when it does not any more. */
bool auth_shared(struct auth *a, const char *token, char ret_guid[37]);
