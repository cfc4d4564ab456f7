#include "unit.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "eventpipe/stream_wake.h"
#include "eventpipe/methods.h"
#include "eventpipe/settle.h"
#include "fake_runtime.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* An event of the runtime with a payload built by the test. */
struct made {
	struct nettrace_meta meta;
	struct nettrace_event event;
	struct buf payload;
};

static void make(struct made *m, const char *provider, uint32_t id)
{
	*m = (struct made){ .meta = { .provider = provider, .event_id = id, .name = "" } };
}

static void add_u(struct made *m, uint64_t value, size_t bytes)
{
	buf_add(&m->payload, &value, bytes);
}

static void add_s(struct made *m, const char *s)
{
	utf16_from_utf8(&m->payload, s);
	add_u(m, 0, 2);
}

static const struct nettrace_event *sealed(struct made *m)
{
	m->event = (struct nettrace_event){
		.meta = &m->meta,
		.payload = (const uint8_t *)buf_cstr(&m->payload),
		.payload_size = m->payload.len,
		.pointer_size = 8,
	};
	return &m->event;
}

static void method(struct made *m, uint64_t start, uint32_t size, const char *space, const char *name)
{
	make(m, CLR_RUNDOWN_PROVIDER, 144);
	add_u(m, 1, 8);
	add_u(m, 2, 8);
	add_u(m, start, 8);
	add_u(m, size, 4);
	add_u(m, 0x6000001, 4);
	add_u(m, 8, 4);
	add_s(m, space);
	add_s(m, name);
	add_s(m, "void ()");
	add_u(m, 0, 2);
}

