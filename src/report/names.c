/* Names of types and methods, split so that a renderer can shorten them or mark their parts. */

#include "report/doc.h"
#include <string.h>

const char *const block_names[8] = { "table", "tree", "chart", "histogram", "flame", "note", "findings", "section" };
const char *const piece_names[3] = { "text", "strong", "code" };
const char *const health_names[4] = { "ok", "info", "warn", "bad" };
const char *const value_kind_names[9] = { "text", "code", "count", "bytes", "ns", "ratio", "rate", "number", "time" };
const char *const frame_kind_names[7] = { "code", "framework", "gc", "jit", "native", "kernel", "other" };
const char *const frame_kind_words[7] = { "your code", "framework", "GC", "JIT", "native", "kernel", "other" };

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What the compiler of C adds ("finish_task_switch.isra.0") and a file with a line ("Cpu.cs:25") are no members. */
static bool is_member(const char *name, size_t from, size_t end)
{
	size_t line = end;
	while (line > from && is_digit(name[line - 1]))
		line--;
	return from < end && !is_digit(name[from]) && (line == end || line == from || name[line - 1] != ':');
}

struct name_parts name_split(const char *name)
{
	size_t len = strlen(name), end = 0, member = 0;
	int depth = 0;
	/* Up to the parameters, or to a blank at the outside: "Shop.Cache._orders : Dictionary<int, Order>". */
	for (; end < len; end++) {
		char c = name[end];
		if (depth <= 0 && end && (c == ' ' || c == '('))
			break;
		if (c == '<' || c == '[' || c == '(')
			depth++;
		else if (c == '>' || c == ']' || c == ')')
			depth--;
		else if (c == '.' && depth <= 0 && end && name[end - 1] != '.')
			member = end + 1; /* "Order..ctor" is the member ".ctor" */
	}
	if (!is_member(name, member, end))
		member = 0;
	return (struct name_parts){ member, end };
}

size_t name_skip(const char *name, size_t from)
{
	int depth = 0;
	for (size_t i = from; name[i]; i++) {
		char c = name[i];
		if (depth <= 0 && i > from && (c == ' ' || c == '('))
			return 0;
		if (c == '<' || c == '[' || c == '(')
			depth++;
		else if (c == '>' || c == ']' || c == ')')
			depth--;
		else if (c == '.' && depth <= 0 && i > from)
			return i + 1;
	}
	return 0;
}

void name_collapse(const char *name, const char *ellipsis, struct buf *out)
{
	int depth = 0;
	for (size_t i = 0; name[i]; i++) {
		char c = name[i];
		/* "<Main>b__0" is a name of its own; "List<int>" has parameters. */
		bool opens = c == '[' || c == '(' || (c == '<' && (depth || (i && is_word(name[i - 1]))));
		bool closes = depth && (c == ']' || c == ')' || c == '>');
		depth -= closes;
		if (!depth)
			buf_char(out, c);
		depth += opens;
		if (opens && depth == 1 && name[i + 1] && !strchr("])>", name[i + 1]))
			buf_str(out, ellipsis);
	}
}

void markup_escape(struct buf *out, const char *shown)
{
	for (const char *p = shown; *p; p++) {
		if (*p == '&')
			buf_str(out, "&amp;");
		else if (*p == '<')
			buf_str(out, "&lt;");
		else if (*p == '>')
			buf_str(out, "&gt;");
		else if (*p == '"')
			buf_str(out, "&quot;");
		else if (*p == '\'')
			buf_str(out, "&#39;");
		else
			buf_char(out, *p);
	}
}
