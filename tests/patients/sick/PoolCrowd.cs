// Workers of the thread pool that block for ever, each in another way: on a task (.Result, .Wait(), GetAwaiter().GetResult()),
// a semaphore or a lock. The truth says the method, what it waits for, and where the chain of tasks behind it ends.

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Harbour
{
    static class Crane
    {
        public static readonly TaskCompletionSource<int> Signal = new();
        public static readonly SemaphoreSlim Berth = new(0, 1);
        public static readonly object Winch = new();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task<int> LiftAsync() => 1 + await HoistAsync();

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task<int> HoistAsync()
        {
            await Task.Yield();
            return await Signal.Task;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task<int> QueueAsync()
        {
            await Berth.WaitAsync();
            return 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int ByResult() => LiftAsync().Result;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ByWait() => LiftAsync().Wait();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int ByGetResult() => LiftAsync().GetAwaiter().GetResult();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int ByQueue() => QueueAsync().Result;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void BySemaphore() => Berth.Wait();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ByLock()
        {
            lock (Winch)
                GC.KeepAlive(Winch);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Hold(ManualResetEventSlim held)
        {
            lock (Winch)
            {
                held.Set();
                Thread.Sleep(Timeout.Infinite);
            }
        }
    }
}

namespace Patients
{
    using Shop.Harbour;

    sealed class PoolCrowd : Sickness
    {
        string _kind = "";
        int _workers, _inside;

        public override string Name => "pool-crowd";
        public override string About => "workers of the pool that block for ever";
        public override Key[] Keys =>
        [
            Choice("kind", "on what they block", "result", "wait", "getresult", "queue", "semaphore", "lock"),
            new("workers", "12", "workers that block", 1, 300),
        ];

        static readonly Dictionary<string, (Action Block, string Method, string WaitsFor, string End)> Kinds = new()
        {
            ["result"] = (() => Crane.ByResult(), "ByResult", "LiftAsync", "Signal"),
            ["wait"] = (Crane.ByWait, "ByWait", "LiftAsync", "Signal"),
            ["getresult"] = (() => Crane.ByGetResult(), "ByGetResult", "LiftAsync", "Signal"),
            ["queue"] = (() => Crane.ByQueue(), "ByQueue", "QueueAsync", "Berth"),
            ["semaphore"] = (Crane.BySemaphore, "BySemaphore", "Berth", ""),
            ["lock"] = (Crane.ByLock, "ByLock", "Winch", ""),
        };

        public override void Start(Settings settings)
        {
            _kind = settings.Word("kind");
            _workers = settings.Int("workers");
            // The pool keeps up: it has a worker for each of them and some for other work.
            ThreadPool.SetMinThreads(_workers + 8, 8);
            if (_kind == "lock")
            {
                using var held = new ManualResetEventSlim();
                Worker.Start("crane-holder", () => Crane.Hold(held));
                held.Wait();
            }
            var threads = new Thread[_workers];
            for (int i = 0; i < _workers; i++)
                ThreadPool.UnsafeQueueUserWorkItem(_ =>
                {
                    threads[Interlocked.Increment(ref _inside) - 1] = Thread.CurrentThread;
                    Kinds[_kind].Block();
                }, null);
            Worker.Until(() => Volatile.Read(ref _inside) == _workers, "all workers are inside");
            Worker.UntilBlocked(threads);
            // The pool has something to do, so that its queue can be heard.
            Worker.Loop("harbour-traffic", 50, () => ThreadPool.UnsafeQueueUserWorkItem(_ => { }, null));
        }

        public override JsonObject Truth() => new()
        {
            ["workers"] = _workers,
            ["method"] = "Shop.Harbour.Crane." + Kinds[_kind].Method,
            ["waits_for"] = "Shop.Harbour.Crane." + Kinds[_kind].WaitsFor,
            ["end"] = Kinds[_kind].End == "" ? "" : "Shop.Harbour.Crane." + Kinds[_kind].End,
        };
    }
}
