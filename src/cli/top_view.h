#pragma once
/* What `top` shows, as rows: the hottest methods or threads of the last seconds. Knows no terminal. */

#include "sampling/samples.h"

enum top_what { TOP_METHODS, TOP_THREADS };
enum top_sort { TOP_BY_SELF, TOP_BY_TOTAL };

struct top_row {
	char *name;	    /* safe to show */
	const char *kind;   /* of methods; "" of threads */
	double self, total; /* of one core; total 0 of threads */
	uint32_t tid;	    /* of threads, as the process knows it */
};

/* The samples of the last window, and their methods and threads. */
struct top_view {
	const char *title; /* safe to show */
	enum top_what what;
	enum top_sort sort;
	const char *filter; /* part of a name; "" = all */
	uint64_t window_ns; /* how far back it looks */
	uint32_t cpus;

	struct samples *samples; /* owned by another: names and stacks */
	VEC(struct sample) recent;
	uint64_t newest_us, total; /* samples ever */
	uint64_t lost;
	uint64_t seen_ns; /* of the window, so far */
	double cores;	  /* busy, on average */
	VEC(struct top_row) rows;
};

/* Takes the samples that came since, and drops those older than the window. */
void top_view_take(struct top_view *v, struct samples *samples, uint64_t now_us);
/* Makes the rows anew. */
void top_view_rows(struct top_view *v);
void top_view_fini(struct top_view *v);
