#pragma once
/* Reports in the shape the profilers make them, with invented numbers. Used by the golden files, which are also what
 * the browser test opens. */

#include "model/calltree.h"
#include "model/dist.h"
#include "report/report.h"
#include "base/fmt.h"
#include "base/map.h"
#include <stdio.h>
#include <string.h>

#define SAMPLE_WHEN 1794712329114000000LL /* 2026-11-15 03:12:09.114Z */
#define MS 1000000ULL
#define US 1000ULL

static inline void sample_facts(struct report *r, const char *profiler, const char *title, uint64_t window_ns,
				const char *partial)
{
	report_set_facts(r, &(struct report_facts){ .profiler = profiler,
						    .title = title,
						    .process = "Shop.Api",
						    .target_id = 4211,
						    .runtime = "10.0.12",
						    .container = "shop-api-7c9f5",
						    .host = "eu-w1-07",
						    .when_unix_ns = SAMPLE_WHEN,
						    .window_ns = window_ns,
						    .session = "7f3c1a52-9e0b-4c41-8d27-b1f6e0a94c13",
						    .version = "0.4.0.17",
						    .partial = partial });
}

static inline void sample_how(struct report *r)
{
	report_how(r, "Way", V_TEXT("Events of the runtime"), "first choice for this profiler");
	report_how(r, "Target paused", V_TEXT("Never"), NULL);
	report_how(r, "Lost", V_COUNT(0), "of 48,211 events");
	report_how(r, "Left behind", V_TEXT("Nothing"), NULL);
	report_param(r, "Duration", "20 s", true);
	report_param(r, "Shortest pause", "0.1 ms", false);
}

struct sample_pause {
	uint64_t at_ns, suspend_ns, pause_ns;
	const char *reason;
	int generation; /* -1 = no collection */
	uint64_t before, after;
};

static inline void sample_pause_row(struct report_table *t, const struct sample_pause *p)
{
	bool gc = p->generation >= 0;
	char generation[8];
	snprintf(generation, sizeof(generation), "%d", p->generation);
	report_row(t, (struct value[]){ V_TEXT(p->reason), V_TIME(SAMPLE_WHEN + (int64_t)p->at_ns), V_NS(p->pause_ns),
					V_NS(p->suspend_ns), gc ? V_TEXT(generation) : V_NONE,
					gc ? V_BYTES(p->before) : V_NONE, gc ? V_BYTES(p->after) : V_NONE });
}

static inline struct report *sample_pauses(void)
{
	struct report *r = report_new();
	CLEANUP(dist_freep) struct dist *lengths = dist_new(10000);
	sample_facts(r, "runtime-pauses", "Runtime pauses", 20000 * MS, NULL);
	struct rich *v = report_verdict(r, REPORT_WARN, "gc-pauses-long");
	rich_text(v, "Full garbage collections stop it for up to ");
	rich_strong(v, "%s", fmt_duration_ns(212 * MS).s);
	rich_text(v, ": ");
	rich_strong(v, "6 of 148 pauses");
	rich_text(v, " take 61 %% of all paused time. All six were asked for by ");
	rich_code(v, "GC.Collect()");
	rich_text(v, ", not by lack of memory.");
	rich_text(report_next(r), "find who calls GC.Collect and remove the call. Run allocations if they stay long.");

	struct report_chart *c = report_chart(r, "Pauses over time", VALUE_NS, 20000 * MS);
	struct report_table *t = report_table(r, "Longest pauses");
	struct report_histogram *h = report_histogram(r, "How long they are", VALUE_NS);
	report_column(t, "Reason", VALUE_TEXT, 0);
	report_column(t, "At", VALUE_TIME, 0);
	report_column(t, "Paused", VALUE_NS, COLUMN_BAR | COLUMN_MAIN);
	report_column(t, "To suspend", VALUE_NS, 0);
	report_column(t, "Gen", VALUE_TEXT, 0);
	report_column(t, "Heap before", VALUE_BYTES, 0);
	report_column(t, "After", VALUE_BYTES, 0);
	for (uint64_t i = 0; i < 148; i++) {
		bool full = i % 26 == 13, jit = i % 37 == 9;
		struct sample_pause p = { .at_ns = i * 135 * MS + hash_u64(i) % (40 * MS),
					  .suspend_ns = 20 * US + hash_u64(i + 500) % (90 * US),
					  .reason = full  ? "Full GC, asked for by code"
						    : jit ? "Code versions changed"
							  : "Small GC",
					  .generation = full  ? 2
							: jit ? -1
							      : (int)(i % 2),
					  .before = (300 + i % 40) << 20,
					  .after = (280 + i % 20) << 20 };
		p.pause_ns = full ? (150 + i % 60) * MS : jit ? 90 * US + i * US : 300 * US + hash_u64(i) % (4 * MS);
		if (i == 91)
			p.pause_ns = 212 * MS;
		dist_add(lengths, p.pause_ns);
		report_chart_bar(c, p.at_ns, p.pause_ns, (double)p.pause_ns, p.reason);
		if (i % 6 == 1 || full || i == 9)
			sample_pause_row(t, &p);
	}
	report_rest(t, (struct value[]){ V_TEXT("117 pauses below 3 ms"), V_NONE, V_NS(211 * MS), V_NONE, V_NONE,
					 V_NONE, V_NONE });
	struct dist_bucket b[24];
	size_t n = dist_buckets(lengths, 62500, b, 24);
	for (size_t i = 0; i < n; i++)
		report_bucket(h, (double)b[i].from, (double)b[i].to, b[i].count);
	report_figure(r, "Pauses", V_COUNT(dist_count(lengths)), "7.4/s");
	report_figure(r, "Paused in all", V_NS(dist_sum(lengths)), "7.1 % of the time");
	report_figure(r, "Half are below", V_NS(dist_quantile(lengths, 0.5)), "p50");
	report_figure(r, "Almost all below", V_NS(dist_quantile(lengths, 0.99)), "p99; p95 168 ms");
	report_figure(r, "Longest", V_NS(dist_max(lengths)), "full GC");
	rich_text(report_note(r, REPORT_INFO), "Two suspensions that our own sampling caused are not counted.");
	sample_how(r);
	return r;
}