static void names_are_shown_as_written(void **state UNUSED)
{
	static const struct {
		const char *space, *name, *shown;
	} cases[] = {
		{ "Shop.Orders", "Place", "Shop.Orders.Place" },
		{ "Shop.Orders+Line", "Add", "Shop.Orders.Line.Add" },
		{ "Shop.Orders+<PlaceAsync>d__5", "MoveNext", "Shop.Orders.PlaceAsync" },
		{ "Shop.Orders+<>c", "<Load>b__3_0", "lambda in Shop.Orders.Load" },
		{ "Shop.Orders+<>c__DisplayClass3_0", "<Load>b__1", "lambda 2 in Shop.Orders.Load" },
		{ "Shop.Orders+<>c", "<Load>b__3_", "lambda in Shop.Orders.Load" },
		{ "Shop.Orders+<>c", "<Load>b__", "lambda in Shop.Orders.Load" },
		{ "Program+<>c+<<<Main>$>b__0_7>d", "MoveNext", "lambda 8 in Program.Main" },
		{ "Shop.Orders+<>c+<<Load>b__3_0>d", "MoveNext", "lambda in Shop.Orders.Load" },
		{ "Shop.Orders", "<Load>g__Inner|3_0", "Shop.Orders.Load.Inner" },
		{ "Program", "<Main>$", "Program.Main" },
		{ "Program+<>c", "<<Main>$>b__0_0", "lambda in Program.Main" },
		{ "Program+<<Main>$>d__0", "MoveNext", "Program.Main" },
		/* Local functions of top-level programs: plain, static, in a closure, async, iterator, async iterator.
		 */
		{ "Program", "<<Main>$>g__Import|0_8", "Program.Main.Import" },
		{ "Program+<>c", "<<Main>$>g__Import|0_8", "Program.Main.Import" },
		{ "Program+<>c__DisplayClass0_0", "<<Main>$>g__Import|2", "Program.Main.Import" },
		{ "Program+<<<Main>$>g__Import|0_8>d", "MoveNext", "Program.Main.Import" },
		{ "Program+<>c__DisplayClass0_0+<<<Main>$>g__Import|2>d", "MoveNext", "Program.Main.Import" },
		{ "Program+<<<Main>$>g__Lines|0_1>d", "System.IDisposable.Dispose", "Program.Main.Lines.Dispose" },
		{ "Program+<<<Main>$>g__Rows|0_1>d", "MoveNextAsync", "Program.Main.Rows" },
		{ "Program", "<<Main>$>g__Import|0_8[System.Int32]", "Program.Main.Import" },
		{ "Shop.Orders+<<Load>g__Inner|3_0>d", "MoveNext", "Shop.Orders.Load.Inner" },
		/* Lambdas of generic methods, constructors, static constructors, interfaces, and in local functions. */
		{ "Shop.Orders+<>c__3`1[System.Int32]", "<Load>b__3_0", "lambda in Shop.Orders.Load" },
		{ "Shop.Orders+<>c__DisplayClass3_0`1[System.Int32]", "<Load>b__0", "lambda in Shop.Orders.Load" },
		{ "Shop.Orders+<>c", "<.ctor>b__3_0", "lambda in Shop.Orders..ctor" },
		{ "Shop.Orders+<>c", "<.cctor>b__3_0", "lambda in Shop.Orders..cctor" },
		{ "Shop.Orders+<>c", "<Shop.IPlace.Run>b__3_0", "lambda in Shop.Orders.Shop.IPlace.Run" },
		{ "Program+<>c", "<<Main>$>b__0_41", "lambda 42 in Program.Main" },
		/* Made by the compiler and not for a method of the author's: as they are. */
		{ "Shop.Order", "<Clone>$", "Shop.Order.Clone" },
		{ "Shop.Order", "<>n__0", "Shop.Order.<>n__0" },
		{ "<PrivateImplementationDetails>", "ComputeStringHash",
		  "<PrivateImplementationDetails>.ComputeStringHash" },
		/* Cut short or not of the compiler's making. */
		{ "Program", "<<Main>$>g__", "Program.Main." },
		{ "Program", "<<Main>$>g__|", "Program.Main." },
		{ "Program", "<<Main>$>g", "Program.Maing" },
		{ "Program", "<<Main>$>", "Program.Main" },
		{ "Program", "<<Main>$", "Program.<<Main>$" },
		{ "Program", "<<<<<>>>>>g__X|0_0", "Program.<>.X" },
		{ "System.Collections.Generic.List`1[System.__Canon]", "Add",
		  "System.Collections.Generic.List<T>.Add" },
		{ "System.Collections.Generic.Dictionary`2[System.Int32,System.__Canon]", "FindValue",
		  "System.Collections.Generic.Dictionary<Int32, T>.FindValue" },
		{ "A`1+B[System.Collections.Generic.List`1[System.Int32]]", "F", "A.B<List<Int32>>.F" },
		{ "X.Builder`1+Box`1[X.Void,Shop.Courier+<BookAsync>d__0]", "MoveNext",
		  "X.Builder.Box<Void, BookAsync>.MoveNext" },
		{ "Shop.Orders+<Lines>d__5", "System.IDisposable.Dispose", "Shop.Orders.Lines.Dispose" },
		{ "Shop.Orders+<Lines>d__5", "System.Collections.Generic.IEnumerable<System.Int32>.GetEnumerator",
		  "Shop.Orders.Lines.GetEnumerator" },
		{ "Shop.Orders+<Lines>d__5", "<>m__Finally1", "Shop.Orders.Lines.<>m__Finally1" },
		{ "Shop.<Codes_g>F0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF__Code_0+Runner",
		  "Scan", "Shop.Code_0.Runner.Scan" },
		{ "Shop.<Codes_g>F0123__Code", "Scan", "Shop.<Codes_g>F0123__Code.Scan" },
		{ "Pharmacy.Program+main@36-2", "Invoke", "lambda at line 36 in Pharmacy.Program.main" },
		{ "Pharmacy.Program+loop@26-2`1[System.__Canon]", "Invoke",
		  "lambda at line 26 in Pharmacy.Program.loop" },
		{ "Pharmacy.Program+clo@33", "Invoke", "lambda at line 33 in Pharmacy.Program" },
		{ "Pharmacy.Program+Pipe #1 stage #1 at line 35@35", "Invoke",
		  "lambda at line 35 in Pharmacy.Program" },
		{ "Pharmacy.Program+taskflow@17", "MoveNext", "Pharmacy.Program.taskflow" },
		{ "Pharmacy.Program+seqs@23", "GenerateNext", "Pharmacy.Program.seqs" },
		{ "Pharmacy.Program+seqs@23", "Close", "Pharmacy.Program.seqs@23.Close" },
		{ "Pharmacy.Program+@", "Invoke", "Pharmacy.Program.@.Invoke" },
		{ "Ward.Program+_Closure$__2-1", "_Lambda$__6", "lambda 6 in Ward.Program" },
		{ "Ward.Program+VB$StateMachine_1_Round", "MoveNext", "Ward.Program.Round" },
		{ "", "IL_STUB_PInvoke", "IL_STUB_PInvoke" },
		/* Made at run time. */
		{ "dynamicClass", "lambda_method35", "lambda_method35 (compiled expression)" },
		{ "DynamicClass", "lambda_method35", "lambda_method35 (compiled expression)" },
		{ "dynamicClass", "Regex12_Scan", "Regex12_Scan (compiled regular expression)" },
		{ "dynamicClass", "Regex_Scan", "dynamicClass.Regex_Scan" },
		{ "dynamicClass", "Regex", "dynamicClass.Regex" },
		{ "dynamicClass", "IL_STUB_PInvoke", "dynamicClass.IL_STUB_PInvoke" },
		{ "T", "<odd", "T.<odd" },
		{ "T`1[", "x`9[,", "T[.x[," },
		{ "+<", "<>", "<>" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf out = { 0 };
		method_show(cases[i].space, cases[i].name, &out);
		assert_string_equal(buf_cstr(&out), cases[i].shown);
		buf_free(&out);
	}
}

/* A lambda goes by its place, another method by its name. */
static void places_stand_for_names(void **state UNUSED)
{
	static const struct {
		const char *space, *name, *line, *route, *shown;
		bool lambda;
	} cases[] = {
		{ "Program+<>c", "<<Main>$>b__0_7", "Program.cs:41", NULL, "lambda at Program.cs:41 in Program.Main",
		  true },
		{ "Program+<>c", "<<Main>$>b__0_7", "Program.cs:41", "GET /orders/{id}",
		  "GET /orders/{id}, Program.cs:41", true },
		{ "Program+<>c", "<<Main>$>b__0_7", NULL, "GET /orders/{id}", "GET /orders/{id}", true },
		{ "Program+<>c", "<<Main>$>b__0_7", "", "", "lambda 8 in Program.Main", true },
		{ "Program+<>c__DisplayClass0_0+<<<Main>$>b__1>d", "MoveNext", "Program.cs:41", NULL,
		  "lambda at Program.cs:41 in Program.Main", true },
		{ "Program+<>c__DisplayClass0_0+<<<Main>$>b__1>d", "MoveNext", "Program.cs:41", "POST /carts",
		  "POST /carts, Program.cs:41", true },
		{ "Program", "<<Main>$>g__Import|0_8", "Program.cs:9", "GET /import",
		  "Program.Main.Import (GET /import)", false },
		{ "Shop.Orders+<Place>d__5", "MoveNext", "Orders.cs:9", "POST /orders",
		  "Shop.Orders.Place (POST /orders)", false },
		{ "Shop.Orders", "Place", "Orders.cs:9", NULL, "Shop.Orders.Place", false },
		{ "Pharmacy.Program+main@36-2", "Invoke", "Program.fs:36", NULL,
		  "lambda at Program.fs:36 in Pharmacy.Program.main", true },
		{ "Ward.Program+_Closure$__2-1", "_Lambda$__6", "Ward.vb:7", NULL,
		  "lambda at Ward.vb:7 in Ward.Program", true },
		{ "", "<", "A.cs:1", NULL, "<", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf out = { 0 };
		struct method_origin place = { cases[i].line, cases[i].route };
		method_show_at(cases[i].space, cases[i].name, &place, &out);
		assert_string_equal(buf_cstr(&out), cases[i].shown);
		assert_int_equal(method_is_lambda(cases[i].space, cases[i].name), cases[i].lambda);
		buf_free(&out);
	}
}

static void a_state_machine_knows_its_method(void **state UNUSED)
{
	static const struct {
		const char *machine, *space, *name;
	} cases[] = {
		{ "Shop.Orders+<Place>d__5", "Shop.Orders", "Place" },
		{ "Program+<>c+<<<Main>$>b__0_7>d", "Program+<>c", "<<Main>$>b__0_7" },
		{ "Program+<>c__DisplayClass0_0+<<<Main>$>b__1>d", "Program+<>c__DisplayClass0_0", "<<Main>$>b__1" },
		{ "Program+<<<Main>$>g__Import|0_8>d", "Program", "<<Main>$>g__Import|0_8" },
		{ "Shop.Orders", NULL, NULL },
		{ "Program+<>c", NULL, NULL },
		{ "Program+<>c+<", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf space = { 0 }, name = { 0 };
		assert_int_equal(method_of_machine(cases[i].machine, &space, &name), cases[i].space != NULL);
		if (cases[i].space) {
			assert_string_equal(buf_cstr(&space), cases[i].space);
			assert_string_equal(buf_cstr(&name), cases[i].name);
		}
		buf_free(&space);
		buf_free(&name);
	}
}

/* What continues an async method goes by the method that its author wrote, whatever it is generic over. */
static void boxes_of_async_methods_are_named(void **state UNUSED)
{
#define BOX "System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1+AsyncStateMachineBox`1[[System.Int32, Lib],["
	static const struct {
		const char *box, *shown;
	} cases[] = {
		{ BOX "Shop.Orders+<Place>d__5, Shop]]", "Shop.Orders.Place" },
		{ BOX "Shop.Cache`1+<Load>d__3[[System.Int32, Lib]], Shop]]", "Shop.Cache.Load" },
		{ BOX "Shop.Map`2+<Load>d__3[[Shop.Key, Shop],[Shop.Item, Shop]], Shop]]", "Shop.Map.Load" },
		{ BOX "Program+<>c+<<<Main>$>b__0_7>d, Shop]]", "lambda 8 in Program.Main" },
		{ BOX, NULL },
		{ "Shop.Orders", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf out = { 0 };
		assert_int_equal(type_async_method(cases[i].box, &out), cases[i].shown != NULL);
		if (cases[i].shown)
			assert_string_equal(buf_cstr(&out), cases[i].shown);
		buf_free(&out);
	}
}

static void types_are_shown_as_written(void **state UNUSED)
{
	static const struct {
		const char *name, *shown;
	} cases[] = {
		{ "Shop.Orders+Line", "Shop.Orders.Line" },
		{ "Shop.Orders+<PlaceAsync>d__5", "Shop.Orders.PlaceAsync" },
		{ "Shop.Orders`1+<Items>d__5[System.Int32]", "Shop.Orders.Items<Int32>" },
		{ "Shop.Orders+<Shop.IPlace.Run>d__3", "Shop.Orders.Shop.IPlace.Run" },
		{ "Program+<<Main>$>d__0", "Program.Main" },
		{ "Shop.Orders+<>c+<<Load>b__3_0>d", "Shop.Orders.(lambdas).Load" },
		{ "Shop.Orders+<<Load>g__Inner|3_0>d", "Shop.Orders.Inner" },
		{ "Shop.Orders+<>c__DisplayClass3_0", "Shop.Orders.(closure)" },
		{ "Shop.Orders+<>c", "Shop.Orders.(lambdas)" },
		{ "Shop.Orders+<>c__3`1[System.Int32]", "Shop.Orders.(lambdas)<Int32>" },
		{ "Shop.Orders+<>c__DisplayClass3_0`1[System.Int32]", "Shop.Orders.(closure)<Int32>" },
		{ "Program+<<<Main>$>g__Import|0_8>d", "Program.Import" },
		{ "Program+<>c__DisplayClass0_0+<<<Main>$>g__Import|2>d", "Program.(closure).Import" },
		{ "<>f__AnonymousType0`2[System.Int32,System.__Canon]", "(anonymous)<Int32, T>" },
		{ "System.Func`2[[Shop.A+<Step>d__14, Shop],[System.Int32, X]]", "System.Func<Step, Int32>" },
		{ "Shop.<odd>x", "Shop.<odd>x" },
		{ "<>", "<>" },
		{ "<a>dark", "<a>dark" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf out = { 0 };
		type_show(cases[i].name, &out);
		assert_string_equal(buf_cstr(&out), cases[i].shown);
		buf_free(&out);
	}
}

static void no_name_makes_trouble(void **state UNUSED)
{
	/* Every string of these characters up to a length: nothing reads past the end, nothing hangs. The last byte of
	 * the memory is the last of the name, so that a sanitizer sees a read behind it. */
	static const char letters[] = "a<>[]`1+,.";
	char *name = mem_alloc(6);
	struct buf out = { 0 };
	for (unsigned n = 0; n < 100000; n++) {
		unsigned rest = n;
		for (size_t i = 0; i < 5; i++, rest /= 10)
			name[i] = letters[rest % 10];
		name[5] = '\0';
		buf_clear(&out);
		method_show(name, name, &out);
		method_show(name, "MoveNext", &out);
		type_show(name, &out);
		type_async_method(name, &out);
		method_is_lambda(name, name);
		assert_true(out.len < 200);
	}
	mem_free(name);
	buf_free(&out);
}

static void deep_names_cost_no_more_than_long_ones(void **state UNUSED)
{
	/* As long as the runtime's strings can be: with a search for the end at each bracket this would take minutes,
	 * with a call for each level the stack. */
	enum { LEN = 65000 };
	static const char *const patterns[] = { "<", "[", "`1[", "<a>g__", "+<", "A`1[[" };
	char *name = mem_alloc(LEN + 8);
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		size_t step = strlen(patterns[i]), len = 0;
		for (; len + step <= LEN; len += step)
			memcpy(name + len, patterns[i], step);
		name[len] = '\0';
		struct buf out = { 0 };
		method_show(name, name, &out);
		type_show(name, &out);
		assert_true(out.len < 20 * LEN);
		buf_free(&out);
	}
	mem_free(name);
}

static void framework_is_told_from_user_code(void **state UNUSED)
{
	assert_true(method_is_framework(NULL, "System.String"));
	assert_true(method_is_framework(NULL, "<StartupCode$FSharp-Core>.$Async+Sleep@1809-3"));
	assert_false(method_is_framework(NULL, "<StartupCode$Pharmacy>.$Program"));
	assert_true(method_is_framework(NULL, "Microsoft.AspNetCore.Http.HttpContext"));
	assert_true(method_is_framework(NULL, "Interop+Sys"));
	assert_true(method_is_framework(NULL, "Npgsql.NpgsqlConnection"));
	assert_true(method_is_framework(NULL, "Dapper.SqlMapper+<QueryAsync>d__1`1"));
	assert_true(method_is_library(NULL, "Newtonsoft.Json.JsonConvert"));
	assert_false(method_is_library(NULL, "System.String"));
	assert_true(method_is_compiled("dynamicClass.lambda_method35"));
	assert_true(method_is_compiled("DynamicClass.lambda_method35"));
	assert_true(method_is_compiled("lambda_method35 (compiled expression)"));
	assert_false(method_is_compiled("Regex12_Scan (compiled regular expression)"));
	assert_false(method_is_compiled("dynamicClass.IL_STUB_PInvoke"));
	assert_false(method_is_compiled(""));
	assert_false(method_is_framework(NULL, "NpgsqlBackups.Program"));
	assert_false(method_is_framework(NULL, "Google.Maps.Own"));
	assert_false(method_is_framework(NULL, "Systematic.Thing"));
	assert_false(method_is_framework(NULL, "Shop.System.Thing"));
	assert_false(method_is_framework(NULL, ""));
}

/* Two programs in one process: what one says of its code is nothing to the other, nor to who has asked neither. */
static void programs_do_not_know_of_each_other(void **state UNUSED)
{
	CLEANUP(whose_names_freep) struct whose_names *shop = whose_names_new(), *bank = whose_names_new();
	whose_names_add(shop, "Zeta", WHOSE_PACKAGE);
	whose_names_add(shop, "Microsoft.Contoso", WHOSE_YOURS);
	assert_int_equal(whose_code(shop, "Zeta.Kernel"), WHOSE_PACKAGE);
	assert_int_equal(whose_code(bank, "Zeta.Kernel"), WHOSE_YOURS);
	assert_int_equal(whose_code(NULL, "Zeta.Kernel"), WHOSE_YOURS);
	whose_names_add(bank, "Zeta.Kernel", WHOSE_LIBRARY);
	assert_int_equal(whose_code(shop, "Zeta.Kernel"), WHOSE_PACKAGE);
	assert_int_equal(whose_code(bank, "Zeta.Kernel"), WHOSE_LIBRARY);
	assert_false(method_is_framework(shop, "Microsoft.Contoso.Prices"));
	assert_true(method_is_framework(bank, "Microsoft.Contoso.Prices"));
	whose_names_free(STEAL(shop));
	assert_int_equal(whose_code(bank, "Zeta.Kernel"), WHOSE_LIBRARY);
	assert_int_equal(whose_code(bank, "Npgsql.NpgsqlConnection"), WHOSE_LIBRARY);
}

static void addresses_find_their_method(void **state UNUSED)
{
	struct methods *methods = methods_new();
	static const struct {
		uint64_t start;
		uint32_t size;
		const char *name;
	} ranges[] = { { 0x3000, 0x10, "C" }, { 0x1000, 0x100, "A" }, { 0x2000, 0x20, "B" }, { 0x1000, 0x80, "A2" } };
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		struct made m;
		method(&m, ranges[i].start, ranges[i].size, "T", ranges[i].name);
		methods_event(methods, sealed(&m));
		buf_free(&m.payload);
	}
	assert_string_equal(methods_find(methods, 0x2000)->name, "B");
	assert_string_equal(methods_find(methods, 0x201f)->name, "B");
	assert_null(methods_find(methods, 0x2020));
	assert_null(methods_find(methods, 0xfff));
	assert_string_equal(methods_find(methods, 0x1010)->name, "A2"); /* the later one */
	assert_null(methods_find(methods, UINT64_MAX));
	methods_free(methods);
}

static void listed_module(struct methods *methods, uint64_t id, const char *path, uint8_t pdb, size_t cut)
{
	struct made m;
	make(&m, CLR_RUNDOWN_PROVIDER, 154);
	add_u(&m, id, 8);
	add_u(&m, 1, 8);
	add_u(&m, 0, 8);
	add_s(&m, path);
	add_s(&m, "");
	add_u(&m, 0, 2);
	for (size_t i = 0; i < MODULE_PDB_BYTES; i++)
		add_u(&m, pdb, 1);
	m.payload.len -= cut;
	methods_event(methods, sealed(&m));
	buf_free(&m.payload);
}

static void methods_know_their_module_and_place(void **state UNUSED)
{
	struct methods *methods = methods_new();
	struct clr_module_file file;
	struct made m;
	method(&m, 0x1000, 0x100, "Program+<>c+<<<Main>$>b__0_7>d", "MoveNext");
	methods_event(methods, sealed(&m));
	buf_free(&m.payload);
	const struct method *lambda = methods_find(methods, 0x1010);
	assert_int_equal(lambda->token, 0x6000001);
	assert_false(methods_module(methods, lambda->module, &file));
	listed_module(methods, 2, "/app/old.dll", 7, 1); /* too short for its PDB */
	assert_true(methods_module(methods, 2, &file));
	assert_null(file.pdb);
	listed_module(methods, 2, "/app/shop.dll", 7, 0);
	listed_module(methods, 3, "/app/none.dll", 0, 0);
	assert_true(methods_module(methods, lambda->module, &file));
	assert_string_equal(file.path, "/app/shop.dll");
	assert_int_equal(file.pdb[15], 7);
	assert_true(methods_module(methods, 3, &file));
	assert_null(file.pdb);
	/* Of the method that the state machine was made of. */
	struct buf out = { 0 };
	methods_show(methods, methods_find(methods, 0x1010), &out);
	assert_string_equal(buf_cstr(&out), "lambda 8 in Program.Main");
	methods_set_place(methods, "Program+<>c", "<<Main>$>b__0_7",
			  &(struct method_origin){ .line = "Program.cs:41" });
	methods_set_place(methods, "Program+<>c", "<<Main>$>b__0_7", &(struct method_origin){ .route = "GET /" });
	buf_clear(&out);
	methods_show(methods, methods_find(methods, 0x1010), &out);
	assert_string_equal(buf_cstr(&out), "GET /, Program.cs:41");
	buf_free(&out);
	methods_free(methods);
}

/* Code that was unloaded leaves its place to other code, which need not begin where it began. */
static void a_place_is_used_again(void **state UNUSED)
{
	struct methods *methods = methods_new();
	methods_add(methods, 0x1000, 0x100, "T", "first");
	methods_add(methods, 0x1100, 0x100, "T", "second");
	methods_add(methods, 0x1200, 0x100, "T", "third");
	assert_string_equal(methods_find(methods, 0x1010)->name, "first");
	methods_add(methods, 0x1080, 0x100, "T", "new");
	assert_null(methods_find(methods, 0x1010));
	assert_string_equal(methods_find(methods, 0x1080)->name, "new");
	assert_string_equal(methods_find(methods, 0x117f)->name, "new");
	assert_null(methods_find(methods, 0x1180));
	assert_string_equal(methods_find(methods, 0x1200)->name, "third");
	methods_add(methods, 0xf00, 0x1000, "T", "all of it");
	assert_string_equal(methods_find(methods, 0x1100)->name, "all of it");
	assert_string_equal(methods_find(methods, 0x1200)->name, "all of it");
	methods_free(methods);
}

static void short_payloads_are_refused(void **state UNUSED)
{
	struct made m;
	method(&m, 0x1000, 0x10, "Type", "Name");
	struct clr_method decoded;
	for (size_t len = 0; len < m.payload.len - 2; len++) {
		sealed(&m);
		m.event.payload_size = len;
		assert_false(clr_decode_method(&m.event, &decoded));
	}
	assert_true(clr_decode_method(sealed(&m), &decoded));
	assert_int_equal(decoded.name.n, 4);
	buf_free(&m.payload);
}

static void exceptions_decode(void **state UNUSED)
{
	struct made m;
	make(&m, CLR_PROVIDER, 80);
	add_s(&m, "System.FormatException");
	add_s(&m, "bad | `input`");
	add_u(&m, 0, 8);
	add_u(&m, 0x80131537, 4);
	add_u(&m, CLR_EXCEPTION_HAS_INNER | CLR_EXCEPTION_RETHROWN, 2);
	add_u(&m, 0, 2);
	struct clr_exception e;
	assert_int_equal(clr_event(sealed(&m)), CLR_EXCEPTION_THROWN);
	assert_true(clr_decode_exception(sealed(&m), &e));
	assert_int_equal(e.flags, 5);
	assert_int_equal(e.message.n, 13);
	buf_free(&m.payload);
}

static void allocations_decode(void **state UNUSED)
{
	struct made m;
	struct clr_allocation a;
	make(&m, CLR_PROVIDER, 10);
	add_u(&m, 106000, 4);
	add_u(&m, CLR_HEAP_LARGE, 4);
	add_u(&m, 0, 2);
	add_u(&m, 106000, 8);
	add_u(&m, 1, 8);
	add_s(&m, "A[]");
	add_u(&m, 0, 4);
	size_t least = m.payload.len; /* what runtimes before .NET 5 send, which do not tell the size */
	add_u(&m, 2, 8);
	add_u(&m, 1024, 8);
	for (size_t len = 0; len <= m.payload.len; len++) {
		sealed(&m);
		m.event.payload_size = len;
		assert_int_equal(clr_decode_allocation(&m.event, &a), len >= least);
	}
	assert_int_equal(a.heap, CLR_HEAP_LARGE);
	assert_int_equal(a.tick_bytes, 106000);
	assert_int_equal(a.object_bytes, 1024);
	buf_free(&m.payload);

	make(&m, CLR_PROVIDER, 303);
	add_u(&m, CLR_HEAP_SMALL, 4);
	add_u(&m, 0, 2);
	add_u(&m, 1, 8);
	add_s(&m, "A");
	add_u(&m, 2, 8);
	add_u(&m, 24, 8);
	for (size_t len = 0; len <= m.payload.len; len++) {
		sealed(&m);
		m.event.payload_size = len;
		assert_int_equal(clr_decode_allocation(&m.event, &a), len == m.payload.len);
	}
	assert_int_equal(a.object_bytes, 24);
	assert_int_equal(a.type.n, 1);
	buf_free(&m.payload);
}

static void heap_history_sums_generations(void **state UNUSED)
{
	struct made m;
	make(&m, CLR_PROVIDER, 204);
	add_u(&m, 0, 2);
	for (int i = 0; i < 6; i++)
		add_u(&m, 0, 8);
	for (int i = 0; i < 5; i++)
		add_u(&m, 0, 4);
	add_u(&m, 7, 4); /* heap */
	add_u(&m, 0, 8);
	add_u(&m, 5, 4); /* generations */
	for (uint64_t gen = 0; gen < 5; gen++) {
		for (uint64_t k = 0; k < 10; k++)
			add_u(&m, k == 0 ? 100 + gen : k == 3 ? 10 + gen : 999, 8);
	}
	struct clr_heap_history history;
	assert_true(clr_decode_heap_history(sealed(&m), &history));
	assert_int_equal(history.heap, 7);
	assert_int_equal(history.before_bytes, 510);
	assert_int_equal(history.after_bytes, 60);
	for (size_t len = 0; len < 120; len++) {
		m.event.payload_size = len;
		assert_false(clr_decode_heap_history(&m.event, &history) && history.before_bytes > 1000);
	}
	buf_free(&m.payload);
}

static void tables_describe_native_events(void **state UNUSED)
{
	struct nettrace_meta meta = { .provider = CLR_PROVIDER, .event_id = 1, .name = "" };
	assert_true(clr_describe(&meta));
	assert_string_equal(meta.name, "GCStart");
	assert_int_equal(meta.n_fields, 6);
	assert_string_equal(meta.fields[3].name, "Type");
	assert_int_equal(meta.fields[5].type, NETTRACE_U64);
	struct nettrace_meta unknown = { .provider = CLR_PROVIDER, .event_id = 9999, .name = "" };
	assert_false(clr_describe(&unknown));
	struct nettrace_meta other = { .provider = "Other", .event_id = 1, .name = "" };
	assert_false(clr_describe(&other));
}

/* How many of its requests have this command. */
static size_t requests(struct fake_runtime *f, uint8_t set, uint8_t id)
{
	CLEANUP(buf_free) struct buf all = fake_runtime_requests(f);
	size_t n = 0;
	for (size_t at = 0; at + 20 <= all.len;) {
		const uint8_t *head = (const uint8_t *)all.data + at;
		n += head[16] == set && head[17] == id;
		at += (size_t)(head[14] | head[15] << 8);
	}
	return n;
}

static void a_knock_is_given_once(void **state UNUSED)
{
	char dir[64], path[80];
	unit_temp_dir(dir, sizeof(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	for (int given = 0; given < 2; given++) {
		struct fake_runtime *f = fake_runtime_start(path, (struct fake_config){ .release = 8 });
		struct stream_wake *k = stream_wake_new(path, deadline_in_ms(5000));
		assert_non_null(k);
		assert_int_equal(requests(f, 2, 1), 0);
		if (given) {
			stream_wake_give(k);
			assert_true(stream_wake_given(k));
			stream_wake_give(k);
		}
		stream_wake_free(k); /* one that was not given is stopped now */
		for (struct deadline d = deadline_in_ms(5000); !requests(f, 2, 1) && !deadline_passed(d);)
			sched_yield();
		assert_int_equal(requests(f, 2, 1), 1);
		fake_runtime_stop(f);
	}
	/* What could not be stopped at first is not left in the runtime. */
	char away[90];
	snprintf(away, sizeof(away), "%s-away", path);
	struct fake_runtime *back = fake_runtime_start(path, (struct fake_config){ .release = 8 });
	struct stream_wake *again = stream_wake_new(path, deadline_in_ms(5000));
	assert_int_equal(rename(path, away), 0);
	stream_wake_give(again);
	assert_int_equal(requests(back, 2, 1), 0);
	assert_int_equal(rename(away, path), 0);
	stream_wake_free(again);
	for (struct deadline d = deadline_in_ms(5000); !requests(back, 2, 1) && !deadline_passed(d);)
		sched_yield();
	assert_int_equal(requests(back, 2, 1), 1);
	fake_runtime_stop(back);
	/* Nobody there, or nobody who answers. */
	assert_null(stream_wake_new(path, deadline_in_ms(5000)));
	struct fake_runtime *f = fake_runtime_start(path, (struct fake_config){ .release = 8, .mood = FAKE_SILENT });
	assert_null(stream_wake_new(path, deadline_in_ms(50)));
	fake_runtime_stop(f);
	assert_ok(dir_remove(dir));
	stream_wake_give(NULL);
	stream_wake_free(NULL);
}

/* ---- not while a program starts ---- */

static void made_ago(const char *path, time_t seconds)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= seconds;
	assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){ now, now }, 0), 0);
}

static void managed_sources_wait_for_a_start(void **state)
{
	(void)state;
	char path[] = "/tmp/drdotnet-settle-XXXXXX";
	CLOSE_FD int fd = mkstemp(path);
	assert_true(fd >= 0);
	const struct ipc_provider own[] = { { .name = CLR_PROVIDER }, { .name = CLR_SAMPLE_PROVIDER } };
	const struct ipc_provider mixed[] = { { .name = CLR_PROVIDER }, { .name = "System.Runtime" } };
	struct ipc_trace_config of_runtime = { .providers = own, .n_providers = 2 };
	struct ipc_trace_config of_both = { .providers = mixed, .n_providers = 2 };
	struct ipc_trace_config at_start = { .providers = mixed, .n_providers = 2, .at_start = true };
	made_ago(path, 1);
	assert_true(settle_left_ms(path, &of_both) > 0 && settle_left_ms(path, &of_both) < SETTLE_MS);
	assert_true(settle_left_ms(path, NULL) > 0);
	assert_int_equal(settle_left_ms(path, &of_runtime), 0);
	assert_int_equal(settle_left_ms(path, &at_start), 0);
	made_ago(path, -3600); /* a clock that was set back: as long as for one that began now, and not longer */
	assert_int_equal(settle_left_ms(path, &of_both), SETTLE_MS);
	made_ago(path, SETTLE_MS / 1000 + 1);
	assert_int_equal(settle_left_ms(path, &of_both), 0);
	unlink(path);
}

static void waiting_for_a_start_can_be_cancelled(void **state)
{
	(void)state;
	char path[] = "/tmp/drdotnet-settle-XXXXXX";
	CLOSE_FD int fd = mkstemp(path);
	CLOSE_FD int cancel = eventfd(1, EFD_CLOEXEC);
	assert_true(fd >= 0 && cancel >= 0);
	struct err *err = settle_wait(path, NULL, cancel);
	assert_int_equal(err_kind(err), ERR_CANCELLED);
	err_free(err);
	made_ago(path, 60);
	assert_null(settle_wait(path, NULL, cancel));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_shown_as_written),
		cmocka_unit_test(places_stand_for_names),
		cmocka_unit_test(a_state_machine_knows_its_method),
		cmocka_unit_test(boxes_of_async_methods_are_named),
		cmocka_unit_test(types_are_shown_as_written),
		cmocka_unit_test(no_name_makes_trouble),
		cmocka_unit_test(deep_names_cost_no_more_than_long_ones),
		cmocka_unit_test(framework_is_told_from_user_code),
		cmocka_unit_test(programs_do_not_know_of_each_other),
		cmocka_unit_test(addresses_find_their_method),
		cmocka_unit_test(methods_know_their_module_and_place),
		cmocka_unit_test(a_place_is_used_again),
		cmocka_unit_test(short_payloads_are_refused),
		cmocka_unit_test(exceptions_decode),
		cmocka_unit_test(heap_history_sums_generations),
		cmocka_unit_test(tables_describe_native_events),
		cmocka_unit_test(allocations_decode),
		cmocka_unit_test(a_knock_is_given_once),
		cmocka_unit_test(managed_sources_wait_for_a_start),
		cmocka_unit_test(waiting_for_a_start_can_be_cancelled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
