#pragma once
/* The COM ABI in C, as the runtime uses it on Linux: an object's first word points to a table of functions, each takes
 * the object first and returns a 32-bit HRESULT; wide characters have 16 bits, BOOL has 32.
 *
 * An interface is one list of methods, LIST(X, T) of X(T, slot, name, parameters...): COM_INTERFACE makes the table and
 * the object out of it and lets the compiler check every slot number. Knows no interface but IUnknown. Includes nothing
 * of ours: the in-target library uses it too. */

#include <stddef.h>
#include <stdint.h>

struct com_guid {
	uint32_t a;
	uint16_t b, c;
	uint8_t d[8];
};
_Static_assert(sizeof(struct com_guid) == 16, "a GUID has 16 bytes");

/* {AAAAAAAA-BBBB-CCCC-DDEE-FFGGHHIIJJKK} */
#define COM_GUID(a, b, c, d, e, f, g, h, i, j, k)                                                                      \
	{                                                                                                              \
		a, b, c,                                                                                               \
		{                                                                                                      \
			d, e, f, g, h, i, j, k                                                                         \
		}                                                                                                      \
	}

typedef int32_t com_hr;
typedef uint16_t com_char;
typedef int32_t com_bool;

#define COM_OK 0
#define COM_FALSE 1 /* success too: "no more" */
#define COM_E_NOTIMPL ((com_hr)0x80004001)
#define COM_E_NOINTERFACE ((com_hr)0x80004002)
#define COM_E_FAIL ((com_hr)0x80004005)

struct com_unknown {
	const struct com_unknown_vtbl *vtbl;
};
struct com_unknown_vtbl {
	com_hr (*QueryInterface)(void *self, const struct com_guid *iid, void **ret);
	uint32_t (*AddRef)(void *self);
	uint32_t (*Release)(void *self);
};
#define COM_IID_UNKNOWN COM_GUID(0x00000000, 0x0000, 0x0000, 0xC0, 0, 0, 0, 0, 0, 0, 0x46)

#define COM_METHOD_(T, slot, name, ...) com_hr (*name)(struct T * self, ##__VA_ARGS__);
#define COM_SLOT_(T, slot, name, ...)                                                                                  \
	_Static_assert(offsetof(struct T##_vtbl, name) == (slot) * sizeof(void *), #T "::" #name " is slot " #slot);

#define COM_INTERFACE(T, LIST)                                                                                         \
	struct T {                                                                                                     \
		const struct T##_vtbl *vtbl;                                                                           \
	};                                                                                                             \
	struct T##_vtbl {                                                                                              \
		com_hr (*QueryInterface)(struct T * self, const struct com_guid *iid, void **ret);                     \
		uint32_t (*AddRef)(struct T * self);                                                                   \
		uint32_t (*Release)(struct T * self);                                                                  \
		LIST(COM_METHOD_, T)                                                                                   \
	};                                                                                                             \
	LIST(COM_SLOT_, T)

/* COM_CALL(sos, GetThreadData, address, &data) */
#define COM_CALL(object, method, ...) (object)->vtbl->method((object), ##__VA_ARGS__)
#define COM_RELEASE(object)                                                                                            \
	do {                                                                                                           \
		if (object)                                                                                            \
			(void)(object)->vtbl->Release(object);                                                         \
		(object) = NULL;                                                                                       \
	} while (0)
