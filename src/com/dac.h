#pragma once
/* What libmscordaccore.so uses: the structures it fills and the interfaces it offers or asks for (linux-x64; .NET 8, 9
 * and 10). Layouts and slots are frozen by the runtime: newer ones only add interfaces. Addresses are those of the
 * target. Parameters of types that are not used here are untyped pointers. */

#include "com/com.h"

/* ---- structures ---- */

struct dacp_thread_store {
	int32_t threads, unstarted, background, pending, dead;
	uint64_t first, finalizer, gc;
	uint32_t host_flags;
};
struct dacp_thread_data {
	uint32_t managed_id, os_id; /* a dead thread has os_id 0 */
	uint32_t state;
	uint32_t cooperative;
	uint64_t alloc_ptr, alloc_limit, context, domain, frame;
	uint32_t lock_count;
	uint64_t first_nested_exception, teb, fiber, last_thrown_handle, next;
};
struct dacp_sync_block {
	uint64_t object;
	uint32_t is_free;
	uint64_t sync_block;
	uint32_t com_flags, monitor_held, recursion;
	uint64_t holding_thread;
	uint32_t additional_threads;
	uint64_t domain;
	uint32_t total_count;
};
struct dacp_gc_heap {
	uint32_t server, structures_valid, heap_count, max_generation;
};
struct dacp_generation {
	uint64_t start_segment, alloc_start, alloc_context_ptr, alloc_context_limit;
};
struct dacp_heap_details {
	uint64_t heap, alloc_allocated, mark_array, c_gc_state, next_sweep, saved_segment, saved_start, bg_low, bg_high;
	struct dacp_generation generations[4];
	uint64_t ephemeral_segment, fill_pointers[7], low, high, card_table;
};
struct dacp_segment {
	uint64_t address, allocated, committed, reserved, used, mem, next, heap, high_alloc_mark, flags, bg_allocated;
};
struct dacp_method_table {
	uint32_t is_free;
	uint64_t module, canonical, parent;
	uint16_t n_interfaces, n_methods, n_slots, n_virtuals;
	uint32_t base_size, component_size, typedef_token, attributes, shared, dynamic, contains_pointers;
};
struct dacp_mt_fields {
	uint16_t n_instance, n_static, n_thread_static; /* instance fields with the inherited ones */
	uint64_t first;
	uint16_t context_statics_offset, context_statics_size;
};
struct dacp_field_desc {
	uint32_t element_type, signature_type;
	uint64_t type, module;
	uint32_t type_token, token;
	uint64_t enclosing;
	uint32_t offset;
	uint32_t is_thread_local, is_context_local, is_static;
	uint64_t next;
};
struct dacp_object {
	uint64_t type;
	uint32_t kind; /* 0 string, 1 free, 2 object, 3 array, 4 other */
	uint64_t size, element_type_handle;
	uint32_t element_type, rank;
	uint64_t count, component_size, data, bounds, lower_bounds, rcw, ccw;
};
struct dacp_exception {
	uint64_t message, inner, stack_trace, watson, stack_trace_string, remote_stack_trace_string;
	int32_t hresult, xcode;
};
struct dacp_rejit {
	uint64_t id;
	uint32_t flags;
	uint64_t code;
};
struct dacp_method_desc {
	uint32_t has_native, dynamic;
	uint16_t slot;
	uint64_t native_code, native_code_slot, desc, type, module;
	uint32_t token;
	uint64_t gc_info, gc_stress, dynamic_object, requested_ip;
	struct dacp_rejit current, requested;
	uint32_t jitted_rejits;
};
struct dacp_code_header {
	uint64_t gc_info;
	uint32_t jit_type; /* 1 jitted, 2 precompiled */
	uint64_t desc, start;
	uint32_t size;
	uint64_t cold_start;
	uint32_t cold_size, hot_size;
};
struct dacp_module_data {
	uint64_t address, pe_assembly, il_base, metadata, metadata_size, assembly;
	uint32_t is_reflection, is_pe;
	uint64_t base_class_index, module_id;
	uint32_t transient_flags;
	uint64_t maps[7];
	uint64_t loader_allocator, thunk_heap, module_index;
};
/* Where statics are before .NET 9: of a module (GetDomainLocalModuleDataFromModule), or of a thread and a module. */
struct dacp_local_module {
	uint64_t owner, index; /* domain and module id, or thread and module index */
	uint64_t class_data, dynamic_table, gc_statics, non_gc_statics;
};
struct dacp_collectible {
	uint64_t loader_handle; /* of the object that keeps the type loaded */
	uint32_t collectible;
};
struct dacp_globals {
	uint64_t array_type, string_type, object_type, exception_type, free_type;
};
struct dacp_handle {
	uint64_t domain, handle, secondary;
	uint32_t type, strong, ref_count, jupiter, pegged;
};
struct dacp_stack_ref {
	uint32_t has_register;
	int32_t reg, offset;
	uint64_t slot, object;
	uint32_t flags, source_type;
	uint64_t source, stack_pointer;
};
struct dacp_version { /* of a method's code */
	uint64_t code;
	uint32_t tier;
	uint64_t node;
};
struct dacp_clause {   /* of a method's exception handlers; offsets are from its code's start */
	uint32_t kind; /* 0 fault, 1 finally, 2 filter, 3 typed */
	uint64_t try_start, try_end, start, end;
	uint32_t duplicate;
	uint64_t filter;
	uint32_t catches_all;
	uint64_t module, type; /* module: type is to be found by the token */
	uint32_t token;
};
struct dacp_jit_manager {
	uint64_t address;
	uint32_t code_type;
	uint64_t heaps;
};
struct dacp_code_heap {
	uint32_t type; /* 0: start is a loader heap; 1: it is the code, up to end */
	uint64_t start, end;
};
struct dacp_il_map {
	uint32_t il_offset; /* -1 none, -2 prologue, -3 epilogue */
	uint64_t start, end;
	uint32_t type;
};

