#include "server/route.h"
#include "base/str.h"
#include <string.h>
#include <strings.h>

static const struct {
	const char *word;
	unsigned method;
} methods[] = {
	{ "GET", METHOD_GET },	{ "POST", METHOD_POST },     { "PUT", METHOD_PUT },
	{ "HEAD", METHOD_GET }, { "DELETE", METHOD_DELETE },
};

const char *method_word(unsigned method)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (methods[i].method == method)
			return methods[i].word;
	return "?";
}

unsigned method_parse(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (str_eq(methods[i].word, word))
			return methods[i].method;
	return 0;
}

bool route_match(const char *pattern, const char *path, struct arena *arena, const char *ret[REQUEST_PARAMS_MAX],
		 size_t *ret_n)
{
	*ret_n = 0;
	while (*pattern && *path) {
		size_t want = strcspn(pattern + 1, "/") + 1, have = strcspn(path + 1, "/") + 1;
		if (*pattern != '/' || *path != '/')
			return false;
		/* "{name}.{ext}" is not needed: a parameter is a whole segment. */
		if (pattern[1] == '{') {
			if (have == 1 || *ret_n == REQUEST_PARAMS_MAX)
				return false;
			ret[(*ret_n)++] = arena_strndup(arena, path + 1, have - 1);
		} else if (want != have || strncasecmp(pattern, path, want) != 0) {
			return false;
		}
		pattern += want;
		path += have;
	}
	/* One slash at the end means the same. */
	return !*pattern && (!*path || str_eq(path, "/"));
}

const struct route *routes_find(struct request *r, unsigned *ret_allowed)
{
	size_t n;
	const struct route *all = routes_all(&n);
	*ret_allowed = 0;
	for (size_t i = 0; i < n; i++) {
		if (!route_match(all[i].pattern, r->path, &r->arena, r->params, &r->n_params))
			continue;
		*ret_allowed |= all[i].method;
		if (all[i].method == r->method) {
			r->route = &all[i];
			return r->route;
		}
	}
	return NULL;
}
