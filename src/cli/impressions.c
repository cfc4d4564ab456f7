#include "cli/impressions.h"
#include "base/clock.h"
#include "base/str.h"
#include "diagnose/rule.h"
#include "ipc/patient.h"
#include "vitals/kernel_signs.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW_S 2
#define NAME_COLUMNS 24

struct impression {
	const struct patient *patient;
	struct kernel_signs *kernel;
	struct vitals vitals;
	struct judgement strongest;
};

static void judge(struct impression *i)
{
	kernel_signs_end(i->kernel, &i->vitals);
	for (size_t k = 0; k < rules_count(); k++) {
		struct judgement j = rule_judge(rule_at(k), &i->vitals);
		if (j.state == RULE_SUSPECTED && j.score > i->strongest.score)
			i->strongest = j;
	}
}

static int worst_first(const void *a, const void *b)
{
	const struct impression *x = a, *y = b;
	return x->strongest.score != y->strongest.score ? CMP(y->strongest.score, x->strongest.score)
							: CMP(x->patient->target.id, y->patient->target.id);
}

static void print(const struct impression *i, FILE *out)
{
	CLEANUP(buf_free) struct buf line = { 0 };
	const char *name = patient_name(i->patient);
	buf_printf(&line, "%7d  ", i->patient->target.id);
	size_t start = line.len;
	str_add_visible(&line, name, strlen(name), NAME_COLUMNS);
	for (size_t n = utf8_width(buf_cstr(&line) + start); n < NAME_COLUMNS + 2; n++)
		buf_char(&line, ' ');
	if (i->strongest.rule)
		i->strongest.rule->say(&i->vitals, i->strongest.measured, &line);
	else
		buf_str(&line, "nothing unusual in what the kernel shows");
	fprintf(out, "%s\n", buf_cstr(&line));
}

static void show(const struct patient_list *list, FILE *out, struct impression_ids *ret)
{
	struct impression *all = mem_zalloc(list->n * sizeof(*all));
	for (size_t i = 0; i < list->n; i++) {
		all[i].patient = &list->v[i];
		all[i].kernel = kernel_signs_new("/proc", &list->v[i].target);
		kernel_signs_read(all[i].kernel, &all[i].vitals);
	}
	nanosleep(&(struct timespec){ .tv_sec = WINDOW_S }, NULL);
	for (size_t i = 0; i < list->n; i++)
		judge(&all[i]);
	qsort(all, list->n, sizeof(*all), worst_first);
	for (size_t i = 0; i < list->n; i++) {
		print(&all[i], out);
		vec_push(ret, all[i].patient->target.id);
		kernel_signs_free(all[i].kernel);
		vitals_fini(&all[i].vitals);
	}
	mem_free(all);
}

struct err *impressions(FILE *out, struct impression_ids *ret)
{
	CLEANUP(patient_list_free) struct patient_list list = { 0 };
	TRY(patient_find_all(FIND_TIMEOUT_MS, &list));
	if (!list.n)
		return err_new(ERR_NOT_FOUND, "no .NET process can be seen from here");
	if (list.n > 1)
		show(&list, out, ret);
	else
		vec_push(ret, list.v[0].target.id);
	return NULL;
}
