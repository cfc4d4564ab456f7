#include "requests/routes.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <ctype.h>
#include <string.h>

#define ROUTES_MAX 2000
#define SEGMENTS_MAX 32
#define TEXT_MAX 512
#define LONG_WITH_DIGITS 20
#define HEX_LEAST 16

/* In the order in which a router prefers them. */
enum segment_kind { SEGMENT_LITERAL, SEGMENT_CONSTRAINED, SEGMENT_PARAMETER, SEGMENT_CATCH_ALL };

struct segment {
	const char *at;
	size_t len;
	enum segment_kind kind;
	bool optional;
};

struct route_entry {
	char *method, *pattern;
	struct segment segments[SEGMENTS_MAX];
	size_t n;
	uint64_t requests, failed;
};

struct routes {
	VEC(struct route_entry) list;
};

struct routes *routes_new(void)
{
	return mem_zalloc(sizeof(struct routes));
}

void routes_free(struct routes *r)
{
	if (!r)
		return;
	vec_each(route, &r->list) {
		mem_free(route->method);
		mem_free(route->pattern);
	}
	vec_free(&r->list);
	mem_free(r);
}

size_t routes_count(const struct routes *r)
{
	return r->list.n;
}

struct route_facts routes_facts(const struct routes *r, size_t route)
{
	const struct route_entry *it = &r->list.v[route];
	return (struct route_facts){ it->method, it->pattern, it->requests, it->failed };
}

/* The next segment of a path; false at its end. */
static bool next_segment(const char **path, const char **ret, size_t *ret_len)
{
	*path += strspn(*path, "/");
	*ret = *path;
	*ret_len = strcspn(*path, "/");
	*path += *ret_len;
	return *ret_len > 0;
}

/* ---- templates ---- */

static struct segment read_segment(const char *at, size_t len)
{
	struct segment s = { .at = at, .len = len };
	const char *open = memchr(at, '{', len);
	if (!open)
		return s;
	bool whole = open == at && at[len - 1] == '}' && !memchr(at + 1, '{', len - 1);
	if (!whole) { /* "v{version}" */
		s.kind = SEGMENT_CONSTRAINED;
		return s;
	}
	s.optional = (len > 2 && at[len - 2] == '?') || memchr(at, '=', len);
	s.kind = at[1] == '*' ? SEGMENT_CATCH_ALL : memchr(at, ':', len) ? SEGMENT_CONSTRAINED : SEGMENT_PARAMETER;
	return s;
}

/* A "/" inside of braces, as in a regular expression, ends no segment. */
static size_t segment_len(const char *at)
{
	size_t len = 0;
	int depth = 0;
	for (; at[len] && (at[len] != '/' || depth > 0); len++)
		depth += (at[len] == '{') - (at[len] == '}');
	return len;
}

static bool read_template(struct route_entry *route)
{
	const char *at = route->pattern + (route->pattern[0] == '~');
	for (at += strspn(at, "/"); *at; at += strspn(at, "/")) {
		size_t len = segment_len(at);
		if (route->n == SEGMENTS_MAX)
			return false;
		route->segments[route->n++] = read_segment(at, len);
		at += len;
	}
	return true;
}

void routes_add(struct routes *r, const char *method, const char *pattern, uint64_t requests, uint64_t failed)
{
	vec_each(route, &r->list) {
		if (str_eq(route->method, method) && str_eq(route->pattern, pattern)) {
			route->requests += requests;
			route->failed += failed;
			return;
		}
	}
	if (r->list.n >= ROUTES_MAX || strlen(pattern) > TEXT_MAX || strlen(method) > TEXT_MAX)
		return;
	struct route_entry route = {
		.method = mem_strdup(method), .pattern = mem_strdup(pattern), .requests = requests, .failed = failed
	};
	if (read_template(&route)) {
		vec_push(&r->list, route);
	} else {
		mem_free(route.method);
		mem_free(route.pattern);
	}
}

