#pragma once
/* All that can be configured: by an option, a variable of the environment, or a key of the configuration file, in this
 * order. One table; help, man page, docs/configuration.md and the checks are made from it. */

#include "base/buf.h"
#include "base/err.h"

enum setting_kind {
	SETTING_TEXT,
	SETTING_PATH,	/* absolute */
	SETTING_SWITCH, /* true or false */
	SETTING_CHOICE,
	SETTING_NUMBER,
	SETTING_AGE,   /* 30d */
	SETTING_BYTES, /* 2G */
	SETTING_NAMES, /* several, with commas; in the file also as a list */
};

/* id, key, option, variable, kind, what help calls the value (NULL: the option takes none), what an option without a
 * value means, what holds when nothing is said (NULL: see the help), choices, least and most, is it secret?, help. */
#define SERVE_SETTINGS(X)                                                                                              \
	X(LISTEN, "listen", "--listen", "DRDOTNET_LISTEN", SETTING_TEXT, "ADDR:PORT", NULL, "127.0.0.1:9292", NULL, 0, \
	  0, false, "Where to listen (127.0.0.1:9292); port 0 takes a free one")                                       \
	X(PUBLIC_URL, "public_url", "--public-url", "DRDOTNET_PUBLIC_URL", SETTING_TEXT, "URL", NULL, NULL, NULL, 0,   \
	  0, false, "Where browsers reach it, as a published port or a proxy: for the link that it prints")            \
	X(TOKEN, "token", "--token", "DRDOTNET_TOKEN", SETTING_TEXT, "TOKEN", NULL, NULL, NULL, 0, 0, true,            \
	  "What opens everything; otherwise one is made and kept")                                                     \
	X(TOKEN_FILE, "token_file", "--token-file", "DRDOTNET_TOKEN_FILE", SETTING_TEXT, "FILE", NULL, NULL, NULL, 0,  \
	  0, false, "The same, out of the first line of a file")                                                       \
	X(READ_TOKEN, "read_token", "--read-token", "DRDOTNET_READ_TOKEN", SETTING_TEXT, "TOKEN", NULL, NULL, NULL, 0, \
	  0, true, "What opens reading only")                                                                          \
	X(READ_TOKEN_FILE, "read_token_file", "--read-token-file", "DRDOTNET_READ_TOKEN_FILE", SETTING_TEXT, "FILE",   \
	  NULL, NULL, NULL, 0, 0, false, "The same, out of the first line of a file")                                  \
	X(AUTH, "auth", "--no-auth", "DRDOTNET_AUTH", SETTING_CHOICE, NULL, "none", "token", setting_auth_words, 0, 0, \
	  false, "No token: whoever can reach it, every local user too, may examine everything")                       \
	X(ALLOWED_HOSTS, "allowed_hosts", "--allow-host", "DRDOTNET_ALLOWED_HOSTS", SETTING_NAMES, "NAME", NULL, NULL, \
	  NULL, 0, 0, false, "A further name it is known by, as behind a proxy")                                       \
	X(TLS_CERTIFICATE, "tls.certificate", "--tls-cert", "DRDOTNET_TLS_CERT", SETTING_TEXT, "FILE", NULL, NULL,     \
	  NULL, 0, 0, false, "Serve https with this certificate (PEM)")                                                \
	X(TLS_KEY, "tls.key", "--tls-key", "DRDOTNET_TLS_KEY", SETTING_TEXT, "FILE", NULL, NULL, NULL, 0, 0, false,    \
	  "Its key (PEM)")                                                                                             \
	X(MAX_SESSIONS, "max_sessions", "--max-sessions", "DRDOTNET_MAX_SESSIONS", SETTING_NUMBER, "N", NULL, "4",     \
	  NULL, 1, 100, false, "Sessions that run at once (4); further ones wait")                                     \
	X(ON_STOP, "on_stop", "--on-stop", "DRDOTNET_ON_STOP", SETTING_CHOICE, "WHAT", NULL, "cancel",                 \
	  setting_stop_words, 0, 0, false, "At its end: cancel what runs (cancel), or finish it")                      \
	X(WEBHOOK, "webhook", "--webhook", "DRDOTNET_WEBHOOK", SETTING_TEXT, "URL", NULL, NULL, NULL, 0, 0, false,     \
	  "Gets every session's end by POST, as JSON")                                                                 \
	X(LOG_FORMAT, "log.format", "--log-format", "DRDOTNET_LOG_FORMAT", SETTING_CHOICE, "FORMAT", NULL, "text",     \
	  setting_log_words, 0, 0, false, "Lines of its log as text (text) or json")                                   \
	X(WEB_UI, "web_ui", "--no-web-ui", "WEB_UI_ENABLED", SETTING_SWITCH, NULL, "false", "true", NULL, 0, 0, false, \
	  "Only the REST API")                                                                                         \
	X(REST_API, "rest_api", "--no-rest-api", "REST_API_ENABLED", SETTING_SWITCH, NULL, "false", "true", NULL, 0,   \
	  0, false, "Only the web UI")                                                                                 \
	X(LOG_FILE, "log.file", "--no-file-logging", "FILE_LOGGING_ENABLED", SETTING_SWITCH, NULL, "false", "true",    \
	  NULL, 0, 0, false, "No app.log in the home")                                                                 \
	X(LOG_CONSOLE, "log.console", "--no-console-logging", "CONSOLE_LOGGING_ENABLED", SETTING_SWITCH, NULL,         \
	  "false", "true", NULL, 0, 0, false, "Nothing on standard error")                                             \
	X(HOME, "home", "--home", "DRDOTNET_HOME", SETTING_PATH, "FOLDER", NULL, NULL, NULL, 0, 0, false,              \
	  "Where sessions, core files, symbols and the token are kept")                                                \
	X(KEEP_AGE, "keep.age", "--keep-age", "DRDOTNET_KEEP_AGE", SETTING_AGE, "AGE", NULL, "30d", NULL, 0, 0, false, \
	  "Older sessions are deleted (30d)")                                                                          \
	X(KEEP_COUNT, "keep.count", "--keep-count", "DRDOTNET_KEEP_COUNT", SETTING_NUMBER, "N", NULL, "200", NULL, 0,  \
	  UINT64_MAX, false, "So many sessions are kept, the newest (200)")                                            \
	X(KEEP_BYTES, "keep.bytes", "--keep-bytes", "DRDOTNET_KEEP_BYTES", SETTING_BYTES, "SIZE", NULL, "2G", NULL, 0, \
	  0, false, "Their size on disk, at most (2G)")
