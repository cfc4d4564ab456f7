// Ten ordinary ways to wait. All of them make progress (or rightly wait for a customer): none is a
// deadlock, and a tool that says so is wrong.

using System.Collections.Concurrent;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using System.Threading.Channels;
using Patients;

namespace Shop.Cafe
{
    static class Waiter
    {
        static readonly object Counter = new();
        static readonly SemaphoreSlim Table = new(0);
        static readonly ManualResetEventSlim Open = new(false);
        static readonly AutoResetEvent Bell = new(false);
        static readonly BlockingCollection<int> Orders = new(boundedCapacity: 10);
        static readonly ReaderWriterLockSlim Menu = new();
        static readonly Channel<int> Dishes = Channel.CreateBounded<int>(10);
        static readonly Barrier Shift = new(2);
        static readonly object Kitchen = new();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForMonitor()
        {
            lock (Counter)
                Monitor.Wait(Counter);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForSemaphore() => Table.Wait();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForManualEvent()
        {
            Open.Wait();
            Open.Reset();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForBell() => Bell.WaitOne();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForOrder() => Orders.Take();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForMenu()
        {
            Menu.EnterWriteLock();
            Menu.ExitWriteLock();
            Thread.Sleep(10);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForDish() => Dishes.Reader.ReadAsync().AsTask().GetAwaiter().GetResult();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForKitchen()
        {
            lock (Kitchen) { }
            Thread.Sleep(5);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForShift() => Shift.SignalAndWait();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ForCustomer(Socket door) => door.Accept().Dispose();

        // The other side of all of them: does each waiter's work once.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ServeOnce()
        {
            lock (Counter)
                Monitor.PulseAll(Counter);
            Table.Release();
            Open.Set();
            Bell.Set();
            Orders.TryAdd(1);
            Dishes.Writer.TryWrite(1);
            Menu.EnterReadLock();
            Thread.Sleep(20);
            Menu.ExitReadLock();
            lock (Kitchen)
                Thread.Sleep(10);
            Shift.SignalAndWait(100);
        }
    }
}

namespace Patients
{
    using Shop.Cafe;

    sealed class HealthyWaits : Sickness
    {
        readonly CounterSet _passed = new();
        int _waiters;

        public override string Name => "healthy-waits";
        public override string About => "ten kinds of ordinary waiting; no deadlock";
        public override Key[] Keys => [new("rate", "10", "times a second that the waiters are served", 0.1, 20)];

        public override void Start(Settings settings)
        {
            Socket door = Loopback.Listen();
            Wait("monitor", Waiter.ForMonitor);
            Wait("semaphore", Waiter.ForSemaphore);
            Wait("manual-event", Waiter.ForManualEvent);
            Wait("auto-event", Waiter.ForBell);
            Wait("blocking-collection", Waiter.ForOrder);
            Wait("reader-writer", Waiter.ForMenu);
            Wait("channel", Waiter.ForDish);
            Wait("lock", Waiter.ForKitchen);
            Wait("barrier", Waiter.ForShift);
            Wait("socket", () => Waiter.ForCustomer(door)); // nobody comes: it waits, rightly
            Worker.Loop("server", settings.Number("rate"), Waiter.ServeOnce);
            Worker.Until(() => Progressing() == _waiters - 1, "every waiter but the socket to be served");
        }

        void Wait(string kind, Action wait)
        {
            _waiters++;
            Counter passed = _passed[kind];
            Worker.Start($"waiter-{kind}", () =>
            {
                while (true)
                {
                    wait();
                    passed.Increment();
                }
            });
        }

        int Progressing() => _passed.SinceMark().Count(pair => (long)pair.Value! > 0);

        public override void Mark() => _passed.Mark();

        public override JsonObject Truth() => new()
        {
            ["waiters"] = _waiters,
            ["passed"] = _passed.SinceMark(),
            ["deadlocks"] = 0,
        };
    }
}
