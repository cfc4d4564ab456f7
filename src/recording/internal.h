#pragma once
/* What writing and reading of a recording share. */

#include "base/map.h"
#include "base/vec.h"
#include "recording/recording.h"

#define RECORDING_FORMAT 1
#define RECORDING_MANIFEST "manifest.json"
#define RECORDING_MANIFEST_MAX ((size_t)4 << 20)
#define RECORDING_PARTS_MAX 4096
#define RECORDING_PART_BYTES_MAX ((uint64_t)4 << 30)
#define RECORDING_BYTES_DEFAULT ((uint64_t)256 << 20)

struct recording_part {
	struct recording *recording;
	char *name, *kind;
	int fd;		/* while it is written */
	uint64_t bytes; /* offered while writing, promised by the manifest when reading */
	uint32_t sum;
	bool open, whole, kept, damaged;
};

struct recording {
	struct recording *outer; /* of one inside of another: only this, facts and prefix are used; or NULL */
	char *prefix;		 /* "exceptions." */
	unsigned cleared;
	char *dir; /* for messages */
	int dir_fd;
	uint64_t max_bytes, kept_bytes;
	json_t *facts;
	VEC(struct recording_part *) parts;
	struct recording_part *spill; /* takes and drops what comes after too many parts */
	struct strtab names;	      /* id = index of the part */
	char *drop_reason;
	bool sealed;
};

bool recording_name_ok(const char *name);
struct recording_part *recording_add_part(struct recording *r, const char *name, const char *kind);
struct recording_part *recording_find_part(const struct recording *r, const char *name);

/* manifest.c */
/* Over the manifest without its own sum. */
uint32_t recording_manifest_sum(const json_t *manifest);
struct err *recording_manifest_write(struct recording *r) MUST_USE;
struct err *recording_manifest_read(struct recording *r) MUST_USE;
