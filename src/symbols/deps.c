/* {"targets": {"<framework>[/<rid>]": {"<library>/<version>": {"runtime": {"lib/net8.0/Shop.Core.dll": {}}}}},
 *  "libraries": {"<library>/<version>": {"type": "project" | "package" | "runtimepack" | "reference"}}}
 *
 * Of assets under "runtime" the last part is the file beside the program. */

#include "symbols/deps.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <string.h>

#define ENTRIES_MAX 8192
#define NAME_BYTES_MAX 512

static enum deps_origin origin_of(const json_t *libraries, const char *key)
{
	static const char *const types[] = {
		[DEPS_PROJECT] = "project", [DEPS_PACKAGE] = "package", [DEPS_PLATFORM] = "runtimepack"
	};
	const char *type = json_get_str(json_object_get(libraries, key), "type", "");
	for (size_t i = DEPS_PROJECT; i < ARRAY_SIZE(types); i++)
		if (str_eq(type, types[i]))
			return (enum deps_origin)i;
	return DEPS_UNKNOWN;
}

struct deps_reading {
	struct deps *deps;
	struct strtab names; /* id = index */
};

static void add(struct deps_reading *r, const char *asset, const char *key, enum deps_origin origin)
{
	const char *slash = strrchr(asset, '/'), *file = slash ? slash + 1 : asset;
	size_t len = strlen(file), library = strcspn(key, "/");
	if (!str_ends(file, ".dll") || len <= 4 || len > NAME_BYTES_MAX || library > NAME_BYTES_MAX)
		return;
	bool new = strtab_find(&r->names, file, len - 4) == STRTAB_NONE;
	if (new && r->deps->n >= ENTRIES_MAX)
		return;
	uint32_t id = strtab_add(&r->names, file, len - 4);
	if (new)
		vec_push(r->deps, ((struct deps_entry){ .assembly = mem_strndup(file, len - 4) }));
	struct deps_entry *e = &r->deps->v[id];
	if (!new && (e->origin == DEPS_PROJECT || origin != DEPS_PROJECT))
		return;
	mem_free(e->library);
	e->library = mem_strndup(key, library);
	e->origin = origin;
}

/* jansson's own loop takes its object as not const. */
struct err *deps_parse(const char *text, size_t len, struct deps *ret)
{
	CLEANUP(json_decrefp) json_t *root = NULL;
	TRY(json_parse(text, len, DEPS_BYTES_MAX, &root));
	json_t *targets = json_object_get(root, "targets"), *libraries = json_object_get(root, "libraries");
	if (!json_is_object(targets) || !json_is_object(libraries))
		return err_new(ERR_BAD_DATA, "no targets, or no libraries");
	struct deps deps = { 0 };
	struct deps_reading r = { .deps = &deps };
	const char *framework, *key, *asset;
	json_t *target, *library, *facts;
	json_object_foreach(targets, framework, target) json_object_foreach(target, key, library)
		json_object_foreach(json_object_get(library, "runtime"), asset, facts)
			add(&r, asset, key, origin_of(libraries, key));
	strtab_free(&r.names);
	*ret = deps;
	return NULL;
}

void deps_free(struct deps *deps)
{
	vec_each(e, deps) {
		mem_free(e->assembly);
		mem_free(e->library);
	}
	vec_free(deps);
}