#define COM_SIZE_(type, size) _Static_assert(sizeof(struct type) == (size), #type)
COM_SIZE_(dacp_thread_store, 0x38);
COM_SIZE_(dacp_thread_data, 0x68);
COM_SIZE_(dacp_sync_block, 0x48);
COM_SIZE_(dacp_gc_heap, 0x10);
COM_SIZE_(dacp_generation, 0x20);
COM_SIZE_(dacp_heap_details, 0x120);
COM_SIZE_(dacp_segment, 0x58);
COM_SIZE_(dacp_method_table, 0x48);
COM_SIZE_(dacp_mt_fields, 0x18);
COM_SIZE_(dacp_field_desc, 0x40);
COM_SIZE_(dacp_object, 0x60);
COM_SIZE_(dacp_exception, 0x38);
COM_SIZE_(dacp_method_desc, 0x98);
COM_SIZE_(dacp_code_header, 0x38);
COM_SIZE_(dacp_module_data, 0xA0);
COM_SIZE_(dacp_local_module, 0x30);
COM_SIZE_(dacp_collectible, 0x10);
COM_SIZE_(dacp_globals, 0x28);
COM_SIZE_(dacp_handle, 0x30);
COM_SIZE_(dacp_stack_ref, 0x38);
COM_SIZE_(dacp_il_map, 0x20);
COM_SIZE_(dacp_version, 0x18);
COM_SIZE_(dacp_clause, 0x58);
COM_SIZE_(dacp_jit_manager, 0x18);
COM_SIZE_(dacp_code_heap, 0x18);

/* The x64 CONTEXT that GetThreadContext fills and stack walks return. */
struct dacp_context {
	uint64_t home[6];
	uint32_t flags, mxcsr;
	uint16_t cs, ds, es, fs, gs, ss;
	uint32_t eflags;
	uint64_t debug[6];
	uint64_t rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, rip;
	uint8_t fxsave[512];
	uint8_t vectors[26 * 16 + 6 * 8];
} __attribute__((aligned(16)));
COM_SIZE_(dacp_context, 0x4D0);
_Static_assert(offsetof(struct dacp_context, flags) == 0x30 && offsetof(struct dacp_context, cs) == 0x38, "");
_Static_assert(offsetof(struct dacp_context, rax) == 0x78 && offsetof(struct dacp_context, rip) == 0xF8, "");
_Static_assert(offsetof(struct dacp_context, fxsave) == 0x100, "");
#define DACP_CONTEXT_ALL 0x0010001Fu

/* Calls of the export CLRDataCreateInstance. */
typedef com_hr (*dacp_create_fn)(const struct com_guid *iid, void *target, void **ret);
typedef com_bool (*dacp_main_fn)(void *module, uint32_t reason, void *reserved);
typedef void (*dacp_module_map_fn)(uint32_t index, uint64_t method_table, void *user);
typedef void (*dacp_heap_block_fn)(uint64_t block, uint64_t size, uint32_t current);
typedef com_bool (*dacp_clause_fn)(uint32_t index, uint32_t n, struct dacp_clause *clause, void *user);

/* ---- interfaces ---- */

#define COM_IID_CLR_DATA_TARGET_1 COM_GUID(0x3E11CCEE, 0xD08B, 0x43E5, 0xAF, 0x01, 0x32, 0x71, 0x7A, 0x64, 0xDA, 0x03)

struct xclr_task;
struct xclr_module;
struct xclr_method;
struct xclr_walk;
struct sos_handle_enum;
struct sos_ref_enum;

/* clang-format off */

/* ICLRDataTarget2 */
#define COM_IID_CLR_DATA_TARGET COM_GUID(0x6D05FAE3, 0x189C, 0x4630, 0xA6, 0xDC, 0x1C, 0x25, 0x1E, 0x1C, 0x01, 0xAB)
#define COM_CLR_DATA_TARGET(X, T) \
	X(T, 3, GetMachineType, uint32_t *machine_type) \
	X(T, 4, GetPointerSize, uint32_t *pointer_size) \
	X(T, 5, GetImageBase, com_char *image_path, uint64_t *base_address) \
	X(T, 6, ReadVirtual, uint64_t address, uint8_t *buffer, uint32_t bytes_requested, uint32_t *bytes_read) \
	X(T, 7, WriteVirtual, uint64_t address, uint8_t *buffer, uint32_t bytes_requested, uint32_t *bytes_written) \
	X(T, 8, GetTLSValue, uint32_t thread_id, uint32_t index, uint64_t *value) \
	X(T, 9, SetTLSValue, uint32_t thread_id, uint32_t index, uint64_t value) \
	X(T, 10, GetCurrentThreadID, uint32_t *thread_id) \
	X(T, 11, GetThreadContext, uint32_t thread_id, uint32_t context_flags, uint32_t context_size, \
		uint8_t *context) \
	X(T, 12, SetThreadContext, uint32_t thread_id, uint32_t context_size, uint8_t *context) \
	X(T, 13, Request, uint32_t req_code, uint32_t in_buffer_size, uint8_t *in_buffer, \
		uint32_t out_buffer_size, uint8_t *out_buffer) \
	X(T, 14, AllocVirtual, uint64_t address, uint32_t size, uint32_t type_flags, uint32_t protect_flags, \
		uint64_t *mapped) \
	X(T, 15, FreeVirtual, uint64_t address, uint32_t size, uint32_t type_flags)
COM_INTERFACE(clr_data_target, COM_CLR_DATA_TARGET)

