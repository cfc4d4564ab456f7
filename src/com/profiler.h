#pragma once
/* The interfaces of a profiler in the runtime: ICorProfilerCallback up to 11, which the runtime calls, and
 * ICorProfilerInfo up to 10, which it offers (.NET 5 and later). Slots are frozen by the runtime. All identifiers are
 * machine words; parameters of types that are not used here are untyped pointers. */

#include "com/com.h"

#define COM_IID_CLASS_FACTORY COM_GUID(0x00000001, 0x0000, 0x0000, 0xC0, 0, 0, 0, 0, 0, 0, 0x46)
#define COM_IID_COR_PROFILER_INFO COM_GUID(0x2F1B5152, 0xC869, 0x40C9, 0xAA, 0x5F, 0x3A, 0xBE, 0x02, 0x6B, 0xD7, 0x20)
#define COM_IID_COR_PROFILER_THREAD_ENUM                                                                               \
	COM_GUID(0x571194F7, 0x25ED, 0x419F, 0xAA, 0x8B, 0x70, 0x16, 0xB3, 0x15, 0x97, 0x01)

/* Answers of ICorProfilerInfo. */
#define COR_E_SUSPENSION_IN_PROGRESS ((com_hr)0x80131388)
#define COR_E_NOT_YET_INITIALIZED ((com_hr)0x80131373)

#define COM_CLASS_FACTORY(X, T)                                                                                        \
	X(T, 3, CreateInstance, void *outer, const struct com_guid *iid, void **ret)                                   \
	X(T, 4, LockServer, com_bool lock)
COM_INTERFACE(com_class_factory, COM_CLASS_FACTORY)

