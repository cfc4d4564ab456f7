#pragma once
/* Tokens on the command line, which every user of the machine can read (ps). */

#include "base/err.h"

/* Copies the values of --token and --read-token, up to a "--", and strikes them out where the kernel shows them. For a moment after
 * the start they can be seen: a file or the environment is better. argv has the copies, which stay. */
void secret_hide(int argc, char **argv);
/* The first line of a file. The caller frees. */
struct err *secret_read(const char *path, char **ret) MUST_USE;
