/* Streams out of a recording: the same events in the same order as they came. */

#include "base/str.h"
#include "exam/code_list.h"
#include "exam/events_parts.h"
#include <string.h>

static struct err *replay_chunk(void *user, const void *data, size_t len)
{
	return nettrace_reader_feed(user, data, len);
}

/* Damage in a recording is not fatal: what could be read is shown, marked partial. */
static struct err *replay_part(struct live *l, const char *name)
{
	struct nettrace_options options = { .unordered = l->stream->unordered };
	l->stream->opened++; /* as it was live: the profiler may ask to which burst an event belongs */
	CLEANUP(nettrace_reader_freep)
	struct nettrace_reader *reader = nettrace_reader_new(&options, &events_callbacks, l);
	struct err *err = recording_part_read(l->exam->recording, name, replay_chunk, reader);
	struct err *cut = nettrace_reader_finish(reader);
	if (!err)
		err = STEAL(cut);
	err_free(cut);
	l->stream->bytes += nettrace_reader_stats(reader)->bytes;
	exam_count_heard(l->exam, l->stream, reader, false);
	if (err) {
		exam_log(l->exam, "%s: %s", name, err_text(err));
		exam_cut(l->exam, "the recording is damaged");
		l->stream->damaged = true;
		err_free(err);
	}
	return NULL;
}

static bool part_of_stream(const char *part, const char *stream)
{
	size_t len = strlen(stream);
	return !strncmp(part, stream, len) && part[len] == '-' && str_ends(part, ".nettrace");
}

struct err *events_replay_stream(struct exam *exam, struct events_stream *s)
{
	struct live l = { .exam = exam, .stream = s };
	CLEANUP(mem_freep) char *key = mem_printf("stream-%s", s->name);
	const json_t *fact = recording_fact(exam->recording, key), *bursts = json_object_get(fact, "bursts");
	s->open_ns = (uint64_t)json_get_int(fact, "open_ns", 0);
	s->beat_ns = (uint64_t)json_get_int(fact, "beat_ns", 0);
	l.beating = json_object_get(fact, "beat_ns") && proof_ask_beat(s, &l.beat);
	/* Older recordings do not keep the bounds of each. */
	bool reopened = s->burst_share > 0 && json_get_int(fact, "opened", 0) > 1;
	s->bursting = s->open_ns && (reopened || json_array_size(bursts) > 0);
	for (size_t i = 0; i < recording_n_parts(exam->recording); i++) {
		struct recording_part_info part = recording_part_info(exam->recording, i);
		if (!part_of_stream(part.name, s->name))
			continue;
		if (!part.kept)
			return err_new(ERR_NOT_FOUND,
				       "the recording was too large to keep, so it cannot be analysed again");
		if (part.damaged)
			exam_cut(exam, "the recording is damaged");
		const json_t *burst = json_array_get(bursts, s->opened);
		l.opened_at_ns = (uint64_t)json_integer_value(json_array_get(burst, 0));
		l.stopped_at_ns = (uint64_t)json_integer_value(json_array_get(burst, 1));
		TRY(replay_part(&l, part.name));
	}
	s->opened = (uint32_t)json_get_int(fact, "opened", s->opened);
	s->stacks_refused = json_get_bool(fact, "stacks_refused", false);
	return exam_code_replay(exam, s);
}

struct err *events_replay(struct exam *exam, struct events_stream *streams, size_t n)
{
	TRY(exam_recall_window(exam));
	for (size_t i = 0; i < n; i++)
		TRY(events_replay_stream(exam, &streams[i]));
	exam_prove_streams(exam, streams, n);
	return NULL;
}