/* ICLRRuntimeLocator */
#define COM_IID_CLR_RUNTIME_LOCATOR COM_GUID(0xB760BF44, 0x9377, 0x4597, 0x8B, 0xE7, 0x58, 0x08, 0x3B, 0xDC, 0x51, 0x46)
#define COM_CLR_RUNTIME_LOCATOR(X, T) \
	X(T, 3, GetRuntimeBase, uint64_t *base_address)
COM_INTERFACE(clr_runtime_locator, COM_CLR_RUNTIME_LOCATOR)

/* ICLRDataEnumMemoryRegionsCallback */
#define COM_IID_CLR_REGIONS_CALLBACK COM_GUID(0xBCDD6908, 0xBA2D, 0x4EC5, 0x96, 0xCF, 0xDF, 0x4D, 0x5C, 0xDC, 0xB4, 0xA4)
#define COM_CLR_REGIONS_CALLBACK(X, T) \
	X(T, 3, EnumMemoryRegion, uint64_t address, uint32_t size)
COM_INTERFACE(clr_regions_callback, COM_CLR_REGIONS_CALLBACK)

/* ICLRDataEnumMemoryRegions */
#define COM_IID_CLR_REGIONS COM_GUID(0x471C35B4, 0x7C2F, 0x4EF0, 0xA9, 0x45, 0x00, 0xF8, 0xC3, 0x80, 0x56, 0xF1)
#define COM_CLR_REGIONS(X, T) \
	X(T, 3, EnumMemoryRegions, struct clr_regions_callback *callback, uint32_t dump_flags, uint32_t flags)
COM_INTERFACE(clr_regions, COM_CLR_REGIONS)

/* IXCLRDataProcess */
#define COM_IID_XCLR_PROCESS COM_GUID(0x5C552AB6, 0xFC09, 0x4CB3, 0x8E, 0x36, 0x22, 0xFA, 0x03, 0xC7, 0x98, 0xB7)
#define COM_XCLR_PROCESS(X, T) \
	X(T, 3, Flush) \
	X(T, 4, StartEnumTasks, uint64_t *handle) \
	X(T, 5, EnumTask, uint64_t *handle, struct xclr_task **task) \
	X(T, 6, EndEnumTasks, uint64_t handle) \
	X(T, 7, GetTaskByOSThreadID, uint32_t os_thread_id, struct xclr_task **task) \
	X(T, 8, GetTaskByUniqueID, uint64_t task_id, struct xclr_task **task) \
	X(T, 9, GetFlags, uint32_t *flags) \
	X(T, 10, IsSameObject, struct xclr_process *process) \
	X(T, 11, GetManagedObject, void **value) \
	X(T, 12, GetDesiredExecutionState, uint32_t *state) \
	X(T, 13, SetDesiredExecutionState, uint32_t state) \
	X(T, 14, GetAddressType, uint64_t address, void *type) \
	X(T, 15, GetRuntimeNameByAddress, uint64_t address, uint32_t flags, uint32_t buf_len, \
		uint32_t *name_len, com_char *name_buf, uint64_t *displacement) \
	X(T, 16, StartEnumAppDomains, uint64_t *handle) \
	X(T, 17, EnumAppDomain, uint64_t *handle, void **app_domain) \
	X(T, 18, EndEnumAppDomains, uint64_t handle) \
	X(T, 19, GetAppDomainByUniqueID, uint64_t id, void **app_domain) \
	X(T, 20, StartEnumAssemblies, uint64_t *handle) \
	X(T, 21, EnumAssembly, uint64_t *handle, void **assembly) \
	X(T, 22, EndEnumAssemblies, uint64_t handle) \
	X(T, 23, StartEnumModules, uint64_t *handle) \
	X(T, 24, EnumModule, uint64_t *handle, struct xclr_module **module) \
	X(T, 25, EndEnumModules, uint64_t handle) \
	X(T, 26, GetModuleByAddress, uint64_t address, struct xclr_module **module) \
	X(T, 27, StartEnumMethodInstancesByAddress, uint64_t address, void *app_domain, uint64_t *handle) \
	X(T, 28, EnumMethodInstanceByAddress, uint64_t *handle, struct xclr_method **method) \
	X(T, 29, EndEnumMethodInstancesByAddress, uint64_t handle) \
	X(T, 30, GetDataByAddress, uint64_t address, uint32_t flags, void *app_domain, \
		struct xclr_task *tls_task, uint32_t buf_len, uint32_t *name_len, com_char *name_buf, void **value, \
		uint64_t *displacement) \
	X(T, 31, GetExceptionStateByExceptionRecord, void *record, void **ex_state) \
	X(T, 32, TranslateExceptionRecordToNotification, void *record, void *notify) \
	X(T, 33, Request, uint32_t req_code, uint32_t in_buffer_size, uint8_t *in_buffer, \
		uint32_t out_buffer_size, uint8_t *out_buffer) \
	X(T, 34, CreateMemoryValue, void *app_domain, struct xclr_task *tls_task, void *type, \
		uint64_t address, void **value) \
	X(T, 35, SetAllTypeNotifications, struct xclr_module *module, uint32_t flags) \
	X(T, 36, SetAllCodeNotifications, struct xclr_module *module, uint32_t flags) \
	X(T, 37, GetTypeNotifications, uint32_t num_tokens, struct xclr_module **mods, \
		struct xclr_module *single_mod, uint32_t *tokens, uint32_t *flags) \
	X(T, 38, SetTypeNotifications, uint32_t num_tokens, struct xclr_module **mods, \
		struct xclr_module *single_mod, uint32_t *tokens, uint32_t *flags, uint32_t single_flags) \
	X(T, 39, GetCodeNotifications, uint32_t num_tokens, struct xclr_module **mods, \
		struct xclr_module *single_mod, uint32_t *tokens, uint32_t *flags) \
	X(T, 40, SetCodeNotifications, uint32_t num_tokens, struct xclr_module **mods, \
		struct xclr_module *single_mod, uint32_t *tokens, uint32_t *flags, uint32_t single_flags) \
	X(T, 41, GetOtherNotificationFlags, uint32_t *flags) \
	X(T, 42, SetOtherNotificationFlags, uint32_t flags) \
	X(T, 43, StartEnumMethodDefinitionsByAddress, uint64_t address, uint64_t *handle) \
	X(T, 44, EnumMethodDefinitionByAddress, uint64_t *handle, void **method) \
	X(T, 45, EndEnumMethodDefinitionsByAddress, uint64_t handle) \
	X(T, 46, FollowStub, uint32_t in_flags, uint64_t in_addr, void *in_buffer, uint64_t *out_addr, \
		void *out_buffer, uint32_t *out_flags) \
	X(T, 47, FollowStub2, struct xclr_task *task, uint32_t in_flags, uint64_t in_addr, void *in_buffer, \
		uint64_t *out_addr, void *out_buffer, uint32_t *out_flags) \
	X(T, 48, DumpNativeImage, uint64_t loaded_base, com_char *name, void *display, void *lib_support, void *dis)