static inline void sample_stack(struct report_row *row, const char *message)
{
	report_row_line(row, VALUE_TEXT, message, NULL);
	report_row_line(row, VALUE_CODE, "Shop.Payments.CardGateway.Authorize(Card, decimal)", "CardGateway.cs:118");
	report_row_line(row, VALUE_CODE, "Shop.Checkout.CheckoutService+<PayAsync>d__14.MoveNext()", "Checkout.cs:52");
	report_row_line(
		row, VALUE_CODE,
		"System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1[System.__Canon].Start(ref TStateMachine)",
		NULL);
	report_row_line(row, VALUE_CODE, "Shop.Api.Controllers.OrdersController.<Post>b__0(Order)", "Orders.cs:31");
	report_row_line(row, VALUE_CODE, "Microsoft.AspNetCore.Mvc.Infrastructure.ActionMethodExecutor.Execute()",
			NULL);
	report_row_line(row, VALUE_CODE, "System.Threading.ThreadPoolWorkQueue.Dispatch()", NULL);
	report_row_line(row, VALUE_CODE, "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart()", NULL);
}

static inline struct report *sample_exceptions(void)
{
	struct report *r = report_new();
	sample_facts(r, "exceptions", "Exceptions", 10000 * MS, NULL);
	struct rich *v = report_verdict(r, REPORT_BAD, "exceptions-many");
	rich_strong(v, "412 exceptions a second");
	rich_text(v, ", 91 %% of them ");
	rich_code(v, "System.TimeoutException");
	rich_text(v, " thrown in ");
	rich_code(v, "Shop.Payments.CardGateway.Authorize");
	rich_text(v, ". They began 4.1 s into the window and have not stopped.");
	rich_text(report_next(r),
		  "is the card gateway reachable from this host? Its time limit is 2 s in CardGateway.cs:118.");
	report_figure(r, "Exceptions", V_COUNT(4120), "in 10 s");
	report_figure(r, "Rate", V_RATE(412), "peak 730/s");
	report_figure(r, "Types", V_COUNT(4), NULL);
	report_figure(r, "Time in throw", V_NONE, "needs .NET 9 or later");

	struct report_table *t = report_table(r, "By type and place");
	report_column(t, "Type", VALUE_CODE, 0);
	report_column(t, "Thrown in", VALUE_CODE, 0);
	report_column(t, "Thrown", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "Rate", VALUE_RATE, 0);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct report_row *row = report_row(t, (struct value[]){ V_CODE("System.TimeoutException"),
								 V_CODE("Shop.Payments.CardGateway.Authorize"),
								 V_COUNT(3749), V_RATE(374.9), V_RATIO(0.91) });
	sample_stack(row, "The card gateway did not answer within 2,000 ms (attempt 3 of 3, request 8f21…)");
	row = report_row(t, (struct value[]){
				    V_CODE("System.Collections.Generic.KeyNotFoundException"),
				    V_CODE("System.Collections.Generic.Dictionary`2[System.Int32,Shop.Order].get_Item"),
				    V_COUNT(322), V_RATE(32.2), V_RATIO(0.078) });
	report_row_line(row, VALUE_TEXT, "The given key '118204' was not present in the dictionary.", NULL);
	report_row_line(row, VALUE_CODE, "Shop.Cache.OrderCache.Find(int)", "OrderCache.cs:40");
	row = report_row(t,
			 (struct value[]){ V_CODE("System.OperationCanceledException"),
					   V_CODE("System.Threading.CancellationToken.ThrowOperationCanceledException"),
					   V_COUNT(41), V_RATE(4.1), V_RATIO(0.01) });
	report_row_line(row, VALUE_TEXT, "The operation was canceled.", NULL);
	report_row(t, (struct value[]){ V_CODE("Shop.Stock.OutOfStockException"), V_NONE, V_COUNT(8), V_RATE(0.8),
					V_RATIO(0.0019) });

	struct report_chart *c = report_chart(r, "Exceptions per second", VALUE_RATE, 10000 * MS);
	uint64_t x[40];
	double all[40], timeouts[40];
	for (size_t i = 0; i < 40; i++) {
		x[i] = i * 250 * MS;
		timeouts[i] = i < 16 ? 0 : 520 + (double)(hash_u64(i) % 160);
		all[i] = timeouts[i] + 30 + (double)(hash_u64(i + 77) % 40);
	}
	report_chart_line(c, "all", x, all, 40);
	report_chart_line(c, "TimeoutException", x, timeouts, 40);
	struct rich *note = report_note(r, REPORT_WARN);
	rich_text(note, "Stacks were taken from 1 of 8 exceptions, to spare the process; all were counted.");
	sample_how(r);
	return r;
}

