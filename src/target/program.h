#pragma once
/* Which runtime is linked into a program: the names its ELF file exports. Reads the file, never the process. */

#include "base/base.h"

enum program_runtime {
	PROGRAM_RUNTIME_NONE,
	PROGRAM_RUNTIME_CORECLR, /* a single-file application */
	PROGRAM_RUNTIME_AOT,	 /* NativeAOT */
};
/* Of an open file; what is not a 64-bit ELF file, or damaged, has none. */
enum program_runtime program_runtime(int fd);
