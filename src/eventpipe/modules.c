#include "eventpipe/modules.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include <string.h>

#define MODULES_MAX 20000
#define PATH_UNITS_MAX 4096

void clr_modules_free(struct clr_modules *m)
{
	map_u64_free(&m->by_id);
	vec_free(&m->v);
	strtab_free(&m->paths);
}

/* ModuleID, AssemblyID, flags, reserved, path, native path, instance; then GUID of the PDB. */
void clr_modules_event(struct clr_modules *m, const struct nettrace_event *event)
{
	static const uint8_t none[MODULE_PDB_BYTES] = { 0 };
	if (clr_event(event) != CLR_MODULE_LOAD)
		return;
	struct cursor c = cursor_make(event->payload, event->payload_size);
	uint64_t id = cursor_u64(&c);
	cursor_take(&c, 16);
	struct utf16_span path = cursor_utf16z(&c);
	const uint64_t *known = map_u64_get(&m->by_id, id);
	if (!cursor_ok(&c) || (!known && m->v.n >= MODULES_MAX))
		return;
	cursor_utf16z(&c);
	cursor_u16(&c);
	const uint8_t *guid = cursor_take(&c, MODULE_PDB_BYTES);
	CLEANUP(buf_free) struct buf text = { 0 };
	utf16_add(&text, path.units, MIN(path.n, (size_t)PATH_UNITS_MAX));
	struct clr_modules_entry entry = { .path = strtab_add(&m->paths, buf_cstr(&text), text.len) };
	entry.has_pdb = guid && memcmp(guid, none, sizeof(none)) != 0;
	if (entry.has_pdb)
		memcpy(entry.pdb, guid, sizeof(entry.pdb));
	if (known) {
		m->v.v[*known - 1] = entry;
		return;
	}
	vec_push(&m->v, entry);
	*map_u64_put(&m->by_id, id, NULL) = m->v.n;
}

bool clr_modules_find(const struct clr_modules *m, uint64_t id, struct clr_module_file *ret)
{
	const uint64_t *at = map_u64_get(&m->by_id, id);
	if (!at)
		return false;
	const struct clr_modules_entry *found = &m->v.v[*at - 1];
	*ret = (struct clr_module_file){ .path = strtab_get(&m->paths, found->path),
					 .pdb = found->has_pdb ? found->pdb : NULL };
	return true;
}
