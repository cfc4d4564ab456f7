#include "cli/counters_screen.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/output.h"
#include "cli/screen.h"
#include <math.h>
#include <ncurses.h>
#include <string.h>

#define NOW_COLUMNS 13
#define MAX_COLUMNS 13
#define TOTAL_COLUMNS 12
#define SPARK_MIN 10
#define SPARK_MAX 120
#define NAME_MAX 64
#define NAME_MIN 24
#define FILTER_BYTES 60
#define HEAD_LINES 2
#define ESC 27

struct counters_screen {
	struct counters_view *view;
	void *terminal;
	size_t top; /* first row shown */
	bool typing, help, ascii;
	char filter[FILTER_BYTES];
};

struct counters_screen *counters_screen_open(struct counters_view *view)
{
	void *terminal = screen_open();
	if (!terminal)
		return NULL;
	struct counters_screen *s = mem_zalloc(sizeof(*s));
	*s = (struct counters_screen){ .view = view, .terminal = terminal, .ascii = !output_is_utf8() };
	view->filter = s->filter;
	return s;
}

void counters_screen_close(struct counters_screen *s)
{
	if (!s)
		return;
	s->view->filter = "";
	screen_close(s->terminal);
	mem_free(s);
}

/* ---- drawing ---- */

struct screen_layout {
	int name, now, max, total, spark; /* widths; 0 = not shown */
};

/* The name and the sparkline share what is left; the least important column goes first. */
static struct screen_layout lay_out(int columns)
{
	struct screen_layout l = { .now = NOW_COLUMNS, .max = MAX_COLUMNS, .total = TOTAL_COLUMNS };
	int left = columns - 1 - l.now - l.max - l.total;
	if (left < NAME_MIN + SPARK_MIN) {
		left += l.total;
		l.total = 0;
	}
	if (left < NAME_MIN + SPARK_MIN) {
		left += l.max;
		l.max = 0;
	}
	l.spark = left >= NAME_MIN + SPARK_MIN ? MIN(MAX(left / 2 - 6, SPARK_MIN), SPARK_MAX) : 0;
	l.name = MAX(left - l.spark, 1);
	if (l.name > NAME_MAX) {
		l.spark = MIN(l.spark + l.name - NAME_MAX, SPARK_MAX);
		l.name = NAME_MAX;
	}
	return l;
}

static void draw_spark(const struct counters_screen *s, const struct counters_row *row, int y, int x, int columns)
{
	double cells[SPARK_MAX];
	int64_t from, to;
	if (columns <= 0 || !series_window(counters_series(s->view->c), &from, &to))
		return;
	if (s->view->until_ns)
		to = MIN(to, s->view->until_ns);
	/* A young window grows from the left, a cell an interval, until the cells must be shared. */
	int64_t interval_ns = (int64_t)counters_interval_ms(s->view->c) * NS_PER_MS;
	int64_t width_ns = MAX(to - from + 1, interval_ns * columns);
	series_cells(row->s, row->column, from, from + width_ns, cells, (size_t)columns);
	CLEANUP(buf_free) struct buf line = { 0 };
	counters_sparkline(cells, (size_t)columns, s->ascii, &line);
	attron(COLOR_PAIR(1));
	mvaddstr(y, x, buf_cstr(&line));
	attroff(COLOR_PAIR(1));
}

/* Tags that do not fit lose their keys first: "error.type=TimeoutException" -> "TimeoutException". */
static void put_label(const struct counters_row *row, int y, int x, int columns)
{
	bool tags = *row->s->key.tags && row->indent == 2;
	if (!tags || utf8_width(row->label) <= (size_t)MAX(columns, 0)) {
		screen_put(y, x, columns, false, row->label);
		return;
	}
	CLEANUP(buf_free) struct buf values = { 0 };
	bool key = true;
	for (const char *p = row->label; *p; p++) {
		if (key)
			key = *p != '=';
		else
			buf_char(&values, *p);
		if (*p == ',')
			key = true;
	}
	screen_put(y, x, columns, false, buf_cstr(&values));
}