COM_INTERFACE(xclr_process, COM_XCLR_PROCESS)

/* IXCLRDataModule */
#define COM_IID_XCLR_MODULE COM_GUID(0x88E32849, 0x0A0A, 0x4CB0, 0x90, 0x22, 0x7C, 0xD2, 0xE9, 0xE1, 0x39, 0xE2)
#define COM_XCLR_MODULE(X, T) \
	X(T, 3, StartEnumAssemblies, uint64_t *handle) \
	X(T, 4, EnumAssembly, uint64_t *handle, void **assembly) \
	X(T, 5, EndEnumAssemblies, uint64_t handle) \
	X(T, 6, StartEnumTypeDefinitions, uint64_t *handle) \
	X(T, 7, EnumTypeDefinition, uint64_t *handle, void **type_definition) \
	X(T, 8, EndEnumTypeDefinitions, uint64_t handle) \
	X(T, 9, StartEnumTypeInstances, void *app_domain, uint64_t *handle) \
	X(T, 10, EnumTypeInstance, uint64_t *handle, void **type_instance) \
	X(T, 11, EndEnumTypeInstances, uint64_t handle) \
	X(T, 12, StartEnumTypeDefinitionsByName, com_char *name, uint32_t flags, uint64_t *handle) \
	X(T, 13, EnumTypeDefinitionByName, uint64_t *handle, void **type) \
	X(T, 14, EndEnumTypeDefinitionsByName, uint64_t handle) \
	X(T, 15, StartEnumTypeInstancesByName, com_char *name, uint32_t flags, void *app_domain, uint64_t *handle) \
	X(T, 16, EnumTypeInstanceByName, uint64_t *handle, void **type) \
	X(T, 17, EndEnumTypeInstancesByName, uint64_t handle) \
	X(T, 18, GetTypeDefinitionByToken, uint32_t token, void **type_definition) \
	X(T, 19, StartEnumMethodDefinitionsByName, com_char *name, uint32_t flags, uint64_t *handle) \
	X(T, 20, EnumMethodDefinitionByName, uint64_t *handle, void **method) \
	X(T, 21, EndEnumMethodDefinitionsByName, uint64_t handle) \
	X(T, 22, StartEnumMethodInstancesByName, com_char *name, uint32_t flags, void *app_domain, uint64_t *handle) \
	X(T, 23, EnumMethodInstanceByName, uint64_t *handle, struct xclr_method **method) \
	X(T, 24, EndEnumMethodInstancesByName, uint64_t handle) \
	X(T, 25, GetMethodDefinitionByToken, uint32_t token, void **method_definition) \
	X(T, 26, StartEnumDataByName, com_char *name, uint32_t flags, void *app_domain, \
		struct xclr_task *tls_task, uint64_t *handle) \
	X(T, 27, EnumDataByName, uint64_t *handle, void **value) \
	X(T, 28, EndEnumDataByName, uint64_t handle) \
	X(T, 29, GetName, uint32_t buf_len, uint32_t *name_len, com_char *name) \
	X(T, 30, GetFileName, uint32_t buf_len, uint32_t *name_len, com_char *name) \
	X(T, 31, GetFlags, uint32_t *flags) \
	X(T, 32, IsSameObject, struct xclr_module *module) \
	X(T, 33, StartEnumExtents, uint64_t *handle) \
	X(T, 34, EnumExtent, uint64_t *handle, void *extent) \
	X(T, 35, EndEnumExtents, uint64_t handle) \
	X(T, 36, Request, uint32_t req_code, uint32_t in_buffer_size, uint8_t *in_buffer, \
		uint32_t out_buffer_size, uint8_t *out_buffer) \
	X(T, 37, StartEnumAppDomains, uint64_t *handle) \
	X(T, 38, EnumAppDomain, uint64_t *handle, void **app_domain) \
	X(T, 39, EndEnumAppDomains, uint64_t handle) \
	X(T, 40, GetVersionId, struct com_guid *vid)
COM_INTERFACE(xclr_module, COM_XCLR_MODULE)

