#pragma once
/* Regular expressions on threads' stacks: the pattern that a thread matches, whether it is compiled, generated or
 * interpreted. Everything read is hostile. */

#include "heap/objects.h"
#include "threads/thread_snapshot.h"

/* The pattern of an object that is a Regex, or of a class that a generator derived from it, appended; false when it is
 * none. Long ones are cut. */
bool regex_pattern(struct heap *h, uint64_t object, struct buf *out);
/* Names the user's method that matches, of each thread that does, with the pattern: "Shop.Rules.Check (matches
 * ^(a+)+$)". */
void thread_snapshot_find_patterns(struct thread_snapshot *s, const struct snapshot_source *raw);
