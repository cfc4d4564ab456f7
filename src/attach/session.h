#pragma once
/* Our library in a target and the connections to it: loaded, connected back, left. Private to attach. */

#include "attach/attach.h"
#include "attach/place.h"
#include "ipc/patient.h"
#include "wire/agent.h"

#define SESSION_CALL_MS 10000 /* each answer of the library, once it is loaded */
#define SESSION_LEAVE_MS 5000

struct attach_session {
	const struct patient *patient;
	struct place place;
	struct wire_agent_config config;
	int control, copy; /* connections; -1 = not there */
	int lock;	   /* the lock for one intrusive examination of a target at a time */
	struct attach_facts *facts;
	struct wire_agent_note refusal; /* kind 0 = none */
	int32_t copy_status;
	bool copied, copy_ended, left;
};

/* Loads the library with that configuration: its common part is filled in here. After a failure there is nothing to
 * end. */
struct err *session_begin(struct attach_session *s, const struct patient *p, const struct attach_options *o,
			  const struct wire_agent_config *config, struct attach_facts *facts) MUST_USE;
/* Accepts connections and reads messages, until *line is connected or the library has left. line NULL: until it has
 * left. */
struct err *session_listen(struct attach_session *s, const int *line, struct deadline deadline) MUST_USE;
void session_end(struct attach_session *s);
