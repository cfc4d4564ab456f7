/* A reply of a runtime. The first byte chooses the version of the question. */

#include "ipc/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	const uint8_t *payload;
	size_t len;
	uint32_t hresult;
	struct ipc_process_info info = { 0 };
	struct err *err = wire_reply(data + 1, size - 1, &payload, &len, &hresult);
	if (!err && hresult)
		err = wire_refusal(hresult);
	else if (!err)
		err = wire_process_info(1 + data[0] % 3, payload, len, &info);
	ipc_process_info_fini(&info);
	err_free(err);
	return 0;
}
