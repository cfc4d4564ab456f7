#pragma once
/* How a process ends when memory is used up: mem_* of base.h write one line to standard error and end it in order, without a
 * core file, since there is no room for one and what we know of a target would be in it. */

/* The exit code then; 1 unless it is chosen here. To be called before there are threads. */
void mem_set_exhausted_exit(int code);