/* IXCLRDataMethodInstance */
#define COM_IID_XCLR_METHOD COM_GUID(0xECD73800, 0x22CA, 0x4B0D, 0xAB, 0x55, 0xE9, 0xBA, 0x7E, 0x63, 0x18, 0xA5)
#define COM_XCLR_METHOD(X, T) \
	X(T, 3, GetTypeInstance, void **type_instance) \
	X(T, 4, GetDefinition, void **method_definition) \
	X(T, 5, GetTokenAndScope, uint32_t *token, struct xclr_module **module) \
	X(T, 6, GetName, uint32_t flags, uint32_t buf_len, uint32_t *name_len, com_char *name_buf) \
	X(T, 7, GetFlags, uint32_t *flags) \
	X(T, 8, IsSameObject, struct xclr_method *method) \
	X(T, 9, GetEnCVersion, uint32_t *version) \
	X(T, 10, GetNumTypeArguments, uint32_t *num_type_args) \
	X(T, 11, GetTypeArgumentByIndex, uint32_t index, void **type_arg) \
	X(T, 12, GetILOffsetsByAddress, uint64_t address, uint32_t offsets_len, uint32_t *offsets_needed, \
		uint32_t *il_offsets) \
	X(T, 13, GetAddressRangesByILOffset, uint32_t il_offset, uint32_t ranges_len, \
		uint32_t *ranges_needed, void *address_ranges) \
	X(T, 14, GetILAddressMap, uint32_t map_len, uint32_t *map_needed, struct dacp_il_map *maps) \
	X(T, 15, StartEnumExtents, uint64_t *handle) \
	X(T, 16, EnumExtent, uint64_t *handle, void *extent) \
	X(T, 17, EndEnumExtents, uint64_t handle) \
	X(T, 18, Request, uint32_t req_code, uint32_t in_buffer_size, uint8_t *in_buffer, \
		uint32_t out_buffer_size, uint8_t *out_buffer) \
	X(T, 19, GetRepresentativeEntryAddress, uint64_t *address)
COM_INTERFACE(xclr_method, COM_XCLR_METHOD)

/* IXCLRDataTask */
#define COM_IID_XCLR_TASK COM_GUID(0xA5B0BEEA, 0xEC62, 0x4618, 0x80, 0x12, 0xA2, 0x4F, 0xFC, 0x23, 0x93, 0x4C)
#define COM_XCLR_TASK(X, T) \
	X(T, 3, GetProcess, struct xclr_process **process) \
	X(T, 4, GetCurrentAppDomain, void **app_domain) \
	X(T, 5, GetUniqueID, uint64_t *id) \
	X(T, 6, GetFlags, uint32_t *flags) \
	X(T, 7, IsSameObject, struct xclr_task *task) \
	X(T, 8, GetManagedObject, void **value) \
	X(T, 9, GetDesiredExecutionState, uint32_t *state) \
	X(T, 10, SetDesiredExecutionState, uint32_t state) \
	X(T, 11, CreateStackWalk, uint32_t flags, struct xclr_walk **stack_walk) \
	X(T, 12, GetOSThreadID, uint32_t *id) \
	X(T, 13, GetContext, uint32_t context_flags, uint32_t context_buf_size, uint32_t *context_size, \
		uint8_t *context_buf) \
	X(T, 14, SetContext, uint32_t context_size, uint8_t *context) \
	X(T, 15, GetCurrentExceptionState, void **exception) \
	X(T, 16, Request, uint32_t req_code, uint32_t in_buffer_size, uint8_t *in_buffer, \
		uint32_t out_buffer_size, uint8_t *out_buffer) \
	X(T, 17, GetName, uint32_t buf_len, uint32_t *name_len, com_char *name) \
	X(T, 18, GetLastExceptionState, void **exception)
COM_INTERFACE(xclr_task, COM_XCLR_TASK)

/* IXCLRDataStackWalk */
#define COM_IID_XCLR_WALK COM_GUID(0xE59D8D22, 0xADA7, 0x49A2, 0x89, 0xB5, 0xA4, 0x15, 0xAF, 0xCF, 0xC9, 0x5F)
#define COM_XCLR_WALK(X, T) \
	X(T, 3, GetContext, uint32_t context_flags, uint32_t context_buf_size, uint32_t *context_size, \
		uint8_t *context_buf) \
	X(T, 4, SetContext, uint32_t context_size, uint8_t *context) \
	X(T, 5, Next) \
	X(T, 6, GetStackSizeSkipped, uint64_t *stack_size_skipped) \
	X(T, 7, GetFrameType, void *simple_type, void *detailed_type) \
	X(T, 8, GetFrame, void **frame) \
	X(T, 9, Request, uint32_t req_code, uint32_t in_buffer_size, uint8_t *in_buffer, \
		uint32_t out_buffer_size, uint8_t *out_buffer) \
	X(T, 10, SetContext2, uint32_t flags, uint32_t context_size, uint8_t *context)
COM_INTERFACE(xclr_walk, COM_XCLR_WALK)

/* IXCLRDataValue */
#define COM_XCLR_VALUE(X, T) \
	X(T, 3, GetFlags, uint32_t *flags) \
	X(T, 4, GetAddress, uint64_t *address) \
	X(T, 5, GetSize, uint64_t *size) \
	X(T, 6, GetBytes, uint32_t buf_len, uint32_t *data_size, uint8_t *buffer)
COM_INTERFACE(xclr_value, COM_XCLR_VALUE)

/* IXCLRDataFrame */
#define COM_XCLR_FRAME(X, T) \
	X(T, 3, GetFrameType, void *simple_type, void *detailed_type) \
	X(T, 4, GetContext, uint32_t context_flags, uint32_t context_buf_size, uint32_t *context_size, \
		uint8_t *context_buf) \
	X(T, 5, GetAppDomain, void **app_domain) \
	X(T, 6, GetNumArguments, uint32_t *n) \
	X(T, 7, GetArgumentByIndex, uint32_t index, struct xclr_value **value, uint32_t buf_len, \
		uint32_t *name_len, com_char *name) \
	X(T, 8, GetNumLocalVariables, uint32_t *n) \
	X(T, 9, GetLocalVariableByIndex, uint32_t index, struct xclr_value **value, uint32_t buf_len, \
		uint32_t *name_len, com_char *name)
