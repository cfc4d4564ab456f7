#pragma once
/* What a report is made of; for the files of this folder only.
 *
 * Invariants the builder keeps and the renderers rely on: every string is valid UTF-8 without NUL and at most
 * TEXT_MAX bytes; every number is finite (else the value is missing); a missing value has no text; counts stay below
 * the caps; rows of a table with a main column are sorted by it, largest first. Strings may still hold anything a
 * person must not get raw: markup, control characters, direction marks. */

#include "base/arena.h"
#include "report/report.h"

#define REPORT_FORMAT "drdotnet-report"
#define REPORT_FORMAT_VERSION 1

enum {
	TEXT_MAX = 65536,
	BLOCKS_MAX = 64,
	PIECES_MAX = 64,
	FIGURES_MAX = 16,
	HOW_MAX = 16,
	PARAMS_MAX = 64,
	COLUMNS_MAX = 12,
	ROWS_MAX = 1000,
	TREE_ROWS_MAX = 5000,
	TREE_DEPTH_MAX = 64,
	LINES_MAX = 256,
	CHART_LINES_MAX = 16,
	POINTS_MAX = 4096,
	BARS_MAX = 2000,
	BUCKETS_MAX = 64,
	FINDINGS_MAX = 100,
	SEVERITY_MAX = 100,
	FLAME_NODES_MAX = 20000,
	FLAME_DEPTH_MAX = 256,
	HEAT_COLUMNS_MAX = 120,
	HEAT_ROWS = 20, /* of 50 ms */
	HEAT_CELLS_MAX = 20000,
};

enum piece_kind { PIECE_TEXT, PIECE_STRONG, PIECE_CODE };

struct piece {
	struct piece *next;
	enum piece_kind kind;
	bool data; /* out of the target's memory */
	const char *text;
};

struct rich {
	struct report *report;
	struct piece *first, *last;
	size_t n;
};

/* Key figures and "how it was measured". */
struct fact {
	struct fact *next;
	const char *label, *context; /* context may be NULL */
	struct value value;
};

struct fact_list {
	struct fact *first, *last;
	size_t n, max;
};

struct report_param {
	struct report_param *next;
	const char *name, *value;
	bool is_default, data;
};

enum block_kind {
	BLOCK_TABLE,
	BLOCK_TREE,
	BLOCK_CHART,
	BLOCK_HISTOGRAM,
	BLOCK_FLAME,
	BLOCK_NOTE,
	BLOCK_FINDINGS,
	BLOCK_SECTION
};

/* First member of each kind of block. */
struct block {
	struct block *next;
	struct report *report;
	enum block_kind kind;
	const char *title; /* NULL for notes */
	bool detail;	   /* see report_details() */
	bool asked;	   /* see report_asked() */
};

struct column {
	const char *name;
	enum value_kind kind;
	unsigned flags;
};

struct row_line {
	struct row_line *next;
	enum value_kind kind;	  /* text or code */
	const char *text, *right; /* right may be NULL */
};

struct report_row {
	struct report_table *table;
	struct report_row *parent, *next, *prev, *first_child, *last_child;
	unsigned depth;
	bool dropped;	     /* not part of the report: the table is full */
	struct value *cells; /* one for each column */
	struct row_line *first_line, *last_line;
	size_t n_lines, lines_cut;
};

struct report_table {
	struct block block;
	struct column columns[COLUMNS_MAX];
	size_t n_columns;
	struct report_row top; /* its children are the rows */
	size_t n_rows;
	uint64_t rows_cut;
	struct value *rest; /* or NULL */
};

struct chart_line {
	struct chart_line *next;
	const char *name; /* may be NULL */
	uint64_t *x_ns;
	double *y;
	size_t n, merged; /* points that represent several: the largest of them is kept */
};

struct chart_bar {
	uint64_t x_ns, length_ns;
	double y;
	const char *label; /* may be NULL */
};

struct report_chart {
	struct block block;
	enum value_kind y_kind;
	uint64_t window_ns;
	struct chart_line *first_line, *last_line;
	size_t n_lines;
	struct chart_bar *bars;
	size_t n_bars, bars_cap;
	uint64_t bars_cut; /* the lowest, beyond BARS_MAX */
};

struct bucket {
	double from, to;
	uint64_t count;
};

struct report_histogram {
	struct block block;
	enum value_kind x_kind;
	struct bucket buckets[BUCKETS_MAX];
	size_t n;
};

struct flame_frame {
	const char *name;
	int kind; /* enum frame_kind */
};

/* Preorder, heaviest child first; node 0 is the root above all at depth 0. */
struct flame_node {
	uint32_t frame, depth, end; /* end: index after the last node below it */
	uint64_t self, total;
	uint64_t before; /* its total on the other side of a comparison */
};

/* What samples of one stack weighed at one time: column by column (each some whole seconds), in rows of a 20th of a
 * second. */
struct heat_cell {
	uint16_t column, row;
	uint32_t node; /* of the flame graph */
	uint64_t weight;
};

struct report_flame {
	struct block block;
	enum value_kind weight_kind;
	bool compared; /* nodes know what they were before */
	struct flame_frame *frames;
	size_t n_frames;
	struct flame_node *nodes;
	size_t n_nodes;
	struct heat_cell *cells;		    /* in order of time */
	size_t n_cells, heat_columns, heat_seconds; /* seconds of a column */
	uint64_t cut; /* weight whose deepest frames are not kept; it is counted as their caller's */
};

