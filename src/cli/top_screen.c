#include "cli/top_screen.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/output.h"
#include "cli/screen.h"
#include <ncurses.h>
#include <stdio.h>
#include <string.h>

#define HEAD_LINES 2
#define SHARE_COLUMNS 9
#define KIND_COLUMNS 11
#define BAR_COLUMNS 12
#define BAR_FROM 90 /* columns from which there is room for a bar */
#define FILTER_BYTES 60
#define ESC 27

struct top_screen {
	struct top_view *view;
	void *terminal;
	size_t top; /* first row shown */
	bool typing, help, paused, ascii;
	char filter[FILTER_BYTES];
};

struct top_screen *top_screen_open(struct top_view *view)
{
	void *terminal = screen_open();
	if (!terminal)
		return NULL;
	struct top_screen *s = mem_zalloc(sizeof(*s));
	*s = (struct top_screen){ .view = view, .terminal = terminal, .ascii = !output_is_utf8() };
	view->filter = s->filter;
	return s;
}

void top_screen_close(struct top_screen *s)
{
	if (!s)
		return;
	s->view->filter = "";
	screen_close(s->terminal);
	mem_free(s);
}

bool top_screen_paused(const struct top_screen *s)
{
	return s->paused;
}

/* ---- drawing ---- */

static void draw_head(const struct top_screen *s)
{
	const struct top_view *v = s->view;
	CLEANUP(buf_free) struct buf line = { 0 };
	buf_printf(&line, "%s  %s of %s busy, last %s", v->title, fmt_number(v->cores).s,
		   fmt_plural(v->cpus, "core", "cores").s,
		   fmt_duration_ns((v->seen_ns + 50 * NS_PER_MS) / (100 * NS_PER_MS) * (100 * NS_PER_MS)).s);
	if (v->lost)
		buf_printf(&line, "  lost %s", fmt_plural(v->lost, "sample", "samples").s);
	attron(A_BOLD);
	screen_put(0, 0, COLS, false, buf_cstr(&line));
	attroff(A_BOLD);
	if (s->paused) {
		attron(A_REVERSE);
		screen_put(0, COLS - 8, 8, true, " paused ");
		attroff(A_REVERSE);
	}
	attron(A_UNDERLINE | A_DIM);
	mvhline(1, 0, ' ', COLS);
	screen_put(1, 0, SHARE_COLUMNS - 2, true, v->what == TOP_METHODS ? "self" : "cpu");
	screen_put(1, SHARE_COLUMNS, SHARE_COLUMNS - 2, true, v->what == TOP_METHODS ? "callees" : "id");
	screen_put(1, 2 * SHARE_COLUMNS, COLS - 2 * SHARE_COLUMNS, false, v->what == TOP_METHODS ? "method" : "thread");
	attroff(A_UNDERLINE | A_DIM);
}

static void draw_bar(const struct top_screen *s, double share, int y, int x)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
	CLEANUP(buf_free) struct buf bar = { 0 };
	int n = (int)(MIN(share, 1.0) * BAR_COLUMNS * 8 + 0.5);
	if (s->ascii) {
		buf_repeat(&bar, "#", (size_t)(n / 8));
	} else {
		buf_repeat(&bar, eighths[8], (size_t)(n / 8));
		buf_str(&bar, eighths[n % 8]);
	}
	attron(COLOR_PAIR(1));
	mvaddstr(y, x, buf_cstr(&bar));
	attroff(COLOR_PAIR(1));
}

static void draw_row(const struct top_screen *s, const struct top_row *row, int y)
{
	bool methods = s->view->what == TOP_METHODS, wide = COLS >= BAR_FROM;
	char id[16];
	int rest = COLS - 2 * SHARE_COLUMNS, right = wide ? KIND_COLUMNS + BAR_COLUMNS + 1 : 0;
	screen_put(y, 0, SHARE_COLUMNS - 2, true, fmt_percent(row->self).s);
	snprintf(id, sizeof(id), "%u", row->tid);
	screen_put(y, SHARE_COLUMNS, SHARE_COLUMNS - 2, true, methods ? fmt_percent(row->total).s : id);
	screen_put(y, 2 * SHARE_COLUMNS, rest - right - 1, false, row->name);
	if (!wide)
		return;
	screen_put(y, COLS - right, KIND_COLUMNS - 1, false, row->kind);
	bool by_total = methods && s->view->sort == TOP_BY_TOTAL;
	draw_bar(s, by_total ? row->total : row->self, y, COLS - BAR_COLUMNS - 1);
}

