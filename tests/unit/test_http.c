/* The client against a server of a few lines that says what it is told to; and the socket in the home. */

#include "unit.h"
#include "base/fd.h"
#include "base/str.h"
#include "http/client.h"
#include "http/local.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define WAIT_MS 30000

/* ---- a server ---- */

struct script {
	int listener; /* takes one connection */
	const char *answer;
	size_t bytes_each; /* sent at a time; 0 = all at once */
	size_t body;	   /* bytes to be read behind the head of the request */
	const char *later; /* more of the answer, when go_fd says so */
	int go_fd;	   /* 0 = nothing is waited for */
	struct buf got;
	pthread_t thread;
};

static bool has_request(const struct script *s)
{
	const char *end = s->got.len ? memmem(s->got.data, s->got.len, "\r\n\r\n", 4) : NULL;
	return end && (size_t)(s->got.data + s->got.len - (end + 4)) >= s->body;
}

static void say(const struct script *s, int fd, const char *text)
{
	size_t len = strlen(text), each = s->bytes_each ? s->bytes_each : len;
	for (size_t at = 0; at < len; at += each)
		send(fd, text + at, MIN(each, len - at), MSG_NOSIGNAL);
}

static void *serve(void *user)
{
	struct script *s = user;
	char data[4096], go;
	struct pollfd asked = { .fd = s->listener, .events = POLLIN };
	CLOSE_FD int fd = poll(&asked, 1, WAIT_MS) == 1 ? accept4(s->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
	for (ssize_t n = 1; fd >= 0 && n > 0 && !has_request(s);)
		if ((n = recv(fd, data, sizeof(data), 0)) > 0)
			buf_add(&s->got, data, (size_t)n);
	say(s, fd, s->answer);
	if (s->go_fd && read(s->go_fd, &go, 1) == 1)
		say(s, fd, s->later ? s->later : "");
	return NULL;
}

/* Listens on the loopback address; ret_url "http://127.0.0.1:PORT". */
static void start(struct script *s, char ret_url[64])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(s->listener, 1), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
	snprintf(ret_url, 64, "http://127.0.0.1:%u", ntohs(a.sin_port));
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct script *s)
{
	assert_int_equal(pthread_join(s->thread, NULL), 0);
	close(s->listener);
	buf_free(&s->got);
}

static struct deadline soon(void)
{
	return deadline_in_ms(WAIT_MS);
}

/* Asks for "/x" and reads all of the body. */
static struct err *ask(const char *answer, size_t bytes_each, size_t max, int *ret_status, struct buf *ret_body)
{
	struct script s = { .answer = answer, .bytes_each = bytes_each };
	CLEANUP(http_freep) struct http_client *c = NULL;
	char url[64];
	start(&s, url);
	struct err *err = http_open(&(struct http_order){ .url = url, .method = "GET", .path = "/x" }, soon(), &c);
	if (!err) {
		*ret_status = http_status(c);
		err = http_read_all(c, max, soon(), ret_body);
	}
	http_free(STEAL(c));
	stop(&s);
	return err;
}

/* ---- answers ---- */

static void bodies_are_whole_however_they_are_framed(void **state UNUSED)
{
	static const struct {
		const char *answer, *body;
		int status;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more", "hello", 200 },
		{ "HTTP/1.0 404 Not Found\r\n\r\nuntil it closes", "until it closes", 404 },
		{ "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, 10 bytes\r\n0\r\n\r\n",
		  "hello, 10 bytes", 200 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200 },
		{ "HTTP/1.1 204 No Content\r\n\r\n", "", 204 },
	};
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_free) struct buf body = { 0 };
		int status = 0;
		assert_ok(ask(cases[i / 2].answer, i % 2, 100, &status, &body));
		assert_int_equal(status, cases[i / 2].status);
		assert_string_equal(buf_cstr(&body), cases[i / 2].body);
	}
}

