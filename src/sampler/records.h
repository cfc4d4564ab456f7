#pragma once
/* Parser of the kernel's perf records. Bytes in, one record out; no I/O. Safe for hostile input. */

#include "sampler/unwind.h"

enum record_kind { RECORD_SAMPLE, RECORD_SWITCH, RECORD_LOST, RECORD_COMM, RECORD_THROTTLE, RECORD_OTHER };

struct record {
	enum record_kind kind;
	uint32_t pid, tid, cpu;
	uint64_t time; /* monotonic ns */
	/* RECORD_SAMPLE */
	uint64_t period;
	const uint8_t *kernel; /* n_kernel addresses of 8 bytes, leaf first, unaligned, markers among them */
	size_t n_kernel;
	bool has_regs;
	struct unwind_regs regs;
	struct unwind_stack stack;
	/* RECORD_SWITCH */
	bool out, preempted;
	/* RECORD_LOST: samples that were dropped because the ring was full */
	uint64_t lost;
	/* RECORD_COMM: not ended by a NUL when it is 16 bytes long */
	const char *comm;
	size_t comm_len;
	bool exec; /* it became another program here */
};

/* The shape of records that our events ask for. */
#define RECORD_SAMPLE_TYPE                                                                                             \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN |           \
	 PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
/* The same for events with a fixed period: the kernel samples every single software event, whatever the period, when
 * the period is part of the sample. */
#define RECORD_SAMPLE_TYPE_COUNTED (RECORD_SAMPLE_TYPE & ~(uint64_t)PERF_SAMPLE_PERIOD)
/* AX BX CX DX SI DI BP SP IP R8..R15 */
#define RECORD_REGS 0xff01ffull
#define RECORD_REGS_N 17

/* One whole record with its header. False when it is damaged. */
bool record_parse(const uint8_t *bytes, size_t len, struct record *ret);
/* One of RECORD_SAMPLE_TYPE_COUNTED; its period is 1. */
bool record_parse_counted(const uint8_t *bytes, size_t len, struct record *ret);
/* An address of the kernel part; 0 for the markers between its parts. */
uint64_t record_kernel_ip(const struct record *r, size_t i);
