#include "trace/collect.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/partfile.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "trace/cut.h"
#include "trace/ring.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_BYTES ((size_t)256 << 10)

struct collector {
	const struct trace_config *config;
	struct eventpipe_session *session;
	struct partfile file;
	struct buf out;	 /* of a ring that is being written */
	uint64_t offset; /* in the file */
	struct err *err;
	bool write_failed;

	struct cutter cutter;
	bool ringing; /* objects go into the ring, not into the file */
	bool rewriting;
	struct ring ring;

	struct trace_trigger_state trigger_state;
	const struct trace_trigger *struck;
	struct strtab heard;
	uint64_t last_ns;
	uint64_t kept_ns; /* what the ring held when it was written */
	bool names;
};

void collector_free(struct collector *c)
{
	if (!c)
		return;
	eventpipe_free(c->session);
	/* A full disk leaves what could be saved; everything else that was given up leaves nothing. */
	partfile_fini(&c->file, c->write_failed);
	buf_free(&c->out);
	err_free(c->err);
	cutter_fini(&c->cutter);
	ring_fini(&c->ring);
	strtab_free(&c->heard);
	mem_free(c);
}

static void write_file(struct collector *c, const void *data, size_t len)
{
	for (size_t done = 0; done < len && !c->err;) {
		ssize_t n = write(c->file.fd, (const char *)data + done, len - done);
		if (n < 0 && errno != EINTR) {
			c->err = err_errno(errno, "cannot write '%s'",
					   c->file.partial ? c->file.partial
					   : c->file.path  ? c->file.path
							   : "-");
			c->write_failed = true;
		}
		done += n > 0 ? (size_t)n : 0;
		c->offset += n > 0 ? (uint64_t)n : 0;
	}
}

static void put_object(void *user, const struct cut_object *o)
{
	struct collector *c = user;
	cut_write(&c->out, c->offset + c->out.len, o);
	if (c->out.len < WRITE_BYTES)
		return;
	write_file(c, c->out.data, c->out.len);
	buf_clear(&c->out);
}

static void on_object(void *user, const struct cut_object *o)
{
	struct collector *c = user;
	if (c->ringing)
		ring_add(&c->ring, o);
	else
		put_object(c, o);
}

/* From here on everything goes to the file. */
static void write_ring(struct collector *c)
{
	if (!c->ringing)
		return;
	c->ringing = false;
	c->kept_ns = ring_span(&c->ring);
	ring_drain(&c->ring, put_object, c);
}

static void on_bytes(void *user, const void *data, size_t len)
{
	struct collector *c = user;
	c->last_ns = clock_mono_ns();
	if (!c->rewriting) {
		write_file(c, data, len);
		return;
	}
	struct err *err = cutter_feed(&c->cutter, data, len, on_object, c);
	if (!err && c->cutter.other)
		err = err_new(ERR_UNSUPPORTED,
			      "a ring needs a stream of version 4 or 5, and this runtime sends another");
	if (err && !c->err)
		c->err = STEAL(err);
	err_free(err);
}

static void on_meta(void *user, struct nettrace_meta *meta)
{
	struct collector *c = user;
	strtab_add_cstr(&c->heard, meta->provider);
	c->names |= str_eq(meta->provider, CLR_RUNDOWN_PROVIDER);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct collector *c = user;
	if (!c->struck)
		c->struck = trace_triggers_event(&c->config->triggers, &c->trigger_state, event);
}