struct report_note {
	struct block block;
	enum report_health health;
	struct rich text;
};

struct finding_item {
	struct finding_item *next;
	const char *finding, *confidence;
	unsigned severity;
	int64_t first_seen_unix_ns; /* by an earlier diagnosis of the same process; 0 = by this one */
	struct rich text;
};

struct report_findings {
	struct block block;
	bool brief;
	struct finding_item *first, *last;
	size_t n;
};

struct report_section {
	struct block block;
	const char *profiler, *finding; /* may be NULL */
	enum report_health health;
	struct rich text;
};

struct report {
	struct arena arena;
	struct report *taken, *next_taken; /* reports whose blocks are ours now */
	struct report_facts facts;
	enum report_health health;
	const char *finding;
	struct rich verdict, effect, next;
	const char *next_profiler; /* or NULL */
	struct fact_list figures, how;
	struct report_param *first_param, *last_param;
	size_t n_params;
	struct block *first_block, *last_block;
	size_t n_blocks;
	bool details, asked;
	uint64_t cut_strings, cut_items;
};

/* A copy that keeps the invariants; NULL stays NULL. */
const char *doc_text(struct report *r, const char *s);
/* Visible, and past max_chars cut with "… (N bytes)". Appends. */
void doc_show(const char *s, size_t max_chars, struct buf *out);
/* NULL when it is empty, or one too many. */
struct piece *rich_piece(struct rich *t, enum piece_kind kind, const char *text);
/* Does the text need any of the further blocks, or is the verdict enough? */
bool doc_is_short(const struct report *r);
/* "Only the first 3.2 s: the process ended." or NULL; lives as long as out. */
const char *doc_partial(const struct report *r, struct buf *out);
/* "03:12", or "2026-11-15 03:12" where that is not of the report's own day or so. */
const char *doc_when(const struct report *r, int64_t unix_ns, struct buf *out);
/* ", first seen 03:12" of a finding that an earlier diagnosis knew, else "". */
const char *doc_first_seen(const struct report *r, const struct finding_item *i, struct buf *out);
/* What the caps left out, in words, or NULL. */
const char *doc_cut(const struct report *r, struct buf *out);

/* A new block of `size` bytes that starts with a struct block, at the end of the report. */
/* Behind the last; the caller has seen that there is room. */
void block_append(struct report *r, struct block *b);
/* The last one becomes the first. */
void block_to_front(struct report *r);
void *block_add(struct report *r, enum block_kind kind, const char *title, size_t size);
/* Preorder: the row after this one, NULL at the end. */
const struct report_row *row_next(const struct report_row *row);
static inline const struct report_row *table_first(const struct report_table *t)
{
	return t->top.first_child;
}
/* The column that names the row: the first with text. */
size_t table_name_column(const struct report_table *t);
/* The value of a full bar of the column: 1 for a ratio, else the largest value. */
double bar_whole(const struct report_table *t, size_t column);
double bar_share(double whole, const struct value *v); /* 0..1 */
bool table_has_missing(const struct report_table *t);
struct report_row *row_add(struct report_row *parent, const struct value *cells);

static inline bool kind_is_text(enum value_kind k)
{
	return k == VALUE_TEXT || k == VALUE_CODE;
}
/* As people read it, not escaped. Missing is a dash. Times of the report's own day are shown without the date. */
void value_add(struct buf *out, const struct report *r, const struct value *v);
void number_add(struct buf *out, enum value_kind kind, double number);

double chart_max(const struct report_chart *c);
uint64_t chart_window(const struct report_chart *c);
/* The line's value there, between its points; false outside of them. */
bool chart_line_at(const struct chart_line *l, double x_ns, double *ret);
uint64_t histogram_max(const struct report_histogram *h);
double flame_share(const struct report_flame *f, size_t i);	/* of the root's weight */
double flame_change(const struct report_flame *f, size_t i);	/* of that share, since before */
int flame_change_level(const struct report_flame *f, size_t i); /* -3 much less .. 0 as before .. 3 much more */
struct report_flame *flame_new(struct report *r, const char *title, enum value_kind kind);
/* Totals and ends from self weights and depths. */
void flame_sum(struct report_flame *f);

/* Names of the enums in JSON and class attributes; index = value. */
extern const char *const block_names[8], *const piece_names[3];
extern const char *const health_names[4], *const value_kind_names[9], *const frame_kind_names[7];
/* For people: "your code", "framework" ... */
extern const char *const frame_kind_words[7];

/* A name as written in code, in three parts: namespace and type up to and with the last dot, the member, and the rest
 * (parameters, type after it). Offsets of bytes. */
struct name_parts {
	size_t member, rest;
};
struct name_parts name_split(const char *name);
/* The offset behind the next dot of the namespace, 0 when the member begins at from. */
size_t name_skip(const char *name, size_t from);
/* What stands in brackets becomes an ellipsis: "Dictionary`2[…].get_Item(…)". */
void name_collapse(const char *name, const char *ellipsis, struct buf *out);

/* For HTML text and attribute values: & < > " ' as entities. Takes visible text. */
void markup_escape(struct buf *out, const char *shown);
