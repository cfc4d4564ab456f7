#pragma once
/* What the files of the heap graph share. */

#include "model/heapgraph.h"

#define HEAPGRAPH_MAGIC 0x31474844u /* "DHG1" */
enum { HEAPGRAPH_END, HEAPGRAPH_GAP, HEAPGRAPH_TYPES };
enum { HEAPGRAPH_FACTS = 13 + GRAPH_AREAS };
void heapgraph_facts_from_values(const uint64_t values[HEAPGRAPH_FACTS], struct graph_facts *f);
