/* A session's row: its states, its guid, its memory. */

#include "store/store.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const char *const state_names[STORE_STATES] = {
	"queued", "running", "analysing", "done", "failed", "cancelled",
};

const char *store_state_name(enum store_state state)
{
	return (unsigned)state < STORE_STATES ? state_names[state] : "unknown";
}

bool store_state_parse(const char *word, enum store_state *ret)
{
	for (unsigned i = 0; i < STORE_STATES; i++)
		if (str_eq(word, state_names[i])) {
			*ret = (enum store_state)i;
			return true;
		}
	return false;
}

bool store_state_finished(enum store_state state)
{
	return state >= STORE_DONE;
}

bool store_guid_ok(const char *guid)
{
	if (!guid || strlen(guid) != STORE_GUID_LEN)
		return false;
	for (size_t i = 0; i < STORE_GUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? guid[i] != '-' : !strchr("0123456789abcdef", guid[i]))
			return false;
	}
	return true;
}

void store_guid_new(char ret[STORE_GUID_LEN + 1])
{
	uint8_t b[16];
	/* 16 bytes come whole once the pool is ready, which is before any user process. */
	while (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		;
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(ret, STORE_GUID_LEN + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

void store_set(char **field, const char *s)
{
	char *copy = s ? mem_strdup(s) : NULL;
	mem_free(*field);
	*field = copy;
}

void store_row_fini(struct store_row *row)
{
	char *owned[] = { row->profiler, row->profiler_uuid, row->process, row->runtime, row->health,	 row->finding,
			  row->verdict,	 row->partial,	     row->error,   row->version, row->parameters };
	for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
		mem_free(owned[i]);
	*row = (struct store_row){ 0 };
}

void store_rows_free(struct store_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		store_row_fini(&rows->v[i]);
	mem_free(rows->v);
	*rows = (struct store_rows){ 0 };
}
