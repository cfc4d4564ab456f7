#pragma once
/* What an async method awaits, read from its state machine; and the queue of a SemaphoreSlim. */

#include "heap/objects.h"

#define TASK_DONE 0x01600000 /* of Task.m_stateFlags: completed, faulted or cancelled */

/* The task, or the source of a value task, that a state machine awaits and that is not done; 0 = none. */
uint64_t awaited_by_machine(struct heap *h, struct heap_value machine);
/* What SemaphoreSlim.WaitAsync gives: a place in the queue of its waiters. */
bool is_semaphore_waiter(const struct heap_type *type);
/* The waiter behind that one, the first for 0; false at the end, and when this is no SemaphoreSlim. */
bool semaphore_waiter(struct heap *h, uint64_t semaphore, uint64_t *waiter);
/* Used as a lock or a limit, and none is left: how many places there are; 0 = that is not so. */
uint32_t semaphore_taken(struct heap *h, struct heap_value semaphore);
