#pragma once
/* What the collection and the report of open-files share. */

#include "profilers/limits.h"
#include "exam/proc_looks.h"
#include "vitals/open_files.h"

struct open_files {
	struct limits limits;	 /* looks at the limits of descriptors, watchers and ports */
	struct open_looks looks; /* at what is open: at the beginning, in the middle, at the end */
};

struct err *open_files_report(struct exam *exam, struct report *report) MUST_USE;