#define COR_PROFILER_CALLBACK(X, T)                                                                                    \
	X(T, 3, Initialize, void *)                                                                                    \
	X(T, 4, Shutdown)                                                                                              \
	X(T, 5, AppDomainCreationStarted, uintptr_t)                                                                   \
	X(T, 6, AppDomainCreationFinished, uintptr_t, com_hr)                                                          \
	X(T, 7, AppDomainShutdownStarted, uintptr_t)                                                                   \
	X(T, 8, AppDomainShutdownFinished, uintptr_t, com_hr)                                                          \
	X(T, 9, AssemblyLoadStarted, uintptr_t)                                                                        \
	X(T, 10, AssemblyLoadFinished, uintptr_t, com_hr)                                                              \
	X(T, 11, AssemblyUnloadStarted, uintptr_t)                                                                     \
	X(T, 12, AssemblyUnloadFinished, uintptr_t, com_hr)                                                            \
	X(T, 13, ModuleLoadStarted, uintptr_t)                                                                         \
	X(T, 14, ModuleLoadFinished, uintptr_t, com_hr)                                                                \
	X(T, 15, ModuleUnloadStarted, uintptr_t)                                                                       \
	X(T, 16, ModuleUnloadFinished, uintptr_t, com_hr)                                                              \
	X(T, 17, ModuleAttachedToAssembly, uintptr_t, uintptr_t)                                                       \
	X(T, 18, ClassLoadStarted, uintptr_t)                                                                          \
	X(T, 19, ClassLoadFinished, uintptr_t, com_hr)                                                                 \
	X(T, 20, ClassUnloadStarted, uintptr_t)                                                                        \
	X(T, 21, ClassUnloadFinished, uintptr_t, com_hr)                                                               \
	X(T, 22, FunctionUnloadStarted, uintptr_t)                                                                     \
	X(T, 23, JITCompilationStarted, uintptr_t, int32_t)                                                            \
	X(T, 24, JITCompilationFinished, uintptr_t, com_hr, int32_t)                                                   \
	X(T, 25, JITCachedFunctionSearchStarted, uintptr_t, int32_t *)                                                 \
	X(T, 26, JITCachedFunctionSearchFinished, uintptr_t, uint32_t)                                                 \
	X(T, 27, JITFunctionPitched, uintptr_t)                                                                        \
	X(T, 28, JITInlining, uintptr_t, uintptr_t, int32_t *)                                                         \
	X(T, 29, ThreadCreated, uintptr_t)                                                                             \
	X(T, 30, ThreadDestroyed, uintptr_t)                                                                           \
	X(T, 31, ThreadAssignedToOSThread, uintptr_t, uint32_t)                                                        \
	X(T, 32, RemotingClientInvocationStarted)                                                                      \
	X(T, 33, RemotingClientSendingMessage, struct com_guid *, int32_t)                                             \
	X(T, 34, RemotingClientReceivingReply, struct com_guid *, int32_t)                                             \
	X(T, 35, RemotingClientInvocationFinished)                                                                     \
	X(T, 36, RemotingServerReceivingMessage, struct com_guid *, int32_t)                                           \
	X(T, 37, RemotingServerInvocationStarted)                                                                      \
	X(T, 38, RemotingServerInvocationReturned)                                                                     \
	X(T, 39, RemotingServerSendingReply, struct com_guid *, int32_t)                                               \
	X(T, 40, UnmanagedToManagedTransition, uintptr_t, uint32_t)                                                    \
	X(T, 41, ManagedToUnmanagedTransition, uintptr_t, uint32_t)                                                    \
	X(T, 42, RuntimeSuspendStarted, uint32_t)                                                                      \
	X(T, 43, RuntimeSuspendFinished)                                                                               \
	X(T, 44, RuntimeSuspendAborted)                                                                                \
	X(T, 45, RuntimeResumeStarted)                                                                                 \
	X(T, 46, RuntimeResumeFinished)                                                                                \
	X(T, 47, RuntimeThreadSuspended, uintptr_t)                                                                    \
	X(T, 48, RuntimeThreadResumed, uintptr_t)                                                                      \
	X(T, 49, MovedReferences, uint32_t, uintptr_t *, uintptr_t *, uint32_t *)                                      \
	X(T, 50, ObjectAllocated, uintptr_t, uintptr_t)                                                                \
	X(T, 51, ObjectsAllocatedByClass, uint32_t, uintptr_t *, uint32_t *)                                           \
	X(T, 52, ObjectReferences, uintptr_t, uintptr_t, uint32_t, uintptr_t *)                                        \
	X(T, 53, RootReferences, uint32_t, uintptr_t *)                                                                \
	X(T, 54, ExceptionThrown, uintptr_t)                                                                           \
	X(T, 55, ExceptionSearchFunctionEnter, uintptr_t)                                                              \
	X(T, 56, ExceptionSearchFunctionLeave)                                                                         \
	X(T, 57, ExceptionSearchFilterEnter, uintptr_t)                                                                \
	X(T, 58, ExceptionSearchFilterLeave)                                                                           \
	X(T, 59, ExceptionSearchCatcherFound, uintptr_t)                                                               \
	X(T, 60, ExceptionOSHandlerEnter, uintptr_t)                                                                   \
	X(T, 61, ExceptionOSHandlerLeave, uintptr_t)                                                                   \
	X(T, 62, ExceptionUnwindFunctionEnter, uintptr_t)                                                              \
	X(T, 63, ExceptionUnwindFunctionLeave)                                                                         \
	X(T, 64, ExceptionUnwindFinallyEnter, uintptr_t)                                                               \
	X(T, 65, ExceptionUnwindFinallyLeave)                                                                          \
	X(T, 66, ExceptionCatcherEnter, uintptr_t, uintptr_t)                                                          \
	X(T, 67, ExceptionCatcherLeave)                                                                                \
	X(T, 68, COMClassicVTableCreated, uintptr_t, const struct com_guid *, void *, uint32_t)                        \
	X(T, 69, COMClassicVTableDestroyed, uintptr_t, const struct com_guid *, void *)                                \
	X(T, 70, ExceptionCLRCatcherFound)                                                                             \
	X(T, 71, ExceptionCLRCatcherExecute)                                                                           \
	X(T, 72, ThreadNameChanged, uintptr_t, uint32_t, com_char *)                                                   \
	X(T, 73, GarbageCollectionStarted, int, int32_t *, uint32_t)                                                   \
	X(T, 74, SurvivingReferences, uint32_t, uintptr_t *, uint32_t *)                                               \
	X(T, 75, GarbageCollectionFinished)                                                                            \
	X(T, 76, FinalizeableObjectQueued, uint32_t, uintptr_t)                                                        \
	X(T, 77, RootReferences2, uint32_t, uintptr_t *, void *, void *, uintptr_t *)                                  \
	X(T, 78, HandleCreated, uintptr_t, uintptr_t)                                                                  \
	X(T, 79, HandleDestroyed, uintptr_t)                                                                           \
	X(T, 80, InitializeForAttach, void *, void *, uint32_t)                                                        \
	X(T, 81, ProfilerAttachComplete)                                                                               \
	X(T, 82, ProfilerDetachSucceeded)                                                                              \
	X(T, 83, ReJITCompilationStarted, uintptr_t, uintptr_t, int32_t)                                               \
	X(T, 84, GetReJITParameters, uintptr_t, uint32_t, void *)                                                      \
	X(T, 85, ReJITCompilationFinished, uintptr_t, uintptr_t, com_hr, int32_t)                                      \
	X(T, 86, ReJITError, uintptr_t, uint32_t, uintptr_t, com_hr)                                                   \
	X(T, 87, MovedReferences2, uint32_t, uintptr_t *, uintptr_t *, size_t *)                                       \
	X(T, 88, SurvivingReferences2, uint32_t, uintptr_t *, size_t *)                                                \
	X(T, 89, ConditionalWeakTableElementReferences, uint32_t, uintptr_t *, uintptr_t *, uintptr_t *)               \
	X(T, 90, GetAssemblyReferences, const com_char *, void *)                                                      \
	X(T, 91, ModuleInMemorySymbolsUpdated, uintptr_t)                                                              \
	X(T, 92, DynamicMethodJITCompilationStarted, uintptr_t, int32_t, const uint8_t *, uint32_t)                    \
	X(T, 93, DynamicMethodJITCompilationFinished, uintptr_t, com_hr, int32_t)                                      \
	X(T, 94, DynamicMethodUnloaded, uintptr_t)                                                                     \
	X(T, 95, EventPipeEventDelivered, uintptr_t, uint32_t, uint32_t, uint32_t, const uint8_t *, uint32_t,          \
	  const uint8_t *, const struct com_guid *, const struct com_guid *, uintptr_t, uint32_t, uintptr_t *)         \
	X(T, 96, EventPipeProviderCreated, uintptr_t)                                                                  \
	X(T, 97, LoadAsNotificationOnly, int32_t *)
