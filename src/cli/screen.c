#include "cli/screen.h"
#include "base/str.h"
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

#define ESC 27

void *screen_open(void)
{
	SCREEN *terminal = screen_terminal_known() ? newterm(NULL, stdout, stdin) : NULL;
	if (!terminal)
		return NULL;
	set_escdelay(25);
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	if (has_colors() && str_empty(getenv("NO_COLOR"))) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_CYAN, -1);
		init_pair(2, COLOR_YELLOW, -1);
	}
	return terminal;
}

void screen_close(void *screen)
{
	endwin();
	delscreen(screen);
}

void screen_put(int y, int x, int columns, bool right, const char *text)
{
	if (columns <= 0)
		return;
	CLEANUP(buf_free) struct buf cut = { 0 };
	size_t width = utf8_width(text);
	if (width > (size_t)columns)
		str_add_visible(&cut, text, strlen(text), (size_t)columns - 1);
	else
		buf_str(&cut, text);
	width = utf8_width(buf_cstr(&cut));
	mvaddstr(y, x + (right ? MAX(columns - (int)width, 0) : 0), buf_cstr(&cut));
}

bool screen_type(char *word, size_t size, int key)
{
	size_t n = strlen(word);
	if (key == ESC)
		word[0] = '\0';
	if (key == ESC || key == '\n' || key == '\r' || key == KEY_ENTER)
		return false;
	if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n)
		word[n - 1] = '\0';
	else if (key >= ' ' && key < 127 && n + 1 < size) {
		word[n] = (char)key;
		word[n + 1] = '\0';
	}
	return true;
}

bool screen_scroll(size_t *top, int key, int rows_shown)
{
	size_t page = (size_t)MAX(rows_shown, 1);
	bool up = key == KEY_UP || key == 'k', down = key == KEY_DOWN || key == 'j';
	if (up || key == KEY_PPAGE)
		*top -= MIN(*top, up ? 1 : page);
	else if (down || key == KEY_NPAGE)
		*top += down ? 1 : page;
	else if (key == KEY_HOME || key == KEY_END)
		*top = key == KEY_HOME ? 0 : SIZE_MAX / 2;
	else
		return false;
	return true;
}
