#pragma once
/* How an examination goes, on standard error: one line that is redrawn on a terminal, a few plain lines otherwise. */

#include "store/store.h"

struct progress {
	char *title; /* "runtime-pauses on Shop.Api (1234)" */
	char *what;
	double ratio; /* negative = not known */
	enum store_state state;
	uint64_t start_ns;
	bool terminal, quiet, drawn;
	char *said; /* the text that is shown, so that it is not printed twice */
};

void progress_init(struct progress *p, const char *title, bool quiet);
void progress_fini(struct progress *p); /* removes the line */
void progress_state(struct progress *p, enum store_state state);
void progress_update(struct progress *p, double ratio, const char *what);
void progress_draw(struct progress *p);
/* Prints a line that stays. */
void progress_say(struct progress *p, const char *fmt, ...) PRINTF(2, 3);
