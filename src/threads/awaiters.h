#pragma once
/* What an async method awaits, read from its state machine. */

#include "heap/objects.h"

#define TASK_DONE 0x01600000 /* of Task.m_stateFlags: completed, faulted or cancelled */

/* The task, or the source of a value task, that a state machine awaits and that is not done; 0 = none. */
uint64_t awaited_by_machine(struct heap *h, struct heap_value machine);
