/* Names as the author wrote them. The compiler's own names have shapes that cannot be typed in C#:
 *   Type+<Method>d__5.MoveNext              the body of an async method or iterator
 *   Type+<>c.<Method>b__3_0                 the first lambda; also Type+<>c__DisplayClass3_0.<Method>b__1, the second
 *   Type.<Method>g__Local|3_0               a local function
 *   Name`2[System.__Canon,System.Int32]     a generic type and what it was made for
 *   <File>F0123...__Type                    a type that only its own file knows, as generators of source make them
 * F# and Visual Basic have their own:
 *   Module+name@36-2.Invoke                 a function written at line 36 in name; MoveNext, GenerateNext: name itself
 *   Type+VB$StateMachine_1_Method.MoveNext  the body of an async method or iterator
 *   Type+_Closure$__2-0._Lambda$__1         a lambda; its method is not told
 * and as types of objects:
 *   Type+<Method>d__5                       what such a method keeps while it waits: goes by the method
 *   Type+<>c__DisplayClass3_0, Type+<>c     what lambdas keep: "Type.(closure)", "Type.(lambdas)"
 *   <>f__AnonymousType0`2[A,B]              "(anonymous)<A, B>" */

#include "base/str.h"
#include "eventpipe/methods.h"
#include <stdlib.h>
#include <string.h>

/* No name that a compiler makes is nested deeper. The limit also bounds the time and the stack that a hostile one
 * takes. */
#define NESTING_MAX 64

static const char *matching(const char *open, char up, char down)
{
	int depth = 0;
	for (const char *p = open; *p; p++) {
		if (*p == up && ++depth > NESTING_MAX)
			return NULL;
		if (*p == down && --depth == 0)
			return p;
	}
	return NULL;
}

/* The part behind the last '.', '+' outside brackets: Int32 of System.Int32. */
static const char *short_name(const char *s, const char *end)
{
	const char *start = s;
	for (const char *p = s; p < end && *p != '[' && *p != '`'; p++) {
		const char *close = *p == '<' ? matching(p, '<', '>') : NULL;
		if (close && close < end)
			p = close;
		else if (*p == '.' || *p == '+')
			start = p + 1;
	}
	return start;
}

static void show_type(const char *s, const char *end, bool whole, struct buf *out);

/* [System.Int32,System.__Canon] as <Int32, T>. Reflection doubles the brackets: [[System.Int32, assembly]]. */
static void show_arguments(const char *s, const char *end, struct buf *out)
{
	buf_char(out, '<');
	bool first = true;
	while (s < end) {
		const char *stop = s;
		int depth = 0;
		while (stop < end && (depth || *stop != ',')) {
			if (*stop == '[')
				depth++;
			else if (*stop == ']')
				depth--;
			stop++;
		}
		while (s < stop && *s == ' ')
			s++;
		const char *from = s, *to = stop;
		if (to - from >= 2 && *from == '[' && to[-1] == ']') {
			from++;
			to--;
			int inner = 0;
			for (const char *p = from; p < to; p++) { /* cut ", Assembly, Version=..." */
				if (*p == '[')
					inner++;
				else if (*p == ']')
					inner--;
				else if (*p == ',' && !inner) {
					to = p;
					break;
				}
			}
		}
		if (!first)
			buf_str(out, ", ");
		first = false;
		static const char canon[] = "System.__Canon";
		if ((size_t)(to - from) == sizeof(canon) - 1 && !memcmp(from, canon, sizeof(canon) - 1))
			buf_char(out, 'T');
		else
			show_type(from, to, false, out);
		s = stop < end ? stop + 1 : stop;
	}
	buf_char(out, '>');
}

static bool part_starts(const char *s, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);
	return len >= n && !memcmp(s, prefix, n);
}

/* "<Load>b__0_0", "<Load>g__Inner|3_0", "Load": the method it was written in, a local function by itself. */
static void show_writer(const char *s, const char *end, struct buf *out)
{
	while (s < end && *s == '<') {
		const char *close = matching(s, '<', '>');
		if (!close || close >= end)
			break;
		if (part_starts(close + 1, (size_t)(end - close - 1), "g__")) {
			s = close + 4;
			const char *bar = memchr(s, '|', (size_t)(end - s));
			end = bar ? bar : end;
		} else {
			s++;
			end = close;
		}
	}
	buf_add(out, s, (size_t)(end - s));
}

static const char *skip_number(const char *s, const char *end)
{
	while (s < end && ((*s >= '0' && *s <= '9') || *s == '_'))
		s++;
	return s;
}

