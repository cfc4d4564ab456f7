#pragma once
/* What a runtime wrote about its code for other profilers: /tmp/perf-PID.map and jitdump files. Bytes in, ranges out;
 * no I/O. All input is hostile; what makes no sense is left out.
 *
 * A map is lines "START SIZE name" in hexadecimal. A jitdump is records of loaded code, see jitdump in perf's
 * documentation. .NET writes names as "instance void [Shop] Shop.Orders::Place(int32)[OptimizedTier1]". */

#include "base/buf.h"

/* Names are not ended by a NUL. Later entries replace earlier ones of the same start. */
typedef void code_map_entry(void *user, uint64_t start, uint64_t size, const char *name, size_t name_len);

void perf_map_parse(const char *text, size_t len, code_map_entry *entry, void *user);
/* False when it is no jitdump of our byte order. */
bool jitdump_parse(const void *bytes, size_t len, code_map_entry *entry, void *user);

/* Takes .NET's decoration apart: "Shop.Orders" and "Place". False for names that have none of it; then it is a stub of
 * the runtime, or another runtime's. */
bool code_name_split(const char *name, size_t len, struct buf *space, struct buf *method);
