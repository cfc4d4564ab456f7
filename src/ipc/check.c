#include "ipc/patient.h"
#include "base/str.h"

static const char *const way_names[WAY_COUNT] = { "auto", "events", "samples", "image", "agent" };

const char *way_name(enum way way)
{
	return way_names[way];
}

struct err *way_parse(const char *word, enum way *ret)
{
	for (size_t i = 0; i < WAY_COUNT; i++) {
		if (!str_eq_nocase(word, way_names[i]))
			continue;
		*ret = (enum way)i;
		return NULL;
	}
	return err_new(ERR_USAGE, "'%s' is not a way to look into a process: auto, events, samples, image or agent",
		       word);
}

void way_check_fini(struct way_check *check)
{
	mem_free(check->how);
	mem_free(check->why);
	mem_free(check->fix);
	*check = (struct way_check){ 0 };
}