static bool name_ends(const char *s, const char *end)
{
	return s >= end || strchr("+.[`,]", *s);
}

/* Behind the hash of a file's path, at s: F, 64 hexadecimal digits, two underscores. NULL: it is none. */
static const char *skip_file_hash(const char *s, const char *end)
{
	enum { HASH = 64 };
	if (end - s <= HASH + 3 || *s != 'F' || strspn(s + 1, "0123456789ABCDEF") != HASH)
		return NULL;
	return str_starts(s + 1 + HASH, "__") ? s + 1 + HASH + 2 : NULL;
}

/* A class that the compiler made, at s: returns what follows it. NULL: it is none. */
static const char *show_made(const char *s, const char *end, struct buf *out)
{
	static const char closure[] = "c__DisplayClass", anonymous[] = "f__AnonymousType";
	const char *close = *s == '<' ? matching(s, '<', '>') : NULL, *rest = close ? close + 1 : end;
	if (rest >= end)
		return NULL;
	if (close > s + 1) {
		const char *type = skip_file_hash(rest, end);
		if (type)
			return type;
		const char *after = *rest == 'd' ? skip_number(rest + 1, end) : NULL;
		if (!after || !name_ends(after, end))
			return NULL;
		show_writer(s + 1, close, out);
		return after;
	}
	bool is_closure = str_starts(rest, closure), is_anonymous = str_starts(rest, anonymous);
	if (is_closure || is_anonymous) {
		buf_str(out, is_closure ? "(closure)" : "(anonymous)");
		return skip_number(rest + (is_closure ? sizeof(closure) : sizeof(anonymous)) - 1, end);
	}
	/* <>c, and <>c__3 of a generic method */
	const char *after = *rest == 'c' ? skip_number(rest + 1, end) : NULL;
	if (!after || !name_ends(after, end))
		return NULL;
	buf_str(out, "(lambdas)");
	return after;
}

static void show_type(const char *s, const char *end, bool whole, struct buf *out)
{
	if (!whole)
		s = short_name(s, end);
	for (const char *start = s; s < end;) {
		const char *after = s == start || s[-1] == '+' || s[-1] == '.' ? show_made(s, end, out) : NULL;
		if (after) {
			s = after;
			continue;
		}
		if (*s == '`') {
			s++;
			while (s < end && *s >= '0' && *s <= '9')
				s++;
			/* Open generics have no list: the arity is dropped. */
			const char *close = s < end && *s == '[' ? matching(s, '[', ']') : NULL;
			if (close && close < end && close > s + 1 && s[1] != ']' && s[1] != ',') {
				show_arguments(s + 1, close, out);
				s = close + 1;
			}
			continue;
		}
		/* A nested generic puts the arguments of all its parents last: Dictionary`2+Entry[A,B]. */
		if (*s == '[' && s + 1 < end && s[1] != ']' && s[1] != ',') {
			const char *close = matching(s, '[', ']');
			if (close && close < end) {
				show_arguments(s + 1, close, out);
				s = close + 1;
				continue;
			}
		}
		buf_char(out, *s == '+' ? '.' : *s);
		s++;
	}
}

void type_show(const char *name, struct buf *out)
{
	show_type(name, name + strlen(name), true, out);
}

/* <Method> at s: the name between the brackets; end of it behind '>' in *ret_rest. NULL when it has not that shape. */
static const char *angle(const char *s, size_t *ret_len, const char **ret_rest)
{
	const char *close = *s == '<' ? matching(s, '<', '>') : NULL;
	if (!close)
		return NULL;
	*ret_len = (size_t)(close - s - 1);
	*ret_rest = close + 1;
	return s + 1;
}

/* Where the compiler's own nested class begins ("+<...>"), or the end. */
static const char *made_class(const char *space)
{
	int depth = 0; /* what a generic was made for may hold such a class too: that is not ours */
	const char *p = space;
	for (; *p && (depth || p[0] != '+' || p[1] != '<'); p++)
		depth += *p == '[' ? 1 : *p == ']' ? -1 : 0;
	return p;
}

/* "lambda in ", "lambda 8 in ", "lambda at Program.cs:41 in ": a program of minimal APIs has one a route in the same
 * method. */
static void show_lambda(const char *rest, const char *line, struct buf *out)
{
	if (line) {
		buf_printf(out, "lambda at %s in ", line);
		return;
	}
	const char *digits = rest + strcspn(rest, "_") + 2;
	const char *second = strchr(digits, '_');
	unsigned long number = strtoul(second ? second + 1 : digits, NULL, 10);
	if (number && number < 100000)
		buf_printf(out, "lambda %lu in ", number + 1);
	else
		buf_str(out, "lambda in ");
}

