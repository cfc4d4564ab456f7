#pragma once
/* Downloads files of symbol servers (Simple Symbol Query Protocol) and debuginfod servers into the cache.
 *
 * Servers are asked in their order; one that does not answer is not asked again. What comes is checked before anybody
 * finds it (symbols/cache.h). */

#include "base/vec.h"
#include "symbols/cache.h"

struct symbol_server {
	char *url;
	bool debuginfod;
	char *silent; /* why it is not asked any more, or NULL */
};
struct symbol_fetch {
	VEC(struct symbol_server) servers;
	const char *ca_file; /* NULL = the system's certificates */
	int cancel_fd;
};
/* Several addresses may stand in one text, between blanks, commas or semicolons. ERR_USAGE. */
struct err *symbol_fetch_add_servers(struct symbol_fetch *f, const char *text, bool debuginfod) MUST_USE;
void symbol_fetch_fini(struct symbol_fetch *f);

struct symbol_fetched {
	enum { SYMBOL_FETCH_DONE, SYMBOL_FETCH_NOT_THERE, SYMBOL_FETCH_FAILED } end;
	const char *server; /* the server that had it */
	uint64_t bytes;
	char *why; /* of one that failed; the caller frees */
};
/* ERR_CANCELLED and errors of the cache itself end the whole fetch; others end that of this file. */
struct err *symbol_fetch_file(struct symbol_fetch *f, const struct symbol_file *file, struct symbol_fetched *ret)
	MUST_USE;