COM_INTERFACE(xclr_frame, COM_XCLR_FRAME)

/* ISOSHandleEnum */
#define COM_IID_SOS_HANDLE_ENUM COM_GUID(0x3E269830, 0x4A2B, 0x4301, 0x8E, 0xE2, 0xD6, 0x80, 0x5B, 0x29, 0xB2, 0xFA)
#define COM_SOS_HANDLE_ENUM(X, T) \
	X(T, 3, Skip, uint32_t count) \
	X(T, 4, Reset) \
	X(T, 5, GetCount, uint32_t *count) \
	X(T, 6, Next, uint32_t count, struct dacp_handle *handles, uint32_t *needed)
COM_INTERFACE(sos_handle_enum, COM_SOS_HANDLE_ENUM)

/* ISOSStackRefEnum */
#define COM_IID_SOS_REF_ENUM COM_GUID(0x8FA642BD, 0x9F10, 0x4799, 0x9A, 0xA3, 0x51, 0x2A, 0xE7, 0x8C, 0x77, 0xEE)
#define COM_SOS_REF_ENUM(X, T) \
	X(T, 3, Skip, uint32_t count) \
	X(T, 4, Reset) \
	X(T, 5, GetCount, uint32_t *count) \
	X(T, 6, Next, uint32_t count, struct dacp_stack_ref *ref, uint32_t *fetched) \
	X(T, 7, EnumerateErrors, void **ret_enum)
COM_INTERFACE(sos_ref_enum, COM_SOS_REF_ENUM)

