#pragma once
/* What the reader and the writer of .gcdump files share.
 *
 *   string   i32 number of UTF-16 units (-1 = none), each as UTF-8 by itself
 *   type     BEGIN NULL, i32 version, i32 oldest reader's version, string name, END
 *   object   BEGIN, type (or REFERENCE, i32 where it was), its contents, END; or NULL
 *
 *   file     string "!FastSerialization.1", object GCHeapDump, END, table of forward references, trailer
 *   GCHeapDump
 *            object Graphs.MemoryGraph, u8 64-bit, f32 objects per node, f32 bytes per byte, object (of scripts),
 *            object DotNetHeapInfo, string log, i64 when (100 ns since year 1), string machine, string process, i32
 *            pid, i64 committed, i64 in RAM, i32 number of multipliers and so many f32; then tagged: region (interop),
 *            string tool
 *   MemoryGraph
 *            i64 bytes, i32 root, i32 types, each { string name, i32 size, string module }; i32 nodes, each i32 where
 *            in the blob; i32 length of the blob, blob; i32 nodes, each i64 address; tagged: u8 64-bit
 *   blob     of a node: type * 2 + 1 if its size follows (else it is its type's), [size], references, each less the
 *            node's own number; numbers have 7 bits a byte, the highest first, with a sign */

#include "model/gcdump.h"

#define GCDUMP_MAGIC "!FastSerialization.1"
#define GCDUMP_ENTRY "GCHeapDump"
#define GCDUMP_GRAPH "Graphs.MemoryGraph"
enum { GCDUMP_VERSION = 10, GCDUMP_OLDEST_READER = 8 };
enum gcdump_tag {
	GCDUMP_NULL = 1,
	GCDUMP_REFERENCE = 2,
	GCDUMP_BEGIN = 4,
	GCDUMP_END = 6,
	GCDUMP_BYTE = 8,
	GCDUMP_REGION = 12,
	GCDUMP_STRING = 13,
};
/* From year 1 to 1970, in units of 100 ns. */
#define GCDUMP_TICKS_1970 621355968000000000LL
