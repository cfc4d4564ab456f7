#pragma once
/* The parts that tests/fakes/dac.c plays. */

#define ACT_OFFSET 4096 /* in the image's file: a 32-bit number */
#define PROBE 0xA0000000u
#define PROBE_OPEN 0xA000FFFFu
#define DEADLY_METHOD 0xDEADu
#define FAKE_STRING_TYPE 0x5151u

enum act {
	ACT_NONE,
	/* when it is loaded */
	ACT_LOAD_FORK,
	ACT_LOAD_OPEN,
	/* when it is created: answers with what the kernel said */
	ACT_PROBE_FILES,
	ACT_PROBE_DESCRIPTORS,
	ACT_PROBE_RIGHTS,
	ACT_PROBE_CODE,
	ACT_PROBE_MEMORY,
	ACT_PROBE_SIGNALS,
	/* when it is asked for threads: forbidden calls */
	ACT_FORK,
	ACT_CLONE,
	ACT_EXEC,
	ACT_CONNECT,
	ACT_KILL,
	ACT_PTRACE,
	ACT_X32,
	/* and other misdeeds */
	ACT_CRASH,
	ACT_ABORT,
	ACT_SPIN,
	ACT_READ,
	ACT_GARBAGE,
	ACT_FLOOD,
	/* when it is asked for the name of DEADLY_METHOD */
	ACT_NAME_CRASH,
};
