#pragma once
/* A folder of a patient that both processes can use. It is looked up, and must be written to, with the rights of the
 * patient's user: `user` is for fsuser_begin(). */

#include "target/files.h"

struct patient_folder {
	int fd;	       /* O_PATH */
	char *path;    /* its path in our mount namespace */
	char *seen_as; /* its path for the patient; NULL until patient_folder_name() */
	struct fsuser user;
};
#define PATIENT_FOLDER_NONE ((struct patient_folder){ .fd = -1 })
void patient_folder_fini(struct patient_folder *folder);

/* The folder that really holds its socket. ERR_DENIED when its user may not write there. */
struct err *patient_folder_of_socket(const struct target *t, struct patient_folder *ret) MUST_USE;
/* One from which its runtime can load a library: that one, else its shared memory. ERR_UNSUPPORTED when nothing in them
 * can be loaded, ERR_DENIED when there is none. */
struct err *patient_folder_for_library(const struct target *t, struct patient_folder *ret) MUST_USE;
/* Fills in seen_as; asks the runtime where its process is not visible. */
struct err *patient_folder_name(const struct target *t, struct patient_folder *folder) MUST_USE;
