#pragma once
/* Writes ids of Start/Stop activities as the runtimes do: what requests/activity_path.h reads. */

#include "requests/activity_path.h"

#define BUILD_ACTIVITY_PID 4242u

/* The id of "/1/5/2" from { 1, 5, 2 }. Numbers that do not fit are left out, which no runtime does. */
void build_activity(uint8_t ret[16], enum activity_form form, const uint32_t *numbers, size_t n);
/* The same with a last number that is none of the path: the activity was too deep. */
void build_activity_overflow(uint8_t ret[16], enum activity_form form, const uint32_t *numbers, size_t n,
			     uint32_t number);
