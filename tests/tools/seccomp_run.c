/* Installs a seccomp filter and becomes another program, for the end-to-end tests.
 *
 *   seccomp_run DEFAULT RULES PROGRAM [ARGUMENT...]
 *
 * DEFAULT is an action: allow, kill, errno (EPERM) or enosys. RULES are ACTION=CALL,CALL... with ';' between; the first
 * that fits decides. A CALL is a number, or NUMBER:ARGUMENT:MASK:VALUE for those whose argument (its lower half) is
 * VALUE once masked. Nothing is exempt: execve must be allowed. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct sock_filter program[BPF_MAXINSNS];
static size_t n;

static void add(struct sock_filter i)
{
	if (n == BPF_MAXINSNS)
		exit(3);
	program[n++] = i;
}

static uint32_t action_of(const char *word, size_t len)
{
	static const struct {
		const char *word;
		uint32_t action;
	} known[] = { { "allow", SECCOMP_RET_ALLOW },
		      { "kill", SECCOMP_RET_KILL_PROCESS },
		      { "errno", SECCOMP_RET_ERRNO | EPERM },
		      { "enosys", SECCOMP_RET_ERRNO | ENOSYS } };
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strlen(known[i].word) == len && !strncmp(known[i].word, word, len))
			return known[i].action;
	fprintf(stderr, "seccomp_run: what action is '%.*s'?\n", (int)len, word);
	exit(3);
}

static void add_rule(uint32_t action, const char *call)
{
	unsigned nr, arg, mask, value;
	int got = sscanf(call, "%u:%u:%u:%u", &nr, &arg, &mask, &value);
	if (got != 1 && got != 4)
		exit(3);
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, got == 4 ? 4 : 1));
	if (got == 4) {
		add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 (uint32_t)offsetof(struct seccomp_data, args) + arg * 8));
		add((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
	}
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 3;
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	char *rules, *calls;
	for (char *rule = strtok_r(argv[2], ";", &rules); rule; rule = strtok_r(NULL, ";", &rules)) {
		char *equals = strchr(rule, '=');
		if (!equals)
			return 3;
		uint32_t action = action_of(rule, (size_t)(equals - rule));
		for (char *call = strtok_r(equals + 1, ",", &calls); call; call = strtok_r(NULL, ",", &calls))
			add_rule(action, call);
	}
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action_of(argv[1], strlen(argv[1]))));
	struct sock_fprog filter = { .len = (unsigned short)n, .filter = program };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
		perror("seccomp_run");
		return 3;
	}
	execv(argv[3], argv + 3);
	perror(argv[3]);
	return 3;
}
