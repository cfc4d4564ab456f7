#include "cli/impressions.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "diagnose/rule.h"
#include "ipc/patient.h"
#include "vitals/kernel_signs.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WINDOW_S 2
#define NAME_COLUMNS 24
#define SIGN_COLUMN 11 /* of what is unusual, below the name */

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

/* The worst first. The caller gives them to impressions_free(). */
static struct impression *take_all(const struct patient_list *list)
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
	return all;
}

static void free_all(struct impression *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kernel_signs_free(all[i].kernel);
		vitals_fini(&all[i].vitals);
	}
	mem_free(all);
}

static void show(const struct patient_list *list, FILE *out, struct impression_ids *ret)
{
	struct impression *all = take_all(list);
	for (size_t i = 0; i < list->n; i++) {
		print(&all[i], out);
		vec_push(ret, all[i].patient->target.id);
	}
	free_all(all, list->n);
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

/* ---- drdotnet alone ---- */

static void print_signs(const struct impression *i, unsigned columns, FILE *out)
{
	CLEANUP(buf_free) struct buf name = { 0 }, impression = { 0 };
	const struct vital *of = i->vitals.of;
	char cpu[16] = "-", threads[16] = "-";
	const char *shown = patient_name(i->patient);
	str_add_visible(&name, shown, strlen(shown), NAME_COLUMNS);
	for (size_t n = utf8_width(buf_cstr(&name)); n < NAME_COLUMNS + 1; n++)
		buf_char(&name, ' ');
	if (of[VITALS_CPU].n)
		snprintf(cpu, sizeof(cpu), "%.1f", 100 * vitals_mean(&i->vitals, VITALS_CPU));
	if (of[VITALS_THREADS].n)
		snprintf(threads, sizeof(threads), "%.0f", of[VITALS_THREADS].last);
	fprintf(out, "%7d  %s %7s %9s %8s\n", i->patient->target.id, buf_cstr(&name), cpu,
		of[VITALS_RSS].n ? fmt_bytes((uint64_t)of[VITALS_RSS].last).s : "-", threads);
	if (i->patient->remark)
		str_add_visible(&impression, i->patient->remark, strlen(i->patient->remark), 200);
	else if (i->strongest.rule)
		i->strongest.rule->say(&i->vitals, i->strongest.measured, &impression);
	if (!impression.len)
		return;
	CLEANUP(buf_free) struct buf lines = { 0 };
	help_wrap(&lines, buf_cstr(&impression), SIGN_COLUMN, SIGN_COLUMN, columns);
	fprintf(out, "%*s%s %s", SIGN_COLUMN - 2, "", output_is_utf8() ? "└" : "`", buf_cstr(&lines));
}

static void print_next(const struct impression *worst, FILE *out)
{
	int id = worst->patient->target.id;
	fprintf(out,
		"\nCPU of one core, over %d s. Below a process stands what is unusual about it.\n"
		"Next:\n"
		"  drdotnet %-12d  what is wrong with it?\n"
		"  drdotnet check %-6d  which ways to look into it are open\n"
		"  drdotnet serve         the same in a browser\n"
		"  drdotnet help          all symptoms and commands\n",
		WINDOW_S, id, id);
}

struct err *impressions_start(FILE *out)
{
	CLEANUP(patient_list_free) struct patient_list list = { 0 };
	TRY(patient_find_all(FIND_TIMEOUT_MS, &list));
	if (!list.n)
		return err_new(ERR_NOT_FOUND, "no .NET process can be seen from here");
	struct impression *all = take_all(&list);
	unsigned columns = output_columns(STDOUT_FILENO);
	fprintf(out, "%7s  %-*s %7s %9s %8s\n", "PID", NAME_COLUMNS + 1, "PROCESS", "CPU %", "RSS", "THREADS");
	for (size_t i = 0; i < list.n; i++)
		print_signs(&all[i], columns, out);
	print_next(&all[0], out);
	free_all(all, list.n);
	return NULL;
}
