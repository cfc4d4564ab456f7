/* Bytes on their way to responses, and who hears live events. */

#include "unit.h"
#include "server/internal.h"
#include "server/stream.h"

struct reader {
	unsigned slept, woken, room;
};
static void on_sleep(void *user)
{
	((struct reader *)user)->slept++;
}
static void on_wake(void *user)
{
	((struct reader *)user)->woken++;
}
static void on_room(void *user)
{
	((struct reader *)user)->room++;
}

static void a_stream_is_bounded_and_wakes_its_reader(void **state UNUSED)
{
	struct reader reader = { 0 };
	struct stream *s = stream_new(10);
	char data[16];
	size_t n = 0;
	stream_attach(s, &(struct stream_reader){ on_sleep, on_wake, &reader });
	stream_on_room(s, on_room, &reader);
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_WAIT);
	assert_int_equal(reader.slept, 1);
	assert_true(stream_write(s, "12345678", 8));
	assert_int_equal(reader.woken, 1);
	assert_int_equal(stream_room(s), 2);
	assert_false(stream_write(s, "abc", 3));
	assert_int_equal(stream_read(s, data, 4, &n), STREAM_DATA);
	assert_int_equal(n, 4);
	assert_int_equal(reader.room, 1);
	assert_true(stream_write(s, "abc", 3));
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_DATA);
	assert_int_equal(n, 7);
	assert_memory_equal(data, "5678abc", 7);
	stream_end(s, false);
	assert_false(stream_write(s, "x", 1));
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_END);
	assert_false(stream_reader_gone(s));
	stream_detach(s);
	assert_true(stream_reader_gone(s));
	stream_unref(s);
	s = stream_new(10);
	stream_end(s, true);
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_BROKEN);
	stream_unref(s);
}

static void listeners_hear_what_concerns_them(void **state UNUSED)
{
	static const char a[] = "805a308b-061c-47f3-9b30-f785c3186e82", b[] = "905a308b-061c-47f3-9b30-f785c3186e82";
	struct sse *live = sse_new();
	struct stream *all = sse_listen(live, NULL, false, false), *one = sse_listen(live, a, false, true);
	char data[200];
	size_t n = 0;
	sse_tell(live, b, "progress", "{}", NULL, false);
	sse_tell(live, a, "session", "{\"x\":1}", "{\"x\":9}", true);
	assert_int_equal(stream_read(one, data, sizeof(data), &n), STREAM_DATA);
	data[n] = '\0';
	/* By a share link: what is for those. */
	assert_string_equal(data, "event: session\ndata: {\"x\":9}\n\n");
	assert_int_equal(stream_read(one, data, sizeof(data), &n), STREAM_END);
	assert_int_equal(stream_read(all, data, sizeof(data), &n), STREAM_DATA);
	data[n] = '\0';
	assert_non_null(strstr(data, "progress"));
	assert_non_null(strstr(data, "session\ndata: {\"x\":1}"));
	assert_int_equal(sse_listeners(live), 1);
	assert_false(sse_shared_listeners(live));
	stream_detach(all);
	sse_heartbeat(live);
	assert_int_equal(sse_listeners(live), 0);
	stream_unref(all);
	stream_unref(one);
	sse_free(live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_is_bounded_and_wakes_its_reader),
		cmocka_unit_test(listeners_hear_what_concerns_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
