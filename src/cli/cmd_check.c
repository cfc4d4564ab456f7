/* drdotnet check: which ways to look into a process are open, and what would open the others. */

#include "attach/attach.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/command.h"
#include "dac/dac.h"
#include "ipc/patient.h"
#include "exam/image_exam.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 2000
#define SCREEN_COLUMNS 100
#define INDENT 18

/* Words in lines that all start at the column where the first one was begun. */
static void add_text(struct buf *out, const char *text, size_t column)
{
	CLEANUP(buf_free) struct buf safe = { 0 };
	str_add_visible(&safe, text, strlen(text), 0);
	size_t at = column;
	for (const char *p = buf_cstr(&safe); *p;) {
		size_t n = strcspn(p, " ");
		CLEANUP(mem_freep) char *word = mem_strndup(p, n);
		size_t width = utf8_width(word);
		if (at > column && at + 1 + width > SCREEN_COLUMNS) {
			buf_char(out, '\n');
			buf_repeat(out, " ", column);
			at = column;
		} else if (at > column) {
			buf_char(out, ' ');
			at++;
		}
		buf_str(out, word);
		at += width;
		p += n;
		p += strspn(p, " ");
	}
	buf_char(out, '\n');
}

static void print_text(const struct patient *p, const struct way_check ways[WAY_COUNT])
{
	CLEANUP(buf_free) struct buf out = { 0 };
	const char *name = patient_name(p);
	str_add_visible(&out, name, strlen(name), 60);
	buf_printf(&out, " (%d)", p->target.id);
	if (p->remark) {
		buf_str(&out, ": ");
		str_add_visible(&out, p->remark, strlen(p->remark), 200);
	}
	buf_str(&out, "\n\n");
	for (int way = WAY_EVENTS; way < WAY_COUNT; way++) {
		const struct way_check *c = &ways[way];
		buf_printf(&out, "  %-8s %-6s ", way_name(way), c->open ? "open" : "closed");
		add_text(&out, c->open ? c->how : c->why, INDENT);
		if (c->open)
			continue;
		buf_repeat(&out, " ", INDENT);
		buf_str(&out, "→ ");
		add_text(&out, c->fix, INDENT + 2);
	}
	fwrite(out.data, 1, out.len, stdout);
}

static void print_json(const struct patient *p, const struct way_check ways[WAY_COUNT])
{
	CLEANUP(buf_free) struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	jsonw_object(&w, NULL);
	jsonw_i64(&w, "id", p->target.id);
	jsonw_str(&w, "name", patient_name(p));
	jsonw_str(&w, "remark", p->remark);
	jsonw_object(&w, "ways");
	for (int way = WAY_EVENTS; way < WAY_COUNT; way++) {
		jsonw_object(&w, way_name(way));
		jsonw_bool(&w, "open", ways[way].open);
		jsonw_str(&w, "how", ways[way].how);
		jsonw_num(&w, "pauseMs", ways[way].pause_ns ? (double)ways[way].pause_ns / NS_PER_MS : NAN);
		jsonw_str(&w, "why", ways[way].why);
		jsonw_str(&w, "fix", ways[way].fix);
		jsonw_object_end(&w);
	}
	jsonw_object_end(&w);
	jsonw_object_end(&w);
	buf_char(&out, '\n');
	fwrite(out.data, 1, out.len, stdout);
}

/* An image without the library that understands it is only bytes. */
static void check_library(const struct patient *p, struct way_check *image)
{
	if (!image->open || !p->target.pid)
		return;
	const char *fix;
	CLEANUP(err_freep) struct err *err = dac_check_target(&p->target, NULL, &fix);
	if (!err)
		return;
	way_check_fini(image);
	*image = (struct way_check){
		.why = mem_strdup(err_text(err)),
		.fix = mem_strdup(fix),
	};
}

/* The agent without its library, or of another machine, or where a copy could do harm. */
static void check_agent(const struct patient *p, struct way_check *agent)
{
	const char *fix = "install it beside drdotnet";
	CLEANUP(err_freep) struct err *err = agent->open ? attach_check(p, NULL) : NULL;
	if (!err && agent->open)
		err = image_exam_by_agent_check(p, NULL, &fix);
	if (!err)
		return;
	way_check_fini(agent);
	*agent = (struct way_check){ .why = mem_strdup(err_text(err)), .fix = mem_strdup(fix ? fix : "try again") };
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	CLEANUP(patient_fini) struct patient p = { 0 };
	struct way_check ways[WAY_COUNT] = { 0 };
	TRY(patient_look(args->words[0], TIMEOUT_MS, &p));
	patient_check(&p, TIMEOUT_MS, ways);
	check_library(&p, &ways[WAY_IMAGE]);
	check_agent(&p, &ways[WAY_AGENT]);
	if (args_has(args, "--json"))
		print_json(&p, ways);
	else
		print_text(&p, ways);
	for (size_t i = 0; i < WAY_COUNT; i++)
		way_check_fini(&ways[i]);
	return NULL;
}

static const struct option options[] = {
	{ .name = "--json", .help = "print an object with the five ways" },
	{ 0 },
};

const struct command cmd_check = {
	.name = "check",
	.words = "TARGET",
	.summary = "Tell which ways to look into a process are open from here, and what opens the others.",
	.example = "drdotnet check 1234       a process by its pid\n"
		   "drdotnet check Shop.Api   ... or by the name of its assembly\n",
	.details =
		"The five ways are events (the runtime's own event stream), samples (the kernel's stack sampler), "
		"image "
		"(a copy of its memory), agent (a small library loaded by the runtime) and proc (the kernel's files about "
		"it and its control groups). Checking neither stops nor changes the process.",
	.options = options,
	.min_words = 1,
	.max_words = 1,
	.remote = true,
	.run = run,
};
