// The routes, each a known behaviour in methods that a report must name. Sizes that come from the
// query are capped: a typing mistake must not take the machine down.

using System.Collections.Concurrent;
using System.Runtime.CompilerServices;
using Patients;

namespace Shop.Web;

static class Routes
{
    const int MaxMs = 10_000;
    const int MaxCount = 100_000;

    public static readonly Counter OnCpuNs = new(), OffCpuNs = new(), Thrown = new(), Logged = new();
    public static readonly Counter LeakedObjects = new(), LeakedBytes = new();

    static readonly ConcurrentDictionary<string, int> Visits = new();
    static readonly List<byte[]> Uploads = [];

    public static string Healthy() => "fine";

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static ulong OnCpu(int ms)
    {
        long start = Clock.ThreadCpuNs();
        long end = start + Math.Clamp(ms, 0, MaxMs) * 1_000_000L;
        ulong sum = 1;
        while (Clock.ThreadCpuNs() < end)
            sum += Spin(100_000);
        OnCpuNs.Add(Clock.ThreadCpuNs() - start);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static ulong Spin(int steps)
    {
        ulong sum = 1;
        for (int i = 0; i < steps; i++)
            sum = (sum ^ (ulong)i) * 6364136223846793005 + 1;
        return sum;
    }

    // Blocks its thread: a waiting path for the on-CPU/off-CPU experiment.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static string OffCpu(int ms)
    {
        long start = Clock.MonotonicNs();
        Thread.Sleep(Math.Clamp(ms, 0, MaxMs));
        OffCpuNs.Add(Clock.MonotonicNs() - start);
        return "waited";
    }

    // Throws and catches n exceptions.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static string Throw(int n)
    {
        for (int i = 0; i < Math.Clamp(n, 0, MaxCount); i++)
        {
            try
            {
                Fail(i);
            }
            catch (InvalidOperationException) { }
        }
        return "caught";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Fail(int i)
    {
        Thrown.Increment();
        throw new InvalidOperationException($"request part {i} failed");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static string Log(ILogger log, int n)
    {
        for (int i = 0; i < Math.Clamp(n, 0, MaxCount); i++)
        {
            log.LogInformation("order {Order} of {Customer} has {Count} lines", i, "ACME | Söhne", i % 7);
            Logged.Increment();
        }
        return "logged";
    }

    // Count takes every lock of the dictionary: slow under concurrent writes.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static int FillDictionary(int n)
    {
        int seen = 0;
        for (int i = 0; i < Math.Clamp(n, 0, MaxCount); i++)
        {
            Visits.AddOrUpdate($"page-{i % 1000}", 1, (_, visits) => visits + 1);
            seen = Math.Max(seen, Visits.Count);
        }
        return seen;
    }

    // Quadratic: every element searches the whole list again.
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static int SlowLinq(int n)
    {
        List<int> numbers = Enumerable.Range(0, Math.Clamp(n, 0, 20_000)).ToList();
        return numbers.Where(number => numbers.Count(other => other == number) == 1).OrderBy(number => -number).Count();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static int SyncOverAsync(int ms) => FetchAsync(Math.Clamp(ms, 0, MaxMs)).Result;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static async Task<int> FetchAsync(int ms)
    {
        await Task.Delay(ms);
        return ms;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static long Leak(int bytes)
    {
        const long maxLeakedBytes = 1L << 30;
        bytes = Math.Clamp(bytes, 1, 10_000_000);
        if (LeakedBytes.Total + bytes > maxLeakedBytes)
            return LeakedObjects.Total;
        lock (Uploads)
            Uploads.Add(new byte[bytes]);
        LeakedBytes.Add((24 + bytes + 7) / 8 * 8);
        LeakedObjects.Increment();
        return LeakedObjects.Total;
    }
}
