#include "vitals/open_files.h"
#include "base/clock.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEERS_MAX 20000 /* told apart while they are counted */

static int most_first(const void *a, const void *b)
{
	const struct open_row *x = a, *y = b;
	return x->n != y->n ? CMP(y->n, x->n) : strcmp(x->name, y->name);
}

/* Keeps the largest; how many the others have together. */
static uint64_t cut_rows(struct open_rows *rows)
{
	uint64_t more = 0;
	vec_sort(rows, most_first);
	while (rows->n > OPEN_ROWS_MAX) {
		more += vec_last(rows).n;
		mem_free(vec_last(rows).name);
		rows->n--;
	}
	return more;
}

/* ---- files ---- */

static void take_files(const struct descriptors *d, struct open_look *l)
{
	vec_each(f, &d->folders) {
		const char *folder = strtab_get(&d->names, f->folder), *example = strtab_get(&d->names, f->example);
		char *name = f->several ? mem_printf("%s*", folder) : mem_strdup(example);
		vec_push(&l->files, ((struct open_row){ .name = name, .n = f->n }));
	}
	l->more_files = d->unlisted + cut_rows(&l->files);
}

/* ---- connections ---- */

struct sockets {
	const struct descriptors *d;
	struct open_look *l;
	struct map_u64 listening; /* local ports of its network */
	struct strtab names;	  /* what tells rows apart -> index of the row */
};

static void note_listening(void *user, const struct connection *c)
{
	struct sockets *s = user;
	if (c->state == CONNECTION_LISTEN)
		*map_u64_put(&s->listening, c->local.port, NULL) = 1;
}

static struct open_row *row_of(struct sockets *s, const struct open_row *like)
{
	char key[128];
	int len = snprintf(key, sizeof(key), "%d %d %d %s", like->udp, like->incoming, (int)like->state, like->name);
	uint32_t id = strtab_find(&s->names, key, (size_t)len);
	if (id == STRTAB_NONE) {
		if (s->l->peers.n == PEERS_MAX)
			return NULL;
		strtab_add(&s->names, key, (size_t)len);
		vec_push(&s->l->peers, *like);
		vec_last(&s->l->peers).name = mem_strdup(like->name);
		return &vec_last(&s->l->peers);
	}
	return &s->l->peers.v[id];
}

static void count_connection(void *user, const struct connection *c)
{
	struct sockets *s = user;
	bool udp = c->family == CONNECTION_UDP || c->family == CONNECTION_UDP6;
	if (!map_u64_get(&s->d->sockets, c->inode))
		return;
	bool listens = c->state == CONNECTION_LISTEN || (udp && !c->remote.port);
	bool incoming = listens || (!udp && map_u64_get(&s->listening, c->local.port));
	struct connection_text text = connection_end_text(incoming ? &c->local : &c->remote);
	struct open_row like = { .name = text.s, .udp = udp, .incoming = incoming, .state = c->state };
	s->l->sockets[udp ? OPEN_UDP : OPEN_TCP]++;
	if (!udp)
		s->l->states[c->state]++;
	struct open_row *row = row_of(s, &like);
	if (!row) {
		s->l->more_peers++;
		return;
	}
	row->n++;
	/* The other side's goodbye counts as a byte. */
	row->unread += c->unread - (c->state == CONNECTION_CLOSE_WAIT && c->unread);
}

static void count_unix(void *user, uint64_t inode)
{
	struct sockets *s = user;
	s->l->sockets[OPEN_UNIX] += map_u64_get(&s->d->sockets, inode) != NULL;
}

static void take_sockets(const char *proc, pid_t pid, const struct descriptors *d, struct open_look *l)
{
	struct sockets s = { .d = d, .l = l };
	for (enum connection_family f = CONNECTION_TCP; f <= CONNECTION_TCP6; f++)
		connections_each(proc, pid, f, note_listening, &s);
	for (enum connection_family f = 0; f < CONNECTION_FAMILIES; f++)
		connections_each(proc, pid, f, count_connection, &s);
	connections_unix_each(proc, pid, count_unix, &s);
	uint64_t known = l->sockets[OPEN_TCP] + l->sockets[OPEN_UDP] + l->sockets[OPEN_UNIX];
	l->sockets[OPEN_OTHER] = d->of[DESCRIPTOR_SOCKET] - MIN(known, d->of[DESCRIPTOR_SOCKET]);
	l->more_peers += cut_rows(&l->peers);
	map_u64_free(&s.listening);
	strtab_free(&s.names);
}