static void draw_foot(const struct top_screen *s, size_t shown)
{
	const struct top_view *v = s->view;
	CLEANUP(buf_free) struct buf line = { 0 };
	if (s->typing)
		buf_printf(&line, "/%s_   Enter keeps it, Esc forgets it", s->filter);
	else
		buf_printf(&line, "q quit  Tab %s  s sort%s  / filter%s%s  p %s  Enter report  ? help",
			   v->what == TOP_METHODS ? "threads" : "methods",
			   v->what == TOP_THREADS   ? ""
			   : v->sort == TOP_BY_SELF ? " (self)"
						    : " (callees)",
			   s->filter[0] ? ": " : "", s->filter, s->paused ? "go on" : "pause");
	attron(A_REVERSE);
	mvhline(LINES - 1, 0, ' ', COLS);
	screen_put(LINES - 1, 0, COLS - 12, false, buf_cstr(&line));
	if (shown < v->rows.n) {
		CLEANUP(mem_freep) char *where = mem_printf("%zu-%zu/%zu", s->top + 1, s->top + shown, v->rows.n);
		screen_put(LINES - 1, COLS - 12, 12, true, where);
	}
	attroff(A_REVERSE);
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"q, Ctrl-C        quit; the process is left as it was",
		"Tab, t           methods or threads",
		"s                sort methods by their own time or with what they call",
		"/                show only what contains a word",
		"p, space         pause the picture; sampling goes on",
		"arrows, page, home, end   scroll",
		"Enter, d         end this and make a full session with a report",
		"?                this page; any key goes back",
		"",
		"Shares are of one core: 200 % are two cores. A thread that waits has none.",
	};
	for (int i = 0; i < (int)ARRAY_SIZE(lines); i++)
		screen_put(HEAD_LINES + 1 + i, 2, COLS - 4, false, lines[i]);
}

void top_screen_draw(struct top_screen *s)
{
	const struct top_view *v = s->view;
	erase();
	draw_head(s);
	int room = MAX(LINES - HEAD_LINES - 1, 0);
	size_t most = v->rows.n > (size_t)room ? v->rows.n - (size_t)room : 0;
	s->top = MIN(s->top, most);
	size_t shown = MIN(v->rows.n - s->top, (size_t)room);
	if (s->help)
		draw_help();
	for (size_t i = 0; i < shown && !s->help; i++)
		draw_row(s, &v->rows.v[s->top + i], HEAD_LINES + (int)i);
	if (!v->rows.n && !s->help)
		screen_put(HEAD_LINES + 1, 2, COLS - 2, false,
			   !v->samples	  ? "sampling; the first values come in a moment"
			   : s->filter[0] ? "nothing matches the filter"
					  : "idle: it uses no CPU");
	draw_foot(s, shown);
	refresh();
}

/* ---- keys ---- */

/* True when the rows change. */
static bool change(struct top_screen *s, int key)
{
	struct top_view *v = s->view;
	switch (key) {
	case '\t':
	case 't':
		v->what = v->what == TOP_METHODS ? TOP_THREADS : TOP_METHODS;
		s->top = 0;
		return true;
	case 's':
		v->sort = v->sort == TOP_BY_SELF ? TOP_BY_TOTAL : TOP_BY_SELF;
		return true;
	case ESC:
		s->filter[0] = '\0';
		return true;
	default:
		return false;
	}
}

static void act(struct top_screen *s, int key)
{
	switch (key) {
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	case '/':
		s->typing = true;
		break;
	case '?':
	case 'h':
		s->help = true;
		break;
	default:
		screen_scroll(&s->top, key, LINES - HEAD_LINES - 2);
		break;
	}
}

enum top_wish top_screen_keys(struct top_screen *s)
{
	bool any = false, changed = false;
	for (int key; (key = getch()) != ERR; any = true) {
		if (s->typing) {
			s->typing = screen_type(s->filter, sizeof(s->filter), key);
			s->top = 0;
			changed = true;
		} else if (s->help && key != KEY_RESIZE && key != 'q') {
			s->help = false;
		} else if (key == 'q' || key == 'Q' || key == 3) {
			return TOP_QUIT;
		} else if (key == '\n' || key == '\r' || key == KEY_ENTER || key == 'd') {
			return TOP_SESSION;
		} else if (change(s, key)) {
			changed = true;
		} else {
			act(s, key);
		}
	}
	if (changed)
		top_view_rows(s->view);
	if (any)
		top_screen_draw(s);
	return TOP_GO_ON;
}
