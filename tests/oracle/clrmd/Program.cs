// What ClrMD sees in a core file, for comparing with drdotnet: clrmd CORE DAC
// (It does not find the version in every core, hence ignoreMismatch; the library checks what it is given by itself.)
// Prints `thread MANAGED-ID OS-ID`, then one line a frame: ip, sp, name of the runtime's own frame or -, method or -.
using Microsoft.Diagnostics.Runtime;

using DataTarget target = DataTarget.LoadDump(args[0]);
using ClrRuntime runtime = target.ClrVersions.Single().CreateRuntime(args[1], ignoreMismatch: true);
foreach (ClrThread thread in runtime.Threads)
{
    Console.WriteLine($"thread {thread.ManagedThreadId} {thread.OSThreadId}");
    if (!thread.IsAlive)
        continue;
    foreach (ClrStackFrame frame in thread.EnumerateStackTrace(includeContext: false, maxFrames: 1_000_000))
    {
        string kind = frame.Kind == ClrStackFrameKind.Runtime ? frame.FrameName ?? "?" : "-";
        Console.WriteLine($"{frame.InstructionPointer:x} {frame.StackPointer:x} {kind} {frame.Method?.Signature ?? "-"}");
    }
}
