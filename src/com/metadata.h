#pragma once
/* The metadata reader of the data-access library: interfaces of which a few methods are used. */

#include "com/com.h"
#include <stddef.h>

/* IMetaDataImport, of which a few methods are used. */
#define COM_IID_METADATA_IMPORT COM_GUID(0x7DAC8207, 0xD3AE, 0x4C75, 0x9B, 0x67, 0x92, 0x80, 0x1A, 0x49, 0x7D, 0x44)
struct metadata_import {
	const struct metadata_import_vtbl *vtbl;
};
struct metadata_import_vtbl {
	com_hr (*QueryInterface)(struct metadata_import *self, const struct com_guid *iid, void **ret);
	uint32_t (*AddRef)(struct metadata_import *self);
	uint32_t (*Release)(struct metadata_import *self);
	void (*CloseEnum)(struct metadata_import *self, void *list);
	void *unused_4[8];
	com_hr (*GetTypeDefProps)(struct metadata_import *self, uint32_t token, com_char *name, uint32_t capacity,
				  uint32_t *ret_length, uint32_t *ret_flags, uint32_t *ret_extends);
	void *unused_13[1];
	com_hr (*GetTypeRefProps)(struct metadata_import *self, uint32_t token, uint32_t *ret_scope, com_char *name,
				  uint32_t capacity, uint32_t *ret_length);
	void *unused_15[3];
	com_hr (*EnumMethods)(struct metadata_import *self, void **list, uint32_t type, uint32_t *tokens, uint32_t max,
			      uint32_t *ret_n);
	void *unused_19[11];
	com_hr (*GetMethodProps)(struct metadata_import *self, uint32_t token, uint32_t *ret_class, com_char *name,
				 uint32_t capacity, uint32_t *ret_length, uint32_t *ret_attributes,
				 const uint8_t **ret_signature, uint32_t *ret_signature_length, uint32_t *ret_rva,
				 uint32_t *ret_flags);
	com_hr (*GetMemberRefProps)(struct metadata_import *self, uint32_t token, uint32_t *ret_parent, com_char *name,
				    uint32_t capacity, uint32_t *ret_length, const uint8_t **ret_signature,
				    uint32_t *ret_signature_length);
	void *unused_32[12];
	com_hr (*GetTypeSpecFromToken)(struct metadata_import *self, uint32_t token, const uint8_t **ret_signature,
				       uint32_t *ret_signature_length);
	void *unused_45[2];
	com_hr (*GetUserString)(struct metadata_import *self, uint32_t token, com_char *text, uint32_t capacity,
				uint32_t *ret_length);
	void *unused_48[9];
	com_hr (*GetFieldProps)(struct metadata_import *self, uint32_t token, uint32_t *ret_class, com_char *name,
				uint32_t capacity, uint32_t *ret_length, uint32_t *ret_attributes,
				const uint8_t **ret_signature, uint32_t *ret_signature_length,
				uint32_t *ret_element_type, const void **ret_constant, uint32_t *ret_constant_length);
	void *unused_58[4];
	com_hr (*GetNestedClassProps)(struct metadata_import *self, uint32_t token, uint32_t *ret_enclosing);
	void *unused_63[4];
	/* Of IMetaDataImport2, which goes on where the first one ends. */
	com_hr (*GetMethodSpecProps)(struct metadata_import *self, uint32_t token, uint32_t *ret_method,
				     const uint8_t **ret_signature, uint32_t *ret_signature_length);
};
_Static_assert(offsetof(struct metadata_import_vtbl, EnumMethods) == 18 * sizeof(void *), "slot 18");
_Static_assert(offsetof(struct metadata_import_vtbl, GetMethodProps) == 30 * sizeof(void *), "slot 30");
_Static_assert(offsetof(struct metadata_import_vtbl, GetTypeRefProps) == 14 * sizeof(void *), "slot 14");
_Static_assert(offsetof(struct metadata_import_vtbl, GetTypeSpecFromToken) == 44 * sizeof(void *), "slot 44");
_Static_assert(offsetof(struct metadata_import_vtbl, GetUserString) == 47 * sizeof(void *), "slot 47");
_Static_assert(offsetof(struct metadata_import_vtbl, GetFieldProps) == 57 * sizeof(void *), "slot 57");
_Static_assert(offsetof(struct metadata_import_vtbl, GetNestedClassProps) == 62 * sizeof(void *), "slot 62");
_Static_assert(offsetof(struct metadata_import_vtbl, GetMethodSpecProps) == 67 * sizeof(void *), "slot 67");
#define COM_IID_METADATA_IMPORT2 COM_GUID(0xFCE5EFA0, 0x8BBA, 0x4F8E, 0xA0, 0x36, 0x8F, 0x20, 0x22, 0xB0, 0x84, 0x66)

/* IMetaDataAssemblyImport, of which one method is used. */
#define COM_IID_METADATA_ASSEMBLY_IMPORT                                                                               \
	COM_GUID(0xEE62470B, 0xE94B, 0x424E, 0x9B, 0x7C, 0x2F, 0x00, 0xC9, 0x24, 0x9F, 0x93)
struct metadata_assembly_import {
	const struct metadata_assembly_import_vtbl *vtbl;
};
struct metadata_assembly_import_vtbl {
	com_hr (*QueryInterface)(struct metadata_assembly_import *self, const struct com_guid *iid, void **ret);
	uint32_t (*AddRef)(struct metadata_assembly_import *self);
	uint32_t (*Release)(struct metadata_assembly_import *self);
	com_hr (*GetAssemblyProps)(struct metadata_assembly_import *self, uint32_t token, const void **ret_key,
				   uint32_t *ret_key_length, uint32_t *ret_hash, com_char *name, uint32_t capacity,
				   uint32_t *ret_length, void *ret_metadata, uint32_t *ret_flags);
};
