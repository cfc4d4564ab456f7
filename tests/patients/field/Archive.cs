// A tape archive: the finalizer of a segment takes the library's lock, and the robot holds that lock while it waits for an
// answer that never comes. No finalizer runs any more, and what has one is never freed.

using System.Net.Sockets;
using System.Text;
using Patients;

namespace Archive.Tapes;

public sealed class TapeLibrary(Uri robot)
{
    readonly object _gate = new();
    long _released;

    public void Mount(int tape)
    {
        lock (_gate)
        {
            using var wire = new TcpClient(robot.Host, robot.Port);
            wire.GetStream().Write(Encoding.ASCII.GetBytes($"GET /mount/{tape} HTTP/1.1\r\n\r\n"));
            wire.GetStream().ReadByte();
        }
    }

    public void Release(TapeSegment segment)
    {
        lock (_gate)
            _released += segment.Length;
    }
}

public sealed class TapeSegment(TapeLibrary library)
{
    readonly byte[] _data = new byte[16_000];

    public int Length => _data.Length;

    public void Fill(byte value) => _data.AsSpan().Fill(value);

    ~TapeSegment()
    {
        library.Release(this);
    }
}

static class Startup
{
    public static Task RunAsync()
    {
        var library = new TapeLibrary(Downstream.Start(-1, _ => ""));
        Worker.Start("robot", () => library.Mount(7));
        int segments = 0;
        Worker.Loop("archiver", Load.Rate(150), () =>
        {
            if (segments > 12_000)
                Thread.Sleep(100);
            byte[] packed = new byte[60_000];
            packed[0] = (byte)segments++;
            new TapeSegment(library).Fill(packed[0]);
            Figures.Count("segments");
        });
        Figures.Gauge("pending_finalizers", () => GC.GetGCMemoryInfo().FinalizationPendingCount);
        return Task.CompletedTask;
    }
}
