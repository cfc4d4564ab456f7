// Clocks and thread identity as the kernel knows them, so that truths can be compared with what
// an outside observer (perf, /proc) sees.

using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Patients;

static class Clock
{
    const int ProcessCpuTime = 2; // CLOCK_PROCESS_CPUTIME_ID
    const int ThreadCpuTime = 3;  // CLOCK_THREAD_CPUTIME_ID

    [StructLayout(LayoutKind.Sequential)]
    struct Timespec
    {
        public long Seconds;
        public long Nanoseconds;
    }

    [DllImport("libc")]
    static extern int clock_gettime(int clock, out Timespec time);

    [DllImport("libc")]
    static extern int gettid();

    [DllImport("libc")]
    static extern uint alarm(uint seconds);

    // Stopwatch reads CLOCK_MONOTONIC on Linux, in nanoseconds.
    public static long MonotonicNs() => Stopwatch.GetTimestamp();

    public static long ThreadCpuNs() => Read(ThreadCpuTime);

    public static long ProcessCpuNs() => Read(ProcessCpuTime);

    public static int ThreadId() => gettid();

    // The kernel ends the process: this works even when the runtime is wedged.
    public static void EndProcessAfter(int seconds) => alarm((uint)seconds);

    static long Read(int clock)
    {
        clock_gettime(clock, out Timespec time);
        return time.Seconds * 1_000_000_000 + time.Nanoseconds;
    }
}
