#pragma once
/* The file that holds the symbols of a stripped library, where distributions and .NET put it: by build id, by link
 * name, "X.so.dbg" beside X.so, and our own cache of downloads. Only one of exactly the same build is taken. */

#include "symbols/elffile.h"

/* root: where the library's process has its root ("" = ours). Looks below it, then below ours. NULL when there is none,
 * or none is needed. The caller frees. */
struct elf *debug_file_find(const char *root, const char *path, const struct elf *elf);
