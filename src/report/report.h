#pragma once
/* The document of one examination, and what it looks like as text, Markdown, HTML and JSON.
 *
 * A report is data: facts, verdict, key figures, blocks (table, tree, flame graph, time chart, histogram, note), how
 * it was measured, parameters. Profilers build it; renderers write it; neither knows the other. Pure: no I/O, no
 * clock. Everything lives in the report's arena; every string is copied; every string may be hostile (each renderer
 * escapes). Values are kept as numbers with a kind, so that all renderers agree and JSON stays exact. */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct report;
struct report *report_new(void);
void report_free(struct report *r);
DEFINE_CLEANUP(report_free, struct report *)
void report_clear(struct report *r); /* as a new one */

/* Facts of the head line; any may be NULL or 0. */
struct report_facts {
	const char *profiler; /* id: "runtime-pauses" */
	const char *title;    /* "Runtime pauses" */
	const char *process;  /* "Shop.Api" */
	int target_id;
	const char *runtime;		    /* "10.0.12" */
	const char *container, *pod, *host; /* pod: of Kubernetes, "NAMESPACE/POD/CONTAINER" */
	int64_t when_unix_ns;		    /* start of the window */
	uint64_t window_ns;		    /* 0 for one instant */
	const char *session;		    /* guid */
	const char *version;		    /* of drdotnet */
	const char *partial;		    /* why it is not the whole window: "the process ended after 3.2 s" */
};
void report_set_facts(struct report *r, const struct report_facts *facts);
const struct report_facts *report_facts(const struct report *r);

/* Running text in pieces. Plain and strong are our words (with numbers); code is a name out of the target. */
struct rich;
void rich_text(struct rich *t, const char *fmt, ...) PRINTF(2, 3);
void rich_strong(struct rich *t, const char *fmt, ...) PRINTF(2, 3);
void rich_code(struct rich *t, const char *s);
/* The same of a value in the target's memory, which may be a secret: see report_mask(). */
void rich_data(struct rich *t, const char *s);
/* All pieces as plain text (names made visible). */
void rich_plain(const struct rich *t, struct buf *out);

enum report_health { REPORT_OK, REPORT_INFO, REPORT_WARN, REPORT_BAD };

/* One to three sentences. `finding` is a stable id for programs ("gc-pauses-long", "nothing-found"). */
struct rich *report_verdict(struct report *r, enum report_health health, const char *finding);
enum report_health report_health(const struct report *r);
const char *report_finding(const struct report *r); /* NULL before the verdict */
const struct rich *report_verdict_text(const struct report *r);
/* What to do next; at most one main step. */
/* What the user notices of it, on a line of its own; none without text. */
struct rich *report_effect(struct report *r);
struct rich *report_next(struct report *r);
const struct rich *report_next_text(const struct report *r);
void report_set_next_profiler(struct report *r, const char *id); /* that the next step is to run */

enum value_kind {
	VALUE_TEXT,
	VALUE_CODE,
	VALUE_COUNT,
	VALUE_BYTES,
	VALUE_NS,
	VALUE_RATIO,
	VALUE_RATE,
	VALUE_NUMBER,
	VALUE_TIME /* unix ns */
};
struct value {
	double number;	  /* all but text and code; exact up to 2^53 */
	const char *text; /* text and code; copied when given */
	enum value_kind kind;
	bool missing;	/* not measured: rendered as a dash, null in JSON */
	bool with_sign; /* set by its column: see COLUMN_SIGNED */
};
#define V_TEXT(s) ((struct value){ .kind = VALUE_TEXT, .text = (s) })
#define V_CODE(s) ((struct value){ .kind = VALUE_CODE, .text = (s) })
#define V_COUNT(n) ((struct value){ .kind = VALUE_COUNT, .number = (double)(n) })
#define V_BYTES(n) ((struct value){ .kind = VALUE_BYTES, .number = (double)(n) })
#define V_NS(n) ((struct value){ .kind = VALUE_NS, .number = (double)(n) })
#define V_RATIO(x) ((struct value){ .kind = VALUE_RATIO, .number = (x) })
#define V_RATE(x) ((struct value){ .kind = VALUE_RATE, .number = (x) })
#define V_NUMBER(x) ((struct value){ .kind = VALUE_NUMBER, .number = (x) })
#define V_TIME(ns) ((struct value){ .kind = VALUE_TIME, .number = (double)(ns) })
#define V_NONE ((struct value){ .missing = true })

/* Three to five of them, beside each other. */
void report_figure(struct report *r, const char *label, struct value value, const char *context);