#define OTHER_SETTINGS(X)                                                                                              \
	X(SYMBOL_SERVERS, "symbols.servers", "--from", "DRDOTNET_SYMBOL_SERVERS", SETTING_NAMES, "URL", NULL, NULL,    \
	  NULL, 0, 0, false, "Ask this symbol server instead; may be given several times")
#define SETTINGS(X) SERVE_SETTINGS(X) OTHER_SETTINGS(X)

struct setting {
	const char *key, *option, *variable;
	enum setting_kind kind;
	const char *value, *by_option, *otherwise;
	const char *const *choices; /* of SETTING_CHOICE, ended by NULL */
	uint64_t min, max;	    /* of SETTING_NUMBER */
	bool secret;		    /* never printed */
	const char *help;	    /* of the option */
};

enum setting_id {
#define SETTING_ID(id, ...) SETTING_##id,
	SETTINGS(SETTING_ID)
#undef SETTING_ID
		SETTING_COUNT
};

extern const char *const setting_auth_words[], *const setting_stop_words[], *const setting_log_words[];
extern const struct setting settings[SETTING_COUNT];

/* NULL when the server has no such option. */
const struct setting *setting_of_option(const char *option);

/* ERR_USAGE says what `name` (a variable, a key, an option) takes. */
struct err *setting_check(const struct setting *s, const char *name, const char *value) MUST_USE;
/* "true or false", "text or json", "a number from 1 to 100". */
void setting_add_kind(const struct setting *s, struct buf *out);

/* Its value now, checked: the variable's, or what holds otherwise, which may be NULL. Valid until the environment
 * changes. */
struct err *setting_get(enum setting_id id, const char **ret) MUST_USE;
struct err *setting_get_bool(enum setting_id id, bool *ret) MUST_USE;
struct err *setting_get_u64(enum setting_id id, uint64_t *ret) MUST_USE;
