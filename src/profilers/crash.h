#pragma once
/* What a core file says about the end of its process, between the look and the report. Private to crash. */

#include "base/json.h"
#include "exam/image_exam.h"

#define CRASH_VERSION 1

/* For struct image_exam_part: writes one JSON object:
 *
 *   signal      {number, code, address, tid}, or null: it was alive
 *   native      {function, module} where the signal struck outside of managed code, or null
 *   thread      {id, tid, name, frames, cut, deep, deeper, lost}, the one that died, or null
 *   exceptions  [{type, message, hresult, frames}], outermost first; of that thread
 *   failfast    the message given to Environment.FailFast, or null
 *   others      [{thread, type, message}], exceptions in flight on other threads
 *   heap        {valid, server, bytes, committed} or null: not in the core
 *   threads     how many managed ones lived
 *   noLines     why source lines are missing: texts
 *
 * frames: [{name, file, line, framework, times, run}]; times > 1: this frame and the run - 1 below it are there so many
 * times. */
struct err *crash_drain(void *user, struct image_exam *look, struct buf *out) MUST_USE;
