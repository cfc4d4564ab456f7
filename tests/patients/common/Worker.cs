// Threads that produce a sickness, and their pace.

namespace Patients;

static class Worker
{
    // Calls `round` for ever, stopping at the gate in between.
    public static Thread Loop(string name, Action round, int stackBytes = 0)
    {
        Gate.Join();
        return Start(name, () =>
        {
            while (true)
            {
                Gate.Pass();
                round();
            }
        }, stackBytes);
    }

    // The same, `rate` times a second on average; 0 means as fast as possible.
    public static Thread Loop(string name, double rate, Action round)
    {
        Gate.Join();
        return Start(name, () =>
        {
            var pace = new Pace(rate);
            while (true)
            {
                Gate.Pass();
                pace.Wait();
                round();
            }
        });
    }

    public static Thread Start(string name, Action body, int stackBytes = 0)
    {
        var thread = new Thread(() => body(), stackBytes) { Name = name, IsBackground = true };
        thread.Start();
        return thread;
    }

    // A sickness is established when its victims really wait, not when they were started.
    public static void UntilBlocked(IEnumerable<Thread> threads)
    {
        foreach (Thread thread in threads)
            Until(() => (thread.ThreadState & ThreadState.WaitSleepJoin) != 0,
                  $"thread '{thread.Name}' to block");
    }

    public static void Until(Func<bool> condition, string what, int timeoutMs = 20_000)
    {
        long deadline = Environment.TickCount64 + timeoutMs;
        while (!condition())
        {
            if (Environment.TickCount64 > deadline)
                throw new TimeoutException($"waited {timeoutMs} ms in vain for {what}");
            Thread.Sleep(1);
        }
    }
}

// Keeps an average rate although sleeps are inexact: it catches up, but not by more than a quarter
// of a second, so that a pause is not followed by a burst.
sealed class Pace(double rate)
{
    const long SecondNs = 1_000_000_000;
    readonly long _intervalNs = rate > 0 ? (long)(SecondNs / rate) : 0;
    long _dueNs = Clock.MonotonicNs();

    public void Wait()
    {
        if (_intervalNs == 0)
            return;
        _dueNs = Math.Max(_dueNs + _intervalNs, Clock.MonotonicNs() - SecondNs / 4);
        while (true)
        {
            long leftNs = _dueNs - Clock.MonotonicNs();
            if (leftNs <= 0)
                return;
            // Short naps, so that a slow pace does not keep the gate from closing.
            Thread.Sleep((int)Math.Clamp(leftNs / 1_000_000, 1, 50));
            if (Gate.IsClosed)
            {
                Gate.Pass();
                _dueNs = Clock.MonotonicNs() + _intervalNs;
            }
        }
    }
}
