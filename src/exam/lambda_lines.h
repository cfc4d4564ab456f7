#pragma once
/* The source lines of the user's lambdas, by the PDBs beside their assemblies: a lambda has no name, so a report names
 * the place. Only a PDB of the very build that runs is used. Bounded. */

#include "eventpipe/methods.h"
#include "exam/exam.h"

/* Sets the lines of all lambdas that are known by now (methods_set_place), and keeps them in the recording; when
 * replaying, takes them from there. What has no PDB, or whose process is gone, has no line. */
void lambda_lines_learn(struct exam *exam, struct methods *methods);
