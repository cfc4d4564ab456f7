#pragma once
/* Names of managed code when the runtime cannot be asked: the files it writes for other profilers when it was told to
 * (DOTNET_PerfMapEnabled), below its own root. The process writes them, so they are hostile. */

#include "eventpipe/methods.h"
#include "target/target.h"

/* How many ranges were learnt; 0 without such files. The jitdump comes first: it alone knows precompiled code. */
size_t code_files_read(const struct target *target, struct methods *methods);
/* The same for a process that is gone or on another machine: a map in that folder. */
size_t code_file_map(const char *folder, uint32_t pid, struct methods *methods);
