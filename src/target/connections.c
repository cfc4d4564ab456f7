#include "target/connections.h"
#include "base/fd.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *connection_state_name(enum connection_state state)
{
	static const char *const names[CONNECTION_STATES] = {
		"?",	     "ESTABLISHED", "SYN_SENT",	  "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",
		"TIME_WAIT", "CLOSE",	    "CLOSE_WAIT", "LAST_ACK", "LISTEN",	   "CLOSING",
	};
	return state < CONNECTION_STATES ? names[state] : names[0];
}

/* "0100007F:1F90", "0000000000000000FFFF00000100007F:1F90": words of the machine's own byte order. */
static bool parse_end(const char *text, struct connection_end *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t digits = strcspn(text, ":");
	*ret = (struct connection_end){ .v6 = digits == 32 };
	if ((digits != 8 && digits != 32) || text[digits] != ':')
		return false;
	for (size_t i = 0; i < digits / 8; i++) {
		char word[9] = { 0 };
		memcpy(word, text + 8 * i, 8);
		uint32_t n = (uint32_t)strtoul(word, NULL, 16);
		memcpy(ret->address + 4 * i, &n, 4);
	}
	ret->port = (uint16_t)strtoul(text + digits + 1, NULL, 16);
	if (ret->v6 && !memcmp(ret->address, mapped, sizeof(mapped))) {
		memmove(ret->address, ret->address + 12, 4);
		memset(ret->address + 4, 0, 12);
		ret->v6 = false;
	}
	return true;
}

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 12345 ..." */
static bool parse_line(const char *line, struct connection *ret)
{
	char local[48], remote[48];
	unsigned state;
	unsigned long unsent, unread;
	unsigned long long inode;
	if (sscanf(line, "%*s %47s %47s %x %lx:%lx %*s %*s %*s %*s %llu", local, remote, &state, &unsent, &unread,
		   &inode) != 6 ||
	    state >= CONNECTION_STATES || !parse_end(local, &ret->local) || !parse_end(remote, &ret->remote))
		return false;
	ret->state = state;
	ret->unsent = unsent;
	ret->unread = unread;
	ret->inode = inode;
	return true;
}

bool connections_each(const char *proc, pid_t pid, enum connection_family family,
		      void (*each)(void *user, const struct connection *c), void *user)
{
	static const char *const files[CONNECTION_FAMILIES] = { "tcp", "tcp6", "udp", "udp6" };
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/net/%s", proc, (int)pid, files[family]);
	struct connection c = { .family = family };
	char line[512];
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (parse_line(line, &c))
			each(user, &c);
	fclose(f);
	return true;
}

struct connection_text connection_end_text(const struct connection_end *end)
{
	struct connection_text t;
	char address[INET6_ADDRSTRLEN] = "";
	inet_ntop(end->v6 ? AF_INET6 : AF_INET, end->address, address, sizeof(address));
	snprintf(t.s, sizeof(t.s), end->v6 ? "[%s]:%u" : "%s:%u", address, end->port);
	return t;
}

/* Settings of a network namespace are shown to those that are in it. */
static bool is_our_network(const char *proc, pid_t pid)
{
	CLEANUP(mem_freep) char *its = mem_printf("%s/%d/ns/net", proc, (int)pid);
	CLEANUP(mem_freep) char *ours = mem_printf("%s/self/ns/net", proc);
	char a[64], b[64];
	ssize_t n = readlink(its, a, sizeof(a)), m = readlink(ours, b, sizeof(b));
	return n > 0 && n == m && !memcmp(a, b, (size_t)n);
}

bool connections_ports(const char *proc, pid_t pid, uint16_t *ret_first, uint16_t *ret_last)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	unsigned first, last;
	if (!is_our_network(proc, pid) || !file_text(&text, "%s/sys/net/ipv4/ip_local_port_range", proc) ||
	    sscanf(buf_cstr(&text), "%u %u", &first, &last) != 2 || last < first || last > UINT16_MAX)
		return false;
	*ret_first = (uint16_t)first;
	*ret_last = (uint16_t)last;
	return true;
}

/* "0000000000000000: 00000002 00000000 00010000 0001 01 20545 /run/x" */
bool connections_unix_each(const char *proc, pid_t pid, void (*each)(void *user, uint64_t inode), void *user)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/net/unix", proc, (int)pid);
	char line[512];
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		unsigned long long inode;
		if (sscanf(line, "%*x: %*x %*x %*x %*x %*x %llu", &inode) == 1)
			each(user, inode);
	}
	fclose(f);
	return true;
}
