#include "cli/prompt.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/str.h"
#include "cli/launched.h"
#include "store/store.h"
#include <histedit.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HISTORY_LINES 500

/* ---- one question ---- */

static void print(const char *question, const struct answer *a, bool json)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	if (json) {
		struct jsonw w = jsonw_make(&out, true);
		jsonw_object(&w, NULL);
		jsonw_str(&w, "question", question);
		answer_write_json(a, &w);
		jsonw_object_end(&w);
		buf_char(&out, '\n');
	} else {
		answer_write_text(a, &out);
	}
	fwrite(buf_cstr(&out), 1, out.len, stdout);
	fflush(stdout);
}

static struct err *ask(const struct prompt *p, const char *question)
{
	CLEANUP(answer_free) struct answer a = { 0 };
	bool typed;
	/* Drops what was typed before. */
	while (signals_take(p->signal_fd, &typed))
		;
	TRY(inspect_run(p->inspect, question, &a));
	if (a.first)
		print(question, &a, p->json);
	return NULL;
}

/* ---- completion ---- */

static unsigned char complete(EditLine *el, int key)
{
	const LineInfo *line = el_line(el);
	size_t n, len = (size_t)(line->cursor - line->buffer), fitting = 0, common = 0;
	const struct inspect_command *all = inspect_commands(&n);
	const char *first = NULL;
	(void)key;
	if (memchr(line->buffer, ' ', len))
		return CC_REFRESH_BEEP;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(all[i].name, line->buffer, len) != 0)
			continue;
		if (!first)
			common = strlen(first = all[i].name);
		while (strncmp(all[i].name, first, common) != 0)
			common--;
		fitting++;
	}
	if (!fitting)
		return CC_REFRESH_BEEP;
	CLEANUP(mem_freep) char *rest = mem_printf("%.*s%s", (int)(common - len), first + len, fitting == 1 ? " " : "");
	if (*rest)
		el_insertstr(el, rest);
	if (fitting == 1 || *rest)
		return CC_REFRESH;
	printf("\n");
	for (size_t i = 0; i < n; i++)
		if (!strncmp(all[i].name, line->buffer, len))
			printf("%s  ", all[i].name);
	printf("\n");
	return CC_REDISPLAY;
}

/* ---- the prompt ---- */

static char *prompt_text(EditLine *el)
{
	static char text[] = "drdotnet> ";
	(void)el;
	return text;
}

/* In the home, if there is one; readable by its owner only. */
static char *history_path(void)
{
	char *home = NULL;
	struct err *err = home_path(&home);
	char *path = err || access(home, W_OK) ? NULL : mem_printf("%s/inspect-history", home);
	err_free(err);
	mem_free(home);
	return path;
}

static bool is_end(const char *line)
{
	return str_eq(line, "quit") || str_eq(line, "exit") || str_eq(line, "q");
}

static void show_failure(struct err *err)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	str_add_visible(&text, err_text(err), strlen(err_text(err)), 0);
	printf("%s\n", buf_cstr(&text));
	fflush(stdout);
	err_free(err);
}

static void converse(const struct prompt *p, EditLine *el, History *past)
{
	int len;
	HistEvent event;
	for (const char *typed; (typed = el_gets(el, &len)) && len > 0;) {
		CLEANUP(mem_freep) char *line = mem_strndup(typed, strcspn(typed, "\r\n"));
		if (is_end(line))
			return;
		if (*line)
			history(past, &event, H_ENTER, typed);
		struct err *err = ask(p, line);
		if (err)
			show_failure(err);
	}
	printf("\n");
}

static struct err *at_terminal(const struct prompt *p)
{
	HistEvent event;
	CLEANUP(mem_freep) char *path = history_path();
	History *history_list = history_init();
	EditLine *el = el_init("drdotnet", stdin, stdout, stderr);
	if (!el || !history_list) {
		if (history_list)
			history_end(history_list);
		return err_new(ERR_IO, "the terminal cannot be used for a prompt");
	}
	history(history_list, &event, H_SETSIZE, HISTORY_LINES);
	history(history_list, &event, H_SETUNIQUE, 1);
	if (path)
		history(history_list, &event, H_LOAD, path);
	el_set(el, EL_PROMPT, prompt_text);
	el_set(el, EL_EDITOR, "emacs");
	el_set(el, EL_HIST, history, history_list);
	el_set(el, EL_ADDFN, "drdotnet-complete", "complete a command", complete);
	el_set(el, EL_BIND, "^I", "drdotnet-complete", NULL);
	printf("'help' lists the commands; Ctrl-D or 'quit' leaves\n");
	converse(p, el, history_list);
	if (path) {
		mode_t before = umask(077);
		history(history_list, &event, H_SAVE, path);
		umask(before);
	}
	el_end(el);
	history_end(history_list);
	return NULL;
}

static struct err *from_pipe(const struct prompt *p)
{
	char line[INSPECT_MAX_LINE + 2];
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (is_end(line))
			break;
		TRY(ask(p, line));
	}
	return NULL;
}

struct err *prompt_run(const struct prompt *p)
{
	for (size_t i = 0; i < p->n; i++)
		TRY(ask(p, p->questions[i]));
	if (p->n)
		return NULL;
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? at_terminal(p) : from_pipe(p);
}
