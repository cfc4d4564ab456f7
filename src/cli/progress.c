#include "cli/progress.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/output.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 24
#define LEFT_FROM_RATIO 0.05 /* earlier, a guess at the rest is worth nothing */

void progress_init(struct progress *p, const char *title, bool quiet)
{
	struct buf visible = { 0 };
	str_add_visible(&visible, title, strlen(title), 60);
	const char *term = getenv("TERM");
	*p = (struct progress){ .title = buf_steal(&visible),
				.ratio = -1,
				.state = STORE_QUEUED,
				.start_ns = clock_mono_ns(),
				.terminal = isatty(STDERR_FILENO) && !str_eq(term, "dumb"),
				.quiet = quiet };
}

static void erase(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = false;
}

void progress_fini(struct progress *p)
{
	erase(p);
	fflush(stderr);
	mem_free(p->title);
	mem_free(p->what);
	mem_free(p->said);
	*p = (struct progress){ 0 };
}

static const char *doing(const struct progress *p)
{
	if (p->state == STORE_RUNNING)
		return p->what ? p->what : "starting";
	return store_state_name(p->state);
}

static void draw_bar(const struct progress *p, struct buf *line)
{
	bool utf8 = output_is_utf8();
	double ratio = p->state == STORE_RUNNING ? p->ratio : p->state == STORE_ANALYSING ? 1 : 0;
	size_t full = ratio > 0 ? (size_t)(MIN(ratio, 1.0) * BAR_CELLS) : 0;
	buf_str(line, utf8 ? " " : " [");
	buf_repeat(line, utf8 ? "━" : "#", full);
	buf_repeat(line, utf8 ? "·" : "-", BAR_CELLS - full);
	buf_str(line, utf8 ? " " : "] ");
}

/* Always one decimal, so that the line does not jump. */
static void add_elapsed(uint64_t ns, struct buf *line)
{
	if (ns < 60 * NS_PER_S)
		buf_printf(line, "%.1f s", (double)ns / NS_PER_S);
	else
		buf_str(line, fmt_duration_ns(ns / NS_PER_S * NS_PER_S).s);
}

void progress_draw(struct progress *p)
{
	if (p->quiet || !p->terminal || store_state_finished(p->state))
		return;
	struct buf line = { 0 }, cut = { 0 };
	uint64_t elapsed_ns = clock_mono_ns() - p->start_ns;
	buf_str(&line, p->title);
	draw_bar(p, &line);
	add_elapsed(elapsed_ns, &line);
	if (p->state == STORE_RUNNING && p->ratio >= LEFT_FROM_RATIO && p->ratio < 1) {
		double left_ns = (double)elapsed_ns * (1 - p->ratio) / p->ratio;
		buf_printf(&line, ", %s left", fmt_duration_ns((uint64_t)(left_ns / NS_PER_S + 0.5) * NS_PER_S).s);
	}
	buf_printf(&line, "  %s", doing(p));
	str_add_visible(&cut, buf_cstr(&line), line.len, output_columns(STDERR_FILENO) - 2);
	if (!p->drawn || !str_eq(p->said, buf_cstr(&cut))) {
		fprintf(stderr, "\r\033[K%s", buf_cstr(&cut));
		fflush(stderr);
	}
	store_set(&p->said, buf_cstr(&cut));
	p->drawn = true;
	buf_free(&line);
	buf_free(&cut);
}

/* Off a terminal: a line when something new begins, never one per tick. */
static void speak(struct progress *p)
{
	if (p->terminal || p->quiet || store_state_finished(p->state) || str_eq(p->said, doing(p)))
		return;
	store_set(&p->said, doing(p));
	struct buf line = { 0 };
	str_add_visible(&line, p->said, strlen(p->said), 200);
	fprintf(stderr, "%s: %s\n", p->title, buf_cstr(&line));
	buf_free(&line);
}

void progress_state(struct progress *p, enum store_state state)
{
	p->state = state;
	if (state != STORE_RUNNING)
		speak(p);
	progress_draw(p);
}

void progress_update(struct progress *p, double ratio, const char *what)
{
	p->ratio = ratio;
	store_set(&p->what, what);
	speak(p);
	progress_draw(p);
}

void progress_say(struct progress *p, const char *fmt, ...)
{
	va_list ap;
	erase(p);
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	struct buf line = { 0 };
	str_add_visible(&line, text, strlen(text), 0);
	fprintf(stderr, "%s\n", buf_cstr(&line));
	buf_free(&line);
	progress_draw(p);
}
