/* Any bytes as what a program says of itself: deps.json, the types of an assembly, the list of a single-file program.
 */

#include "base/base.h"
#include "base/vec.h"
#include "symbols/bundle.h"
#include "symbols/deps.h"
#include "symbols/metadata.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_type(void *user, const char *space, const char *name)
{
	*(size_t *)user += strlen(space) + strlen(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct deps deps = { 0 };
	struct bundle bundle = { 0 };
	size_t letters = 0;
	err_ignore(deps_parse((const char *)data, size, &deps));
	vec_each(e, &deps)
		if (!*e->assembly || strchr(e->assembly, '/') || !e->library)
			__builtin_trap();
	deps_free(&deps);
	err_ignore(assembly_types_from_bytes(data, size, on_type, &letters));
	err_ignore(bundle_parse(data, size, 1 << 20, &bundle));
	vec_each(f, &bundle)
		if (f->offset > 1 << 20 || (f->packed ? f->packed : f->size) > (1 << 20) - f->offset)
			__builtin_trap();
	bundle_free(&bundle);
	return 0;
}
