#pragma once
/* An image as a stream of records, as a process sends it of itself: over a pipe, or in a file. Little-endian.
 *
 *   head, record, record ... end
 *
 * Memory comes in any order; of two records that hold an address the first is used. */

#include <stdint.h>

#define WIRE_IMAGE_MAGIC "drdnimg"
#define WIRE_IMAGE_VERSION 1

struct wire_image_head {
	char magic[8];
	uint32_t version;
	int32_t pid; /* as the process knows itself */
};

enum wire_image_kind {
	WIRE_IMAGE_MAPS = 1, /* the text of /proc/self/maps */
	WIRE_IMAGE_THREAD,   /* struct wire_image_thread */
	WIRE_IMAGE_MEMORY,   /* addr, bytes */
	WIRE_IMAGE_ZERO,     /* addr; len zero bytes, none of which follow */
	WIRE_IMAGE_AUXV,
	WIRE_IMAGE_COMMAND, /* its command line, as text */
	WIRE_IMAGE_END,	    /* addr: how many records came before */
	WIRE_IMAGE_FILE,    /* struct wire_image_file, its path as the process sees it, its bytes */
};

/* A file that the reader of the image may not be able to see. */
struct wire_image_file {
	uint32_t path_len, reserved;
};

struct wire_image_record {
	uint32_t kind, flags;
	uint64_t addr, len; /* len bytes of data follow, but for ZERO */
};

enum { WIRE_IMAGE_HAS_REGS = 1, WIRE_IMAGE_HAS_FP = 2 };
struct wire_image_thread {
	int32_t tid;
	uint32_t flags;
	char name[16];
	uint64_t regs[27]; /* in the kernel's order */
	uint8_t fp[512];
};
