// Threads that wait for ever (blocked) and threads that should be gone (zombie-threads).

using System.Collections.Concurrent;
using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Warehouse
{
    static class Hall
    {
        static readonly ManualResetEvent NewOrder = new(false);
        static readonly object Box = new();
        static readonly SemaphoreSlim Parcel = new(0);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void WaitForOrder() => NewOrder.WaitOne();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void WaitForBox()
        {
            lock (Box)
                Monitor.Wait(Box);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void WaitForParcel() => Parcel.Wait();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ScanShelves(int steps)
        {
            ulong sum = 1;
            for (int i = 0; i < steps; i++)
                sum = (sum ^ (ulong)i) * 6364136223846793005 + 1;
            return sum;
        }
    }
}

namespace Shop.Jobs
{
    static class DeadQueue
    {
        static readonly BlockingCollection<string> Jobs = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Drain() => Jobs.Take();
    }

    static class Keeper
    {
        static readonly ManualResetEvent Closing = new(false);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void StayOpen() => Closing.WaitOne();
    }

    static class History
    {
        public static readonly List<Thread> Finished = [];
    }

    static class Export
    {
        static readonly ManualResetEvent Written = new(false);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void WriteBlocking() => Written.WaitOne();
    }
}

namespace Patients
{
    sealed class Blocked : Sickness
    {
        const int StackBytes = 256 << 10; // a thousand of them must fit
        static readonly (string Method, Action Wait)[] Places =
        [
            ("Shop.Warehouse.Hall.WaitForOrder", Shop.Warehouse.Hall.WaitForOrder),
            ("Shop.Warehouse.Hall.WaitForBox", Shop.Warehouse.Hall.WaitForBox),
            ("Shop.Warehouse.Hall.WaitForParcel", Shop.Warehouse.Hall.WaitForParcel),
        ];
        readonly int[] _waiting = new int[Places.Length];
        readonly Counter _busyNs = new();
        int _busy;
        int _busyTid;
        ulong _scanned;

        public override string Name => "blocked";
        public override string About => "threads that wait for ever in three named methods";
        public override Key[] Keys =>
        [
            new("threads", "100", "blocked threads", 1, 2000),
            new("busy", "0", "1 = and one busy thread", 0, 1),
        ];

        public override void Start(Settings settings)
        {
            var threads = new List<Thread>();
            for (int i = 0; i < settings.Int("threads"); i++)
            {
                int place = i % Places.Length;
                _waiting[place]++;
                threads.Add(Worker.Start($"hand-{i}", Places[place].Wait, StackBytes));
            }
            _busy = settings.Int("busy");
            if (_busy > 0)
                Worker.Loop("scanner", Scan);
            Worker.UntilBlocked(threads);
        }

        void Scan()
        {
            _busyTid = Clock.ThreadId();
            long start = Clock.ThreadCpuNs();
            _scanned += Shop.Warehouse.Hall.ScanShelves(1_000_000);
            _busyNs.Add(Clock.ThreadCpuNs() - start);
        }

        public override void Mark() => _busyNs.Mark();

        public override JsonObject Truth()
        {
            var waiting = new JsonObject();
            for (int i = 0; i < Places.Length; i++)
                waiting[Places[i].Method] = _waiting[i];
            return new JsonObject
            {
                ["threads"] = _waiting.Sum(),
                ["waiting"] = waiting,
                ["busy"] = _busy,
                ["busy_tid"] = _busyTid,
                ["busy_method"] = "Shop.Warehouse.Hall.ScanShelves",
                ["busy_cpu_ns"] = _busyNs.SinceMark,
            };
        }
    }

    sealed class ZombieThreads : Sickness
    {
        int _pool;
        readonly Counter _grown = new();

        public override string Name => "zombie-threads";
        public override string About => "a thread on a dead queue, one that blocks exit, dead ones kept, lost pool threads";
        public override Key[] Keys =>
        [
            new("dead", "1000", "ended threads whose Thread objects are kept", 0, 100_000),
            new("pool", "4", "pool threads in a call that never returns", 0, 100),
            new("growth", "0", "threads a second that start and never end (at most 500)", 0, 100),
        ];

        public override void Start(Settings settings)
        {
            for (int i = 0; i < settings.Int("dead"); i++)
            {
                var thread = new Thread(() => { }, 128 << 10) { Name = $"job-{i}" };
                thread.Start();
                thread.Join();
                Shop.Jobs.History.Finished.Add(thread);
            }
            Thread reader = Worker.Start("queue-reader", Shop.Jobs.DeadQueue.Drain);
            var keeper = new Thread(Shop.Jobs.Keeper.StayOpen) { Name = "keeper", IsBackground = false };
            keeper.Start();

            _pool = settings.Int("pool");
            var lost = new ConcurrentQueue<Thread>();
            for (int i = 0; i < _pool; i++)
                ThreadPool.UnsafeQueueUserWorkItem(_ =>
                {
                    lost.Enqueue(Thread.CurrentThread);
                    Shop.Jobs.Export.WriteBlocking();
                }, null);
            Worker.Until(() => lost.Count == _pool, "the pool threads to get lost", 60_000);
            Worker.UntilBlocked([reader, keeper, .. lost]);

            if (settings.Number("growth") > 0)
                Worker.Loop("hiring", settings.Number("growth"), Hire);
        }

        void Hire()
        {
            if (_grown.Total >= 500)
                return;
            Worker.Start("export-job", Shop.Jobs.Export.WriteBlocking, 128 << 10);
            _grown.Increment();
        }

        public override void Mark() => _grown.Mark();

        public override JsonObject Truth() => new()
        {
            ["dead_threads"] = Shop.Jobs.History.Finished.Count,
            ["dead_holder"] = "Shop.Jobs.History.Finished",
            ["foreground"] = new JsonObject { ["keeper"] = "Shop.Jobs.Keeper.StayOpen" },
            ["blocked"] = new JsonObject { ["queue-reader"] = "Shop.Jobs.DeadQueue.Drain" },
            ["lost_pool_threads"] = _pool,
            ["lost_pool_method"] = "Shop.Jobs.Export.WriteBlocking",
            ["grown"] = _grown.Total,
            ["grown_since_mark"] = _grown.SinceMark,
        };
    }
}
