/* Layouts of the runtime's native events, one line each: id, name, fields as "Name:type". A field list may end before
 * the payload does (bulk data); a payload may end before the list does (older versions). */

#include "base/arena.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include <string.h>

struct clr_layout {
	uint32_t id;
	const char *name, *fields;
};

static const struct clr_layout runtime_events[] = {
	{ 1, "GCStart", "Count:u32 Depth:u32 Reason:u32 Type:u32 ClrInstanceID:u16 ClientSequenceNumber:u64" },
	{ 2, "GCEnd", "Count:u32 Depth:u32 ClrInstanceID:u16" },
	{ 3, "GCRestartEEEnd", "ClrInstanceID:u16" },
	{ 4, "GCHeapStats",
	  "GenerationSize0:u64 TotalPromotedSize0:u64 GenerationSize1:u64 TotalPromotedSize1:u64 GenerationSize2:u64 "
	  "TotalPromotedSize2:u64 GenerationSize3:u64 TotalPromotedSize3:u64 FinalizationPromotedSize:u64 "
	  "FinalizationPromotedCount:u64 PinnedObjectCount:u32 SinkBlockCount:u32 GCHandleCount:u32 ClrInstanceID:u16 "
	  "GenerationSize4:u64 TotalPromotedSize4:u64" },
	{ 7, "GCRestartEEBegin", "ClrInstanceID:u16" },
	{ 8, "GCSuspendEEEnd", "ClrInstanceID:u16" },
	{ 9, "GCSuspendEEBegin", "Reason:u32 Count:u32 ClrInstanceID:u16" },
	{ 10, "GCAllocationTick",
	  "AllocationAmount:u32 AllocationKind:u32 ClrInstanceID:u16 AllocationAmount64:u64 TypeID:u64 TypeName:str "
	  "HeapIndex:u32 Address:u64 ObjectSize:u64" },
	{ 13, "GCFinalizersEnd", "Count:u32 ClrInstanceID:u16" },
	{ 14, "GCFinalizersBegin", "ClrInstanceID:u16" },
	{ 15, "BulkType", "Count:u32 ClrInstanceID:u16" },
	{ 16, "GCBulkRootEdge", "Index:u32 Count:u32 ClrInstanceID:u16" },
	{ 18, "GCBulkNode", "Index:u32 Count:u32 ClrInstanceID:u16" },
	{ 19, "GCBulkEdge", "Index:u32 Count:u32 ClrInstanceID:u16" },
	{ 33, "PinObjectAtGCTime", "HandleID:u64 ObjectID:u64 ObjectSize:u64 TypeName:str ClrInstanceID:u16" },
	{ 35, "GCTriggered", "Reason:u32 ClrInstanceID:u16" },
	{ 50, "ThreadPoolWorkerThreadStart",
	  "ActiveWorkerThreadCount:u32 RetiredWorkerThreadCount:u32 ClrInstanceID:u16" },
	{ 51, "ThreadPoolWorkerThreadStop",
	  "ActiveWorkerThreadCount:u32 RetiredWorkerThreadCount:u32 ClrInstanceID:u16" },
	{ 54, "ThreadPoolWorkerThreadAdjustmentSample", "Throughput:f64 ClrInstanceID:u16" },
	{ 55, "ThreadPoolWorkerThreadAdjustment",
	  "AverageThroughput:f64 NewWorkerThreadCount:u32 Reason:u32 ClrInstanceID:u16" },
	{ 56, "ThreadPoolWorkerThreadAdjustmentStats",
	  "Duration:f64 Throughput:f64 ThreadPoolWorkerThreadWait:f64 ThroughputWave:f64 ThroughputErrorEstimate:f64 "
	  "AverageThroughputErrorEstimate:f64 ThroughputRatio:f64 Confidence:f64 NewControlSetting:f64 "
	  "NewThreadWaveMagnitude:u16 ClrInstanceID:u16" },
	{ 57, "ThreadPoolWorkerThreadWait",
	  "ActiveWorkerThreadCount:u32 RetiredWorkerThreadCount:u32 ClrInstanceID:u16" },
	{ 58, "YieldProcessorMeasurement", "ClrInstanceID:u16 NsPerYield:f64 EstablishedNsPerYield:f64" },
	{ 61, "ThreadPoolEnqueue", "WorkID:u64 ClrInstanceID:u16" },
	{ 62, "ThreadPoolDequeue", "WorkID:u64 ClrInstanceID:u16" },
	{ 70, "ThreadCreating", "ID:u64 ClrInstanceID:u16" },
	{ 71, "ThreadRunning", "ID:u64 ClrInstanceID:u16" },
	{ 80, "ExceptionThrown",
	  "ExceptionType:str ExceptionMessage:str ExceptionEIP:u64 ExceptionHRESULT:u32 ExceptionFlags:u16 "
	  "ClrInstanceID:u16" },
	{ 81, "ContentionStart",
	  "ContentionFlags:u8 ClrInstanceID:u16 LockID:u64 AssociatedObjectID:u64 LockOwnerThreadID:u64" },
	{ 85, "ThreadCreated",
	  "ManagedThreadID:u64 AppDomainID:u64 Flags:u32 ManagedThreadIndex:u32 OSThreadID:u32 ClrInstanceID:u16" },
	{ 90, "ContentionLockCreated", "LockID:u64 AssociatedObjectID:u64 ClrInstanceID:u16" },
	{ 91, "ContentionStop", "ContentionFlags:u8 ClrInstanceID:u16 DurationNs:f64" },
	{ 141, "MethodLoad",
	  "MethodID:u64 ModuleID:u64 MethodStartAddress:u64 MethodSize:u32 MethodToken:u32 MethodFlags:u32 "
	  "ClrInstanceID:u16" },
	{ 143, "MethodLoadVerbose",
	  "MethodID:u64 ModuleID:u64 MethodStartAddress:u64 MethodSize:u32 MethodToken:u32 MethodFlags:u32 "
	  "MethodNamespace:str MethodName:str MethodSignature:str ClrInstanceID:u16 ReJITID:u64" },
	{ 144, "MethodUnloadVerbose",
	  "MethodID:u64 ModuleID:u64 MethodStartAddress:u64 MethodSize:u32 MethodToken:u32 MethodFlags:u32 "
	  "MethodNamespace:str MethodName:str MethodSignature:str ClrInstanceID:u16 ReJITID:u64" },
	{ 145, "MethodJittingStarted",
	  "MethodID:u64 ModuleID:u64 MethodToken:u32 MethodILSize:u32 MethodNamespace:str MethodName:str "
	  "MethodSignature:str ClrInstanceID:u16" },
	{ 146, "MethodJitMemoryAllocatedForCode",
	  "MethodID:u64 ModuleID:u64 JitHotCodeRequestSize:u64 JitRODataRequestSize:u64 AllocatedSizeForJitCode:u64 "
	  "JitAllocFlag:u32 ClrInstanceID:u16" },
	{ 151, "DomainModuleLoad",
	  "ModuleID:u64 AssemblyID:u64 AppDomainID:u64 ModuleFlags:u32 Reserved1:u32 ModuleILPath:str "
	  "ModuleNativePath:str "
	  "ClrInstanceID:u16" },
	{ 152, "ModuleLoad",
	  "ModuleID:u64 AssemblyID:u64 ModuleFlags:u32 Reserved1:u32 ModuleILPath:str ModuleNativePath:str "
	  "ClrInstanceID:u16" },
	{ 153, "ModuleUnload",
	  "ModuleID:u64 AssemblyID:u64 ModuleFlags:u32 Reserved1:u32 ModuleILPath:str ModuleNativePath:str "
	  "ClrInstanceID:u16" },
	{ 154, "AssemblyLoad",
	  "AssemblyID:u64 AppDomainID:u64 BindingID:u64 AssemblyFlags:u32 FullyQualifiedAssemblyName:str "
	  "ClrInstanceID:u16" },
	{ 155, "AssemblyUnload",
	  "AssemblyID:u64 AppDomainID:u64 BindingID:u64 AssemblyFlags:u32 FullyQualifiedAssemblyName:str "
	  "ClrInstanceID:u16" },
	{ 156, "AppDomainLoad",
	  "AppDomainID:u64 AppDomainFlags:u32 AppDomainName:str AppDomainIndex:u32 ClrInstanceID:u16" },
	{ 202, "GCMarkWithType", "HeapNum:u32 ClrInstanceID:u16 Type:u32 Bytes:u64" },
	{ 205, "GCGlobalHeapHistory",
	  "FinalYoungestDesired:u64 NumHeaps:u32 CondemnedGeneration:u32 Gen0ReductionCount:u32 Reason:u32 "
	  "GlobalMechanisms:u32 ClrInstanceID:u16 PauseMode:u32 MemoryPressure:u32 CondemnReasons0:u32 "
	  "CondemnReasons1:u32" },
	{ 250, "ExceptionCatchStart", "EntryEIP:u64 MethodID:u64 MethodName:str ClrInstanceID:u16" },
	{ 251, "ExceptionCatchStop", "" },
	{ 252, "ExceptionFinallyStart", "EntryEIP:u64 MethodID:u64 MethodName:str ClrInstanceID:u16" },
	{ 253, "ExceptionFinallyStop", "" },
	{ 254, "ExceptionFilterStart", "EntryEIP:u64 MethodID:u64 MethodName:str ClrInstanceID:u16" },
	{ 255, "ExceptionFilterStop", "" },
	{ 256, "ExceptionThrownStop", "" },
	{ 290, "AssemblyLoadStart",
	  "ClrInstanceID:u16 AssemblyName:str AssemblyPath:str RequestingAssembly:str AssemblyLoadContext:str "
	  "RequestingAssemblyLoadContext:str" },
	{ 291, "AssemblyLoadStop",
	  "ClrInstanceID:u16 AssemblyName:str AssemblyPath:str RequestingAssembly:str AssemblyLoadContext:str "
	  "RequestingAssemblyLoadContext:str Success:b32 ResultAssemblyName:str ResultAssemblyPath:str Cached:b32" },
	{ 292, "ResolutionAttempted",
	  "ClrInstanceID:u16 AssemblyName:str Stage:u16 AssemblyLoadContext:str Result:u16 ResultAssemblyName:str "
	  "ResultAssemblyPath:str ErrorMessage:str" },
	{ 301, "WaitHandleWaitStart", "WaitSource:u8 AssociatedObjectID:u64 ClrInstanceID:u16" },
	{ 302, "WaitHandleWaitStop", "ClrInstanceID:u16" },
	{ 303, "AllocationSampled",
	  "AllocationKind:u32 ClrInstanceID:u16 TypeID:u64 TypeName:str Address:u64 ObjectSize:u64 "
	  "SampledByteOffset:u64" },
};