static void draw_row(const struct counters_screen *s, const struct counters_row *row, int y, struct screen_layout l)
{
	int indent = (int)row->indent * 2;
	if (!row->s) {
		attron(row->indent ? A_NORMAL : A_BOLD);
		screen_put(y, indent, COLS - indent, false, row->label);
		attroff(row->indent ? A_NORMAL : A_BOLD);
		return;
	}
	const struct series *series = row->s;
	put_label(row, y, indent, l.name - indent - 1);
	int x = l.name;
	double now = counters_value_now(s->view, series, row->column);
	screen_put(y, x, l.now - 1, true, counters_value_text(series, row->column, now).s);
	x += l.now;
	screen_put(y, x, l.max - 1, true, counters_value_text(series, row->column, series->max[row->column]).s);
	x += l.max;
	if (series->kind == SERIES_RATE)
		screen_put(
			y, x, l.total - 1, true,
			counters_value_text(series, SERIES_TOTAL, counters_value_now(s->view, series, SERIES_TOTAL)).s);
	x += l.total;
	draw_spark(s, row, y, x + 1, MIN(l.spark, COLS - x - 1));
}

static void draw_head(const struct counters_screen *s, struct screen_layout l)
{
	CLEANUP(buf_free) struct buf line = { 0 };
	int64_t from, to;
	buf_printf(&line, "%s  every %s", s->view->title,
		   fmt_duration_ns(counters_interval_ms(s->view->c) * NS_PER_MS).s);
	if (series_window(counters_series(s->view->c), &from, &to))
		buf_printf(&line, "  window %s", fmt_duration_ns((uint64_t)((to - from) / NS_PER_S) * NS_PER_S).s);
	if (counters_lost(s->view->c))
		buf_printf(&line, "  lost %s", fmt_plural(counters_lost(s->view->c), "event", "events").s);
	attron(A_BOLD);
	screen_put(0, 0, COLS, false, buf_cstr(&line));
	attroff(A_BOLD);
	if (s->view->until_ns) {
		attron(A_REVERSE);
		screen_put(0, COLS - 8, 8, true, " paused ");
		attroff(A_REVERSE);
	}
	attron(A_UNDERLINE | A_DIM);
	mvhline(1, 0, ' ', COLS);
	screen_put(1, 0, l.name - 1, false, "counter");
	screen_put(1, l.name, l.now - 1, true, "now");
	screen_put(1, l.name + l.now, l.max - 1, true, "highest");
	screen_put(1, l.name + l.now + l.max, l.total - 1, true, "total");
	screen_put(1, l.name + l.now + l.max + l.total + 1, l.spark, false, "whole window");
	attroff(A_UNDERLINE | A_DIM);
}

static void draw_foot(const struct counters_screen *s, size_t shown, size_t all)
{
	CLEANUP(buf_free) struct buf line = { 0 };
	if (s->typing)
		buf_printf(&line, "/%s_   Enter keeps it, Esc forgets it", s->filter);
	else
		buf_printf(&line, "q quit  p %s  / filter%s%s  s sort (%s)  r reset  ? help",
			   s->view->until_ns ? "go on" : "pause", s->filter[0] ? ": " : "", s->filter,
			   s->view->sort == COUNTERS_BY_NAME ? "name" : "value");
	attron(A_REVERSE);
	mvhline(LINES - 1, 0, ' ', COLS);
	screen_put(LINES - 1, 0, COLS - 12, false, buf_cstr(&line));
	if (shown < all) {
		CLEANUP(mem_freep) char *where = mem_printf("%zu-%zu/%zu", s->top + 1, s->top + shown, all);
		screen_put(LINES - 1, COLS - 12, 12, true, where);
	}
	attroff(A_REVERSE);
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"q, Ctrl-C        quit; the process is left as it was",
		"p, space         pause the picture; listening goes on",
		"arrows, page, home, end   scroll",
		"/                show only what contains a word",
		"s                sort by name or by value",
		"r                forget the past: window, highest, sums",
		"?                this page; any key goes back",
		"",
		"now       value of the last interval; a rate is per second",
		"highest   since the start or the last reset",
		"total     since the process started where it counts itself,",
		"          otherwise since somebody listens",
		"p50 p95 p99   of what was measured in one interval",
		"-         not measured",
	};
	for (int i = 0; i < (int)ARRAY_SIZE(lines); i++)
		screen_put(HEAD_LINES + 1 + i, 2, COLS - 4, false, lines[i]);
}

