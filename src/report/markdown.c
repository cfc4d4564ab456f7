/* GitHub-flavoured Markdown. Text is written in three forms: running text (every character with a meaning is escaped),
 * a code span, a fenced block. A pipe is always an entity: inside tables no other escape is read the same way by all.
 */

#include "report/doc.h"
#include "report/text.h"
#include "base/fmt.h"
#include "base/str.h"
#include <string.h>
#include <strings.h>

enum { SHOW_CHARS = 400, TABLE_ROWS = 50, DETAIL_ROWS = 20 };

struct md {
	const struct report *r;
	struct buf *out;
};

/* The length of what would begin a list or a line under a heading, were it the first on its line. */
static size_t block_start(const char *s)
{
	size_t n = strspn(s, "0123456789");
	if (n && (s[n] == '.' || s[n] == ')') && (!s[n + 1] || s[n + 1] == ' '))
		return n + 1;
	bool marker = *s == '-' || *s == '+' || *s == '=';
	return marker && (!s[1] || s[1] == ' ' || s[1] == *s) ? 1 : 0;
}

static void add_escaped(struct buf *out, const char *s)
{
	size_t marker = block_start(s);
	for (const char *p = s; *p; p++) {
		if (*p == '<')
			buf_str(out, "&lt;");
		else if (*p == '>')
			buf_str(out, "&gt;");
		else if (*p == '&')
			buf_str(out, "&amp;");
		else if (*p == '|')
			buf_str(out, "&#124;");
		else if (strchr("\\`*_[]~#!$@", *p) || (marker && p == s + marker - 1))
			buf_printf(out, "\\%c", *p);
		else if (*p == ':' && p[1] == '/')
			buf_str(out, "\\:"); /* no link out of an address */
		else if (*p == '.' && p >= s + 3 && !strncasecmp(p - 3, "www", 3))
			buf_str(out, "\\.");
		else
			buf_char(out, *p);
	}
}

static void add_text(struct buf *out, const char *s)
{
	struct buf shown = { 0 };
	doc_show(s, SHOW_CHARS, &shown);
	add_escaped(out, buf_cstr(&shown));
	buf_free(&shown);
}

static void add_code(struct buf *out, const char *s)
{
	struct buf shown = { 0 };
	doc_show(s, SHOW_CHARS, &shown);
	if (shown.len && !strpbrk(shown.data, "`|\\") && strspn(shown.data, " ") < shown.len) {
		buf_printf(out, "`%s`", shown.data);
	} else {
		buf_str(out, "<code>");
		add_escaped(out, buf_cstr(&shown));
		buf_str(out, "</code>");
	}
	buf_free(&shown);
}

static void add_rich(const struct md *m, const struct rich *t)
{
	for (const struct piece *p = t->first; p; p = p->next) {
		if (p->kind == PIECE_CODE) {
			add_code(m->out, p->text);
		} else if (p->kind == PIECE_STRONG) {
			/* Not **: it does not close beside every character. */
			buf_str(m->out, "<b>");
			add_text(m->out, p->text);
			buf_str(m->out, "</b>");
		} else {
			add_text(m->out, p->text);
		}
	}
}

static void add_value(const struct md *m, const struct value *v)
{
	struct buf s = { 0 };
	value_add(&s, m->r, v);
	if (v->kind == VALUE_CODE && !v->missing)
		add_code(m->out, buf_cstr(&s));
	else
		add_text(m->out, buf_cstr(&s));
	buf_free(&s);
}

/* The fence is longer than any run of backticks inside. */
static void add_fenced(const struct md *m, const char *text)
{
	size_t longest = 2, run = 0;
	for (const char *p = text; *p; p++) {
		run = *p == '`' ? run + 1 : 0;
		longest = MAX(longest, run);
	}
	buf_char(m->out, '\n');
	buf_repeat(m->out, "`", longest + 1);
	buf_printf(m->out, "text\n%s", text);
	if (*text && text[strlen(text) - 1] != '\n')
		buf_char(m->out, '\n');
	buf_repeat(m->out, "`", longest + 1);
	buf_char(m->out, '\n');
}

static void heading(const struct md *m, const char *title)
{
	if (str_empty(title))
		return;
	buf_str(m->out, "\n## ");
	add_text(m->out, title);
	buf_char(m->out, '\n');
}

