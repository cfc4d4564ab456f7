#pragma once
/* What dump.c, which takes a core file from a copy of the process, and runtime.c, which has the runtime write one,
 * share. Private to dump. */

#include "dump/dump.h"

/* About how many bytes the file will have. */
uint64_t dump_estimate(const struct patient *p, enum dump_type type);
/* Has the disk of that folder (an open descriptor) room for it? */
struct err *dump_check_room(int folder, const char *name, uint64_t need) MUST_USE;

struct err *runtime_collect(const struct patient *p, const struct dump_order *order, struct dump_result *ret) MUST_USE;
