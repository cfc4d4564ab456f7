#include "unit.h"
#include "base/vec.h"
#include "build_nettrace.h"
#include "nettrace_seen.h"

/* ---- a stream with a bit of everything ---- */

static const uint8_t id_a[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
static const uint8_t id_b[16] = { [15] = 0xff };

static const struct nettrace_field inner_fields[] = {
	{ .name = "Name", .type = NETTRACE_UTF16Z },
	{ .name = "Mean", .type = NETTRACE_F64 },
};
static const struct nettrace_field order_fields[] = {
	{ .name = "Id", .type = NETTRACE_I32 },
	{ .name = "Paid", .type = NETTRACE_BOOL32 },
	{ .name = "Payload", .type = NETTRACE_OBJECT, .children = inner_fields, .n_children = 2 },
};
static const struct nettrace_meta meta_order = { .id = 1,
						 .provider = "Shop-\xc3\x9c",
						 .event_id = 7,
						 .name = "OrderPlaced",
						 .keywords = 0xf00000000001,
						 .version = 2,
						 .level = 4,
						 .opcode = 10,
						 .fields = order_fields,
						 .n_fields = 3 };
static const struct nettrace_meta meta_native = {
	.id = 70000, .provider = "Microsoft-Windows-DotNETRuntime", .event_id = 80, .name = "", .level = 2
};

struct variant {
	int format;
	bool plain, v2;
	uint32_t pointer_size;
};
static const struct variant variants[] = { { 4, false, false, 8 }, { 4, true, false, 8 },  { 5, false, true, 8 },
					   { 5, true, true, 4 },   { 6, false, false, 8 }, { 6, true, false, 4 } };

/* Threads 11 and 12 write; 13 is written about. In version 6 the ids are indexes 1, 2, 3. */
static void build_sample(struct build_nettrace *b, const struct variant *v)
{
	bool v6 = v->format >= 6;
	uint64_t t1 = v6 ? 1 : 11, t2 = v6 ? 2 : 12, t3 = v6 ? 3 : 13;
	*b = (struct build_nettrace){ .pointer_size = v->pointer_size, .plain = v->plain, .fields_v2 = v->v2 };
	build_nettrace_begin(b, v->format);
	if (v6) {
		build_nettrace_thread(b, 1, 11, BUILD_PID, "main");
		build_nettrace_thread(b, 2, 12, BUILD_PID, "worker");
		build_nettrace_thread(b, 3, 13, 99, "elsewhere");
		build_nettrace_labels(b, 1, id_a, NULL);
		build_nettrace_labels(b, 2, id_a, id_b);
		build_nettrace_block(b, 77, "future", 6);
	} else {
		build_nettrace_object(b, "FutureBlock", "future", 6);
	}
	build_nettrace_meta(b, &meta_order);
	build_nettrace_meta(b, &meta_native);
	build_nettrace_stack(b, 1, (const uint64_t[]){ 0x1000, 0x2000, 0x3000 }, 3);
	build_nettrace_stack(b, 2, (const uint64_t[]){ 0x4000 }, 1);
	/* Times: t1 has 100 110 120, t2 has 105 110 130. */
	struct build_event e = { .meta_id = 1,
				 .sequence = 1,
				 .cpu = 3,
				 .stack_id = 1,
				 .time = 100,
				 .capture_thread = t1,
				 .activity_id = v6 ? NULL : id_a,
				 .label_id = 1,
				 .payload = "first",
				 .payload_size = 5,
				 .sorted = true };
	build_nettrace_event(b, &e);
	e = (struct build_event){ .meta_id = 70000,
				  .sequence = 2,
				  .cpu = 3,
				  .time = 110,
				  .capture_thread = t1,
				  .thread = t3,
				  .payload = "second!",
				  .payload_size = 7 };
	build_nettrace_event(b, &e);
	e.sequence = 3;
	e.time = 120;
	build_nettrace_event(b, &e);
	e = (struct build_event){ .meta_id = 1,
				  .sequence = 1,
				  .cpu = 0,
				  .stack_id = 2,
				  .time = 105,
				  .capture_thread = t2,
				  .activity_id = v6 ? NULL : id_a,
				  .related_activity_id = v6 ? NULL : id_b,
				  .label_id = 2,
				  .sorted = true };
	build_nettrace_event(b, &e);
	e.sequence = 2;
	e.time = 110;
	build_nettrace_event(b, &e);
	e.meta_id = 5; /* nobody described it */
	e.sequence = 3;
	build_nettrace_event(b, &e);
	build_nettrace_flush(b);
	e.meta_id = 1;
	e.sequence = 6; /* two lost */
	e.time = 130;
	build_nettrace_event(b, &e);
	build_nettrace_sequence_point(b, 140, 0, (const struct build_sequence[]){ { t1, 3 }, { t2, 7 } }, 2);
	/* The stack table is gone: stack 2 means nothing any more. */
	e = (struct build_event){ .meta_id = 1, .sequence = 8, .stack_id = 2, .time = 150, .capture_thread = t2 };
	build_nettrace_event(b, &e);
	build_nettrace_end(b);
}

static void check_event(const struct got *g, uint64_t time, uint64_t tid, uint64_t capture, uint32_t sequence)
{
	assert_int_equal(g->ev.time, time);
	assert_int_equal(g->ev.thread_id, tid);
	assert_int_equal(g->ev.capture_thread_id, capture);
	assert_int_equal(g->ev.sequence, sequence);
}

static void check_meta(const struct nettrace_meta *m, const struct nettrace_meta *want, int format)
{
	assert_int_equal(m->id, want->id);
	assert_int_equal(m->event_id, want->event_id);
	assert_string_equal(m->provider, want->provider);
	assert_string_equal(m->name, want->name);
	assert_int_equal(m->keywords, want->keywords);
	assert_int_equal(m->version, want->version);
	assert_int_equal(m->level, want->level);
	assert_int_equal(m->opcode, want->opcode);
	assert_int_equal(m->format, format);
	assert_int_equal(m->n_fields, want->n_fields);
	for (size_t i = 0; i < m->n_fields; i++) {
		assert_string_equal(m->fields[i].name, want->fields[i].name);
		assert_int_equal(m->fields[i].type, want->fields[i].type);
		assert_int_equal(m->fields[i].n_children, want->fields[i].n_children);
	}
}

static void check_sample(const struct seen *s, const struct variant *v)
{
	assert_int_equal(s->n_headers, 1);
	assert_int_equal(s->header.format, v->format);
	assert_int_equal(s->header.utc_ns, BUILD_UTC_NS);
	assert_int_equal(s->header.sync_time, BUILD_SYNC_TIME);
	assert_int_equal(s->header.ticks_per_second, 1000000000);
	assert_int_equal(s->header.pointer_size, v->pointer_size);
	assert_int_equal(s->header.pid, BUILD_PID);
	assert_int_equal(s->header.n_cpus, BUILD_CPUS);
	assert_int_equal(s->metas.n, 2);
	check_meta(s->metas.v[0], &meta_order, v->format);
	check_meta(s->metas.v[1], &meta_native, v->format);
	assert_string_equal(s->metas.v[0]->fields[2].children[1].name, "Mean");

	const struct got *e = s->events.v;
	assert_int_equal(s->events.n, 7);
	check_event(&e[0], 100, 11, 11, 1);
	check_event(&e[1], 105, 12, 12, 1);
	check_event(&e[2], 110, 13, 11, 2); /* arrived before the other of that time */
	check_event(&e[3], 110, 12, 12, 2);
	check_event(&e[4], 120, 13, 11, 3);
	check_event(&e[5], 130, 12, 12, 6);
	check_event(&e[6], 150, 12, 12, 8);

	assert_ptr_equal(e[0].ev.meta, s->metas.v[0]);
	assert_ptr_equal(e[2].ev.meta, s->metas.v[1]);
	assert_int_equal(e[0].ev.cpu, 3);
	assert_int_equal(e[0].ev.payload_size, 5);
	assert_memory_equal(e[0].ev.payload, "first", 5);
	assert_memory_equal(e[4].ev.payload, "second!", 7);
	assert_int_equal(e[0].ev.n_frames, 3);
	assert_int_equal(nettrace_event_frame(&e[0].ev, 0), 0x1000);
	assert_int_equal(nettrace_event_frame(&e[0].ev, 2), 0x3000);
	assert_int_equal(nettrace_event_frame(&e[1].ev, 0), 0x4000);
	assert_int_equal(e[2].ev.n_frames, 0);
	assert_int_equal(e[6].ev.n_frames, 0);
	assert_memory_equal(e[0].ev.activity_id, id_a, 16);
	assert_null(e[0].ev.related_activity_id);
	assert_null(e[2].ev.activity_id);
	assert_memory_equal(e[1].ev.related_activity_id, id_b, 16);
	assert_int_equal(e[0].ev.process_id, BUILD_PID);
	assert_int_equal(e[2].ev.process_id, v->format >= 6 ? 99 : BUILD_PID);

	assert_int_equal(s->stats.lost, 3); /* 4 and 5 by the gap, 7 by the sequence point */
	assert_int_equal(s->stats.orphans, 1);
	assert_int_equal(s->stats.early, 0);
	assert_int_equal(s->stats.unknown_blocks, 1);
	assert_true(s->stats.ended);
}

static void contents(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		struct build_nettrace b;
		struct seen s = { 0 };
		struct nettrace_reader *reader;
		build_sample(&b, &variants[i]);
		seen_read(&s, b.out.data, b.out.len, b.out.len, NULL, &reader);
		if (s.err)
			fail_msg("variant %zu: %s", i, err_text(s.err));
		check_sample(&s, &variants[i]);
		assert_int_equal(s.stats.bytes, b.out.len);
		assert_int_equal(nettrace_reader_header(reader)->format, variants[i].format);
		nettrace_reader_free(reader);
		thread_snapshot_free(&s);
		build_nettrace_free(&b);
	}
}

