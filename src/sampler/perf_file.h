#pragma once
/* Parser of perf.data files of linux-perf: bytes in; names, mappings and samples with their call chains out, in order
 * of time. No I/O, no names of code. All input is hostile.
 *
 * The layout is that of perf's own header.h: "PERFILE2", sections for attributes and data, then one section for each
 * feature whose bit is set. Compressed files, files written to a pipe and those of other byte order are refused with a
 * message. */

#include "base/err.h"

enum perf_item_kind { PERF_ITEM_COMM, PERF_ITEM_FORK, PERF_ITEM_MMAP, PERF_ITEM_SAMPLE };

struct perf_item {
	enum perf_item_kind kind;
	uint32_t pid, tid; /* pid UINT32_MAX: the kernel */
	uint64_t time;	   /* ns on the clock of the recording; 0 = not known */
	/* COMM: its name; MMAP: the file's. Not ended by a NUL. */
	const char *text;
	size_t text_len;
	bool exec;     /* COMM: a new program */
	uint32_t ppid; /* FORK */
	uint64_t start, size, offset;
	uint8_t build_id[20];
	size_t build_id_len; /* 0 = not known */
	/* SAMPLE */
	uint64_t period;
	const uint8_t *chain; /* n_chain addresses of 8 bytes, leaf first, unaligned, markers among them */
	size_t n_chain;
	uint64_t ip;
	bool kernel; /* the leaf is the kernel's */
};

struct perf_file_facts {
	char hostname[128], release[128]; /* "" = not known */
	uint64_t samples, lost;
	uint64_t start, end; /* times of the first and the last sample */
	uint32_t type;	     /* of the first event, as the kernel numbers them */
	uint64_t config;
	uint64_t period;  /* of it; 0 when it is a frequency */
	bool user_stacks; /* stacks were copied (--call-graph dwarf): they are not unwound here */
	bool cut;	  /* the file ends early */
};

struct err *perf_file_read(const void *bytes, size_t len, void (*item)(void *user, const struct perf_item *item),
			   void *user, struct perf_file_facts *ret) MUST_USE;
/* Address i of a sample's chain; *ret_kernel changes where a marker says so. 0 for the markers. */
uint64_t perf_item_ip(const struct perf_item *item, size_t i, bool *ret_kernel);