/* The methods that a name was made from, outermost first: <Load>b__0 is "Load", <<Main>$>g__Inner|0_8 is "Main.Inner".
 */
static void show_path(const char *s, const char *end, struct buf *out)
{
	const char *close = s < end && *s == '<' ? matching(s, '<', '>') : NULL;
	if (!close || close >= end || close == s + 1) {
		buf_add(out, s, (size_t)(end - s));
		return;
	}
	show_path(s + 1, close, out);
	const char *rest = close + 1;
	size_t len = (size_t)(end - rest);
	if (part_starts(rest, len, "g__")) {
		const char *bar = memchr(rest, '|', len);
		buf_char(out, '.');
		buf_add(out, rest + 3, (size_t)((bar ? bar : end) - (rest + 3)));
	} else if (!part_starts(rest, len, "b__") && !(len == 1 && *rest == '$')) { /* <Main>$: top-level statements */
		buf_add(out, rest, len);
	}
}

/* A method name that may itself be made: <Load>b__0, <Load>g__Inner|1_0, or plain. */
static void show_member(const char *space, const char *space_end, const char *name, const char *line, struct buf *out)
{
	size_t len;
	const char *rest, *inner = angle(name, &len, &rest);
	if (inner && str_starts(rest, "b__"))
		show_lambda(rest, line, out);
	if (space_end > space) {
		show_type(space, space_end, true, out);
		buf_char(out, '.');
	}
	if (!inner || !len)
		show_type(name, name + strlen(name), true, out);
	else
		show_path(name, name + strlen(name), out);
}

/* Pipe #1 stage #2 at line 36, clo: not the author's words. */
static bool is_written(const char *s, size_t len)
{
	return len && !(len == 3 && !memcmp(s, "clo", 3)) && !str_starts(s, "Pipe #");
}

static bool show_fsharp(const char *space, const char *made, const char *name, const char *line, struct buf *out)
{
	const char *at = strchr(made, '@'), *word = made + 1;
	bool function = str_eq(name, "Invoke");
	if (!at || strchr("0123456789", at[1]) == NULL || !at[1] ||
	    (!function && !str_eq(name, "MoveNext") && !str_eq(name, "GenerateNext")))
		return false;
	if (function && line)
		buf_printf(out, "lambda at %s in ", line);
	else if (function)
		buf_printf(out, "lambda at line %.*s in ", (int)strspn(at + 1, "0123456789"), at + 1);
	show_type(space, made, true, out);
	if (is_written(word, (size_t)(at - word)))
		buf_printf(out, ".%.*s", (int)(at - word), word);
	return true;
}

static bool show_basic(const char *space, const char *made, const char *name, const char *line, struct buf *out)
{
	static const char machine[] = "+VB$StateMachine_", closure[] = "+_Closure$__", lambda[] = "_Lambda$__";
	if (str_starts(made, closure) && str_starts(name, lambda)) {
		buf_printf(out, line ? "lambda at %s in " : "lambda %s in ", line ? line : name + sizeof(lambda) - 1);
		show_type(space, made, true, out);
		return true;
	}
	const char *method = str_starts(made, machine) ? strchr(made + sizeof(machine) - 1, '_') : NULL;
	if (!method || !str_eq(name, "MoveNext"))
		return false;
	show_type(space, made, true, out);
	buf_printf(out, ".%.*s", (int)strcspn(method + 1, "`["), method + 1);
	return true;
}

/* The innermost class, from its '+' on; NULL when it is in none. */
static const char *innermost(const char *space)
{
	const char *last = NULL;
	for (const char *p = space; *p && *p != '['; p++)
		last = *p == '+' ? p : last;
	return last;
}

/* The compiler's own class around a method, and the method that a state machine in it was made for. */
struct made_method {
	const char *made;   /* "+<...>", or the end of the space */
	const char *method; /* in it; NULL: it is no state machine */
	size_t len;
};

static struct made_method find_made(const char *space)
{
	struct made_method m = { .made = made_class(space) };
	const char *rest, *inner = *m.made ? angle(m.made + 1, &m.len, &rest) : NULL;
	/* A lambda's or local function's own state machine: Type+<>c+<<Load>b__0_0>d : look one class further in. */
	while (inner && !m.len) {
		const char *deeper = strstr(rest, "+<");
		if (!deeper)
			break;
		inner = angle(deeper + 1, &m.len, &rest);
	}
	m.method = inner && m.len && str_starts(rest, "d") ? inner : NULL;
	return m;
}