/* The newest notes, a line each, at most three; gives how many lines. */
static int draw_notes(const struct counters_screen *s)
{
	size_t n = 0;
	while (counters_note(s->view->c, n))
		n++;
	CLEANUP(buf_free) struct buf missing = { 0 };
	if (counters_complete(s->view->c))
		counters_missing(s->view->c, &missing);
	int lines = (int)MIN(n, (size_t)2) + (missing.len ? 1 : 0), y = LINES - 1 - lines;
	if (LINES < HEAD_LINES + lines + 4)
		return 0;
	attron(COLOR_PAIR(2));
	for (size_t i = n - MIN(n, (size_t)2); i < n; i++) {
		CLEANUP(buf_free) struct buf safe = { 0 };
		str_add_visible(&safe, counters_note(s->view->c, i), strlen(counters_note(s->view->c, i)), 0);
		screen_put(y++, 0, COLS, false, buf_cstr(&safe));
	}
	if (missing.len) {
		CLEANUP(buf_free) struct buf safe = { 0 };
		str_add_visible(&safe, missing.data, strcspn(missing.data, "\n"), 0);
		screen_put(y, 0, COLS, false, buf_cstr(&safe));
	}
	attroff(COLOR_PAIR(2));
	return lines;
}

void counters_screen_draw(struct counters_screen *s)
{
	struct counters_rows rows = { 0 };
	struct screen_layout l = lay_out(COLS);
	counters_rows_make(s->view, &rows);
	erase();
	draw_head(s, l);
	int room = MAX(LINES - HEAD_LINES - 1 - draw_notes(s), 0);
	size_t most = rows.n > (size_t)room ? rows.n - (size_t)room : 0;
	s->top = MIN(s->top, most);
	size_t shown = MIN(rows.n - s->top, (size_t)room);
	if (s->help)
		draw_help();
	for (size_t i = 0; i < shown && !s->help; i++)
		draw_row(s, &rows.v[s->top + i], HEAD_LINES + (int)i, l);
	if (!rows.n && !s->help)
		screen_put(HEAD_LINES + 1, 2, COLS - 2, false,
			   series_count(counters_series(s->view->c)) ? "nothing matches the filter"
			   : counters_complete(s->view->c)	     ? "nothing was heard"
								     : "listening; the first values come in a moment");
	draw_foot(s, shown, rows.n);
	refresh();
	counters_rows_free(&rows);
}

/* ---- keys ---- */

static void act(struct counters_screen *s, int key)
{
	switch (key) {
	case 'p':
	case ' ':
		s->view->until_ns = s->view->until_ns ? 0 : clock_real_ns();
		break;
	case '/':
		s->typing = true;
		break;
	case 's':
		s->view->sort = s->view->sort == COUNTERS_BY_NAME ? COUNTERS_BY_VALUE : COUNTERS_BY_NAME;
		break;
	case 'r':
		series_set_reset(counters_series(s->view->c));
		break;
	case '?':
	case 'h':
		s->help = true;
		break;
	case ESC:
		s->filter[0] = '\0';
		break;
	default:
		screen_scroll(&s->top, key, LINES - HEAD_LINES - 2);
		break;
	}
}

enum counters_wish counters_screen_keys(struct counters_screen *s)
{
	bool any = false;
	for (int key; (key = getch()) != ERR; any = true) {
		if (s->typing) {
			s->typing = screen_type(s->filter, sizeof(s->filter), key);
			s->top = 0;
		} else if (s->help && key != KEY_RESIZE && key != 'q')
			s->help = false;
		else if (key == 'q' || key == 'Q' || key == 3)
			return COUNTERS_QUIT;
		else
			act(s, key);
	}
	if (any)
		counters_screen_draw(s);
	return COUNTERS_GO_ON;
}
