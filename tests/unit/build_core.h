#pragma once
/* Writes core files and streamed images for tests: good ones by default, and whatever a test wants to be wrong. */

#include "base/buf.h"
#include "image/image.h"
#include <elf.h>

struct core_segment {
	uint64_t addr, len;
	const void *bytes; /* NULL: left out of the file */
	uint32_t flags;	   /* PF_R ... */
};
struct core_file {
	uint64_t start, end, page_offset;
	const char *path;
};
struct core_thread {
	int tid;
	uint64_t rip, rsp;
};
struct core_spec {
	const struct core_segment *segments;
	size_t n_segments;
	const struct core_file *files;
	size_t n_files;
	const struct core_thread *threads;
	size_t n_threads;
	int pid;
	int signal; /* that its second thread died of, with code 1 at address 0x40; 0 = none */
	const char *command;
	uint64_t extra_segments; /* empty ones, for more than a header can count */
	uint16_t machine;	 /* 0 = x86-64 */
};
void build_core(struct buf *out, const struct core_spec *spec);
/* One more note, name "CORE", appended to notes. */
void build_note(struct buf *notes, uint32_t type, const void *desc, size_t len);
/* A page with the headers of an ELF file and a build id note in it. */
#define BUILD_ELF_LEN 4096
void build_elf(uint8_t page[BUILD_ELF_LEN], const uint8_t *id, size_t id_len);

/* A descriptor of an unnamed file with these bytes. */
int build_file(const void *data, size_t len);

/* Records of a stream (wire/image.h). */
void build_stream_head(struct buf *out, int pid);
void build_stream_record(struct buf *out, uint32_t kind, uint64_t addr, const void *data, uint64_t len);
