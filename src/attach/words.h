#pragma once
/* Why our library was not loaded, or could not do its work, in words that help. Private to attach. */

#include "base/err.h"
#include "ipc/patient.h"
#include "wire/agent.h"

/* The runtime's answer to AttachProfiler, not 0. */
struct err *words_refused(const struct patient *p, uint32_t hresult) MUST_USE;
/* What the library said before it left; refusal of kind 0: nothing. */
struct err *words_failed(const struct patient *p, const struct wire_agent_note *refusal, bool copied, int32_t status)
	MUST_USE;