/* The value of a tag, up to the next key that this meter has: a template may contain commas. */
static bool tag_value(const char *tags, const char *key, char *ret, size_t size)
{
	static const char *const keys[] = { "http.",	   "network.", "url.",	     "error.",
					    "aspnetcore.", "server.",  "user_agent." };
	size_t key_len = strlen(key);
	const char *at = tags;
	while (at && (strncmp(at, key, key_len) || at[key_len] != '=')) {
		at = strchr(at, ',');
		at += at != NULL;
	}
	if (!at)
		return false;
	at += key_len + 1;
	const char *end = at + strlen(at);
	for (const char *comma = strchr(at, ','); comma && end[0] == '\0'; comma = strchr(comma + 1, ','))
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			if (str_starts(comma + 1, keys[i]) && *end == '\0')
				end = comma;
	size_t len = (size_t)(end - at);
	if (len >= size)
		return false;
	memcpy(ret, at, len);
	ret[len] = '\0';
	return true;
}

void routes_add_tags(struct routes *r, const char *tags, uint64_t requests)
{
	char method[64], pattern[TEXT_MAX + 1], status[16];
	if (!tag_value(tags, "http.request.method", method, sizeof(method)) ||
	    !tag_value(tags, "http.route", pattern, sizeof(pattern)))
		return;
	bool failed = tag_value(tags, "http.response.status_code", status, sizeof(status)) && status[0] == '5';
	routes_add(r, method, pattern, requests, failed ? requests : 0);
}

/* ---- matching ---- */

static bool all_of(const char *at, size_t len, int (*is)(int))
{
	for (size_t i = 0; i < len; i++)
		if (!is((unsigned char)at[i]))
			return false;
	return len > 0;
}

static bool is_integer(const char *at, size_t len)
{
	size_t sign = len > 1 && (*at == '-' || *at == '+');
	return all_of(at + sign, len - sign, isdigit);
}

static bool is_guid(const char *at, size_t len)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	if (len != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < len; i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char)at[i]) : at[i] != form[i])
			return false;
	return true;
}

/* One constraint of a parameter, such as "int" or "min(1)". Those that are not known here hold: the templates that remain are
 * told apart by the rest. */
static bool constraint_holds(const char *c, size_t c_len, const char *at, size_t len)
{
	static const char *const integers[] = { "int", "long", "min", "max", "range" };
	size_t word = strcspn(c, "(:}?=");
	word = MIN(word, c_len);
	for (size_t i = 0; i < ARRAY_SIZE(integers); i++)
		if (strlen(integers[i]) == word && !strncmp(c, integers[i], word))
			return is_integer(at, len);
	if (word == 4 && !strncmp(c, "guid", 4))
		return is_guid(at, len) || (len == 32 && all_of(at, len, isxdigit));
	if (word == 5 && !strncmp(c, "alpha", 5))
		return all_of(at, len, isalpha);
	if (word == 4 && !strncmp(c, "bool", 4))
		return (len == 4 && !strncasecmp(at, "true", 4)) || (len == 5 && !strncasecmp(at, "false", 5));
	return true;
}

/* Of "{id:int:min(1)}" or "v{version}.json". */
static bool constrained_matches(const struct segment *s, const char *at, size_t len)
{
	const char *open = memchr(s->at, '{', s->len), *close = memrchr(s->at, '}', s->len);
	if (!open || !close)
		return false;
	size_t before = (size_t)(open - s->at), after = (size_t)(s->at + s->len - close - 1);
	if (before || after)
		return len > before + after && !strncasecmp(at, s->at, before) &&
		       !strncasecmp(at + len - after, close + 1, after);
	for (const char *c = memchr(open, ':', (size_t)(close - open)); c; c = memchr(c, ':', (size_t)(close - c))) {
		c++;
		if (!constraint_holds(c, (size_t)(close - c), at, len))
			return false;
	}
	return true;
}

static bool segment_matches(const struct segment *s, const char *at, size_t len)
{
	if (s->kind == SEGMENT_LITERAL)
		return s->len == len && !strncasecmp(s->at, at, len);
	return s->kind != SEGMENT_CONSTRAINED || constrained_matches(s, at, len);
}