static inline struct report *sample_nothing(void)
{
	struct report *r = report_new();
	sample_facts(r, "runtime-pauses", "Runtime pauses", 20000 * MS, NULL);
	rich_text(report_verdict(r, REPORT_OK, "nothing-found"),
		  "No problem here: 14 pauses, 31 ms in all (0.15 %% of the time), the longest 6.2 ms.");
	report_figure(r, "Pauses", V_COUNT(14), "0.7/s");
	report_figure(r, "Paused in all", V_NS(31 * MS), "0.15 % of the time");
	report_figure(r, "Longest", V_NS(6200 * US), NULL);
	struct report_table *t = report_table(r, "Longest pauses");
	report_column(t, "Reason", VALUE_TEXT, 0);
	report_column(t, "Paused", VALUE_NS, COLUMN_MAIN | COLUMN_BAR);
	report_row(t, (struct value[]){ V_TEXT("Small GC"), V_NS(6200 * US) });
	sample_how(r);
	return r;
}

static inline struct report *sample_partial(void)
{
	struct report *r = report_new();
	sample_facts(r, "runtime-pauses", "Runtime pauses", 3200 * MS, "the process ended");
	struct rich *v = report_verdict(r, REPORT_INFO, "pauses-few");
	rich_text(v, "Until it ended, ");
	rich_strong(v, "3 pauses");
	rich_text(v, " stopped it for 41 ms (1.3 %% of the time).");
	report_figure(r, "Pauses", V_COUNT(3), NULL);
	report_figure(r, "Heap at the end", V_NONE, NULL);
	struct report_table *t = report_table(r, "Longest pauses");
	report_column(t, "Reason", VALUE_TEXT, 0);
	report_column(t, "Paused", VALUE_NS, COLUMN_MAIN | COLUMN_BAR);
	report_column(t, "Heap after", VALUE_BYTES, 0);
	report_row(t, (struct value[]){ V_TEXT("Small GC"), V_NS(2 * MS), V_BYTES(44 << 20) });
	report_row(t, (struct value[]){ V_TEXT("Full GC"), V_NS(31 * MS), V_BYTES(38 << 20) });
	report_row(t, (struct value[]){ V_TEXT("Small GC"), V_NS(8 * MS), V_NONE });
	sample_how(r);
	return r;
}

