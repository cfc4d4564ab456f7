#pragma once
/* The live screen of counters. Draws what it is given and reads keys; knows no session. */

#include "cli/counters_text.h"

struct counters_screen;
/* NULL when this terminal cannot do it. */
struct counters_screen *counters_screen_open(struct counters_view *view);
/* Restores the terminal. */
void counters_screen_close(struct counters_screen *s);

enum counters_wish { COUNTERS_GO_ON, COUNTERS_QUIT };
/* Reads the keys that wait on standard input. */
enum counters_wish counters_screen_keys(struct counters_screen *s);
void counters_screen_draw(struct counters_screen *s);