/* A table; also the shape of a tree, whose rows have children. Columns first, then rows; cells in column order. */
struct report_table;
struct report_row;
enum {
	COLUMN_BAR = 1,
	COLUMN_MAIN = 2,   /* kept on narrow pages; the table is sorted by it, largest first */
	COLUMN_AREA = 4,   /* pages also draw it as a treemap: rows are parts of one whole, children of their parent */
	COLUMN_SIGNED = 8, /* differences: what is more has a plus */
	COLUMN_DATA = 16   /* its code cells are values in the target's memory: see report_mask() */
};
struct report_table *report_table(struct report *r, const char *title);
struct report_table *report_tree(struct report *r, const char *title);
void report_column(struct report_table *t, const char *name, enum value_kind kind, unsigned flags);
struct report_row *report_row(struct report_table *t, const struct value *cells);
struct report_row *report_child(struct report_row *parent, const struct value *cells); /* trees only */
/* Sum of what is not shown, as the last row: first cell in words ("312 holders below 1 %"). */
void report_rest(struct report_table *t, const struct value *cells);
/* Lines that belong to a row and open under it (a stack, a message): leaf first. Tables only. */
void report_row_line(struct report_row *row, enum value_kind kind, const char *text, const char *right);

/* Time chart: x in ns since the window's start. Bars have a length (a pause), lines have points. */
struct report_chart;
struct report_chart *report_chart(struct report *r, const char *title, enum value_kind y_kind, uint64_t window_ns);
void report_chart_line(struct report_chart *c, const char *name, const uint64_t *x_ns, const double *y, size_t n);
void report_chart_bar(struct report_chart *c, uint64_t x_ns, uint64_t length_ns, double y, const char *label);

/* Histogram: buckets [from, to) of a value with counts. */
struct report_histogram;
struct report_histogram *report_histogram(struct report *r, const char *title, enum value_kind x_kind);
void report_bucket(struct report_histogram *h, double from, double to, uint64_t count);

/* Flame graph from a call tree (model/calltree.h). */
struct calltree;
void report_flame(struct report *r, const char *title, const struct calltree *tree, enum value_kind weight_kind);
/* The same with the times of its samples: also a heatmap, by second and by offset within the second, any range of which
 * the page shows as a flame graph of its own. */
struct report_moment {
	uint64_t time_ns; /* since the window's start */
	uint64_t weight;
	uint32_t node; /* of the tree */
};
void report_flame_timed(struct report *r, const char *title, const struct calltree *tree, enum value_kind weight_kind,
			const struct report_moment *samples, size_t n, uint64_t window_ns);

/* The blocks from here on, but lists and notes, say more than the verdict needs: the terminal's text only names them. */
void report_details(struct report *r);
/* The blocks from here on are what the user asked for by a parameter: the terminal's text shows them also when nothing is
 * wrong, where it ends after the verdict otherwise. */
void report_asked(struct report *r);

struct rich *report_note(struct report *r, enum report_health health);

/* Findings beside the verdict, or of which it consists: each a sentence with a stable id, a severity from 0 to 100 (25 is
 * worth knowing, 75 is serious) and how sure it is, in words that say by what. brief: many of little weight, which the
 * terminal shows as running text. */
struct report_findings;
struct report_findings *report_findings(struct report *r, const char *title, bool brief);
struct rich *report_finding_add(struct report_findings *f, const char *finding, unsigned severity,
				const char *confidence);

/* The head of a section: what another profiler found in the same examination; the text is its verdict. */
struct rich *report_section(struct report *r, const char *title, const char *profiler, enum report_health health,
			    const char *finding);
/* A number of "how it was measured" by its label; NAN without. */
double report_how_number(const struct report *r, const char *label);
/* Moves the blocks of another report behind those of r, which frees it from now on. The terminal's text shows `shown` of
 * them. */
void report_take_blocks(struct report *r, struct report *from, size_t shown);
/* Appends a copy of all pieces. */
void rich_add(struct rich *t, const struct rich *from);
/* The same up to the end of the sentence that names the first place in code; of one that names none all. */
void rich_add_place(struct rich *t, const struct rich *from);
/* What the above leaves out. */
void rich_add_rest(struct rich *t, const struct rich *from);
/* The first sentence as part of another one: without its full stop, its first word small. */
void rich_add_clause(struct rich *t, const struct rich *from);

/* "How this was measured": way, pause, lost, left behind. */
void report_how(struct report *r, const char *label, struct value value, const char *context);
void report_param(struct report *r, const char *name, const char *value, bool is_default);
/* The last one is a value in the target's memory: see report_mask(). */
void report_param_is_data(struct report *r);

/* Replaces what is marked as data by its shape, in place: letters become x or X, digits 9. For whoever is not the owner. */
void report_mask(struct report *r);
void report_mask_text(const char *text, struct buf *out); /* the same of a single value; appends */

/* Renderers; all append to out. */
struct report_text_style {
	unsigned columns; /* 0 = 100 */
	bool colour;
	bool ascii; /* no line-drawing characters: the locale is not UTF-8 */
};
void report_render_text(const struct report *r, const struct report_text_style *style, struct buf *out);
void report_render_markdown(const struct report *r, struct buf *out);
void report_render_html(const struct report *r, struct buf *out);
void report_render_json(const struct report *r, struct buf *out);
/* Back from its JSON, which may be damaged or hostile. */
struct err *report_from_json(const char *text, size_t len, struct report **ret) MUST_USE;