static inline void sample_calls(struct calltree *tree)
{
	static const struct {
		const char *path[8];
		uint64_t samples;
	} stacks[] = {
		{ { "Main", "Shop.Api.Run", "Shop.Pricing.Quote(Order)", "System.Text.RegularExpressions.Regex.Match",
		    "System.Text.RegularExpressions.RegexInterpreter.Scan" },
		  720 },
		{ { "Main", "Shop.Api.Run", "Shop.Pricing.Quote(Order)", "System.Text.RegularExpressions.Regex.Match",
		    "System.Text.RegularExpressions.Match.AddMatch" },
		  310 },
		{ { "Main", "Shop.Api.Run", "Shop.Pricing.Quote(Order)", "System.String.Concat(string, string)" }, 95 },
		{ { "Main", "Shop.Api.Run", "Shop.Pricing.Quote(Order)" }, 118 },
		{ { "Main", "Shop.Api.Run", "Shop.Orders.<Save>b__0(Order)",
		    "System.Text.Json.JsonSerializer.Serialize" },
		  240 },
		{ { "gc", "gc_heap::mark_phase" }, 170 },
		{ { "jit", "CompileMethod" }, 12 },
		{ { "Main", "Shop.Api.Run", "libz.so deflate" }, 60 },
		{ { "Main", "Shop.Api.Run", "Shop.Orders.<Save>b__0(Order)", "[kernel] do_syscall_64",
		    "[kernel] tcp_sendmsg" },
		  76 },
	};
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		uint32_t frames[8];
		size_t n = 0;
		for (; n < 8 && stacks[i].path[n]; n++) {
			const char *s = stacks[i].path[n];
			enum frame_kind kind = s[0] == 'g'   ? FRAME_GC
					       : s[0] == '[' ? FRAME_KERNEL
					       : s[0] == 'l' ? FRAME_NATIVE
					       : s[1] == 'y' ? FRAME_FRAMEWORK
					       : i == 6	     ? FRAME_JIT
							     : FRAME_CODE;
			frames[n] = calltree_frame(tree, s, kind);
		}
		calltree_add(tree, frames, n, stacks[i].samples);
	}
}

static inline struct report *sample_cpu(void)
{
	struct report *r = report_new();
	CLEANUP(calltree_freep) struct calltree *tree = calltree_new(1000);
	sample_facts(r, "cpu-hotpaths", "CPU hotpaths", 10000 * MS, NULL);
	struct rich *v = report_verdict(r, REPORT_WARN, "hot-path");
	rich_strong(v, "1.9 of 8 cores");
	rich_text(v, " busy. ");
	rich_strong(v, "69 %%");
	rich_text(v, " of that is ");
	rich_code(v, "Shop.Pricing.Quote");
	rich_text(v, ", most of it ");
	rich_code(v, "Regex.Match");
	rich_text(v, ", which runs interpreted, not compiled.");
	rich_text(report_next(r), "build the patterns in Pricing.cs:52 once, with RegexOptions.Compiled.");
	report_figure(r, "Busy", V_NUMBER(1.9), "of 8 cores");
	report_figure(r, "Samples", V_COUNT(1801), "at 99 Hz");
	report_figure(r, "GC", V_RATIO(0.094), "of busy time");

	struct report_table *t = report_tree(r, "Where the time goes");
	report_column(t, "Method", VALUE_CODE, 0);
	report_column(t, "Itself", VALUE_RATIO, 0);
	report_column(t, "With callees", VALUE_RATIO, COLUMN_MAIN | COLUMN_BAR);
	struct report_row *run = report_row(t, (struct value[]){ V_CODE("Shop.Api.Run"), V_RATIO(0), V_RATIO(0.9) });
	struct report_row *save = report_child(
		run, (struct value[]){ V_CODE("Shop.Orders.<Save>b__0(Order)"), V_RATIO(0), V_RATIO(0.175) });
	struct report_row *quote = report_child(
		run, (struct value[]){ V_CODE("Shop.Pricing.Quote(Order)"), V_RATIO(0.066), V_RATIO(0.69) });
	struct report_row *match =
		report_child(quote, (struct value[]){ V_CODE("System.Text.RegularExpressions.Regex.Match"), V_RATIO(0),
						      V_RATIO(0.572) });
	report_child(match, (struct value[]){ V_CODE("System.Text.RegularExpressions.RegexInterpreter.Scan"),
					      V_RATIO(0.4), V_RATIO(0.4) });
	report_child(match, (struct value[]){ V_CODE("System.Text.RegularExpressions.Match.AddMatch"), V_RATIO(0.172),
					      V_RATIO(0.172) });
	report_child(quote, (struct value[]){ V_CODE("System.String.Concat(string, string)"), V_RATIO(0.053),
					      V_RATIO(0.053) });
	report_child(save, (struct value[]){ V_CODE("System.Text.Json.JsonSerializer.Serialize"), V_RATIO(0.133),
					     V_RATIO(0.133) });
	report_row(t, (struct value[]){ V_TEXT("garbage collection"), V_RATIO(0), V_RATIO(0.094) });
	sample_calls(tree);
	report_flame(r, "Flame graph", tree, VALUE_COUNT);
	sample_how(r);
	return r;
}

