/* What one look into memory adds to profilers of other ways: locks with field and holder, waits that began before, tasks
 * and requests; and that a look which is missing or damaged costs nothing but itself. */

#include "unit.h"

#include "build_knowledge.h"

enum { HOLDER = 100, FIRST = 200, CROWD = 5, PASSING = 300 };

/* A crowd that waits for a lock, whose holder sleeps; one more thread waits for the same since just now. */
static struct thread_snapshot *yard(void)
{
	struct thread_snapshot *s = thread_snapshot_new();
	uint32_t holder = knowledge_built_thread(
		s, HOLDER, "depot-holder", KNOWLEDGE_FUTEX,
		BUILT_FRAMES("System.Threading.Thread.Sleep", "Shop.Yard.Count", "Shop.Yard.Hold"));
	for (uint32_t i = 0; i <= CROWD; i++)
		knowledge_built_thread(s, i < CROWD ? FIRST + i : PASSING, NULL, KNOWLEDGE_FUTEX,
				       BUILT_FRAMES("System.Threading.Monitor.Enter", "Shop.Yard.Unload"));
	vec_push(&s->holders, holder);
	uint32_t gate = thread_snapshot_add_wait_object(s, &(struct wait_object){ .address = 0x7008,
										  .kind = WAIT_OBJECT_MONITOR,
										  .type = "System.Object",
										  .name = "Shop.Yard.Main._gate",
										  .next = SNAPSHOT_NONE });
	for (uint32_t i = 0; i <= CROWD; i++)
		s->threads.v[holder + 1 + i].waits_for = gate;
	return s;
}

static const uint32_t still[] = { FIRST, FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4 };

static void empty_stream(struct recording *r, const char *name)
{
	struct build_nettrace b = { 0 };
	fixture_stream(&b, (uint32_t[]){ 81, 91 }, 2);
	fixture_end_stream(&b);
	fixture_part(r, name, &b);
}

static void begin_locks(struct fixture *f)
{
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f->recording, 1000 * MS);
	empty_stream(f->recording, "stacks-0.nettrace");
	empty_stream(f->recording, "counts-0.nettrace");
}

static void keep_why(struct recording *r, const char *why)
{
	json_t *fact = json_pack("{s:b, s:s}", "looked", 0, "why_not", why);
	recording_set_fact(r, "knowledge", fact);
	json_decref(fact);
}

static bool tells_of_the_look(const struct report *r)
{
	json_t *j = fixture_json(r), *each;
	size_t i;
	bool found = false;
	json_array_foreach(json_object_get(j, "how"), i, each)
	{
		found |= str_eq(json_get_str(each, "label", ""), "One look into memory");
	}
	json_decref(j);
	return found;
}

static void waits_that_began_before_are_seen(void **state UNUSED)
{
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = yard();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct fixture f;
	knowledge_built_bytes(&(struct knowledge_built){ .threads = s, .still = still, .n_still = ARRAY_SIZE(still) },
			      &bytes);
	begin_locks(&f);
	knowledge_built_keep(f.recording, bytes.data, bytes.len);
	fixture_examine(&f, "lock-contention");
	assert_string_equal(report_finding(f.report), "lock-held");
	assert_int_equal(report_health(f.report), REPORT_BAD);
	/* Who came just now is not one of them. */
	assert_int_equal((int)fixture_figure(f.report, "Waited all the time"), CROWD);
	assert_true(fixture_says(f.report, "5 threads waited all the time for a lock: for Shop.Yard.Main._gate in "
					   "Shop.Yard.Unload, held by 'depot-holder' (tid 100), which sleeps in "
					   "Shop.Yard.Count (Yard.cs:29)."));
	assert_true(fixture_says(f.report, "deadlocks says whether it ever will"));
	assert_true(tells_of_the_look(f.report));
	fixture_end(&f);
}