static const struct clr_layout rundown_events[] = {
	{ 10, "GCSettings", "" },
	{ 143, "MethodDCStartVerbose",
	  "MethodID:u64 ModuleID:u64 MethodStartAddress:u64 MethodSize:u32 MethodToken:u32 MethodFlags:u32 "
	  "MethodNamespace:str MethodName:str MethodSignature:str ClrInstanceID:u16 ReJITID:u64" },
	{ 144, "MethodDCEndVerbose",
	  "MethodID:u64 ModuleID:u64 MethodStartAddress:u64 MethodSize:u32 MethodToken:u32 MethodFlags:u32 "
	  "MethodNamespace:str MethodName:str MethodSignature:str ClrInstanceID:u16 ReJITID:u64" },
	{ 145, "DCStartComplete", "ClrInstanceID:u16" },
	{ 146, "DCEndComplete", "ClrInstanceID:u16" },
	{ 147, "DCStartInit", "ClrInstanceID:u16" },
	{ 148, "DCEndInit", "ClrInstanceID:u16" },
	{ 150, "MethodDCEndILToNativeMap", "MethodID:u64 ReJITID:u64 MethodExtent:u8 CountOfMapEntries:u16" },
	{ 152, "DomainModuleDCEnd",
	  "ModuleID:u64 AssemblyID:u64 AppDomainID:u64 ModuleFlags:u32 Reserved1:u32 ModuleILPath:str "
	  "ModuleNativePath:str ClrInstanceID:u16" },
	{ 154, "ModuleDCEnd",
	  "ModuleID:u64 AssemblyID:u64 ModuleFlags:u32 Reserved1:u32 ModuleILPath:str ModuleNativePath:str "
	  "ClrInstanceID:u16" },
	{ 156, "AssemblyDCEnd",
	  "AssemblyID:u64 AppDomainID:u64 BindingID:u64 AssemblyFlags:u32 FullyQualifiedAssemblyName:str "
	  "ClrInstanceID:u16" },
	{ 158, "AppDomainDCEnd",
	  "AppDomainID:u64 AppDomainFlags:u32 AppDomainName:str AppDomainIndex:u32 ClrInstanceID:u16" },
	{ 187, "RuntimeInformation",
	  "ClrInstanceID:u16 Sku:u16 BclMajorVersion:u16 BclMinorVersion:u16 BclBuildNumber:u16 BclQfeNumber:u16 "
	  "VMMajorVersion:u16 VMMinorVersion:u16 VMBuildNumber:u16 VMQfeNumber:u16 StartupFlags:u32 StartupMode:u8 "
	  "CommandLine:str" },
};

