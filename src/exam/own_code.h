#pragma once
/* Learns from the program itself which assemblies are its own code (eventpipe/whose.h): its deps.json names the
 * projects and packages that it was built from, the assemblies their namespaces. Without one, or without the right to
 * read it, well-known names decide. Fails silently: an examination never depends on this. */

#include "exam/exam.h"

struct whose_names;
/* Of a living process. NULL = nothing was learnt. The caller frees. */
struct whose_names *own_code_of_process(const struct patient *patient);
/* Of a core, whose program's assembly lay at that path and may still. */
struct whose_names *own_code_of_core(const char *assembly);
/* Of the exam's program, alive or recorded: exam->whose. A core is asked when it is open. */
void own_code_learn(struct exam *exam);
/* Takes them for exam->whose, and keeps them in its recording. */
void own_code_use(struct exam *exam, struct whose_names *names);