static void head(const struct md *m)
{
	const struct report_facts *f = &m->r->facts;
	buf_str(m->out, "# ");
	add_text(m->out, f->title ? f->title : "Report");
	if (f->process) {
		buf_str(m->out, " of ");
		add_text(m->out, f->process);
	}
	buf_str(m->out, "\n\n");
	const char *between = "";
	if (f->when_unix_ns) {
		buf_str(m->out, fmt_time_utc(f->when_unix_ns).s);
		between = " · ";
	}
	if (f->window_ns) {
		buf_printf(m->out, "%s%s", between, fmt_duration_ns(f->window_ns).s);
		between = " · ";
	}
	if (f->target_id) {
		buf_printf(m->out, "%s%s %d", between, f->target_id > 0 ? "pid" : "target", f->target_id);
		between = " · ";
	}
	const struct {
		const char *word, *text;
	} more[] = { { ".NET ", f->runtime },
		     { "container ", f->pod ? NULL : f->container },
		     { "pod ", f->pod },
		     { "host ", f->host } };
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		if (str_empty(more[i].text))
			continue;
		buf_printf(m->out, "%s%s", between, more[i].word);
		add_text(m->out, more[i].text);
		between = " · ";
	}
	buf_str(m->out, *between ? "\n\n" : "");
}

static void verdict(const struct md *m)
{
	static const char *const marks[] = { "●", "●", "▲", "■" };
	struct buf partial = { 0 };
	if (m->r->finding) {
		buf_printf(m->out, "> %s ", marks[m->r->health]);
		add_rich(m, &m->r->verdict);
	} else {
		buf_str(m->out, "> No verdict was reached.");
	}
	buf_char(m->out, '\n');
	if (doc_partial(m->r, &partial)) {
		buf_str(m->out, ">\n> <b>");
		add_text(m->out, buf_cstr(&partial));
		buf_str(m->out, "</b>\n");
	}
	buf_free(&partial);
	if (m->r->effect.first) {
		buf_str(m->out, ">\n> ");
		add_rich(m, &m->r->effect);
		buf_char(m->out, '\n');
	}
	if (m->r->next.first) {
		buf_str(m->out, ">\n> Next: ");
		add_rich(m, &m->r->next);
		buf_char(m->out, '\n');
	}
}

static void fact_rows(const struct md *m, const struct fact_list *list)
{
	buf_str(m->out, "\n| | | |\n|---|---:|---|\n");
	for (const struct fact *f = list->first; f; f = f->next) {
		buf_str(m->out, "| ");
		add_text(m->out, f->label);
		buf_str(m->out, " | ");
		add_value(m, &f->value);
		buf_str(m->out, " | ");
		if (f->context)
			add_text(m->out, f->context);
		else if (f->value.missing)
			buf_str(m->out, "not measured");
		buf_str(m->out, " |\n");
	}
}

static void cells(const struct md *m, const struct report_table *t, const struct value *v, bool rest)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		buf_str(m->out, "| ");
		if (!(rest && v[i].missing))
			add_value(m, &v[i]);
		buf_char(m->out, ' ');
	}
	buf_str(m->out, "|\n");
}

static void row_details(const struct md *m, const struct report_row *row)
{
	struct buf lines = { 0 };
	for (const struct row_line *l = row->first_line; l; l = l->next) {
		doc_show(l->text, SHOW_CHARS, &lines);
		if (l->right) {
			buf_str(&lines, "  ");
			doc_show(l->right, SHOW_CHARS, &lines);
		}
		buf_char(&lines, '\n');
	}
	if (row->lines_cut)
		buf_printf(&lines, "…%s more\n", fmt_count(row->lines_cut).s);
	buf_str(m->out, "\n<details><summary>");
	/* Here only HTML is read, no Markdown. */
	struct buf name = { 0 }, shown = { 0 };
	value_add(&name, m->r, &row->cells[table_name_column(row->table)]);
	doc_show(buf_cstr(&name), SHOW_CHARS, &shown);
	markup_escape(m->out, buf_cstr(&shown));
	buf_free(&name);
	buf_free(&shown);
	buf_str(m->out, "</summary>\n");
	add_fenced(m, buf_cstr(&lines));
	buf_str(m->out, "\n</details>\n");
	buf_free(&lines);
}

