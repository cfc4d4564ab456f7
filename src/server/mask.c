/* Hides values in command lines whose names suggest a secret, before they are shown. */

#include "server/internal.h"
#include "base/str.h"
#include <ctype.h>
#include <string.h>

/* Names behind which a secret stands. */
static const char *const names[] = {
	"password",	   "passwd",	"pwd",	      "secret",		 "token",	"apikey",     "api-key",
	"api_key",	   "accesskey", "accountkey", "access_key",	 "private_key", "credential", "authorization",
	"sharedaccesskey", "signature", "sig",	      "connectionstring"
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Does the word that ends at `end` name a secret? */
static bool names_secret(const char *start, const char *end)
{
	CLEANUP(mem_freep) char *word = mem_strndup(start, (size_t)(end - start));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		bool is_short = strlen(names[i]) <= 3; /* "sig" would be found in "design" */
		if (is_short ? str_eq_nocase(word, names[i]) : str_contains_nocase(word, names[i]))
			return true;
	}
	return false;
}

/* Where the value at p ends: at its closing quote, or at what separates settings. */
static const char *value_end(const char *p)
{
	if (*p == '"' || *p == '\'') {
		const char *close = strchr(p + 1, *p);
		return close ? close + 1 : p + strlen(p);
	}
	return p + strcspn(p, " \t;&,\"'");
}

/* "name=value", "name:value" and "--name value" of secret names, "user:password@" in addresses. */
void mask_secrets(struct buf *out, const char *text)
{
	const char *word = text; /* where the word that ends here began */
	for (const char *p = text; *p;) {
		if (str_starts(p, "://")) {
			const char *host = p + 3, *at = host + strcspn(host, "@/ \t\"'?#"),
				   *colon = memchr(host, ':', (size_t)(at - host));
			if (*at == '@' && colon) {
				buf_add(out, p, (size_t)(colon + 1 - p));
				buf_str(out, "***");
				p = word = at;
				continue;
			}
		}
		if (is_word(*p)) {
			buf_char(out, *p++);
			continue;
		}
		bool option = *p == ' ' && word[0] == '-' && word[1] == '-' && p[1] && p[1] != '-';
		bool setting = (*p == '=' || *p == ':') && p[1] && p[1] != '/' && p[1] != ' ';
		if (p > word && (option || setting) && names_secret(word, p)) {
			const char *end = value_end(p + 1);
			buf_char(out, *p);
			buf_str(out, end > p + 1 ? "***" : "");
			p = word = end;
			continue;
		}
		buf_char(out, *p++);
		word = p;
	}
}
