#pragma once
/* Samples as a profile for the writers of export/. */

#include "export/profile.h"
#include "sampling/samples.h"

/* Adds all of them and seals it. */
struct err *profile_from_samples(const struct samples *samples, struct profile *p) MUST_USE;
