// Not ill at all: a thread that looks at the clock every millisecond and remembers its longest way between two looks. So
// a patient can say from inside how long it stood still.

using System.Text.Json.Nodes;

namespace Patients;

sealed class Heartbeat : Sickness
{
    long _beats, _longestNs, _lastNs;

    public override string Name => "heartbeat";
    public override string About => "looks at the clock every millisecond: how long did it stand still?";

    public override void Start(Settings settings)
    {
        new Thread(Beat) { Name = "heartbeat", IsBackground = true, Priority = ThreadPriority.Highest }.Start();
        Worker.Until(() => Interlocked.Read(ref _beats) > 0, "the first beat");
    }

    void Beat()
    {
        Volatile.Write(ref _lastNs, Clock.MonotonicNs());
        while (true)
        {
            Thread.Sleep(1);
            long now = Clock.MonotonicNs();
            long gap = now - _lastNs;
            Volatile.Write(ref _lastNs, now);
            if (gap > Interlocked.Read(ref _longestNs))
                Interlocked.Exchange(ref _longestNs, gap);
            Interlocked.Increment(ref _beats);
        }
    }

    public override void Mark()
    {
        Interlocked.Exchange(ref _longestNs, 0);
        Interlocked.Exchange(ref _beats, 0);
    }

    public override JsonObject Truth() => new()
    {
        ["beats"] = Interlocked.Read(ref _beats),
        // One that has not ended yet counts as far as it has come.
        ["longest_ns"] = Math.Max(Interlocked.Read(ref _longestNs), Clock.MonotonicNs() - Volatile.Read(ref _lastNs)),
    };
}
