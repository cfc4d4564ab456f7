#pragma once
/* What a command of inspect answers: paragraphs and tables, as text or as JSON.
 *
 * Everything that came out of a process is hostile: it is escaped when it is written, and cut visibly. Owns its texts.
 */

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/vec.h"

enum cell_kind { CELL_NONE, CELL_TEXT, CELL_ADDRESS, CELL_COUNT, CELL_BYTES };
struct cell {
	enum cell_kind kind;
	uint64_t number;
	const char *text;
};
#define C_NONE ((struct cell){ 0 })
#define C_TEXT(s) ((struct cell){ .kind = CELL_TEXT, .text = (s) })
#define C_ADDRESS(n) ((struct cell){ .kind = CELL_ADDRESS, .number = (n) })
#define C_COUNT(n) ((struct cell){ .kind = CELL_COUNT, .number = (n) })
#define C_BYTES(n) ((struct cell){ .kind = CELL_BYTES, .number = (n) })

struct answer {
	struct arena arena;
	struct answer_part *first, *last; /* of parts, in order */
};
void answer_free(struct answer *a);

/* A line of our words; texts of the target in it must have been made visible. */
void answer_line(struct answer *a, const char *fmt, ...) PRINTF(2, 3);
/* A new table and the names of its columns. The title may be NULL. */
#define answer_table(a, title, ...)                                                                                    \
	answer_table_begin(a, title, (const char *const[]){ __VA_ARGS__ },                                             \
			   ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))
void answer_table_begin(struct answer *a, const char *title, const char *const *columns, size_t n);
/* The table begun last has no heading in text, and its rows are indented below its title. */
void answer_plain(struct answer *a);
/* One cell for each column; texts are copied. */
void answer_row(struct answer *a, const struct cell *cells);
#define ANSWER_ROW(a, ...) answer_row(a, (const struct cell[]){ __VA_ARGS__ })

void answer_write_text(const struct answer *a, struct buf *out);
/* {"lines": [...], "tables": [{"title", "rows": [{column: value}]}]} */
void answer_write_json(const struct answer *a, struct jsonw *w);