static void without_a_look_the_report_says_why(void **state UNUSED)
{
	struct fixture f;
	begin_locks(&f);
	keep_why(f.recording, "it would stand still for about 31 ms; the limit is 20 ms");
	fixture_examine(&f, "lock-contention");
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "it would stand still for about 31 ms; the limit is 20 ms"));
	assert_true(fixture_says(f.report, "not by us"));
	fixture_end(&f);
}

static void older_recordings_know_of_no_look(void **state UNUSED)
{
	struct fixture f;
	begin_locks(&f);
	fixture_examine(&f, "lock-contention");
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_false(tells_of_the_look(f.report));
	fixture_end(&f);
}

static void a_damaged_look_costs_only_itself(void **state UNUSED)
{
	static const struct knowledge_request requests[] = { { FIRST, "GET /unload" } };
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = yard();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	knowledge_built_bytes(&(struct knowledge_built){ .threads = s,
							 .requests = requests,
							 .n_requests = 1,
							 .still = still,
							 .n_still = ARRAY_SIZE(still) },
			      &bytes);
	for (size_t cut = 0; cut < bytes.len; cut += cut + 64 < bytes.len ? 13 : 1) {
		struct fixture f;
		begin_locks(&f);
		knowledge_built_keep(f.recording, bytes.data, cut);
		fixture_examine(&f, "lock-contention");
		assert_string_equal(report_finding(f.report), "nothing-found");
		assert_true(tells_of_the_look(f.report));
		fixture_end(&f);
	}
	for (size_t i = 0; i < bytes.len; i += 5) {
		struct fixture f;
		begin_locks(&f);
		((uint8_t *)bytes.data)[i] ^= 0xff;
		knowledge_built_keep(f.recording, bytes.data, bytes.len);
		((uint8_t *)bytes.data)[i] ^= 0xff;
		fixture_examine(&f, "lock-contention");
		assert_non_null(report_finding(f.report));
		fixture_end(&f);
	}
}

/* ---- the pool ---- */

/* So many workers block, each on a task of its own; all of these await the same source. */
static struct thread_snapshot *crane(uint32_t workers)
{
	struct thread_snapshot *s = thread_snapshot_new();
	for (uint32_t i = 0; i < workers; i++) {
		uint32_t t = knowledge_built_thread(
			s, FIRST + i, ".NET TP Worker", KNOWLEDGE_FUTEX,
			BUILT_FRAMES("System.Threading.Monitor.Wait", "System.Threading.Tasks.Task.InternalWaitCore",
				     "Shop.Crane.ByResult", "System.Threading.ThreadPoolWorkQueue.Dispatch"));
		s->threads.v[t].state = DAC_THREAD_POOL;
	}
	uint32_t end = thread_snapshot_add_wait_object(s, &(struct wait_object){ .address = 0x9000,
										 .kind = WAIT_OBJECT_TASK,
										 .type = "System.Threading.Tasks.Task",
										 .name = "Shop.Crane.Signal._task",
										 .more = "nobody has completed it",
										 .next = SNAPSHOT_NONE });
	for (uint32_t i = 0; i < workers; i++)
		s->threads.v[i].waits_for =
			thread_snapshot_add_wait_object(s, &(struct wait_object){ .address = 0xa000 + 0x100 * i,
										  .kind = WAIT_OBJECT_TASK,
										  .type = "System.Threading.Tasks.Task",
										  .name = "Shop.Crane.LiftAsync",
										  .next = end });
	return s;
}

static void examine_pool(struct fixture *f, struct thread_snapshot *s, const struct knowledge_request *requests,
			 size_t n_requests)
{
	struct build_nettrace b = { 0 };
	CLEANUP(buf_free) struct buf bytes = { 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f->recording, 1000 * MS);
	fixture_stream(&b, (uint32_t[]){ 50 }, 1);
	fixture_end_stream(&b);
	fixture_part(f->recording, "pool-0.nettrace", &b);
	json_t *fact = json_pack("{s:i, s:i, s:i, s:i}", "cpu_ns", 100000000, "cores", 2, "workers_before", 4,
				 "workers_after", 4);
	recording_set_fact(f->recording, "pool", fact);
	json_decref(fact);
	knowledge_built_bytes(&(struct knowledge_built){ .threads = s, .requests = requests, .n_requests = n_requests },
			      &bytes);
	knowledge_built_keep(f->recording, bytes.data, bytes.len);
	fixture_examine(f, "thread-pool");
	thread_snapshot_free(s);
}

