#pragma once
/* Learns from the program itself whose code its assemblies are (eventpipe/whose.h): its deps.json names the projects
 * and packages that it was built from, the assemblies the namespaces in them. Without one, or without the right to
 * look, well-known names decide. Fails silently: an examination never hangs on this. */

#include "exam/exam.h"

/* Of a living process; nothing of an earlier one stays. */
void own_code_learn(const struct patient *patient);
/* Of the exam's program, alive or recorded; kept in its recording. */
void own_code_learn_exam(struct exam *exam);
/* Of a core, whose program's assembly lay at that path and may still; exam: kept in its recording, or NULL. */
void own_code_learn_core(const char *assembly, struct exam *exam);