static void every_chunk_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		struct build_nettrace b;
		build_sample(&b, &variants[i]);
		for (int unordered = 0; unordered < 2; unordered++) {
			uint64_t digest = 0;
			for (size_t chunk = b.out.len; chunk; chunk--) {
				struct seen s = { 0 };
				seen_read(&s, b.out.data, b.out.len, chunk,
					  &(struct nettrace_options){ .unordered = unordered }, NULL);
				assert_null(s.err);
				digest = digest ? digest : s.digest;
				assert_int_equal(s.digest, digest);
				thread_snapshot_free(&s);
			}
		}
		build_nettrace_free(&b);
	}
}

static void every_truncation(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		struct build_nettrace b;
		size_t events = 0;
		build_sample(&b, &variants[i]);
		for (size_t len = 0; len < b.out.len; len++) {
			struct seen s = { 0 };
			seen_read(&s, b.out.data, len, 1 + len % 97, NULL, NULL);
			assert_non_null(s.err);
			assert_int_equal(err_kind(s.err), ERR_BAD_DATA);
			assert_false(s.stats.ended);
			/* More bytes never give fewer events. */
			assert_true(s.events.n >= events);
			events = s.events.n;
			thread_snapshot_free(&s);
		}
		assert_int_equal(events, 7);
		build_nettrace_free(&b);
	}
}

