#include "base/str.h"
#include "exam/profiler.h"
#include <math.h>
#include <string.h>

#define TEXT_MAX 256

const char *profiler_next(const struct profiler *p, const char *finding)
{
	for (size_t i = 0; i < p->n_advice; i++) {
		if (str_eq(p->advice[i].finding, finding))
			return p->advice[i].next;
	}
	return NULL;
}

void report_advice(struct report *report, const struct profiler *p, const char *finding)
{
	const char *next = profiler_next(p, finding);
	if (!next)
		return;
	rich_text(report_next(report), "%s", next);
	for (const struct advice_run *run = p->runs; run && run->finding; run++)
		if (str_eq(run->finding, finding))
			report_set_next_profiler(report, run->profiler);
}

const struct param *profiler_param(const struct profiler *p, const char *key)
{
	for (size_t i = 0; i < p->n_params; i++) {
		if (str_eq(p->params[i].key, key))
			return &p->params[i];
	}
	return NULL;
}

struct err *profiler_check_way(const struct profiler *p, enum way way)
{
	if (way == WAY_AUTO)
		return NULL;
	CLEANUP(buf_free) struct buf known = { 0 };
	for (const enum way *w = p->ways; *w; w++) {
		if (*w == way)
			return NULL;
		buf_printf(&known, "%s%s", !known.len ? "" : w[1] ? ", " : " or ", way_name(*w));
	}
	return err_new(ERR_USAGE, "%s works by %s, not by '%s'", p->id, buf_cstr(&known), way_name(way));
}

const struct param *profiler_duration(const struct profiler *p)
{
	const struct param *duration = profiler_param(p, "duration");
	duration = duration ? duration : profiler_param(p, "duration_seconds");
	return duration && str_eq(duration->unit, "s") ? duration : NULL;
}

void param_json(struct jsonw *w, const struct param *p)
{
	bool number = p->type == PARAM_INT || p->type == PARAM_FLOAT;
	jsonw_str(w, "key", p->key);
	jsonw_str(w, "name", p->name);
	jsonw_str(w, "description", p->description ? p->description : "");
	jsonw_str(w, "unit", p->unit);
	/* What is no number is not measured: null. */
	jsonw_num(w, "min", number ? p->min : NAN);
	jsonw_num(w, "max", number ? p->max : NAN);
	jsonw_num(w, "maxBytes", p->type == PARAM_STRING && !p->choices ? TEXT_MAX : NAN);
	jsonw_array(w, "choices");
	for (const char *const *c = p->choices; c && *c; c++)
		jsonw_str(w, NULL, *c);
	jsonw_array_end(w);
}

/* ---- values of the parameters ---- */

struct params {
	const struct profiler *profiler;
	char *values[]; /* NULL = the default */
};

struct params *params_new(const struct profiler *profiler)
{
	struct params *p = mem_zalloc(sizeof(*p) + profiler->n_params * sizeof(p->values[0]));
	p->profiler = profiler;
	return p;
}

void params_free(struct params *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->profiler->n_params; i++)
		mem_free(p->values[i]);
	mem_free(p);
}

static struct err *unknown_key(const struct profiler *profiler, const char *key)
{
	if (!profiler->n_params)
		return err_new(ERR_USAGE, "%s has no parameters, so no '%s'", profiler->id, key);
	struct buf known = { 0 };
	for (size_t i = 0; i < profiler->n_params; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", profiler->params[i].key);
	struct err *err =
		err_new(ERR_USAGE, "%s has no parameter '%s'; it has %s", profiler->id, key, buf_cstr(&known));
	buf_free(&known);
	return err;
}

static struct err *check_number(const struct param *param, const char *called, const char *value)
{
	int64_t i = 0;
	double number = 0;
	bool whole = param->type == PARAM_INT;
	bool ok = whole ? str_to_i64(value, &i) : str_to_double(value, &number);
	if (whole)
		number = (double)i;
	if (ok && number >= param->min && number <= param->max)
		return NULL;
	return err_new(ERR_USAGE, "%s takes a %snumber from %.15g to %.15g%s%s, not '%s'", called,
		       whole ? "whole " : "", param->min, param->max, param->unit ? " " : "",
		       param->unit ? param->unit : "", value);
}

static struct err *check_text(const struct param *param, const char *called, const char *value)
{
	struct buf list = { 0 };
	for (const char *const *c = param->choices; c && *c; c++) {
		if (str_eq(*c, value)) {
			buf_free(&list);
			return NULL;
		}
		buf_printf(&list, "%s%s", list.len ? ", " : "", *c);
	}
	struct err *err = NULL;
	if (param->choices)
		err = err_new(ERR_USAGE, "%s takes one of %s, not '%s'", called, buf_cstr(&list), value);
	else if (strlen(value) > TEXT_MAX)
		err = err_new(ERR_USAGE, "%s takes at most %d bytes of text", called, TEXT_MAX);
	buf_free(&list);
	return err;
}

static struct err *check(const struct param *param, const char *called, const char *value)
{
	bool ignored;
	switch (param->type) {
	case PARAM_INT:
	case PARAM_FLOAT:
		return check_number(param, called, value);
	case PARAM_BOOL:
		if (str_to_bool(value, &ignored))
			return NULL;
		return err_new(ERR_USAGE, "%s takes true or false, not '%s'", called, value);
	case PARAM_STRING:
		break;
	}
	return check_text(param, called, value);
}

struct err *params_set(struct params *p, const char *key, const char *value)
{
	return params_set_as(p, key, key, value);
}

struct err *params_set_as(struct params *p, const char *key, const char *called, const char *value)
{
	const struct param *param = profiler_param(p->profiler, key);
	if (!param)
		return unknown_key(p->profiler, key);
	TRY(check(param, called, value));
	char **place = &p->values[param - p->profiler->params];
	mem_free(*place);
	*place = mem_strdup(value);
	return NULL;
}

const char *params_text(const struct params *p, const char *key)
{
	const struct param *param = profiler_param(p->profiler, key);
	if (!param)
		return "";
	const char *value = p->values[param - p->profiler->params];
	return value ? value : param->default_value;
}

struct err *params_complete(const struct params *p)
{
	const char *word = p->profiler->word;
	return word && !*params_text(p, word) ? err_new(ERR_USAGE, "%s needs its parameter '%s'", p->profiler->id, word)
					      : NULL;
}

bool params_is_default(const struct params *p, const char *key)
{
	const struct param *param = profiler_param(p->profiler, key);
	return !param || str_eq(params_text(p, key), param->default_value);
}

int64_t params_int(const struct params *p, const char *key)
{
	int64_t v = 0;
	str_to_i64(params_text(p, key), &v);
	return v;
}

bool params_bool(const struct params *p, const char *key)
{
	bool v = false;
	str_to_bool(params_text(p, key), &v);
	return v;
}
