#pragma once
/* The image as dachost sees it: the setup's table of pieces and the descriptors behind them, read with pread alone. */

#include "wire/dac.h"
#include <stdbool.h>
#include <stddef.h>

struct memory_page;
struct memory {
	const struct wire_dac_setup *setup;
	const struct wire_dac_piece *pieces;
	const struct wire_dac_regs *threads;
	struct memory_page *pages; /* read lately: stacks are read word by word */
	uint32_t *by_tid;	   /* indexes into threads */
};

/* Maps and checks the setup. False when it is not one of ours. */
bool memory_open(struct memory *m, int setup_fd);
/* How many bytes from addr on could be read without a gap. */
size_t memory_read(const struct memory *m, uint64_t addr, void *buf, size_t len);
/* Of a living process: what was read may have changed. */
void memory_forget(struct memory *m);
/* 0 when it cannot be read. */
uint64_t memory_u64(const struct memory *m, uint64_t addr);
/* NULL when the thread is not in the image. */
const struct wire_dac_regs *memory_thread(const struct memory *m, uint32_t tid);
