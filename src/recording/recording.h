#pragma once
/* What instruments write and analyses read: a folder with one manifest and raw parts.
 *
 *   recording/manifest.json   format version, who wrote it, the target, the window, one entry a part: name, kind,
 *                             bytes, CRC-32, whole or cut; written last, so a folder without it is unfinished
 *   recording/<part>          raw bytes, for example a .nettrace stream
 *
 * Knows no profiler and no event. Names of parts and kinds are [a-z0-9][a-z0-9.-]{0,63}, checked on both sides. A part
 * whose size or sum differs from its manifest opens with `damaged` set; the reader decides. A damaged manifest does not
 * open at all. Not for threads. Parts belong to their recording. */

#include "base/err.h"
#include "base/json.h"

struct recording;
struct recording_part;

/* Writing. Parts may be dropped when they pass max_bytes in all (0 = 256 MB): then they read as not kept. */
struct err *recording_create(const char *dir, uint64_t max_bytes, struct recording **ret) MUST_USE;
/* A recording inside of one, for an examination inside of one: its parts are those of r whose names begin with `name`
 * and a dot, its facts one fact of r. It is neither sealed nor dropped by itself, and must be freed before r. */
struct recording *recording_inside(struct recording *r, const char *name);
/* Facts that go into the manifest under `facts`; takes its own reference. */
void recording_set_fact(struct recording *r, const char *key, json_t *value);
const json_t *recording_fact(const struct recording *r, const char *key); /* NULL when absent */
struct err *recording_part_new(struct recording *r, const char *name, const char *kind, struct recording_part **ret)
	MUST_USE;
/* Does not fail for lack of space: a full disk or the limit drops the part's bytes and keeps the reason. */
void recording_part_write(struct recording_part *p, const void *data, size_t len);
void recording_part_close(struct recording_part *p, bool whole);
/* Removes all parts, also open ones; facts stay. For an exam that begins again with another way. */
void recording_clear(struct recording *r);
/* Writes the manifest; afterwards the recording can only be read. To be safe against a crash of the machine the caller
 * calls dir_sync(). Until then a crash may leave damaged parts, which their checksums reveal. */
struct err *recording_seal(struct recording *r) MUST_USE;
/* Why parts were dropped, or NULL. */
const char *recording_drop_reason(const struct recording *r);
bool recording_sealed(const struct recording *r);
/* Bytes of all parts that were not dropped. */
uint64_t recording_kept_bytes(const struct recording *r);

/* Reading. */
struct err *recording_open(const char *dir, struct recording **ret) MUST_USE;
struct recording_part_info {
	const char *name, *kind;
	uint64_t bytes;
	bool whole, kept, damaged;
};
size_t recording_n_parts(const struct recording *r);
struct recording_part_info recording_part_info(const struct recording *r, size_t i);
/* Calls chunk() with the part's bytes in order, until it fails. ERR_NOT_FOUND for a part that was not kept; a damaged
 * one gives what is there, never more than the manifest says. */
struct err *recording_part_read(struct recording *r, const char *name,
				struct err *(*chunk)(void *user, const void *data, size_t len), void *user) MUST_USE;
void recording_free(struct recording *r);
DEFINE_CLEANUP(recording_free, struct recording *)
