#include "attach/session.h"
#include "attach/words.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/fault.h"
#include <stdlib.h>

static struct err *receive(struct attach_session *s, const struct attach_options *o, struct image **ret)
{
	const char *env = getenv("TMPDIR");
	uint64_t patience_ms = o->patience_ms ? o->patience_ms : SESSION_CALL_MS;
	struct image_stream_limits limits = { .spool = o->spool		? o->spool
						       : str_empty(env) ? "/tmp"
									: env,
					      .timeout_ms = patience_ms };
	TRY(session_listen(s, &s->control, deadline_in_ms(patience_ms)));
	fault_point("control");
	TRY(session_listen(s, &s->copy, deadline_in_ms(s->config.suspend_ms + patience_ms)));
	if (s->copy < 0)
		return words_failed(s->patient, &s->refusal, s->copied, s->copy_status);
	fault_point("copy");
	/* All have called. */
	place_remove(&s->place);
	uint64_t from_ns = clock_mono_ns();
	struct err *err = image_open_stream(fd_steal(&s->copy), &limits, ret);
	s->facts->stream_ns = clock_mono_ns() - from_ns;
	fault_point("stream");
	struct err *silent = session_listen(s, NULL, deadline_in_ms(MIN(patience_ms, (uint64_t)SESSION_LEAVE_MS)));
	if (err && s->copy_ended && s->copy_status) {
		err_free(err);
		err = words_failed(s->patient, &s->refusal, s->copied, s->copy_status);
	}
	err_free(silent);
	return err;
}

struct err *attach_image(const struct patient *p, const struct attach_options *options, struct attach_facts *ret_facts,
			 struct image **ret)
{
	static const struct attach_options none = { 0 };
	const struct attach_options *o = options ? options : &none;
	uint64_t pause_ms = o->max_pause_ms ? o->max_pause_ms : IMAGE_MAX_PAUSE_MS;
	struct wire_agent_config config = { .mode = WIRE_AGENT_IMAGE,
					    .flags = o->send_dac ? WIRE_AGENT_SEND_DAC : 0,
					    .max_pause_ns = pause_ms * NS_PER_MS };
	struct attach_facts facts = { 0 };
	struct attach_session s;
	uint64_t from_ns = clock_mono_ns();
	struct err *err = session_begin(&s, p, o, &config, &facts);
	if (!err) {
		err = receive(&s, o, ret);
		session_end(&s);
	}
	facts.whole_ns = clock_mono_ns() - from_ns;
	if (ret_facts)
		*ret_facts = facts;
	return err;
}
