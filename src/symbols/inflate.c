#include "symbols/inflate.h"
#include <string.h>
#include <zlib.h>

bool inflate_all(const uint8_t *in, size_t in_len, uint8_t *out, size_t out_len)
{
	z_stream z = { 0 };
	if (in_len > UINT32_MAX || out_len > UINT32_MAX || inflateInit2(&z, -MAX_WBITS) != Z_OK)
		return false;
	/* zlib takes the input as not const, but never writes to it. */
	memcpy(&z.next_in, &in, sizeof(in));
	z.avail_in = (uInt)in_len;
	z.next_out = out;
	z.avail_out = (uInt)out_len;
	int rc = inflate(&z, Z_FINISH);
	bool whole = rc == Z_STREAM_END && z.total_out == out_len;
	inflateEnd(&z);
	return whole;
}
