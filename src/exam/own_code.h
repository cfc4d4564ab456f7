#pragma once
/* Learns from the program itself whose code its assemblies are (eventpipe/whose.h): its deps.json names the projects
 * and packages that it was built from, the assemblies the namespaces in them. Without one, or without the right to
 * look, well-known names decide. Fails silently: an examination never hangs on this. */

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