COM_INTERFACE(cor_profiler_callback, COR_PROFILER_CALLBACK)

#define COR_PROFILER_INFO(X, T)                                                                                        \
	X(T, 3, GetClassFromObject, uintptr_t, uintptr_t *)                                                            \
	X(T, 4, GetClassFromToken, uintptr_t, uint32_t, uintptr_t *)                                                   \
	X(T, 5, GetCodeInfo, uintptr_t, const uint8_t **, uint32_t *)                                                  \
	X(T, 6, GetEventMask, uint32_t *)                                                                              \
	X(T, 7, GetFunctionFromIP, const uint8_t *, uintptr_t *)                                                       \
	X(T, 8, GetFunctionFromToken, uintptr_t, uint32_t, uintptr_t *)                                                \
	X(T, 9, GetHandleFromThread, uintptr_t, void *)                                                                \
	X(T, 10, GetObjectSize, uintptr_t, uint32_t *)                                                                 \
	X(T, 11, IsArrayClass, uintptr_t, void *, uintptr_t *, uint32_t *)                                             \
	X(T, 12, GetThreadInfo, uintptr_t, uint32_t *)                                                                 \
	X(T, 13, GetCurrentThreadID, uintptr_t *)                                                                      \
	X(T, 14, GetClassIDInfo, uintptr_t, uintptr_t *, uint32_t *)                                                   \
	X(T, 15, GetFunctionInfo, uintptr_t, uintptr_t *, uintptr_t *, uint32_t *)                                     \
	X(T, 16, SetEventMask, uint32_t)                                                                               \
	X(T, 17, SetEnterLeaveFunctionHooks, void *, void *, void *)                                                   \
	X(T, 18, SetFunctionIDMapper, void *)                                                                          \
	X(T, 19, GetTokenAndMetaDataFromFunction, uintptr_t, const struct com_guid *, void **, uint32_t *)             \
	X(T, 20, GetModuleInfo, uintptr_t, const uint8_t **, uint32_t, uint32_t *, com_char *, uintptr_t *)            \
	X(T, 21, GetModuleMetaData, uintptr_t, uint32_t, const struct com_guid *, void **)                             \
	X(T, 22, GetILFunctionBody, uintptr_t, uint32_t, const uint8_t **, uint32_t *)                                 \
	X(T, 23, GetILFunctionBodyAllocator, uintptr_t, void **)                                                       \
	X(T, 24, SetILFunctionBody, uintptr_t, uint32_t, const uint8_t *)                                              \
	X(T, 25, GetAppDomainInfo, uintptr_t, uint32_t, uint32_t *, com_char *, uintptr_t *)                           \
	X(T, 26, GetAssemblyInfo, uintptr_t, uint32_t, uint32_t *, com_char *, uintptr_t *, uintptr_t *)               \
	X(T, 27, SetFunctionReJIT, uintptr_t)                                                                          \
	X(T, 28, ForceGC)                                                                                              \
	X(T, 29, SetILInstrumentedCodeMap, uintptr_t, int32_t, uint32_t, void *)                                       \
	X(T, 30, GetInprocInspectionInterface, void **)                                                                \
	X(T, 31, GetInprocInspectionIThisThread, void **)                                                              \
	X(T, 32, GetThreadContext, uintptr_t, uintptr_t *)                                                             \
	X(T, 33, BeginInprocDebugging, int32_t, uint32_t *)                                                            \
	X(T, 34, EndInprocDebugging, uint32_t)                                                                         \
	X(T, 35, GetILToNativeMapping, uintptr_t, uint32_t, uint32_t *, void *)                                        \
	X(T, 36, DoStackSnapshot, uintptr_t, void *, uint32_t, void *, uint8_t *, uint32_t)                            \
	X(T, 37, SetEnterLeaveFunctionHooks2, void *, void *, void *)                                                  \
	X(T, 38, GetFunctionInfo2, uintptr_t, uintptr_t, uintptr_t *, uintptr_t *, uint32_t *, uint32_t, uint32_t *,   \
	  uintptr_t *)                                                                                                 \
	X(T, 39, GetStringLayout, uint32_t *, uint32_t *, uint32_t *)                                                  \
	X(T, 40, GetClassLayout, uintptr_t, void *, uint32_t, uint32_t *, uint32_t *)                                  \
	X(T, 41, GetClassIDInfo2, uintptr_t, uintptr_t *, uint32_t *, uintptr_t *, uint32_t, uint32_t *, uintptr_t *)  \
	X(T, 42, GetCodeInfo2, uintptr_t, uint32_t, uint32_t *, void *)                                                \
	X(T, 43, GetClassFromTokenAndTypeArgs, uintptr_t, uint32_t, uint32_t, uintptr_t *, uintptr_t *)                \
	X(T, 44, GetFunctionFromTokenAndTypeArgs, uintptr_t, uint32_t, uintptr_t, uint32_t, uintptr_t *, uintptr_t *)  \
	X(T, 45, EnumModuleFrozenObjects, uintptr_t, void **)                                                          \
	X(T, 46, GetArrayObjectInfo, uintptr_t, uint32_t, uint32_t *, int *, uint8_t **)                               \
	X(T, 47, GetBoxClassLayout, uintptr_t, uint32_t *)                                                             \
	X(T, 48, GetThreadAppDomain, uintptr_t, uintptr_t *)                                                           \
	X(T, 49, GetRVAStaticAddress, uintptr_t, uint32_t, void **)                                                    \
	X(T, 50, GetAppDomainStaticAddress, uintptr_t, uint32_t, uintptr_t, void **)                                   \
	X(T, 51, GetThreadStaticAddress, uintptr_t, uint32_t, uintptr_t, void **)                                      \
	X(T, 52, GetContextStaticAddress, uintptr_t, uint32_t, uintptr_t, void **)                                     \
	X(T, 53, GetStaticFieldInfo, uintptr_t, uint32_t, void *)                                                      \
	X(T, 54, GetGenerationBounds, uint32_t, uint32_t *, void *)                                                    \
	X(T, 55, GetObjectGeneration, uintptr_t, void *)                                                               \
	X(T, 56, GetNotifiedExceptionClauseInfo, void *)                                                               \
	X(T, 57, EnumJITedFunctions, void **)                                                                          \
	X(T, 58, RequestProfilerDetach, uint32_t)                                                                      \
	X(T, 59, SetFunctionIDMapper2, void *, void *)                                                                 \
	X(T, 60, GetStringLayout2, uint32_t *, uint32_t *)                                                             \
	X(T, 61, SetEnterLeaveFunctionHooks3, void *, void *, void *)                                                  \
	X(T, 62, SetEnterLeaveFunctionHooks3WithInfo, void *, void *, void *)                                          \
	X(T, 63, GetFunctionEnter3Info, uintptr_t, uintptr_t, uintptr_t *, uint32_t *, void *)                         \
	X(T, 64, GetFunctionLeave3Info, uintptr_t, uintptr_t, uintptr_t *, void *)                                     \
	X(T, 65, GetFunctionTailcall3Info, uintptr_t, uintptr_t, uintptr_t *)                                          \
	X(T, 66, EnumModules, void **)                                                                                 \
	X(T, 67, GetRuntimeInformation, uint16_t *, void *, uint16_t *, uint16_t *, uint16_t *, uint16_t *, uint32_t,  \
	  uint32_t *, com_char *)                                                                                      \
	X(T, 68, GetThreadStaticAddress2, uintptr_t, uint32_t, uintptr_t, uintptr_t, void **)                          \
	X(T, 69, GetAppDomainsContainingModule, uintptr_t, uint32_t, uint32_t *, uintptr_t *)                          \
	X(T, 70, GetModuleInfo2, uintptr_t, const uint8_t **, uint32_t, uint32_t *, com_char *, uintptr_t *,           \
	  uint32_t *)                                                                                                  \
	X(T, 71, EnumThreads, void **)                                                                                 \
	X(T, 72, InitializeCurrentThread)                                                                              \
	X(T, 73, RequestReJIT, uint32_t, uintptr_t *, uint32_t *)                                                      \
	X(T, 74, RequestRevert, uint32_t, uintptr_t *, uint32_t *, com_hr *)                                           \
	X(T, 75, GetCodeInfo3, uintptr_t, uintptr_t, uint32_t, uint32_t *, void *)                                     \
	X(T, 76, GetFunctionFromIP2, const uint8_t *, uintptr_t *, uintptr_t *)                                        \
	X(T, 77, GetReJITIDs, uintptr_t, uint32_t, uint32_t *, uintptr_t *)                                            \
	X(T, 78, GetILToNativeMapping2, uintptr_t, uintptr_t, uint32_t, uint32_t *, void *)                            \
	X(T, 79, EnumJITedFunctions2, void **)                                                                         \
	X(T, 80, GetObjectSize2, uintptr_t, size_t *)                                                                  \
	X(T, 81, GetEventMask2, uint32_t *, uint32_t *)                                                                \
	X(T, 82, SetEventMask2, uint32_t, uint32_t)                                                                    \
	X(T, 83, EnumNgenModuleMethodsInliningThisMethod, uintptr_t, uintptr_t, uint32_t, int32_t *, void **)          \
	X(T, 84, ApplyMetaData, uintptr_t)                                                                             \
	X(T, 85, GetInMemorySymbolsLength, uintptr_t, uint32_t *)                                                      \
	X(T, 86, ReadInMemorySymbols, uintptr_t, uint32_t, uint8_t *, uint32_t, uint32_t *)                            \
	X(T, 87, IsFunctionDynamic, uintptr_t, int32_t *)                                                              \
	X(T, 88, GetFunctionFromIP3, const uint8_t *, uintptr_t *, uintptr_t *)                                        \
	X(T, 89, GetDynamicFunctionInfo, uintptr_t, uintptr_t *, const uint8_t **, uint32_t *, uint32_t, uint32_t *,   \
	  com_char *)                                                                                                  \
	X(T, 90, GetNativeCodeStartAddresses, uintptr_t, uintptr_t, uint32_t, uint32_t *, uintptr_t *)                 \
	X(T, 91, GetILToNativeMapping3, uintptr_t, uint32_t, uint32_t *, void *)                                       \
	X(T, 92, GetCodeInfo4, uintptr_t, uint32_t, uint32_t *, void *)                                                \
	X(T, 93, EnumerateObjectReferences, uintptr_t, void *, void *)                                                 \
	X(T, 94, IsFrozenObject, uintptr_t, int32_t *)                                                                 \
	X(T, 95, GetLOHObjectSizeThreshold, uint32_t *)                                                                \
	X(T, 96, RequestReJITWithInliners, uint32_t, uint32_t, uintptr_t *, uint32_t *)                                \
	X(T, 97, SuspendRuntime)                                                                                       \
	X(T, 98, ResumeRuntime)
COM_INTERFACE(cor_profiler_info, COR_PROFILER_INFO)
