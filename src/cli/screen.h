#pragma once
/* What the live screens share of ncurses, which keeps the terminal in its own global state: one screen at a time. */

#include "base/base.h"

/* Takes the terminal over, keys come one by one and without waiting. NULL when it cannot do that. */
void *screen_open(void);
/* Gives it back as it was. */
void screen_close(void *screen);
/* Text cut to so many columns, at a place. */
void screen_put(int y, int x, int columns, bool right, const char *text);
/* A word typed by the user, as "/" begins it; false when the typing is over. */
bool screen_type(char *word, size_t size, int key);

/* Arrows, pages, home and end, over rows of which so many fit; false when the key is none of them. The end is far
 * beyond every list: the drawing code limits it. */
bool screen_scroll(size_t *top, int key, int rows_shown);

/* Is this kind of terminal known here? Asked first, because an ncurses that fails to start does not give its memory
 * back. */
bool screen_terminal_known(void);
