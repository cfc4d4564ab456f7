/* The socket in the home. */

#include "unit.h"
#include "base/fd.h"
#include "base/str.h"
#include "http/local.h"
#include <sys/socket.h>
#include <sys/stat.h>

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
		cmocka_unit_test(the_kernel_says_who_connects),
		cmocka_unit_test(one_server_has_the_socket_of_a_port),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
