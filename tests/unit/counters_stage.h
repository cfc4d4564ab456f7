#pragma once
/* A process that is listened to: its stream is built by the test and sent by a fake runtime. */

#include "unit.h"
#include "base/fd.h"
#include "build_counters.h"
#include "counters/source.h"
#include "fake_runtime.h"
#include <fcntl.h>

struct stage {
	char dir[64], socket[96];
	struct build_nettrace b;
	uint32_t sequence;
	struct fake_runtime *fake;
	struct counters *c;
};

static inline void stage_begin(struct stage *s)
{
	*s = (struct stage){ 0 };
	unit_temp_dir(s->dir, sizeof(s->dir));
	snprintf(s->socket, sizeof(s->socket), "%s/socket", s->dir);
	build_nettrace_begin(&s->b, 4);
	for (size_t i = 0; i < ARRAY_SIZE(counters_metas); i++)
		build_nettrace_meta(&s->b, &counters_metas[i]);
}

static inline void stage_event(struct stage *s, uint32_t id, struct buf *payload)
{
	build_nettrace_event(&s->b, &(struct build_event){ .meta_id = id,
							   .sequence = ++s->sequence,
							   .capture_thread = 1,
							   .time = s->sequence,
							   .payload = payload->data,
							   .payload_size = payload->len });
	buf_free(payload);
}

static inline void stage_open(struct stage *s, const struct counters_want *want)
{
	build_nettrace_end(&s->b);
	s->fake = fake_runtime_start(
		s->socket, (struct fake_config){ .release = 10, .stream = s->b.out.data, .stream_len = s->b.out.len });
	assert_ok(counters_open(s->socket, want, deadline_in_ms(5000), &s->c));
	/* All of the stream comes before its end, however soon that is asked for. */
	CLOSE_FD int hurry = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(hurry >= 0);
	assert_ok(counters_stop(s->c, deadline_in_ms(5000), hurry));
}

static inline void stage_end(struct stage *s)
{
	counters_free(s->c);
	fake_runtime_stop(s->fake);
	build_nettrace_free(&s->b);
	rmdir(s->dir);
}

static inline void stage_session(struct stage *s, uint32_t id)
{
	struct buf p = { 0 };
	BUILD_TEXTS(&p, "SHARED");
	stage_event(s, id, &p);
}

static inline void stage_collection(struct stage *s, double seconds, const char *rate, const char *value)
{
	struct buf p = { 0 };
	build_collection(&p, seconds);
	stage_event(s, 102, &p);
	build_counter(&p, "shop.orders", "kind=web", rate, value);
	stage_event(s, 104, &p);
	build_gauge(&p, "shop.free", "100");
	stage_event(s, 105, &p);
	build_histogram(&p, "shop.duration", "0.5=1;0.95=2;0.99=3", 8, 16);
	stage_event(s, 106, &p);
	build_collection(&p, seconds);
	stage_event(s, 103, &p);
}