static void a_crowd_is_named_with_its_task_and_end(void **state UNUSED)
{
	struct fixture f;
	static const struct knowledge_request requests[] = {
		{ FIRST, "GET /lift" },	    { FIRST + 1, "GET /lift" }, { FIRST + 2, "GET /lift" },
		{ FIRST + 3, "GET /lift" }, { FIRST + 4, "GET /lift" }, { FIRST + 5, "GET /lift" },
		{ FIRST + 6, "GET /lift" }, { FIRST + 7, "GET /park" },
	};
	examine_pool(&f, crane(12), requests, ARRAY_SIZE(requests));
	assert_string_equal(report_finding(f.report), "many-blocked");
	assert_true(fixture_says(f.report,
				 "12 workers of the pool are blocked: 12 in Shop.Crane.ByResult, for GET /lift, "
				 "block on tasks of Shop.Crane.LiftAsync, which in the end await the task of "
				 "Shop.Crane.Signal._task (nobody has completed it)."));
	fixture_end(&f);
}

static void few_are_counted_and_accuse_nobody(void **state UNUSED)
{
	struct fixture f;
	examine_pool(&f, crane(2), NULL, 0);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_int_equal(report_health(f.report), REPORT_OK);
	assert_true(fixture_says(f.report, "2 workers are blocked: 2 in Shop.Crane.ByResult block on tasks of "
					   "Shop.Crane.LiftAsync"));
	fixture_end(&f);
}

/* ---- requests ---- */

static void a_method_is_said_to_serve_only_what_it_was_seen_serving(void **state UNUSED)
{
	struct thread_snapshot *s = thread_snapshot_new();
	static const char *const stacks[][3] = { { "Shop.Tax.Add", "Shop.Orders.Get", NULL },
						 { "Shop.Tax.Add", "Shop.Bills.Get", NULL },
						 { "Shop.Orders.Find", "Shop.Orders.Get", NULL } };
	struct knowledge k = { .threads = s };
	static const char orders[] = "GET /orders/{id}", bills[] = "GET /bills";
	for (uint32_t i = 0; i < ARRAY_SIZE(stacks); i++) {
		uint32_t t = knowledge_built_thread(s, FIRST + i, NULL, SNAPSHOT_RUNS, stacks[i]);
		vec_push(&k.requests, ((struct knowledge_request){ FIRST + i, i == 1 ? bills : orders }));
		*map_u64_put(&k.endpoints, t, NULL) = k.requests.n;
	}
	assert_string_equal(knowledge_endpoint_of_method(&k, "Shop.Orders.Get"), orders);
	assert_string_equal(knowledge_endpoint_of_method(&k, "Shop.Orders.Find"), orders);
	assert_null(knowledge_endpoint_of_method(&k, "Shop.Tax.Add")); /* of two endpoints */
	assert_null(knowledge_endpoint_of_method(&k, "Shop.Nowhere"));
	assert_string_equal(knowledge_common_endpoint(&k, (uint32_t[]){ 0, 1, 2 }, 3), orders);
	assert_null(knowledge_common_endpoint(&k, (uint32_t[]){ 0, 1 }, 2));
	knowledge_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_that_began_before_are_seen),
		cmocka_unit_test(without_a_look_the_report_says_why),
		cmocka_unit_test(older_recordings_know_of_no_look),
		cmocka_unit_test(a_damaged_look_costs_only_itself),
		cmocka_unit_test(a_crowd_is_named_with_its_task_and_end),
		cmocka_unit_test(few_are_counted_and_accuse_nobody),
		cmocka_unit_test(a_method_is_said_to_serve_only_what_it_was_seen_serving),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