static const struct clr_layout sample_events[] = { { 0, "ThreadSample", "Type:u32" } };

static const struct {
	const char *provider;
	const struct clr_layout *events;
	size_t n;
} providers[] = {
	{ CLR_PROVIDER, runtime_events, ARRAY_SIZE(runtime_events) },
	{ CLR_RUNDOWN_PROVIDER, rundown_events, ARRAY_SIZE(rundown_events) },
	{ CLR_SAMPLE_PROVIDER, sample_events, ARRAY_SIZE(sample_events) },
};

static enum nettrace_type type_of(const char *word, size_t len)
{
	static const struct {
		const char *word;
		enum nettrace_type type;
	} types[] = { { "u8", NETTRACE_U8 },	 { "u16", NETTRACE_U16 }, { "u32", NETTRACE_U32 },
		      { "u64", NETTRACE_U64 },	 { "f64", NETTRACE_F64 }, { "str", NETTRACE_UTF16Z },
		      { "b32", NETTRACE_BOOL32 } };
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strlen(types[i].word) == len && !memcmp(types[i].word, word, len))
			return types[i].type;
	}
	return NETTRACE_U8;
}

/* Built once for each line that is met and kept for the life of the process: the tables are small. */
static struct arena table_arena;
static struct nettrace_field *cache[ARRAY_SIZE(providers)][ARRAY_SIZE(runtime_events)];
static size_t cache_n[ARRAY_SIZE(providers)][ARRAY_SIZE(runtime_events)];

