#pragma once
/* Questions to an image: those of -c, those typed at a prompt (history, completion), those read from a pipe. */

#include "inspect/inspect.h"

struct prompt {
	struct inspect *inspect;
	const char *const *questions; /* of -c; none = ask */
	size_t n;
	bool json;
	int signal_fd; /* Ctrl-C ends a long answer, not us */
};
/* An error of a question of -c or of a pipe is returned at once; at the prompt it is printed. */
struct err *prompt_run(const struct prompt *p) MUST_USE;