static void damaged_answers_are_refused(void **state UNUSED)
{
	static const struct {
		const char *answer;
		enum err_kind kind;
	} cases[] = {
		{ "", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nContent-Le", ERR_BAD_DATA },
		{ "SSH-2.0-OpenSSH_9.2\r\n\r\n", ERR_BAD_DATA },
		{ "HTTP/1.1\r\n\r\n", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", ERR_IO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
		  "More than a hundred bytes, which is the most that is taken here. More than a hundred bytes, which is.",
		  ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx", ERR_BAD_DATA },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", ERR_IO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", ERR_IO },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_free) struct buf body = { 0 };
		int status = 0;
		assert_err(ask(cases[i].answer, 0, 100, &status, &body), cases[i].kind);
	}
}

static void a_head_has_its_bounds(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf endless = { 0 }, body = { 0 };
	int status = 0;
	buf_str(&endless, "HTTP/1.1 200 OK\r\nX: ");
	for (int i = 0; i < 200000; i++)
		buf_char(&endless, 'a');
	assert_err(ask(buf_cstr(&endless), 0, 100, &status, &body), ERR_BAD_DATA);
}

static void headers_are_found_in_any_case(void **state UNUSED)
{
	struct script s = {
		.answer = "HTTP/1.1 302 Found\r\nLOCATION: \t/there\r\nX-Locations: 3\r\nContent-Length: 0\r\n\r\n"
	};
	CLEANUP(http_freep) struct http_client *c = NULL;
	char url[64];
	start(&s, url);
	assert_ok(http_open(&(struct http_order){ .url = url, .method = "GET", .path = "/" }, soon(), &c));
	assert_string_equal(http_header(c, "Location"), "/there");
	assert_string_equal(http_header(c, "x-locations"), "3");
	assert_null(http_header(c, "Locat"));
	assert_null(http_header(c, "HTTP/1.1 302 Found"));
	stop(&s);
}

/* ---- requests ---- */

static void a_request_is_what_was_ordered(void **state UNUSED)
{
	struct script s = { .answer = "HTTP/1.1 204 No Content\r\n\r\n", .body = 2 };
	CLEANUP(http_freep) struct http_client *c = NULL;
	char url[64];
	start(&s, url);
	CLEANUP(mem_freep) char *with_prefix = mem_printf("%s/behind/proxy//?ignored", url);
	struct http_order order = { .url = with_prefix,
				    .method = "POST",
				    .path = "/api/commands?x=1",
				    .token = "secret",
				    .type = "application/json",
				    .body = "{}",
				    .body_len = 2 };
	assert_ok(http_open(&order, soon(), &c));
	assert_int_equal(pthread_join(s.thread, NULL), 0);
	const char *got = buf_cstr(&s.got);
	assert_true(str_starts(got, "POST /behind/proxy/api/commands?x=1 HTTP/1.1\r\n"));
	CLEANUP(mem_freep) char *host = mem_printf("\r\nHost: %s\r\n", url + strlen("http://"));
	assert_non_null(strstr(got, host));
	assert_non_null(strstr(got, "\r\nAuthorization: Bearer secret\r\n"));
	assert_non_null(strstr(got, "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"));
	assert_true(str_ends(got, "\r\n\r\n{}"));
	close(s.listener);
	buf_free(&s.got);
}

static void what_is_no_address_is_said(void **state UNUSED)
{
	static const char *const bad[] = { "",
					   "host",
					   "ftp://host",
					   "http://",
					   "http://:80",
					   "http://u@host",
					   "http://host:0",
					   "http://host:65536",
					   "http://host:x",
					   "http://a b",
					   "https:///path",
					   "http://[::1",
					   "http://h\r\nX: y" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct http_client *c = NULL;
		struct http_order order = { .url = bad[i], .method = "GET", .path = "/" };
		assert_err(http_open(&order, soon(), &c), ERR_USAGE);
	}
}

static void addresses_are_taken_apart(void **state UNUSED)
{
	static const char *const cases[][3] = {
		{ "http://host", "http://host", "/" },
		{ "https://host:9292/a/b?c=/d", "https://host:9292", "/a/b?c=/d" },
		{ "http://host?x", "http://host", "/?x" },
		{ "http://[::1]:80/a#b?c", "http://[::1]:80", "/a" },
		{ "https://host#top", "https://host", "/" },
		{ "http://", "http://", "/" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(mem_freep) char *site = NULL, *path = NULL;
		assert_true(http_is_address(cases[i][0]));
		http_split(cases[i][0], &site, &path);
		assert_string_equal(site, cases[i][1]);
		assert_string_equal(path, cases[i][2]);
	}
	assert_false(http_is_address("ftp://host") || http_is_address("http:/host") || http_is_address(""));
}

/* ---- waiting ---- */

static void reading_can_be_interrupted_and_goes_on(void **state UNUSED)
{
	int go[2], wake[2];
	char data[16];
	size_t n = 0;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(wake, O_CLOEXEC), 0);
	struct script s = { .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
			    .go_fd = go[0],
			    .later = "3\r\ntwo\r\n0\r\n\r\n" };
	CLEANUP(http_freep) struct http_client *c = NULL;
	char url[64];
	start(&s, url);
	assert_ok(http_open(&(struct http_order){ .url = url, .method = "GET", .path = "/" }, soon(), &c));
	assert_ok(http_read(c, data, sizeof(data), soon(), wake[0], &n));
	assert_int_equal(n, 3);
	assert_memory_equal(data, "one", 3);
	assert_err(http_read(c, data, sizeof(data), deadline_in_ms(1), wake[0], &n), ERR_TIMEOUT);
	assert_int_equal(write(wake[1], "x", 1), 1);
	assert_err(http_read(c, data, sizeof(data), soon(), wake[0], &n), ERR_CANCELLED);
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_ok(http_read(c, data, sizeof(data), soon(), -1, &n));
	assert_int_equal(n, 3);
	assert_memory_equal(data, "two", 3);
	assert_ok(http_read(c, data, sizeof(data), soon(), -1, &n));
	assert_int_equal(n, 0);
	stop(&s);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(wake[i]);
	}
}

static void who_does_not_answer_is_not_waited_for(void **state UNUSED)
{
	int go[2];
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	struct script s = { .answer = "", .go_fd = go[0] };
	struct http_client *c = NULL;
	char url[64];
	start(&s, url);
	struct http_order order = { .url = url, .method = "GET", .path = "/" };
	assert_err(http_open(&order, deadline_in_ms(20), &c), ERR_TIMEOUT);
	assert_int_equal(write(go[1], "x", 1), 1);
	stop(&s);
	assert_err(http_open(&order, soon(), &c), ERR_IO); /* nobody listens any more */
	close(go[0]);
	close(go[1]);
}

/* ---- the socket in the home ---- */

static void the_home_is_asked_first_or_alone(void **state UNUSED)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	char home[64];
	struct http_client *c = NULL;
	struct http_order order = { .url = "http://localhost:9293", .method = "GET", .path = "/" };
	struct script s = { .answer = answer };
	unit_temp_dir(home, sizeof(home));
	setenv("DRDOTNET_HOME", home, 1);
	order.way = HTTP_LOCAL_ONLY;
	assert_err(http_open(&order, soon(), &c), ERR_NOT_FOUND);
	for (int i = 0; i < 2; i++) {
		order.way = i ? HTTP_LOCAL_FIRST : HTTP_LOCAL_ONLY;
		assert_ok(http_local_listen(home, 9293, &s.listener));
		assert_int_equal(pthread_create(&s.thread, NULL, serve, &s), 0);
		assert_ok(http_open(&order, soon(), &c));
		assert_int_equal(http_status(c), 200);
		http_free(c);
		stop(&s);
		http_local_remove(home, 9293);
	}
	unsetenv("DRDOTNET_HOME");
	assert_ok(dir_remove(home));
}

