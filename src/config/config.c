#include "config/config.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#define DEPTH_MAX 4

struct config {
	char *file;
	struct config_entry {
		char *value;
		size_t line;
	} entries[SETTING_COUNT];
};

void config_free(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < SETTING_COUNT; i++)
		mem_free(c->entries[i].value);
	mem_free(c->file);
	mem_free(c);
}

/* ---- the file's text: a mapping of keys to values; a mapping as a value makes keys with a dot ---- */

struct config_reader {
	yaml_parser_t yaml;
	const char *name;
	struct config *config;
};

static struct err *wrong_at(const struct config_reader *r, size_t line, const char *fmt, ...) PRINTF(3, 4);
static struct err *wrong_at(const struct config_reader *r, size_t line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *what = mem_vprintf(fmt, ap);
	va_end(ap);
	return err_new(ERR_USAGE, "%s, line %zu: %s", r->name, line, what);
}

static size_t line_of(const yaml_event_t *e)
{
	return e->start_mark.line + 1;
}

/* The caller deletes the event, also after an error. */
static struct err *next(struct config_reader *r, yaml_event_t *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (yaml_parser_parse(&r->yaml, ret))
		return NULL;
	return wrong_at(r, r->yaml.problem_mark.line + 1, "this is not YAML: %s",
			r->yaml.problem ? r->yaml.problem : "it cannot be read");
}

static const char *text_of(const yaml_event_t *e)
{
	return (const char *)e->data.scalar.value;
}

static struct err *find_setting(const struct config_reader *r, const char *key, size_t line, enum setting_id *ret)
{
	struct guess guess = { .word = key, .least = SIZE_MAX };
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		*ret = (enum setting_id)i;
		if (str_eq(settings[i].key, key))
			return NULL;
		guess_name(&guess, settings[i].key);
	}
	if (guess.best)
		return wrong_at(r, line, "there is no setting '%s'; did you mean '%s'?", key, guess.best);
	return wrong_at(r, line, "there is no setting '%s'; 'drdotnet config show' lists all", key);
}

static bool is_section(const char *key)
{
	size_t len = strlen(key);
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (str_starts(settings[i].key, key) && settings[i].key[len] == '.')
			return true;
	return false;
}

/* [a, b] as "a,b". */
static struct err *read_list(struct config_reader *r, struct buf *out)
{
	for (;;) {
		CLEANUP(yaml_event_delete) yaml_event_t e;
		TRY(next(r, &e));
		if (e.type == YAML_SEQUENCE_END_EVENT)
			return NULL;
		if (e.type != YAML_SCALAR_EVENT)
			return wrong_at(r, line_of(&e), "a list holds plain words only");
		buf_printf(out, "%s%s", out->len ? "," : "", text_of(&e));
	}
}

static struct err *take_value(struct config_reader *r, const char *key, const yaml_event_t *e)
{
	enum setting_id id;
	CLEANUP(buf_free) struct buf value = { 0 };
	TRY(find_setting(r, key, line_of(e), &id));
	if (e->type == YAML_SEQUENCE_START_EVENT && settings[id].kind == SETTING_NAMES)
		TRY(read_list(r, &value));
	else if (e->type == YAML_SCALAR_EVENT)
		buf_str(&value, text_of(e));
	else
		return wrong_at(r, line_of(e), "'%s' takes one value", key);
	struct config_entry *entry = &r->config->entries[id];
	if (entry->value)
		return wrong_at(r, line_of(e), "'%s' stands in line %zu already", key, entry->line);
	if (!value.len)
		return wrong_at(r, line_of(e), "'%s' has no value", key);
	struct err *err = setting_check(&settings[id], key, buf_cstr(&value));
	if (err)
		return err_wrap(err, "%s, line %zu", r->name, line_of(e));
	*entry = (struct config_entry){ mem_strdup(buf_cstr(&value)), line_of(e) };
	return NULL;
}

static struct err *read_mapping(struct config_reader *r, const char *section, unsigned depth)
{
	for (;;) {
		CLEANUP(yaml_event_delete) yaml_event_t name, value;
		memset(&value, 0, sizeof(value));
		TRY(next(r, &name));
		if (name.type == YAML_MAPPING_END_EVENT)
			return NULL;
		if (name.type != YAML_SCALAR_EVENT)
			return wrong_at(r, line_of(&name), "a key must be a plain word");
		CLEANUP(mem_freep) char *key = mem_printf("%s%s%s", section, *section ? "." : "", text_of(&name));
		TRY(next(r, &value));
		if (value.type == YAML_MAPPING_START_EVENT && depth < DEPTH_MAX && is_section(key))
			TRY(read_mapping(r, key, depth + 1));
		else
			TRY(take_value(r, key, &value));
	}
}