/* Whatever one byte does, the reader ends, and in bounded memory. */
static void every_flip(void **state)
{
	(void)state;
	static const uint8_t masks[] = { 1, 2, 4, 8, 16, 32, 64, 128, 255 };
	size_t errors = 0;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		struct build_nettrace b;
		build_sample(&b, &variants[i]);
		for (size_t at = 0; at < b.out.len * ARRAY_SIZE(masks); at++) {
			struct seen s = { 0 };
			uint8_t *byte = (uint8_t *)b.out.data + at / ARRAY_SIZE(masks);
			uint8_t was = *byte;
			*byte ^= masks[at % ARRAY_SIZE(masks)];
			seen_read(&s, b.out.data, b.out.len, 1 + at % 701,
				  &(struct nettrace_options){ .unordered = at & 1 }, NULL);
			*byte = was;
			assert_true(s.heap_peak < s.heap_start + (2 << 20));
			assert_true(s.events.n < b.out.len);
			errors += s.err != NULL;
			thread_snapshot_free(&s);
		}
		build_nettrace_free(&b);
	}
	assert_true(errors > 1000);
}

/* ---- order ---- */

static int by_time(const void *a, const void *b)
{
	const struct build_event *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->sequence < y->sequence ? -1 : 1; /* here the order of arrival */
}