/* ISOSDacInterface */
#define COM_IID_SOS COM_GUID(0x436F00F2, 0xB42A, 0x4B9F, 0x87, 0x0C, 0xE7, 0x3D, 0xB6, 0x6A, 0xE9, 0x30)
#define COM_SOS(X, T) \
	X(T, 3, GetThreadStoreData, struct dacp_thread_store *data) \
	X(T, 4, GetAppDomainStoreData, void *data) \
	X(T, 5, GetAppDomainList, uint32_t count, uint64_t *values, uint32_t *needed) \
	X(T, 6, GetAppDomainData, uint64_t address, void *data) \
	X(T, 7, GetAppDomainName, uint64_t address, uint32_t count, com_char *name, uint32_t *needed) \
	X(T, 8, GetDomainFromContext, uint64_t context, uint64_t *domain) \
	X(T, 9, GetAssemblyList, uint64_t app_domain, int32_t count, uint64_t *values, int32_t *needed) \
	X(T, 10, GetAssemblyData, uint64_t base_domain_ptr, uint64_t assembly, void *data) \
	X(T, 11, GetAssemblyName, uint64_t assembly, uint32_t count, com_char *name, uint32_t *needed) \
	X(T, 12, GetModule, uint64_t address, struct xclr_module **module) \
	X(T, 13, GetModuleData, uint64_t module_addr, struct dacp_module_data *data) \
	X(T, 14, TraverseModuleMap, uint32_t mmt, uint64_t module_addr, void *callback, void *token) \
	X(T, 15, GetAssemblyModuleList, uint64_t assembly, uint32_t count, uint64_t *modules, uint32_t *needed) \
	X(T, 16, GetILForModule, uint64_t module_addr, uint32_t rva, uint64_t *il) \
	X(T, 17, GetThreadData, uint64_t thread, struct dacp_thread_data *data) \
	X(T, 18, GetThreadFromThinlockID, uint32_t thin_lock_id, uint64_t *thread) \
	X(T, 19, GetStackLimits, uint64_t thread_ptr, uint64_t *lower, uint64_t *upper, uint64_t *fp) \
	X(T, 20, GetMethodDescData, uint64_t method_desc, uint64_t ip, struct dacp_method_desc *data, \
		uint32_t c_reverted_rejit_versions, void *rg_reverted_rejit_data, \
		uint32_t *pc_needed_reverted_rejit_data) \
	X(T, 21, GetMethodDescPtrFromIP, uint64_t ip, uint64_t *md) \
	X(T, 22, GetMethodDescName, uint64_t method_desc, uint32_t count, com_char *name, uint32_t *needed) \
	X(T, 23, GetMethodDescPtrFromFrame, uint64_t frame_addr, uint64_t *md) \
	X(T, 24, GetMethodDescFromToken, uint64_t module_addr, uint32_t token, uint64_t *method_desc) \
	X(T, 25, GetMethodDescTransparencyData, uint64_t method_desc, void *data) \
	X(T, 26, GetCodeHeaderData, uint64_t ip, struct dacp_code_header *data) \
	X(T, 27, GetJitManagerList, uint32_t count, void *managers, uint32_t *needed) \
	X(T, 28, GetJitHelperFunctionName, uint64_t ip, uint32_t count, char *name, uint32_t *needed) \
	X(T, 29, GetJumpThunkTarget, void *ctx, uint64_t *target_i_p, uint64_t *target_md) \
	X(T, 30, GetThreadpoolData, void *data) \
	X(T, 31, GetWorkRequestData, uint64_t addr_work_request, void *data) \
	X(T, 32, GetHillClimbingLogEntry, uint64_t address, void *data) \
	X(T, 33, GetObjectData, uint64_t obj_addr, struct dacp_object *data) \
	X(T, 34, GetObjectStringData, uint64_t obj, uint32_t count, com_char *string_data, uint32_t *needed) \
	X(T, 35, GetObjectClassName, uint64_t obj, uint32_t count, com_char *class_name, uint32_t *needed) \
	X(T, 36, GetMethodTableName, uint64_t mt, uint32_t count, com_char *mt_name, uint32_t *needed) \
	X(T, 37, GetMethodTableData, uint64_t mt, struct dacp_method_table *data) \
	X(T, 38, GetMethodTableSlot, uint64_t mt, uint32_t slot, uint64_t *value) \
	X(T, 39, GetMethodTableFieldData, uint64_t mt, struct dacp_mt_fields *data) \
	X(T, 40, GetMethodTableTransparencyData, uint64_t mt, void *data) \
	X(T, 41, GetMethodTableForEEClass, uint64_t ee_class, uint64_t *value) \
	X(T, 42, GetFieldDescData, uint64_t field_desc, struct dacp_field_desc *data) \
	X(T, 43, GetFrameName, uint64_t vtable, uint32_t count, com_char *frame_name, uint32_t *needed) \
	X(T, 44, GetPEFileBase, uint64_t address, uint64_t *base) \
	X(T, 45, GetPEFileName, uint64_t address, uint32_t count, com_char *file_name, uint32_t *needed) \
	X(T, 46, GetGCHeapData, struct dacp_gc_heap *data) \
	X(T, 47, GetGCHeapList, uint32_t count, uint64_t *heaps, uint32_t *needed) \
	X(T, 48, GetGCHeapDetails, uint64_t heap, struct dacp_heap_details *details) \
	X(T, 49, GetGCHeapStaticData, struct dacp_heap_details *data) \
	X(T, 50, GetHeapSegmentData, uint64_t seg, struct dacp_segment *data) \
	X(T, 51, GetOOMData, uint64_t oom_addr, void *data) \
	X(T, 52, GetOOMStaticData, void *data) \
	X(T, 53, GetHeapAnalyzeData, uint64_t address, void *data) \
	X(T, 54, GetHeapAnalyzeStaticData, void *data) \
	X(T, 55, GetDomainLocalModuleData, uint64_t address, void *data) \
	X(T, 56, GetDomainLocalModuleDataFromAppDomain, uint64_t app_domain_addr, int32_t module_id, void *data) \
	X(T, 57, GetDomainLocalModuleDataFromModule, uint64_t module_addr, void *data) \
	X(T, 58, GetThreadLocalModuleData, uint64_t thread, uint32_t index, void *data) \
	X(T, 59, GetSyncBlockData, uint32_t number, struct dacp_sync_block *data) \
	X(T, 60, GetSyncBlockCleanupData, uint64_t address, void *data) \
	X(T, 61, GetHandleEnum, struct sos_handle_enum **handle_enum) \
	X(T, 62, GetHandleEnumForTypes, uint32_t *types, uint32_t count, struct sos_handle_enum **handle_enum) \
	X(T, 63, GetHandleEnumForGC, uint32_t gen, struct sos_handle_enum **handle_enum) \
	X(T, 64, TraverseEHInfo, uint64_t ip, void *callback, void *token) \
	X(T, 65, GetNestedExceptionData, uint64_t exception, uint64_t *exception_object, \
		uint64_t *next_nested_exception) \
	X(T, 66, GetStressLogAddress, uint64_t *stress_log) \
	X(T, 67, TraverseLoaderHeap, uint64_t loader_heap_addr, void *callback) \
	X(T, 68, GetCodeHeapList, uint64_t jit_manager, uint32_t count, void *code_heaps, uint32_t *needed) \
	X(T, 69, TraverseVirtCallStubHeap, uint64_t app_domain, uint32_t heaptype, void *callback) \
	X(T, 70, GetUsefulGlobals, struct dacp_globals *data) \
	X(T, 71, GetClrWatsonBuckets, uint64_t thread, void *generic_mode_block) \
	X(T, 72, GetTLSIndex, uint32_t *index) \
	X(T, 73, GetDacModuleHandle, void **ph_module) \
	X(T, 74, GetRCWData, uint64_t address, void *data) \
	X(T, 75, GetRCWInterfaces, uint64_t rcw, uint32_t count, void *interfaces, uint32_t *needed) \
	X(T, 76, GetCCWData, uint64_t ccw, void *data) \
	X(T, 77, GetCCWInterfaces, uint64_t ccw, uint32_t count, void *interfaces, uint32_t *needed) \
	X(T, 78, TraverseRCWCleanupList, uint64_t cleanup_list_ptr, void *callback, void *token) \
	X(T, 79, GetStackReferences, uint32_t os_thread_id, struct sos_ref_enum **ret_enum) \
	X(T, 80, GetRegisterName, int32_t reg_name, uint32_t count, com_char *buffer, uint32_t *needed) \
	X(T, 81, GetThreadAllocData, uint64_t thread, void *data) \
	X(T, 82, GetHeapAllocData, uint32_t count, void *data, uint32_t *needed) \
	X(T, 83, GetFailedAssemblyList, uint64_t app_domain, int32_t count, uint64_t *values, uint32_t *needed) \
	X(T, 84, GetPrivateBinPaths, uint64_t app_domain, int32_t count, com_char *paths, uint32_t *needed) \
	X(T, 85, GetAssemblyLocation, uint64_t assembly, int32_t count, com_char *location, uint32_t *needed) \
	X(T, 86, GetAppDomainConfigFile, uint64_t app_domain, int32_t count, com_char *config_file, \
		uint32_t *needed) \
	X(T, 87, GetApplicationBase, uint64_t app_domain, int32_t count, com_char *base, uint32_t *needed) \
	X(T, 88, GetFailedAssemblyData, uint64_t assembly, uint32_t *context, com_hr *result) \
	X(T, 89, GetFailedAssemblyLocation, uint64_t assesmbly, uint32_t count, com_char *location, \
		uint32_t *needed) \
	X(T, 90, GetFailedAssemblyDisplayName, uint64_t assembly, uint32_t count, com_char *name, uint32_t *needed)
