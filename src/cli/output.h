#pragma once
/* Where a report goes and what it looks like there: --format, --json and -o of several commands. */

#include "cli/command.h"
#include "report/report.h"
#include "store/store.h"

enum output_format { OUTPUT_TEXT, OUTPUT_MD, OUTPUT_HTML, OUTPUT_JSON, OUTPUT_ZIP, OUTPUT_PROFILE };
struct output {
	enum output_format format;
	const char *path; /* NULL = standard output */
	bool mask;	  /* values out of the target's memory only as their shape */
};
/* --mask of struct option. */
#define OUTPUT_MASK_HELP "Values of strings only as their shape: letters as x, digits as 9"
extern const char *const output_formats[]; /* words of --format, for struct option */

/* From --format, --json and -o (whose extension decides when nothing else does). */
struct err *output_parse(const struct args *args, struct output *ret) MUST_USE;
/* Could it be written? Checked before a process is examined; creates nothing. */
struct err *output_check(const struct output *out) MUST_USE;
/* The report of a session; a file is complete or not there. */
struct err *output_write(const struct output *out, const struct store *store, const struct store_row *row) MUST_USE;

/* A report that belongs to no session, in one of its forms. */
struct err *output_report(const struct output *out, const struct report *report) MUST_USE;

/* Columns of the terminal behind fd, at most 100; 100 when it is none. */
unsigned output_columns(int fd);
bool output_is_utf8(void);
/* Has who read our standard output gone, as head does when it has enough? That is no error of anybody. */
bool output_is_unread(void);
/* What writing to standard output came to: NULL when it failed for that reason. */
struct err *output_result(struct err *err) MUST_USE;