static uint32_t lcg(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Batches as the runtime writes them: each thread's share in order, the first event of a share marked sorted. */
static void order_across_threads(void **state)
{
	(void)state;
	struct build_nettrace b = { 0 };
	VEC(struct build_event) all = { 0 };
	uint32_t seed = 7, n = 0;
	build_nettrace_begin(&b, 4);
	build_nettrace_meta(&b, &meta_order);
	for (uint64_t batch = 0; batch < 40; batch++) {
		uint64_t first = batch * 1000;
		for (uint64_t thread = 1; thread <= 5; thread++) {
			uint64_t time = first += lcg(&seed) % 10;
			bool sorted = true;
			for (uint32_t k = lcg(&seed) % 60; k; k--) {
				struct build_event e = { .meta_id = 1,
							 .sequence = ++n,
							 .time = time,
							 .capture_thread = thread,
							 .sorted = sorted };
				build_nettrace_event(&b, &e);
				vec_push(&all, e);
				sorted = false;
				time += lcg(&seed) % 15; /* often the same */
				if (lcg(&seed) % 16 == 0)
					build_nettrace_flush(&b);
			}
		}
		if (batch % 7 == 3)
			build_nettrace_sequence_point(&b, first + 999, 0, NULL, 0);
	}
	build_nettrace_end(&b);
	vec_sort(&all, by_time);
	for (size_t chunk = 1; chunk < 100000; chunk *= 7) {
		struct seen s = { 0 };
		seen_read(&s, b.out.data, b.out.len, chunk, NULL, NULL);
		assert_null(s.err);
		assert_int_equal(s.events.n, all.n);
		assert_int_equal(s.stats.early, 0);
		for (size_t i = 0; i < all.n; i++)
			assert_int_equal(s.events.v[i].ev.sequence, all.v[i].sequence);
		thread_snapshot_free(&s);
	}
	vec_free(&all);
	build_nettrace_free(&b);
}

/* A sorted event lets everything up to it go, without waiting for the end. */
static void order_is_prompt(void **state)
{
	(void)state;
	struct build_nettrace b = { 0 };
	struct seen s = { 0 };
	build_nettrace_begin(&b, 4);
	build_nettrace_meta(&b, &meta_order);
	struct build_event e = { .meta_id = 1, .sequence = 1, .capture_thread = 1, .sorted = true };
	for (e.time = 10; e.time <= 50; e.time += 10, e.sequence++, e.sorted = false)
		build_nettrace_event(&b, &e);
	build_nettrace_flush(&b);
	size_t first = b.out.len;
	e = (struct build_event){ .meta_id = 1, .sequence = 1, .capture_thread = 2, .time = 30, .sorted = true };
	build_nettrace_event(&b, &e);
	build_nettrace_flush(&b);
	size_t second = b.out.len;
	build_nettrace_sequence_point(&b, 60, 0, NULL, 0);

	struct nettrace_reader *r = nettrace_reader_new(NULL, &seen_callbacks, &s);
	assert_int_equal(nettrace_reader_certain(r), 0);
	assert_ok(nettrace_reader_feed(r, b.out.data, first));
	assert_int_equal(s.events.n, 1);
	assert_int_equal(nettrace_reader_certain(r), 10);
	assert_ok(nettrace_reader_feed(r, b.out.data + first, second - first));
	assert_int_equal(s.events.n, 4); /* 10, 20, 30, and 30 of the other thread */
	assert_int_equal(nettrace_reader_certain(r), 30);
	assert_int_equal(s.events.v[3].ev.capture_thread_id, 2);
	assert_ok(nettrace_reader_feed(r, b.out.data + second, b.out.len - second));
	assert_int_equal(s.events.n, 6);
	assert_err(nettrace_reader_finish(r), ERR_BAD_DATA);
	nettrace_reader_free(r);
	thread_snapshot_free(&s);
	build_nettrace_free(&b);
}

static void order_gives_way_to_memory(void **state)
{
	(void)state;
	struct build_nettrace b = { 0 };
	struct seen s = { 0 };
	uint8_t payload[1000] = { 0 };
	build_nettrace_begin(&b, 4);
	build_nettrace_meta(&b, &meta_order);
	struct build_event e = { .meta_id = 1, .capture_thread = 1, .payload = payload, .payload_size = 1000 };
	for (uint32_t i = 0; i < 4000; i++) {
		e.sequence++;
		e.time++;
		build_nettrace_event(&b, &e);
		if (i % 50 == 49)
			build_nettrace_flush(&b);
	}
	build_nettrace_end(&b);
	seen_read(&s, b.out.data, b.out.len, 3000, &(struct nettrace_options){ .max_reorder_bytes = 300000 }, NULL);
	assert_null(s.err);
	assert_int_equal(s.events.n, 4000);
	assert_true(s.stats.early > 3000 && s.stats.early < 4000);
	for (size_t i = 0; i < s.events.n; i++)
		assert_int_equal(s.events.v[i].ev.sequence, i + 1);
	thread_snapshot_free(&s);
	build_nettrace_free(&b);
}

struct counted {
	uint64_t events;
	size_t heap_peak;
};

static void count_event(void *user, const struct nettrace_event *event)
{
	struct counted *n = user;
	(void)event;
	if (n->events++ % 64 == 0)
		n->heap_peak = MAX(n->heap_peak, seen_heap_bytes());
}

/* Two bytes make an event, which must not make a hundred times the memory. */
static void tiny_events_are_bounded(void **state)
{
	(void)state;
	struct build_nettrace b = { 0 };
	struct buf body = { 0 };
	build_nettrace_begin(&b, 4);
	build_nettrace_meta(&b, &meta_order);
	build_u16(&body, 20);
	build_u16(&body, 1);
	build_u64(&body, 0);
	build_u64(&body, 0);
	buf_add(&body, "\x01\x01\x00", 3);
	while (body.len < 400000)
		buf_add(&body, "\x00\x01", 2);
	build_nettrace_object(&b, "EventBlock", body.data, body.len);
	build_nettrace_end(&b);
	/* Only counted: copies of our own would hide what the reader holds. */
	struct counted n = { 0 };
	size_t before = seen_heap_bytes();
	struct nettrace_reader *r = nettrace_reader_new(&(struct nettrace_options){ .max_reorder_bytes = 1 << 20 },
							&(struct nettrace_callbacks){ .event = count_event }, &n);
	assert_ok(nettrace_reader_feed(r, b.out.data, b.out.len));
	assert_ok(nettrace_reader_finish(r));
	assert_true(n.heap_peak < before + (2 << 20));
	assert_true(nettrace_reader_stats(r)->early > 190000);
	assert_int_equal(n.events, 1 + (body.len - 23) / 2);
	nettrace_reader_free(r);
	buf_free(&body);
	build_nettrace_free(&b);
}

static void unordered_copies_nothing(void **state)
{
	(void)state;
	struct build_nettrace b;
	struct seen s = { 0 };
	build_sample(&b, &variants[0]);
	seen_read_built(&s, &b, &(struct nettrace_options){ .unordered = true });
	assert_null(s.err);
	assert_int_equal(s.n_in_place, 7);
	static const uint64_t times[] = { 100, 110, 120, 105, 110, 130, 150 };
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(s.events.v[i].ev.time, times[i]);
	thread_snapshot_free(&s);
	build_nettrace_free(&b);
}

/* ---- loss ---- */

static uint64_t lost_of(struct build_nettrace *b)
{
	struct seen s = { 0 };
	build_nettrace_end(b);
	seen_read_built(&s, b, NULL);
	if (s.err)
		fail_msg("%s", err_text(s.err));
	uint64_t lost = s.stats.lost;
	thread_snapshot_free(&s);
	build_nettrace_free(b);
	return lost;
}

static void begin_loss(struct build_nettrace *b, int format)
{
	*b = (struct build_nettrace){ 0 };
	build_nettrace_begin(b, format);
	build_nettrace_meta(b, &meta_order);
	if (format >= 6)
		build_nettrace_thread(b, 1, 11, 1, "main");
}

static void put(struct build_nettrace *b, uint64_t thread, uint32_t sequence)
{
	build_nettrace_event(
		b, &(struct build_event){
			   .meta_id = 1, .sequence = sequence, .capture_thread = thread, .time = b->last.time + 1 });
}

static void point(struct build_nettrace *b, uint64_t thread, uint32_t last)
{
	build_nettrace_sequence_point(b, 1, 0, &(struct build_sequence){ thread, last }, 1);
}

static void losses(void **state)
{
	(void)state;
	struct build_nettrace b;
	for (int format = 4; format <= 6; format++) {
		begin_loss(&b, format);
		put(&b, 1, 1);
		put(&b, 1, 5);
		point(&b, 1, 5); /* knows nothing new */
		put(&b, 1, 6);
		assert_int_equal(lost_of(&b), 3);

		begin_loss(&b, format);
		put(&b, 1, 1);
		point(&b, 1, 10);
		put(&b, 1, 12);	 /* 11 only: 2 to 10 are counted */
		point(&b, 1, 4); /* a lower bound */
		put(&b, 1, 13);
		assert_int_equal(lost_of(&b), 10);

		begin_loss(&b, format);
		put(&b, 1, 4); /* its first three never came */
		assert_int_equal(lost_of(&b), 3);

		begin_loss(&b, format);
		point(&b, 1, 9); /* all of them dropped */
		assert_int_equal(lost_of(&b), 9);

		/* Around 2^32, with a gap of one across it. */
		begin_loss(&b, format);
		put(&b, 1, 0x7fffffff);
		put(&b, 1, 0xfffffffe);
		put(&b, 1, 0xffffffff);
		put(&b, 1, 1);
		put(&b, 1, 2);
		assert_int_equal(lost_of(&b), 0x7ffffffeULL + 0x7ffffffeULL + 1);

		/* A thread id used again. */
		begin_loss(&b, format);
		for (uint32_t i = 1; i < 50; i++)
			put(&b, 1, i);
		put(&b, 1, 1);
		put(&b, 1, 2);
		assert_int_equal(lost_of(&b), 0);
	}
	begin_loss(&b, 6);
	put(&b, 1, 1);
	build_nettrace_remove_thread(&b, 1, 3);
	assert_int_equal(lost_of(&b), 2);
}

/* ---- odd but legal ---- */

static void errors_deliver_what_came(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		struct build_nettrace b;
		struct seen s = { 0 };
		build_sample(&b, &variants[i]);
		b.out.len -= variants[i].format >= 6 ? 4 : 1;
		buf_add(&b.out, "\xee\xee\xee\xee", 4);
		seen_read_built(&s, &b, NULL);
		assert_non_null(s.err);
		assert_int_equal(s.events.n, 7);
		thread_snapshot_free(&s);
		build_nettrace_free(&b);
	}
}

