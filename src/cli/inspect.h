#pragma once
/* What `inspect` and `dump open` share. */

#include "cli/command.h"
#include "inspect/inspect.h"

/* Asks what -c says, or opens a prompt. */
struct err *inspect_ask(const struct args *args, struct inspect *in) MUST_USE;
