#pragma once
/* Regular expressions on threads' stacks: the pattern that a thread matches, whether it is compiled, generated or
 * interpreted. Everything read is hostile. */

#include "heap/objects.h"
#include "threads/thread_snapshot.h"

/* Names the user's method that matches, of each thread that does, with the pattern: "Shop.Rules.Check (matches
 * ^(a+)+$)". */
void thread_snapshot_find_patterns(struct thread_snapshot *s, const struct snapshot_source *raw);