bool method_of_machine(const char *space, struct buf *ret_space, struct buf *ret_name)
{
	struct made_method m = find_made(space);
	if (!m.method)
		return false;
	buf_add(ret_space, space, (size_t)(m.method - 2 - space)); /* without "+<" */
	buf_add(ret_name, m.method, m.len);
	return true;
}

/* Events write it small, the data-access library large. */
static bool is_dynamic(const char *space)
{
	return (*space == 'd' || *space == 'D') && str_starts(space + 1, "ynamicClass");
}

/* Methods that were made at run time have names of their makers', which say what they are to few. */
static bool show_dynamic(const char *space, const char *name, struct buf *out)
{
	bool pattern = str_starts(name, "Regex") && name[5 + strspn(name + 5, "0123456789")] == '_' && name[5] != '_';
	bool expression = str_starts(name, "lambda_method");
	if (!is_dynamic(space) || strlen(space) != sizeof("dynamicClass") - 1 || (!pattern && !expression))
		return false;
	buf_printf(out, "%s (compiled %s)", name, pattern ? "regular expression" : "expression");
	return true;
}

static void show_named(const char *space, const char *name, const char *line, struct buf *out)
{
	if (show_dynamic(space, name, out))
		return;
	const char *inside = innermost(space);
	if (inside && (show_fsharp(space, inside, name, line, out) || show_basic(space, inside, name, line, out)))
		return;
	struct made_method m = find_made(space);
	if (!m.method) {
		show_member(space, m.made, name, line, out);
		return;
	}
	CLEANUP(mem_freep) char *method = mem_strndup(m.method, m.len);
	show_member(space, m.made, method, line, out);
	/* What an iterator does besides: "Load.Dispose" of "System.IDisposable.Dispose". */
	if (!str_eq(name, "MoveNext") && !str_eq(name, "MoveNextAsync"))
		buf_printf(out, ".%s", short_name(name, name + strlen(name)));
}

void method_show(const char *space, const char *name, struct buf *out)
{
	show_named(space, name, NULL, out);
}

static bool is_made_lambda(const char *name)
{
	size_t len;
	const char *rest;
	return angle(name, &len, &rest) && str_starts(rest, "b__");
}

bool method_is_lambda(const char *space, const char *name)
{
	const char *inside = innermost(space);
	if (inside && ((str_starts(inside, "+_Closure$__") && str_starts(name, "_Lambda$__")) ||
		       (strchr(inside, '@') && str_eq(name, "Invoke"))))
		return true;
	struct made_method m = find_made(space);
	return is_made_lambda(m.method ? m.method : name);
}

void method_show_at(const char *space, const char *name, const struct method_origin *place, struct buf *out)
{
	const char *line = str_empty(place->line) ? NULL : place->line;
	if (str_empty(place->route)) {
		show_named(space, name, line, out);
		return;
	}
	if (!method_is_lambda(space, name)) {
		show_named(space, name, NULL, out);
		buf_printf(out, " (%s)", place->route);
		return;
	}
	buf_str(out, place->route);
	if (line)
		buf_printf(out, ", %s", line);
}

bool method_is_compiled(const char *shown)
{
	/* Recordings of earlier versions have it with its class. */
	const char *dot = is_dynamic(shown) ? strchr(shown, '.') : NULL;
	return str_starts(dot ? dot + 1 : shown, "lambda_method");
}

/* The first ',' or ']' from s on that no bracket encloses, or the end. */
static const char *argument_end(const char *s)
{
	int depth = 0;
	for (; *s && (depth || (*s != ',' && *s != ']')); s++)
		depth += *s == '[' ? 1 : *s == ']' ? -1 : 0;
	return s;
}

/* The state machine is the last type argument of the box that is its task: "...Box`1[[Result, Lib],[Machine, Shop]]". */
static const char *async_machine(const char *name, size_t *ret_len)
{
	static const char box[] = "AsyncStateMachineBox`1[";
	const char *arg = strstr(name, box), *last = NULL;
	for (arg = arg ? arg + sizeof(box) - 1 : ""; *arg == '[';) {
		last = arg + 1;
		arg = argument_end(arg);
		arg += *arg == ',';
	}
	*ret_len = last ? (size_t)(argument_end(last) - last) : 0;
	return *ret_len ? last : NULL;
}

bool type_async_method(const char *name, struct buf *out)
{
	size_t len;
	const char *machine = async_machine(name, &len);
	if (!machine)
		return false;
	CLEANUP(mem_freep) char *space = mem_strndup(machine, len);
	method_show(space, "MoveNext", out);
	return true;
}
