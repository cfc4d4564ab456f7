#pragma once
/* Managed stacks of events: kept once each as addresses while events come, named afterwards. Bounded. */

#include "eventpipe/methods.h"
#include "nettrace/nettrace.h"
#include "report/report.h"

struct stacks;
/* whose is the caller's; NULL = not known. */
struct stacks *stacks_new(const struct whose_names *whose);
void stacks_free(struct stacks *s);
DEFINE_CLEANUP(stacks_free, struct stacks *)

#define STACKS_NONE UINT32_MAX
/* The id of the event's stack, or STACKS_NONE when it has none or the set is full. */
uint32_t stacks_add(struct stacks *s, const struct nettrace_event *event);
size_t stacks_count(const struct stacks *s);
size_t stacks_depth(const struct stacks *s, uint32_t id);

struct stack_frame {
	const char *name;  /* as the author wrote it; "[unknown 0x...]" when no method is known there */
	const char *space; /* its type, "" when unknown */
	bool known, framework;
};
/* Frame i, leaf first. Strings live as long as the set. */
struct stack_frame stacks_frame(struct stacks *s, struct methods *methods, uint32_t id, size_t i);
/* How many frames of all stacks have no name. */
uint64_t stacks_unknown(struct stacks *s, struct methods *methods);
/* The frame that a reader looks for: the leaf-most of the user's own source. Without one, that of a library (an unknown
 * package before a well-known one), or of code that was made at run time or has no name, which may be the user's; else
 * the leaf. Below the user's own code these are usually stubs. Returns its index. */
size_t stacks_site(struct stacks *s, struct methods *methods, uint32_t id);
/* The frames from `first` on as lines under a row, leaf first; recursion is one line, a long stack is cut. */
void stacks_lines(struct stacks *s, struct methods *methods, uint32_t id, size_t first, struct report_row *row);