static bool route_matches(const struct route_entry *route, const char *path)
{
	const char *at;
	size_t len, i = 0;
	while (next_segment(&path, &at, &len)) {
		if (i == route->n)
			return false;
		if (route->segments[i].kind == SEGMENT_CATCH_ALL)
			return true;
		if (!segment_matches(&route->segments[i++], at, len))
			return false;
	}
	while (i < route->n && (route->segments[i].optional || route->segments[i].kind == SEGMENT_CATCH_ALL))
		i++;
	return i == route->n;
}

/* Below 0: a comes first. */
static int compare_routes(const struct route_entry *a, const struct route_entry *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		int order = CMP(a->segments[i].kind, b->segments[i].kind);
		if (order)
			return order;
	}
	return CMP(a->n, b->n);
}

size_t routes_match(const struct routes *r, const char *method, const char *path)
{
	size_t best = ROUTE_NONE;
	for (size_t i = 0; i < r->list.n; i++) {
		const struct route_entry *route = &r->list.v[i];
		if (!str_eq_nocase(route->method, method) || !route_matches(route, path))
			continue;
		if (best == ROUTE_NONE || compare_routes(route, &r->list.v[best]) < 0)
			best = i;
	}
	return best;
}

/* ---- without templates ---- */

static bool looks_like_id(const char *at, size_t len)
{
	bool digits = false;
	for (size_t i = 0; i < len; i++)
		digits |= isdigit((unsigned char)at[i]) != 0;
	return digits && (is_integer(at, len) || is_guid(at, len) || len > LONG_WITH_DIGITS ||
			  (len >= HEX_LEAST && all_of(at, len, isxdigit)));
}

void route_fold(const char *path, struct buf *out)
{
	const char *at;
	size_t len, n = 0, begin = out->len;
	while (n++ < SEGMENTS_MAX && next_segment(&path, &at, &len)) {
		buf_char(out, '/');
		if (looks_like_id(at, len))
			buf_str(out, "{id}");
		else
			buf_add(out, at, len);
	}
	if (out->len == begin)
		buf_char(out, '/');
}

/* Where segment number `at` begins, and how long it is; false when the path is shorter. */
static bool find_segment(const char *path, size_t at, size_t *ret_from, size_t *ret_len)
{
	const char *p = path, *segment;
	size_t len;
	for (size_t i = 0; next_segment(&p, &segment, &len); i++) {
		if (i == at) {
			*ret_from = (size_t)(segment - path);
			*ret_len = len;
			return true;
		}
	}
	return false;
}

static bool merge_level(char **paths, size_t n, size_t level)
{
	struct strtab beginnings = { 0 }, values = { 0 };
	VEC(uint32_t) different = { 0 };
	bool deeper = false;
	size_t from, len;
	for (size_t i = 0; i < n; i++) {
		if (!find_segment(paths[i], level, &from, &len))
			continue;
		deeper = true;
		uint32_t beginning = strtab_add(&beginnings, paths[i], from);
		if (beginning == different.n)
			vec_push(&different, 0);
		size_t known = values.n;
		strtab_add(&values, paths[i], from + len);
		different.v[beginning] += values.n > known;
	}
	for (size_t i = 0; i < n; i++) {
		if (!find_segment(paths[i], level, &from, &len) ||
		    different.v[strtab_find(&beginnings, paths[i], from)] <= ROUTE_SIBLINGS)
			continue;
		char *merged = mem_printf("%.*s{id}%s", (int)from, paths[i], paths[i] + from + len);
		mem_free(paths[i]);
		paths[i] = merged;
	}
	strtab_free(&beginnings);
	strtab_free(&values);
	vec_free(&different);
	return deeper;
}

void routes_merge(char **paths, size_t n)
{
	for (size_t level = 0; level < SEGMENTS_MAX && merge_level(paths, n, level); level++)
		;
}
