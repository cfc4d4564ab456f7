#pragma once
/* What the id of a Start/Stop activity of .NET says: its place in the tree of activities, as a path of numbers ("/1/5/2"
 * is the second activity inside of the fifth one).
 *
 * An id is a GUID whose last 32 bits are a check word over the others and the process id, so it is told from any other
 * GUID. The first 12 bytes hold the path, in nibbles, the high one of a byte first:
 *
 *	0		end of the path
 *	1..A		that number
 *	C, D, E, F	the number follows in 1, 2, 3, 4 bytes, little endian, from the next whole byte on
 *	B, then C..F	the same, and the activity was too deep for a path: the number is only a number
 *
 * When the code C is the high nibble of a byte, its low nibble holds bits 8 to 11 of the number. How it goes on differs: see
 * enum activity_form. Pure; input is hostile. */

#include "base/base.h"

#define ACTIVITY_PATH_MAX 24
#define ACTIVITY_NUMBER_UNKNOWN 0 /* no activity has it: they are counted from 1 */

enum activity_form {
	ACTIVITY_FORM_NET8,  /* and 9: a number of 256 to 4095 behind C has a byte 0 behind it */
	ACTIVITY_FORM_NET10, /* there a number of 11 to 255 is missing, so that siblings share one id */
};
enum activity_form activity_form_of(unsigned runtime_major);

struct activity_path {
	uint32_t numbers[ACTIVITY_PATH_MAX];
	size_t n;
	bool overflow; /* too deep: the last number tells nothing of its place */
	bool shared;   /* a number is missing (ACTIVITY_NUMBER_UNKNOWN): other activities may have the same id */
};
/* False when it is no path. The process id is not checked. */
bool activity_path_decode(const uint8_t id[16], enum activity_form form, struct activity_path *ret);
/* The process id that the check word is right for, as that process knows itself. Of a GUID that is no such id it is any
 * number, so a caller learns it once and compares. */
uint32_t activity_path_pid(const uint8_t id[16]);
/* A hash of its first n numbers, the same for the same path. Not known outside of this process. */
uint64_t activity_path_key(const struct activity_path *path, size_t n);