bool open_look(const char *proc, pid_t pid, struct open_look *ret)
{
	CLEANUP(descriptors_fini) struct descriptors d;
	*ret = (struct open_look){ .at_ns = clock_mono_ns() };
	ret->hidden = !descriptors_read(proc, pid, &d);
	if (ret->hidden)
		return false;
	ret->cut = d.cut;
	ret->n = d.n;
	memcpy(ret->of, d.of, sizeof(ret->of));
	take_files(&d, ret);
	take_sockets(proc, pid, &d, ret);
	return true;
}

static void rows_free(struct open_rows *rows)
{
	vec_each(r, rows)
		mem_free(r->name);
	vec_free(rows);
}

void open_look_fini(struct open_look *l)
{
	rows_free(&l->files);
	rows_free(&l->peers);
}

const struct open_row *open_row_like(const struct open_rows *rows, const struct open_row *row)
{
	vec_each(r, rows) {
		if (r->udp == row->udp && r->incoming == row->incoming && r->state == row->state &&
		    str_eq(r->name, row->name))
			return r;
	}
	return NULL;
}

/* ---- in a recording ---- */

static json_t *numbers_json(const uint64_t *numbers, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)numbers[i]));
	return list;
}

static void read_numbers(const json_t *list, uint64_t *ret, size_t n)
{
	for (size_t i = 0; i < MIN(json_array_size(list), n); i++)
		ret[i] = (uint64_t)MAX(json_integer_value(json_array_get(list, i)), 0);
}

static json_t *rows_json(const struct open_rows *rows)
{
	json_t *list = json_array();
	vec_each(r, rows) {
		CLEANUP(buf_free) struct buf name = { 0 };
		utf8_add_valid(&name, r->name, strlen(r->name));
		json_array_append_new(list, json_pack("[s, I, b, b, i, I]", buf_cstr(&name), (json_int_t)r->n, r->udp,
						      r->incoming, (int)r->state, (json_int_t)r->unread));
	}
	return list;
}

static void read_rows(const json_t *list, struct open_rows *ret)
{
	for (size_t i = 0; i < MIN(json_array_size(list), (size_t)OPEN_ROWS_MAX); i++) {
		const json_t *o = json_array_get(list, i);
		const char *name = json_string_value(json_array_get(o, 0));
		int64_t state = json_integer_value(json_array_get(o, 4));
		if (!name || state < 0 || state >= CONNECTION_STATES)
			continue;
		vec_push(ret,
			 ((struct open_row){ .name = mem_strdup(name),
					     .n = (uint64_t)MAX(json_integer_value(json_array_get(o, 1)), 0),
					     .udp = json_is_true(json_array_get(o, 2)),
					     .incoming = json_is_true(json_array_get(o, 3)),
					     .state = (enum connection_state)state,
					     .unread = (uint64_t)MAX(json_integer_value(json_array_get(o, 5)), 0) }));
	}
}

json_t *open_look_json(const struct open_look *l)
{
	return json_pack("{s:I, s:b, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "at_ns", (json_int_t)l->at_ns,
			 "hidden", l->hidden, "cut", l->cut, "n", (json_int_t)l->n, "of",
			 numbers_json(l->of, DESCRIPTOR_KINDS), "sockets", numbers_json(l->sockets, OPEN_SOCKETS),
			 "states", numbers_json(l->states, CONNECTION_STATES), "files", rows_json(&l->files), "peers",
			 rows_json(&l->peers), "more_files", (json_int_t)l->more_files, "more_peers",
			 (json_int_t)l->more_peers);
}

struct err *open_look_from_json(const json_t *json, struct open_look *ret)
{
	if (!json_is_object(json))
		return err_new(ERR_BAD_DATA, "the recording has no list of open files");
	*ret = (struct open_look){ .at_ns = (uint64_t)MAX(json_get_int(json, "at_ns", 0), 0),
				   .hidden = json_get_bool(json, "hidden", false),
				   .cut = json_get_bool(json, "cut", false),
				   .n = (uint64_t)MAX(json_get_int(json, "n", 0), 0),
				   .more_files = (uint64_t)MAX(json_get_int(json, "more_files", 0), 0),
				   .more_peers = (uint64_t)MAX(json_get_int(json, "more_peers", 0), 0) };
	read_numbers(json_object_get(json, "of"), ret->of, DESCRIPTOR_KINDS);
	read_numbers(json_object_get(json, "sockets"), ret->sockets, OPEN_SOCKETS);
	read_numbers(json_object_get(json, "states"), ret->states, CONNECTION_STATES);
	read_rows(json_object_get(json, "files"), &ret->files);
	read_rows(json_object_get(json, "peers"), &ret->peers);
	return NULL;
}
