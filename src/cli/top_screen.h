#pragma once
/* The live screen of `top`: draws a view and reads keys; knows no process. */

#include "cli/top_view.h"

struct top_screen;
/* NULL when this terminal cannot do it. */
struct top_screen *top_screen_open(struct top_view *view);
void top_screen_close(struct top_screen *s);

enum top_wish { TOP_GO_ON, TOP_QUIT, TOP_SESSION };
/* Reads the keys that wait on standard input. */
enum top_wish top_screen_keys(struct top_screen *s);
/* Is the picture to stand still? */
bool top_screen_paused(const struct top_screen *s);
void top_screen_draw(struct top_screen *s);
