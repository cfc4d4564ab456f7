#pragma once
/* Strings: comparing, strict number parsing, text that is safe to show. No locale anywhere. */

#include "base/buf.h"
#include "base/err.h"

static inline bool str_empty(const char *s)
{
	return !s || !*s;
}
bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_eq_nocase(const char *a, const char *b);
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
bool str_contains_nocase(const char *s, const char *part);
/* Edit distance (change, add, leave out or swap neighbouring letters) of two words, ignoring case; SIZE_MAX for words
 * too long to be typed. */
size_t str_distance(const char *a, const char *b);
/* Which of the names a mistyped word means: { .word = word, .least = SIZE_MAX }, then each name; best is NULL when none is near. */
struct guess {
	const char *word, *best;
	size_t least;
};
void guess_name(struct guess *g, const char *name);
/* Copies at most size-1 bytes, always terminates. */
void str_copy(char *dst, size_t size, const char *src);

/* Whole string must be the number: no blanks, no sign for the unsigned. */
bool str_to_u64(const char *s, uint64_t *ret);
bool str_to_i64(const char *s, int64_t *ret);
bool str_to_double(const char *s, double *ret); /* finite only */
bool str_to_bool(const char *s, bool *ret);	/* true false 1 0 yes no on off, any case */
/* "500ms", "10s", "2m", "1h", plain number = seconds; fractions allowed ("1.5s"). */
bool str_to_duration_ms(const char *s, uint64_t *ret);

/* "30d", "2w", "12h"; a plain number is none. */
bool str_to_age_ns(const char *s, uint64_t *ret);
/* "500M", "2GB", "17"; K, M, G and T are powers of 1024. */
bool str_to_bytes(const char *s, uint64_t *ret);

/* Control, bidi, zero-width and other characters that a reader does not see but that change what is shown. */
bool cp_is_invisible(uint32_t cp);
/* Valid UTF-8 with control characters, bidi and other invisible marks replaced by visible \u{..} escapes: what a
 * terminal or log may show. Appends at most max_chars characters, then "…" (0 = no limit). */
void str_add_visible(struct buf *out, const char *s, size_t len, size_t max_chars);
/* What an exception or an error says, for a sentence: the first line that is no frame of a stack, without the blanks
 * around it, at most max_chars characters; "…" behind it when that is not all. The result is as trusted as s is. */
void str_add_message(struct buf *out, const char *s, size_t max_chars);
/* Length of the well-formed UTF-8 sequence at s (1..4), or 0; *ret_cp gets the code point. */
size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp);
void utf8_encode(struct buf *out, uint32_t cp);
/* Columns a terminal needs for it (wide East Asian 2, combining 0). Takes visible text. */
size_t utf8_width(const char *s);
/* A copy in which each ill-formed byte is U+FFFD. */
void utf8_add_valid(struct buf *out, const char *s, size_t len);
/* Little-endian UTF-16 (unaligned) to UTF-8; lone surrogates become U+FFFD. */
void utf16_add(struct buf *out, const uint8_t *units, size_t n_units);
/* UTF-8 to UTF-16LE bytes. */
void utf16_from_utf8(struct buf *out, const char *s);