static struct nettrace_field *parse_fields(const char *text, size_t *ret_n)
{
	size_t n = 0;
	for (const char *p = text; (p = strchr(p, ':')); p++)
		n++;
	struct nettrace_field *fields = arena_zalloc(&table_arena, n * sizeof(*fields) + 1);
	for (size_t i = 0; i < n; i++) {
		size_t name_len = strcspn(text, ":"), type_len = strcspn(text + name_len + 1, " ");
		fields[i].name = arena_strndup(&table_arena, text, name_len);
		fields[i].type = type_of(text + name_len + 1, type_len);
		text += name_len + 1 + type_len;
		text += strspn(text, " ");
	}
	*ret_n = n;
	return fields;
}

bool clr_describe(struct nettrace_meta *meta)
{
	for (size_t p = 0; p < ARRAY_SIZE(providers); p++) {
		if (!str_eq(meta->provider, providers[p].provider))
			continue;
		for (size_t i = 0; i < providers[p].n; i++) {
			const struct clr_layout *layout = &providers[p].events[i];
			if (layout->id != meta->event_id)
				continue;
			if (!cache[p][i])
				cache[p][i] = parse_fields(layout->fields, &cache_n[p][i]);
			meta->name = layout->name;
			meta->fields = cache[p][i];
			meta->n_fields = cache_n[p][i];
			return true;
		}
	}
	return false;
}
