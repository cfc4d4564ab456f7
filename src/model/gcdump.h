#pragma once
/* .gcdump files of dotnet-gcdump, PerfView and Visual Studio, to and from heap graphs.
 *
 * They hold what is alive: a node for each object with its type, size and references, and nodes in brackets above them
 * for the roots. They have no names of fields, no generations and no garbage. Trusts nothing that it reads. Knows no
 * files. */

#include "model/heapgraph.h"

struct gcdump_facts {
	char *process;		 /* NULL = not said */
	int pid;		 /* 0 = not said */
	int64_t when_unix_ns;	 /* 0 = not said */
	double count_multiplier; /* above 1: only a sample of the objects is in it */
};
void gcdump_facts_fini(struct gcdump_facts *facts);

/* Does it begin like one? */
bool gcdump_is(const void *data, size_t len);
/* Appends the graph as heapgraph_read() takes it. ERR_BAD_DATA when it is damaged, ERR_UNSUPPORTED when it is of
 * another kind. facts may be NULL; out as well, when only the facts are wanted: then nodes are not looked at. */
struct err *gcdump_read(const void *data, size_t len, struct gcdump_facts *facts, struct buf *out) MUST_USE;
/* What is reached only: the graph must be dominated. Files of more than 2 GB do not exist: out then overflows. */
void gcdump_write(const struct heapgraph *g, const struct gcdump_facts *facts, struct buf *out);