/* Stream, document, mapping; or nothing at all. */
static struct err *read_document(struct config_reader *r)
{
	for (;;) {
		CLEANUP(yaml_event_delete) yaml_event_t e;
		TRY(next(r, &e));
		if (e.type == YAML_STREAM_END_EVENT)
			return NULL;
		if (e.type == YAML_MAPPING_START_EVENT)
			TRY(read_mapping(r, "", 0));
		else if (e.type == YAML_SCALAR_EVENT && !*text_of(&e))
			continue;
		else if (e.type == YAML_SCALAR_EVENT || e.type == YAML_SEQUENCE_START_EVENT ||
			 e.type == YAML_ALIAS_EVENT)
			return wrong_at(r, line_of(&e), "here must be settings, such as 'listen: 127.0.0.1:9292'");
	}
}

struct err *config_parse(const char *text, size_t len, const char *name, struct config **ret)
{
	CLEANUP(config_freep) struct config *c = mem_zalloc(sizeof(*c));
	struct config_reader r = { .name = name, .config = c };
	c->file = mem_strdup(name);
	if (!yaml_parser_initialize(&r.yaml))
		return err_new(ERR_IO, "there is no memory to read %s", name);
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, len);
	struct err *err = read_document(&r);
	yaml_parser_delete(&r.yaml);
	if (err)
		return err;
	*ret = STEAL(c);
	return NULL;
}

/* ---- the file ---- */

static struct err *check_owner(const struct stat *st, const char *path)
{
	if (!S_ISREG(st->st_mode))
		return err_new(ERR_USAGE, "%s is not a file", path);
	if ((st->st_uid != 0 && st->st_uid != geteuid()) || (st->st_mode & (S_IWGRP | S_IWOTH)))
		return err_new(ERR_DENIED,
			       "%s is not used: others than root and this user could have written it; 'chown root' and "
			       "'chmod go-w' mend that",
			       path);
	return NULL;
}

static struct err *check_secrets(const struct config *c, const struct stat *st)
{
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (c->entries[i].value && settings[i].secret && (st->st_mode & (S_IRGRP | S_IROTH)))
			return err_new(ERR_DENIED, "%s holds '%s' and others can read it: 'chmod 600' mends that",
				       c->file, settings[i].key);
	return NULL;
}

struct err *config_read(const char *path, struct config **ret)
{
	const char *named = path ? path : getenv("DRDOTNET_CONFIG");
	CLEANUP(config_freep) struct config *c = mem_zalloc(sizeof(*c));
	CLEANUP(buf_free) struct buf text = { 0 };
	struct stat st;
	path = str_empty(named) ? CONFIG_PATH : named;
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && str_empty(named)) {
		*ret = STEAL(c);
		return NULL;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "cannot read %s", path);
	TRY(check_owner(&st, path));
	TRY(file_read_fd(fd, path, CONFIG_BYTES_MAX, &text));
	config_free(STEAL(c));
	TRY(config_parse(text.data, text.len, path, &c));
	TRY(check_secrets(c, &st));
	*ret = STEAL(c);
	return NULL;
}

/* ---- what it says ---- */

const char *config_file(const struct config *c)
{
	return c->file;
}

void config_apply(const struct config *c)
{
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (c->entries[i].value && str_empty(getenv(settings[i].variable)))
			setenv(settings[i].variable, c->entries[i].value, 1);
}

enum config_origin config_origin(const struct config *c, enum setting_id id, const char **ret_value, size_t *ret_line)
{
	const char *variable = getenv(settings[id].variable);
	const struct config_entry *entry = &c->entries[id];
	*ret_line = 0;
	*ret_value = settings[id].otherwise;
	if (!str_empty(variable)) {
		*ret_value = variable;
		return CONFIG_VARIABLE;
	}
	if (!entry->value)
		return CONFIG_OTHERWISE;
	*ret_value = entry->value;
	*ret_line = entry->line;
	return CONFIG_FILE;
}