#define MEMORY_ROW(name, objects, mb)                                                                                  \
	(struct value[])                                                                                               \
	{                                                                                                              \
		V_CODE(name), V_COUNT(objects), V_BYTES((mb)*1048576.0), V_RATIO((mb) / 402.0)                         \
	}

static inline struct report *sample_memory(void)
{
	struct report *r = report_new();
	sample_facts(r, "gc-survivors", "GC survivors", 0, NULL);
	struct rich *v = report_verdict(r, REPORT_INFO, "one-holder");
	rich_code(v, "Shop.Cache._orders");
	rich_text(v, " (static Dictionary<Int32, Order>) keeps ");
	rich_strong(v, "1,204,311 ");
	rich_code(v, "Order");
	rich_text(v, " alive: ");
	rich_strong(v, "310 MB");
	rich_text(v, " of the 402 MB that a collection would leave.");
	report_figure(r, "Alive", V_BYTES(402 * 1048576.0), "5,120,882 objects");

	struct report_table *t = report_tree(r, "Who keeps what");
	report_column(t, "Kept alive by", VALUE_CODE, 0);
	report_column(t, "Objects", VALUE_COUNT, 0);
	report_column(t, "Retained", VALUE_BYTES, COLUMN_MAIN | COLUMN_AREA);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	struct report_row *cache = report_row(t, MEMORY_ROW("Shop.Cache._orders", 3612940, 310));
	struct report_row *dictionary = report_child(cache, MEMORY_ROW("Dictionary<Int32, Order>", 1, 310));
	struct report_row *entries = report_child(dictionary, MEMORY_ROW("._entries \xe2\x86\x92 Entry[]", 1, 305));
	struct report_row *orders = report_child(entries, MEMORY_ROW("Order", 1204311, 273));
	report_child(orders, MEMORY_ROW("._lines \xe2\x86\x92 OrderLine[]", 1204311, 148));
	report_child(orders, MEMORY_ROW("._note \xe2\x86\x92 String", 1204311, 57));
	report_child(dictionary, MEMORY_ROW("._buckets \xe2\x86\x92 Int32[]", 1, 5));
	struct report_row *bus = report_row(t, MEMORY_ROW("Shop.Bus._handlers", 15002, 38));
	report_child(bus, MEMORY_ROW("._invocationList \xe2\x86\x92 Object[]", 1, 38));
	report_row(t, MEMORY_ROW("stack of thread 'mailer' in Shop.Mail.Send()", 88120, 21));
	report_row(t, MEMORY_ROW("Microsoft.AspNetCore.Routing.Matching.DfaMatcher", 18542, 4.1));
	report_rest(t, (struct value[]){ V_TEXT("all others together"), V_COUNT(1284403), V_BYTES(28.9 * 1048576.0),
					 V_RATIO(28.9 / 402) });
	sample_how(r);
	return r;
}