COM_INTERFACE(sos, COM_SOS)

/* ISOSDacInterface2 */
#define COM_IID_SOS2 COM_GUID(0xA16026EC, 0x96F4, 0x40BA, 0x87, 0xFB, 0x55, 0x75, 0x98, 0x6F, 0xB7, 0xAF)
#define COM_SOS2(X, T) \
	X(T, 3, GetObjectExceptionData, uint64_t obj_addr, struct dacp_exception *data) \
	X(T, 4, IsRCWDCOMProxy, uint64_t rcw_addr, com_bool *is_d_c_o_m_proxy)
COM_INTERFACE(sos2, COM_SOS2)

/* ISOSDacInterface5 */
#define COM_IID_SOS5 COM_GUID(0x127D6ABE, 0x6C86, 0x4E48, 0x8E, 0x7B, 0x22, 0x07, 0x81, 0xC5, 0x81, 0x01)
#define COM_SOS5(X, T) \
	X(T, 3, GetTieredVersions, uint64_t method_desc, int32_t rejit_id, struct dacp_version *versions, \
		int32_t count, int32_t *needed)
COM_INTERFACE(sos5, COM_SOS5)

/* ISOSDacInterface6 */
#define COM_IID_SOS6 COM_GUID(0x11206399, 0x4B66, 0x4EDB, 0x98, 0xEA, 0x85, 0x65, 0x4E, 0x59, 0xAD, 0x45)
#define COM_SOS6(X, T) \
	X(T, 3, GetMethodTableCollectibleData, uint64_t mt, void *data)
COM_INTERFACE(sos6, COM_SOS6)

/* ISOSDacInterface8 */
#define COM_IID_SOS8 COM_GUID(0xC12F35A9, 0xE55C, 0x4520, 0xA8, 0x94, 0xB3, 0xDC, 0x51, 0x65, 0xDF, 0xCE)
#define COM_SOS8(X, T) \
	X(T, 3, GetNumberGenerations, uint32_t *generations) \
	X(T, 4, GetGenerationTable, uint32_t c_generations, struct dacp_generation *generation_data, \
		uint32_t *needed) \
	X(T, 5, GetFinalizationFillPointers, uint32_t c_fill_pointers, uint64_t *finalization_fill_pointers, \
		uint32_t *needed) \
	X(T, 6, GetGenerationTableSvr, uint64_t heap_addr, uint32_t c_generations, \
		struct dacp_generation *generation_data, uint32_t *needed) \
	X(T, 7, GetFinalizationFillPointersSvr, uint64_t heap_addr, uint32_t c_fill_pointers, \
		uint64_t *finalization_fill_pointers, uint32_t *needed) \
	X(T, 8, GetAssemblyLoadContext, uint64_t method_table, uint64_t *assembly_load_context)
COM_INTERFACE(sos8, COM_SOS8)

/* ISOSDacInterface9 */
#define COM_IID_SOS9 COM_GUID(0x4ECA42D8, 0x7E7B, 0x4C8A, 0xA1, 0x16, 0x7B, 0xFB, 0xF6, 0x92, 0x92, 0x67)
#define COM_SOS9(X, T) \
	X(T, 3, GetBreakingChangeVersion, int32_t *version)
COM_INTERFACE(sos9, COM_SOS9)

/* ISOSDacInterface12 */
#define COM_IID_SOS12 COM_GUID(0x1B93BACC, 0x8CA4, 0x432D, 0x94, 0x3A, 0x3E, 0x6E, 0x7E, 0xC0, 0xB0, 0xA3)
#define COM_SOS12(X, T) \
	X(T, 3, GetGlobalAllocationContext, uint64_t *alloc_ptr, uint64_t *alloc_limit)
COM_INTERFACE(sos12, COM_SOS12)

/* ISOSDacInterface13 */
#define COM_IID_SOS13 COM_GUID(0x3176A8ED, 0x597B, 0x4F54, 0xA7, 0x1F, 0x83, 0x69, 0x5C, 0x6A, 0x8C, 0x5E)
#define COM_SOS13(X, T) \
	X(T, 3, TraverseLoaderHeap, uint64_t loader_heap_addr, uint32_t kind, void *callback) \
	X(T, 4, GetDomainLoaderAllocator, uint64_t domain_address, uint64_t *loader_allocator) \
	X(T, 5, GetLoaderAllocatorHeapNames, int32_t count, char **names, int32_t *needed) \
	X(T, 6, GetLoaderAllocatorHeaps, uint64_t loader_allocator, int32_t count, uint64_t *loader_heaps, \
		void *kinds, int32_t *needed) \
	X(T, 7, GetHandleTableMemoryRegions, void **ret_enum) \
	X(T, 8, GetGCBookkeepingMemoryRegions, void **ret_enum) \
	X(T, 9, GetGCFreeRegions, void **ret_enum) \
	X(T, 10, LockedFlush)
COM_INTERFACE(sos13, COM_SOS13)

/* ISOSDacInterface14 */
#define COM_IID_SOS14 COM_GUID(0x9AA22ACA, 0x6DC6, 0x4A0C, 0xB4, 0xE0, 0x70, 0xD2, 0x41, 0x6B, 0x98, 0x37)
#define COM_SOS14(X, T) \
	X(T, 3, GetStaticBaseAddress, uint64_t method_table, uint64_t *non_g_c_statics_address, \
		uint64_t *g_c_statics_address) \
	X(T, 4, GetThreadStaticBaseAddress, uint64_t method_table, uint64_t thread, \
		uint64_t *non_g_c_statics_address, uint64_t *g_c_statics_address) \
	X(T, 5, GetMethodTableInitializationFlags, uint64_t method_table, void *initialization_status)
COM_INTERFACE(sos14, COM_SOS14)

/* clang-format on */