/* Stack ids that do not follow on are found as well. */
static void sparse_stacks(void **state)
{
	(void)state;
	struct build_nettrace b;
	struct seen s = { 0 };
	static const uint32_t ids[] = { 10, 11, 5, 4000000000, 12 };
	begin_loss(&b, 4);
	for (uint32_t i = 0; i < ARRAY_SIZE(ids); i++)
		build_nettrace_stack(&b, ids[i], &(uint64_t){ ids[i] }, 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(ids); i++)
		build_nettrace_event(
			&b,
			&(struct build_event){
				.meta_id = 1, .sequence = i + 1, .stack_id = ids[i], .capture_thread = 1, .time = i });
	build_nettrace_event(&b, &(struct build_event){
					 .meta_id = 1, .sequence = 6, .stack_id = 13, .capture_thread = 1, .time = 9 });
	build_nettrace_end(&b);
	seen_read_built(&s, &b, NULL);
	assert_null(s.err);
	assert_int_equal(s.events.n, 6);
	for (uint32_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_int_equal(s.events.v[i].ev.n_frames, 1);
		assert_int_equal(nettrace_event_frame(&s.events.v[i].ev, 0), ids[i]);
	}
	assert_int_equal(s.events.v[5].ev.n_frames, 0);
	thread_snapshot_free(&s);
	build_nettrace_free(&b);
}