static inline struct report *sample_hostile(void)
{
	static const char *const nasty[] = {
		"Program.<Main>b__0(string|null `x`)",
		"</td></table><script>alert(1)</script><img src=x onerror=alert(2)>",
		"\" onmouseover=\"alert(3)\" x='",
		"bell \a, escape \x1b[31mred\x1b[0m, return \r, line\nfeed, tab\t, delete \x7f",
		"right-to-left \xe2\x80\xae \"evil\" \xe2\x80\xac, zero\xe2\x80\x8bwidth, bom \xef\xbb\xbf",
		"ill-formed \xff\xfe \xc3( \xe2\x82 \xed\xa0\x80 end",
		"| a | b |\n|---|---|\n**bold** _x_ [link](javascript:alert(4)) ![i](http://x/y) # h",
		"]]> --> <!-- &lt;&amp; &#x3c;script&#x3e; ${x} {{y}}",
		"1. list\n- item\n> quote\n```\ncode\n``` https://example.invalid/",
		"漢字カナ 한국어 عربى 🙂 e\xcc\x81",
		"",
		" ",
	};
	enum { N = sizeof(nasty) / sizeof(nasty[0]) };
	struct report *r = report_new();
	report_set_facts(r, &(struct report_facts){ .profiler = nasty[1],
						    .title = nasty[6],
						    .process = nasty[3],
						    .target_id = -7,
						    .runtime = nasty[4],
						    .container = nasty[2],
						    .host = nasty[7],
						    .session = nasty[1],
						    .version = nasty[5],
						    .window_ns = UINT64_MAX,
						    .when_unix_ns = INT64_MIN,
						    .partial = nasty[3] });
	struct rich *v = report_verdict(r, REPORT_BAD, nasty[1]);
	struct rich *note = report_note(r, REPORT_WARN);
	for (size_t i = 0; i < N; i++) {
		rich_code(v, nasty[i]);
		rich_text(v, " and %s ", nasty[i]);
		rich_strong(note, "%s", nasty[i]);
		rich_code(report_next(r), nasty[i]);
		report_figure(r, nasty[i], V_TEXT(nasty[(i + 1) % N]), nasty[(i + 2) % N]);
		report_how(r, nasty[i], V_CODE(nasty[(i + 1) % N]), nasty[(i + 2) % N]);
		report_param(r, nasty[i], nasty[(i + 1) % N], i % 2);
	}
	char *long_text = mem_alloc(3001);
	memset(long_text, 'x', 3000);
	long_text[3000] = '\0';
	for (int tree = 0; tree < 2; tree++) {
		struct report_table *t = tree ? report_tree(r, nasty[1]) : report_table(r, nasty[6]);
		report_column(t, nasty[1], VALUE_CODE, 0);
		report_column(t, nasty[6], VALUE_TEXT, 0);
		report_column(t, nasty[8], VALUE_COUNT, COLUMN_BAR | COLUMN_MAIN | COLUMN_AREA);
		struct report_row *last = NULL;
		for (size_t i = 0; i < N; i++) {
			struct value cells[] = { V_CODE(nasty[i]), V_TEXT(nasty[(i + 3) % N]),
						 V_COUNT(1e19 * (double)i) };
			last = tree && last ? report_child(last, cells) : report_row(t, cells);
			if (!tree)
				report_row_line(last, i % 2 ? VALUE_CODE : VALUE_TEXT, nasty[i], nasty[(i + 1) % N]);
		}
		report_row(t, (struct value[]){ V_CODE(long_text), V_TEXT(NULL), V_NUMBER(0.0 / 0.0) });
		report_rest(t, (struct value[]){ V_TEXT(nasty[1]), V_NONE, V_COUNT(-3) });
	}
	struct report_chart *c = report_chart(r, nasty[7], VALUE_BYTES, 0);
	report_chart_line(c, nasty[1], (uint64_t[]){ 0, UINT64_MAX, 5 }, (double[]){ 1e300, 0.0 / 0.0, -1e300 }, 3);
	report_chart_line(c, nasty[4], NULL, NULL, 0);
	report_chart_bar(c, UINT64_MAX, UINT64_MAX, 1e18, nasty[1]);
	report_chart_bar(c, 0, 0, -5, nasty[3]);
	struct report_histogram *h = report_histogram(r, nasty[1], VALUE_NS);
	report_bucket(h, -1e300, 1e300, UINT64_MAX);
	report_bucket(h, 5, 1, 1);
	report_histogram(r, "empty", VALUE_TEXT);
	report_table(r, nasty[3]);
	CLEANUP(calltree_freep) struct calltree *tree = calltree_new(100);
	uint32_t frames[N + 1];
	for (size_t i = 0; i < N; i++)
		frames[i] = calltree_frame(tree, nasty[i], (enum frame_kind)(i % 7));
	frames[N] = calltree_frame(tree, long_text, FRAME_OTHER);
	for (size_t i = 1; i <= N + 1; i++)
		calltree_add(tree, frames, i, 10);
	report_flame(r, nasty[2], tree, VALUE_COUNT);
	mem_free(long_text);
	return r;
}

static const struct report_sample {
	const char *name;
	struct report *(*make)(void);
} report_samples[] = {
	{ "pauses", sample_pauses },   { "exceptions", sample_exceptions },
	{ "nothing", sample_nothing }, { "partial", sample_partial },
	{ "cpu", sample_cpu },	       { "memory", sample_memory },
	{ "hostile", sample_hostile },
};
