#pragma once
/* Functions of the terminal renderer: text made visible, measured, wrapped, shortened. For text_*.c only. */

#include "report/doc.h"

struct text_out {
	const struct report *r;
	struct buf *out;
	size_t columns;
	bool colour, ascii;
};

/* Emphasis; none without colour. */
enum ink { INK_PLAIN, INK_STRONG, INK_DIM, INK_DATA, INK_OK, INK_WARN, INK_BAD };

/* Visible in this style, cut with its length when very long. Appends to ret. */
void text_show(const struct text_out *t, const char *s, struct buf *ret);
void text_value(const struct text_out *t, const struct value *v, struct buf *ret);
/* Takes what text_show() made: at most width columns. Names lose their namespace first, then their parameters; plain
 * text loses its end. */
void text_fit(const struct text_out *t, enum value_kind kind, struct buf *s, size_t width);

/* The columns a cell needs so that what matters of it is seen. */
size_t text_least(const struct text_out *t, const struct value *v);

void text_ink(const struct text_out *t, enum ink ink, const char *s);
void text_pad(const struct text_out *t, size_t n);
/* Of width columns, in eighths; something is always drawn for something. Returns the columns used. */
size_t text_bar(const struct text_out *t, double share, size_t width);
/* One character as high as share. */
const char *text_spark(const struct text_out *t, double share);

/* Running text. */
struct text_wrap {
	const struct text_out *t;
	size_t indent, column;
	struct buf word; /* with its ink */
	size_t word_width;
	bool blank; /* before the word */
};
struct text_wrap text_wrap_begin(const struct text_out *t, size_t indent);
void text_wrap_add(struct text_wrap *w, enum ink ink, const char *shown);
void text_wrap_rich(struct text_wrap *w, const struct rich *rich);
void text_wrap_end(struct text_wrap *w);

void text_block(const struct text_out *t, const struct block *b);
