// "pause" and "resume": every producer of sickness passes this gate once per round. The counters of
// a paused patient stand still, so its truth is exact.

namespace Patients;

static class Gate
{
    static readonly object Sync = new();
    static bool _closed;
    static int _workers;
    static int _parked;

    public static bool IsClosed => Volatile.Read(ref _closed);

    public static void Pass()
    {
        if (!IsClosed)
            return;
        lock (Sync)
        {
            _parked++;
            Monitor.PulseAll(Sync);
            while (_closed)
                Monitor.Wait(Sync);
            _parked--;
        }
    }

    // A worker is a thread that calls Pass() in its loop; Close() waits for all of them.
    public static void Join()
    {
        lock (Sync)
            _workers++;
    }

    public static void Leave()
    {
        lock (Sync)
        {
            _workers--;
            Monitor.PulseAll(Sync);
        }
    }

    // Returns whether every worker stands still; one that is stuck in its sickness never will.
    public static bool Close(TimeSpan patience)
    {
        DateTime deadline = DateTime.UtcNow + patience;
        lock (Sync)
        {
            _closed = true;
            while (_parked < _workers)
            {
                TimeSpan left = deadline - DateTime.UtcNow;
                if (left <= TimeSpan.Zero || !Monitor.Wait(Sync, left))
                    return _parked >= _workers;
            }
            return true;
        }
    }

    public static void Open()
    {
        lock (Sync)
        {
            _closed = false;
            Monitor.PulseAll(Sync);
        }
    }
}
