#include "config/settings.h"
#include "base/str.h"
#include <stdlib.h>

const char *const setting_auth_words[] = { "token", "none", NULL };
const char *const setting_stop_words[] = { "cancel", "finish", NULL };
const char *const setting_log_words[] = { "text", "json", NULL };

const struct setting settings[SETTING_COUNT] = {
#define SETTING(id, ...) [SETTING_##id] = { __VA_ARGS__ },
	SETTINGS(SETTING)
#undef SETTING
};

const struct setting *setting_of_option(const char *option)
{
#define SETTING_OPTION_ID(id, ...) SETTING_##id,
	static const enum setting_id of_server[] = { SERVE_SETTINGS(SETTING_OPTION_ID) };
#undef SETTING_OPTION_ID
	for (size_t i = 0; i < ARRAY_SIZE(of_server); i++)
		if (str_eq(settings[of_server[i]].option, option))
			return &settings[of_server[i]];
	return NULL;
}

static void add_choices(const struct setting *s, struct buf *out)
{
	for (const char *const *c = s->choices; *c; c++)
		buf_printf(out, "%s%s", c == s->choices ? "" : c[1] ? ", " : " or ", *c);
}

void setting_add_kind(const struct setting *s, struct buf *out)
{
	static const char *const words[] = {
		[SETTING_TEXT] = "a text",
		[SETTING_PATH] = "an absolute path",
		[SETTING_SWITCH] = "true or false",
		[SETTING_AGE] = "a time such as 30d or 12h",
		[SETTING_BYTES] = "a size such as 500M or 2G",
		[SETTING_NAMES] = "names, with commas",
	};
	if (s->kind == SETTING_CHOICE)
		add_choices(s, out);
	else if (s->kind != SETTING_NUMBER)
		buf_str(out, words[s->kind]);
	else if (s->max == UINT64_MAX)
		buf_str(out, "a number");
	else
		buf_printf(out, "a number from %llu to %llu", (unsigned long long)s->min, (unsigned long long)s->max);
}

static bool is_choice(const struct setting *s, const char *value)
{
	for (const char *const *c = s->choices; *c; c++)
		if (str_eq(*c, value))
			return true;
	return false;
}

static bool fits(const struct setting *s, const char *value)
{
	bool on;
	uint64_t n;
	switch (s->kind) {
	case SETTING_PATH:
		return value[0] == '/';
	case SETTING_SWITCH:
		return str_to_bool(value, &on);
	case SETTING_CHOICE:
		return is_choice(s, value);
	case SETTING_NUMBER:
		return str_to_u64(value, &n) && n >= s->min && n <= s->max;
	case SETTING_AGE:
		return str_to_age_ns(value, &n);
	case SETTING_BYTES:
		return str_to_bytes(value, &n);
	case SETTING_TEXT:
	case SETTING_NAMES:
		break;
	}
	return true;
}

struct err *setting_check(const struct setting *s, const char *name, const char *value)
{
	if (fits(s, value))
		return NULL;
	CLEANUP(buf_free) struct buf takes = { 0 };
	setting_add_kind(s, &takes);
	return err_new(ERR_USAGE, "%s takes %s, not '%s'", name, buf_cstr(&takes), s->secret ? "what it has" : value);
}

struct err *setting_get(enum setting_id id, const char **ret)
{
	const struct setting *s = &settings[id];
	const char *value = getenv(s->variable);
	*ret = str_empty(value) ? s->otherwise : value;
	return str_empty(value) ? NULL : setting_check(s, s->variable, value);
}

struct err *setting_get_bool(enum setting_id id, bool *ret)
{
	const char *value;
	TRY(setting_get(id, &value));
	str_to_bool(value, ret);
	return NULL;
}

struct err *setting_get_u64(enum setting_id id, uint64_t *ret)
{
	const char *value;
	TRY(setting_get(id, &value));
	switch (settings[id].kind) {
	case SETTING_AGE:
		str_to_age_ns(value, ret);
		break;
	case SETTING_BYTES:
		str_to_bytes(value, ret);
		break;
	default:
		str_to_u64(value, ret);
	}
	return NULL;
}
