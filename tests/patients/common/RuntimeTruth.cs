// What the runtime says about itself, in every truth: cheap figures that cause no suspension.

using System.Runtime;
using System.Text.Json.Nodes;

namespace Patients;

sealed class RuntimeTruth
{
    Figures _baseline = Figures.Now();

    public void Mark() => _baseline = Figures.Now();

    public JsonObject SinceMark()
    {
        Figures now = Figures.Now();
        long[] collections = new long[3];
        for (int generation = 0; generation < 3; generation++)
            collections[generation] = now.Collections[generation] - _baseline.Collections[generation];
        return new JsonObject
        {
            // The runtime counts a gen 2 collection in all three numbers; here each stands once.
            ["gen0"] = collections[0] - collections[1],
            ["gen1"] = collections[1] - collections[2],
            ["gen2"] = collections[2],
            ["gc_pause_ns"] = now.PauseNs - _baseline.PauseNs,
            ["allocated_bytes"] = now.AllocatedBytes - _baseline.AllocatedBytes,
            ["heap_bytes"] = GC.GetTotalMemory(false),
            ["lock_contentions"] = now.Contentions - _baseline.Contentions,
            ["jitted_methods"] = now.JittedMethods - _baseline.JittedMethods,
            ["jitted_il_bytes"] = now.JittedBytes - _baseline.JittedBytes,
            ["jit_ns"] = now.JitNs - _baseline.JitNs,
            ["pool_completed"] = now.PoolCompleted - _baseline.PoolCompleted,
            ["pool_threads"] = ThreadPool.ThreadCount,
            ["pool_pending"] = ThreadPool.PendingWorkItemCount,
            ["cpu_ns"] = now.CpuNs - _baseline.CpuNs,
        };
    }

    sealed class Figures
    {
        public required long[] Collections;
        public required long PauseNs, AllocatedBytes, Contentions, JittedMethods, JittedBytes, JitNs;
        public required long PoolCompleted, CpuNs;

        public static Figures Now() => new()
        {
            Collections = [GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2)],
            PauseNs = (long)GC.GetTotalPauseDuration().TotalNanoseconds,
            AllocatedBytes = GC.GetTotalAllocatedBytes(precise: false), // precise would suspend
            Contentions = Monitor.LockContentionCount,
            JittedMethods = JitInfo.GetCompiledMethodCount(),
            JittedBytes = JitInfo.GetCompiledILBytes(),
            JitNs = (long)JitInfo.GetCompilationTime().TotalNanoseconds,
            PoolCompleted = ThreadPool.CompletedWorkItemCount,
            CpuNs = Clock.ProcessCpuNs(),
        };
    }
}