static void table(const struct md *m, const struct report_table *t)
{
	heading(m, t->block.title);
	if (!t->n_rows || !t->n_columns) {
		buf_str(m->out, "\nNone.\n");
		return;
	}
	buf_char(m->out, '\n');
	for (size_t i = 0; i < t->n_columns; i++) {
		buf_str(m->out, "| ");
		add_text(m->out, t->columns[i].name);
		buf_char(m->out, ' ');
	}
	buf_str(m->out, "|\n");
	for (size_t i = 0; i < t->n_columns; i++)
		buf_str(m->out, kind_is_text(t->columns[i].kind) ? "|---" : "|---:");
	buf_str(m->out, "|\n");
	size_t shown = 0;
	for (const struct report_row *row = table_first(t); row && shown < TABLE_ROWS; row = row->next, shown++)
		cells(m, t, row->cells, false);
	if (t->rest)
		cells(m, t, t->rest, true);
	uint64_t more = t->n_rows - shown + t->rows_cut;
	if (more)
		buf_printf(m->out, "\n%s not shown here.\n", fmt_plural(more, "more row is", "more rows are").s);
	if (table_has_missing(t))
		buf_str(m->out, "\n– not measured, or does not apply\n");
	size_t detailed = 0;
	for (const struct report_row *row = table_first(t); row && detailed < DETAIL_ROWS; row = row->next) {
		if (!row->first_line)
			continue;
		row_details(m, row);
		detailed++;
	}
}

/* Pictures and trees as the terminal shows them. */
static void as_text(const struct md *m, const struct block *b)
{
	struct buf s = { 0 };
	struct text_out t = { .r = m->r, .out = &s, .columns = 100 };
	text_block(&t, b);
	add_fenced(m, buf_cstr(&s) + 1);
	buf_free(&s);
}

static void findings(const struct md *m, const struct report_findings *f)
{
	heading(m, f->block.title);
	buf_char(m->out, '\n');
	for (const struct finding_item *i = f->first; i; i = i->next) {
		CLEANUP(buf_free) struct buf seen = { 0 };
		buf_str(m->out, "- ");
		add_rich(m, &i->text);
		if (i->severity)
			buf_printf(m->out, " (severity %u%s", i->severity, doc_first_seen(m->r, i, &seen));
		if (i->severity && i->confidence) {
			buf_str(m->out, "; ");
			add_text(m->out, i->confidence);
		}
		buf_str(m->out, i->severity ? ")\n" : "\n");
	}
}

static void section(const struct md *m, const struct report_section *s)
{
	heading(m, s->block.title);
	buf_char(m->out, '\n');
	add_rich(m, &s->text);
	buf_char(m->out, '\n');
}

static void block(const struct md *m, const struct block *b)
{
	switch (b->kind) {
	case BLOCK_TABLE:
		table(m, (const struct report_table *)b);
		break;
	case BLOCK_NOTE:
		buf_str(m->out, "\nNote: ");
		add_rich(m, &((const struct report_note *)b)->text);
		buf_char(m->out, '\n');
		break;
	case BLOCK_FINDINGS:
		findings(m, (const struct report_findings *)b);
		break;
	case BLOCK_SECTION:
		section(m, (const struct report_section *)b);
		break;
	case BLOCK_TREE:
	case BLOCK_CHART:
	case BLOCK_HISTOGRAM:
	case BLOCK_FLAME:
		as_text(m, b);
		break;
	}
}

void report_render_markdown(const struct report *r, struct buf *out)
{
	struct md m = { .r = r, .out = out };
	struct buf cut = { 0 };
	head(&m);
	verdict(&m);
	if (r->figures.first)
		fact_rows(&m, &r->figures);
	for (const struct block *b = r->first_block; b; b = b->next)
		block(&m, b);
	if (r->how.first) {
		heading(&m, "How this was measured");
		fact_rows(&m, &r->how);
	}
	if (doc_cut(r, &cut))
		buf_printf(out, "\n%s\n", buf_cstr(&cut));
	buf_free(&cut);
	if (r->first_param)
		heading(&m, "Parameters");
	if (r->first_param)
		buf_char(out, '\n');
	for (const struct report_param *p = r->first_param; p; p = p->next) {
		buf_str(out, "- ");
		add_text(out, p->name);
		buf_str(out, ": ");
		add_code(out, p->value);
		buf_str(out, p->is_default ? " (default)\n" : "\n");
	}
	if (!str_empty(r->facts.session) || !str_empty(r->facts.version)) {
		buf_str(out, "\n---\ndrdotnet ");
		add_text(out, r->facts.version ? r->facts.version : "");
		if (!str_empty(r->facts.session)) {
			buf_str(out, ", session ");
			add_text(out, r->facts.session);
		}
		buf_char(out, '\n');
	}
}
