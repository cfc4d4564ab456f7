#include "symbols/demangle.h"
#include "base/lazy.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define SYMBOL_MAX 4096

/* Of the C++ ABI: every C++ library has it, no C header declares it. The result is malloc's. */
static char *(*demangle)(const char *mangled, char *out, size_t *len, int *status);
static const char *const demangle_name = "__cxa_demangle";

/* S_, S1_, T_ and the like repeat something said before. A name made for it doubles with every two of them: 260 bytes
 * unfold to 400 MB, for which a library of the target must not make us reach. */
#define UNFOLDED_MAX 4e6
#define UNFOLD_FACTOR 1.45 /* of one repetition; three make the most of their number, 3^(1/3) */
static bool unfolds_far(const char *symbol)
{
	double bound = (double)strlen(symbol);
	for (const char *p = symbol; *p; p++) {
		if (*p != 'S' && *p != 'T')
			continue;
		const char *end = p + 1 + strspn(p + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		if (*end != '_')
			continue;
		bound *= UNFOLD_FACTOR;
		p = end;
	}
	return bound > UNFOLDED_MAX;
}

/* The length without the parameter list at the end: they make frames unreadable and say nothing new. */
static size_t without_parameters(const char *name)
{
	size_t len = strlen(name);
	if (str_ends(name, " const"))
		len -= 6;
	if (!len || name[len - 1] != ')')
		return strlen(name);
	int depth = 0;
	for (size_t i = len; i > 0; i--) {
		depth += (name[i - 1] == ')') - (name[i - 1] == '(');
		if (!depth)
			return i - 1 ? i - 1 : strlen(name);
	}
	return strlen(name);
}

void demangle_add(struct buf *out, const char *symbol)
{
	int status = 0;
	bool mangled = str_starts(symbol, "_Z") && strnlen(symbol, SYMBOL_MAX) < SYMBOL_MAX && !unfolds_far(symbol);
	/* Without the library names stay as they are in the file. */
	CLEANUP(err_freep) struct err *err = mangled ? lazy_load(SO_CXX, &demangle_name, 1, &demangle) : NULL;
	size_t len = mangled ? strcspn(symbol, "@") : strnlen(symbol, SYMBOL_MAX);
	CLEANUP(mem_freep) char *plain = mangled ? mem_strndup(symbol, len) : NULL;
	char *name = mangled && !err ? demangle(plain, NULL, NULL, &status) : NULL;
	if (name && !status)
		buf_add(out, name, without_parameters(name));
	else
		buf_add(out, symbol, len);
	if (mangled)
		buf_str(out, symbol + len);
	free(name);
}
