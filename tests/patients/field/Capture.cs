// A recorder of market data: blocks for a device are pinned one by one, where they happen to be, and stay pinned for
// minutes, so the collector cannot close the gaps between them.

using System.Runtime.InteropServices;
using Patients;

namespace Market.Capture;

public sealed class Block(int number)
{
    readonly byte[] _data = new byte[2000];
    GCHandle _handle;

    public int Number => number;

    public void Fix() => _handle = GCHandle.Alloc(_data, GCHandleType.Pinned);

    public void Free() => _handle.Free();
}

public sealed class DeviceRing
{
    const int Size = 800;
    readonly Queue<Block> _blocks = new();

    public void Add(int number)
    {
        var block = new Block(number);
        block.Fix();
        _blocks.Enqueue(block);
        if (_blocks.Count > Size)
            _blocks.Dequeue().Free();
        Figures.Count("blocks");
    }
}

static class Startup
{
    public static Task RunAsync()
    {
        var ring = new DeviceRing();
        int number = 0;
        Worker.Loop("feed handler", Load.Rate(300), () =>
        {
            for (int tick = 0; tick < 40; tick++)
                Array.Fill(new byte[2000], (byte)tick);
            ring.Add(number++);
            if (number > 30_000)
                Thread.Sleep(50); // what is pinned spreads over more and more regions
        });
        Figures.Gauge("pinned", () => GC.GetGCMemoryInfo().PinnedObjectsCount);
        Figures.Gauge("fragmented", () => GC.GetGCMemoryInfo().FragmentedBytes);
        return Task.CompletedTask;
    }
}