struct err *collector_open(const struct collect_order *order, struct deadline deadline, struct collector **ret)
{
	CLEANUP(collector_freep) struct collector *c = mem_zalloc(sizeof(*c));
	c->config = order->config;
	c->file.fd = -1;
	c->ringing = c->rewriting = order->ring_ms != 0;
	ring_init(&c->ring, order->ring_ms * NS_PER_MS, order->ring_max_bytes);
	TRY(partfile_open(order->path, 0666, &c->file));
	struct ipc_trace_config config = {
		.buffer_mb = order->buffer_mb,
		.stacks = order->config->stacks,
		.rundown = order->rundown,
		.providers = order->config->providers.v,
		.n_providers = order->config->providers.n,
		.at_start = order->at_start,
	};
	/* What strikes is judged in order of time; otherwise only the counts are looked at. */
	struct nettrace_options options = { .unordered = !order->config->triggers.n, .no_stacks = true };
	struct eventpipe_sink sink = { .callbacks = { .meta = on_meta,
						      .event = order->config->triggers.n ? on_event : NULL },
				       .bytes = on_bytes,
				       .user = c };
	TRY(eventpipe_open(order->socket, &config, &options, &sink, deadline, &c->session));
	c->last_ns = clock_mono_ns();
	*ret = STEAL(c);
	return NULL;
}

int collector_fd(const struct collector *c)
{
	return eventpipe_fd(c->session);
}

struct err *collector_pump(struct collector *c, bool *ret_ended)
{
	struct err *err = eventpipe_pump(c->session, ret_ended);
	if (c->err) {
		err_free(err);
		return STEAL(c->err);
	}
	return err ? err_wrap(err, "the event stream is damaged") : NULL;
}

struct err *collector_stop(struct collector *c, struct deadline deadline)
{
	write_ring(c);
	return eventpipe_stop(c->session, deadline);
}

const char *collector_struck(const struct collector *c)
{
	return c->struck ? c->struck->text : NULL;
}

uint64_t collector_last_ns(const struct collector *c)
{
	return c->last_ns;
}

struct collect_stats collector_stats(const struct collector *c)
{
	const struct nettrace_stats *s = nettrace_reader_stats(eventpipe_reader(c->session));
	return (struct collect_stats){
		.events = s->events,
		.lost = s->lost,
		.bytes = s->bytes,
		.file_bytes = c->offset,
		.ring_bytes = c->ring.bytes,
		.ring_ns = c->ringing ? ring_span(&c->ring) : c->kept_ns,
		.ring_squeezed = c->ring.squeezed,
		.whole = eventpipe_whole(c->session),
		.ids_ignored = eventpipe_trace(c->session)->ids_ignored,
		.names = c->names,
	};
}

bool collector_heard(const struct collector *c, const char *provider)
{
	return strtab_find(&c->heard, provider, strlen(provider)) != STRTAB_NONE;
}

/* A stream that broke off: behind its last whole object it gets the end it never had. */
static void end_broken(struct collector *c)
{
	static const uint8_t end[4] = { 1 }, end_v6[4] = { 0 };
	const struct nettrace_reader *reader = eventpipe_reader(c->session);
	const struct nettrace_header *header = nettrace_reader_header(reader);
	uint64_t whole = nettrace_reader_stats(reader)->whole;
	if (nettrace_reader_stats(reader)->ended || !header)
		return;
	if (c->rewriting) {
		put_object(c, &(struct cut_object){ .kind = CUT_END, .head = end, .head_len = 1 });
	} else if (c->file.partial && ftruncate(c->file.fd, (off_t)whole) == 0 &&
		   lseek(c->file.fd, (off_t)whole, SEEK_SET) >= 0) {
		c->offset = whole;
		write_file(c, header->format < 6 ? end : end_v6, header->format < 6 ? 1 : sizeof(end_v6));
	}
}

struct err *collector_finish(struct collector *c)
{
	write_ring(c);
	end_broken(c);
	if (c->rewriting)
		write_file(c, buf_cstr(&c->out), c->out.len);
	if (c->err)
		return STEAL(c->err);
	if (!nettrace_reader_header(eventpipe_reader(c->session)))
		return err_new(ERR_IO, "the process ended before it sent anything");
	struct err *err = partfile_commit(&c->file);
	c->write_failed = err != NULL;
	return err;
}
