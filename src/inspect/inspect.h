#pragma once
/* Questions to a core file or to a living process at one instant, asked by name: typed at a prompt, given by `-c`, or
 * sent by a page. One table of commands.
 *
 * What an answer needs is read when it is first asked for and kept. All input may be hostile. Not for threads. */

#include "inspect/answer.h"
#include "exam/image_exam.h"

struct inspect;
/* Takes over the look (also on failure). source is what it is called in answers; copied. */
struct err *inspect_open(struct image_exam *look, const char *source, struct inspect **ret) MUST_USE;
struct err *inspect_open_core(const char *path, struct inspect **ret) MUST_USE;
void inspect_close(struct inspect *in);
DEFINE_CLEANUP(inspect_close, struct inspect *)
/* Readable once the user wants to stop; checked during long commands; -1 = none. */
void inspect_set_cancel(struct inspect *in, int fd);

/* One line: a command and its words; quotes keep blanks. An empty line has an empty answer. ERR_USAGE says what would
 * be right; ERR_NOT_FOUND that the image has no such item. */
struct err *inspect_run(struct inspect *in, const char *line, struct answer *ret) MUST_USE;

struct inspect_command {
	const char *name, *words, *summary;
	size_t min_words, max_words; /* behind the name */
	struct err *(*run)(struct inspect *in, const char *const *words, size_t n, struct answer *a);
};
const struct inspect_command *inspect_commands(size_t *ret_n);

/* ---- words ---- */

#define INSPECT_MAX_WORDS 16
#define INSPECT_MAX_LINE 4096
struct inspect_words {
	char text[INSPECT_MAX_LINE];
	const char *v[INSPECT_MAX_WORDS];
	size_t n;
};
/* Splits a line at blanks; '...' and "..." keep them. ERR_USAGE: too long, too many, a quote that never ends. */
struct err *inspect_split(const char *line, struct inspect_words *ret) MUST_USE;