/* ---- version 6 ---- */

static void v6_flushes(void **state)
{
	(void)state;
	struct build_nettrace b;
	struct seen s = { 0 };
	begin_loss(&b, 6);
	put(&b, 1, 1);
	build_nettrace_sequence_point(&b, 10, 1, NULL, 0); /* threads */
	put(&b, 1, 40);					   /* no loss: who was known is forgotten */
	build_nettrace_sequence_point(&b, 20, 2, NULL, 0); /* metadata */
	put(&b, 1, 41);
	build_nettrace_meta(&b, &meta_order);
	put(&b, 1, 42);
	build_nettrace_end(&b);
	seen_read_built(&s, &b, NULL);
	assert_null(s.err);
	assert_int_equal(s.events.n, 3);
	assert_int_equal(s.events.v[0].ev.thread_id, 11);
	assert_int_equal(s.events.v[1].ev.thread_id, 0); /* nobody introduced it again */
	assert_int_equal(s.stats.orphans, 1);
	assert_int_equal(s.stats.lost, 0);
	thread_snapshot_free(&s);
	build_nettrace_free(&b);
}

static void v6_threads_come_and_go(void **state)
{
	(void)state;
	struct build_nettrace b;
	struct seen s = { 0 };
	begin_loss(&b, 6);
	for (uint64_t i = 2; i < 5000; i++) {
		build_nettrace_thread(&b, i, i + 100000, 7, "x");
		build_nettrace_event(
			&b, &(struct build_event){ .meta_id = 1, .sequence = 1, .capture_thread = i, .time = i });
		build_nettrace_remove_thread(&b, i, 1);
	}
	put(&b, 1, 1);
	build_nettrace_end(&b);
	seen_read_built(&s, &b, NULL);
	assert_null(s.err);
	assert_int_equal(s.stats.lost, 0);
	assert_int_equal(s.events.n, 4999);
	assert_int_equal(s.events.v[0].ev.thread_id, 11); /* time 1 */
	for (uint64_t i = 2; i < 5000; i++)
		assert_int_equal(s.events.v[i - 1].ev.thread_id, i + 100000);
	thread_snapshot_free(&s);
	build_nettrace_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents),
		cmocka_unit_test(every_chunk_size),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(every_flip),
		cmocka_unit_test(order_across_threads),
		cmocka_unit_test(order_is_prompt),
		cmocka_unit_test(order_gives_way_to_memory),
		cmocka_unit_test(tiny_events_are_bounded),
		cmocka_unit_test(unordered_copies_nothing),
		cmocka_unit_test(losses),
		cmocka_unit_test(errors_deliver_what_came),
		cmocka_unit_test(sparse_stacks),
		cmocka_unit_test(v6_flushes),
		cmocka_unit_test(v6_threads_come_and_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