static void the_kernel_says_who_connects(void **state UNUSED)
{
	int pair[2];
	uid_t uid = 12345;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(http_local_peer(pair[0], &uid), HTTP_LOCAL_TRUSTED);
	assert_int_equal(uid, geteuid());
	close(pair[0]);
	close(pair[1]);
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(http_local_peer(tcp, &uid), HTTP_LOCAL_NONE);
	assert_int_equal(http_local_peer(-1, &uid), HTTP_LOCAL_NONE);
	close(tcp);
}

static void one_server_has_the_socket_of_a_port(void **state UNUSED)
{
	char dir[64];
	int first = -1, second = -1, client = -1;
	struct stat st;
	unit_temp_dir(dir, sizeof(dir));
	/* Longer than the address of a socket may be. */
	CLEANUP(mem_freep) char *home = mem_printf("%s/%0120d", dir, 0);
	CLEANUP(mem_freep) char *path = mem_printf("%s/9292.sock", home);
	assert_ok(dir_make(home, 0700));
	setenv("DRDOTNET_HOME", home, 1);
	assert_err(http_local_connect(9292, deadline_in_ms(1000), &client), ERR_NOT_FOUND);
	assert_ok(http_local_listen(home, 9292, &first));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	assert_err(http_local_listen(home, 9292, &second), ERR_BUSY);
	assert_ok(http_local_connect(9292, deadline_in_ms(1000), &client));
	close(client);
	/* It dies, and its name stays. */
	close(first);
	assert_err(http_local_connect(9292, deadline_in_ms(1000), &client), ERR_NOT_FOUND);
	assert_ok(http_local_listen(home, 9292, &second));
	http_local_remove(home, 9292);
	assert_int_equal(stat(path, &st), -1);
	close(second);
	/* What is no socket is nobody's to remove. */
	assert_ok(file_put(path, "x", 1, 0600));
	assert_err(http_local_listen(home, 9292, &first), ERR_DENIED);
	assert_int_equal(stat(path, &st), 0);
	unsetenv("DRDOTNET_HOME");
	assert_ok(dir_remove(dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_whole_however_they_are_framed),
		cmocka_unit_test(damaged_answers_are_refused),
		cmocka_unit_test(a_head_has_its_bounds),
		cmocka_unit_test(headers_are_found_in_any_case),
		cmocka_unit_test(a_request_is_what_was_ordered),
		cmocka_unit_test(what_is_no_address_is_said),
		cmocka_unit_test(addresses_are_taken_apart),
		cmocka_unit_test(reading_can_be_interrupted_and_goes_on),
		cmocka_unit_test(who_does_not_answer_is_not_waited_for),
		cmocka_unit_test(the_home_is_asked_first_or_alone),
		cmocka_unit_test(the_kernel_says_who_connects),
		cmocka_unit_test(one_server_has_the_socket_of_a_port),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
