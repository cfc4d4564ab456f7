// Threads that fight for a lock which is held for a known time.

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Inventory
{
    static class Stock
    {
        static readonly object Shelf = new();
#if NET9_0_OR_GREATER
        static readonly Lock Cellar = new();
#endif

        // TryEnter tells whether this acquisition has to wait; the runtime counts it only in Enter.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Reserve(Fight fight, int holdMs)
        {
            long start = Clock.MonotonicNs();
            bool contended = !Monitor.TryEnter(Shelf);
            if (contended)
            {
                fight.Begin();
                Monitor.Enter(Shelf);
            }
            try
            {
                fight.Hold(contended, start, holdMs);
            }
            finally
            {
                Monitor.Exit(Shelf);
            }
        }

#if NET9_0_OR_GREATER
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Refill(Fight fight, int holdMs)
        {
            long start = Clock.MonotonicNs();
            bool contended = !Cellar.TryEnter();
            if (contended)
            {
                fight.Begin();
                Cellar.Enter();
            }
            try
            {
                fight.Hold(contended, start, holdMs);
            }
            finally
            {
                Cellar.Exit();
            }
        }
#endif
    }
}

namespace Patients
{
    sealed class Fight(string lockField, string method)
    {
        readonly Counter _acquired = new(), _contended = new(), _waitNs = new(), _heldNs = new();
        readonly CounterSet _heldNsByThread = new();
        long _maxWaitNs;

        // As the runtime does, a contention counts when its wait begins and its time when it ends.
        public void Begin() => _contended.Increment();

        // Runs while the lock is held, so the plain write of the maximum is safe.
        public void Hold(bool contended, long startNs, int holdMs)
        {
            long enteredNs = Clock.MonotonicNs();
            if (contended)
            {
                _waitNs.Add(enteredNs - startNs);
                _maxWaitNs = Math.Max(_maxWaitNs, enteredNs - startNs);
            }
            _acquired.Increment();
            Thread.Sleep(holdMs);
            long heldNs = Clock.MonotonicNs() - enteredNs;
            _heldNs.Add(heldNs);
            _heldNsByThread[Thread.CurrentThread.Name!].Add(heldNs);
        }

        public void Mark()
        {
            foreach (Counter counter in new[] { _acquired, _contended, _waitNs, _heldNs })
                counter.Mark();
            _heldNsByThread.Mark();
            _maxWaitNs = 0;
        }

        public bool HasContention => _contended.Total > 0;

        public long Contended => _contended.SinceMark;

        public JsonObject Truth() => new()
        {
            ["lock"] = lockField,
            ["method"] = method,
            ["acquired"] = _acquired.SinceMark,
            ["contended"] = _contended.SinceMark,
            ["wait_ns"] = _waitNs.SinceMark,
            ["max_wait_ns"] = _maxWaitNs,
            ["held_ns"] = _heldNs.SinceMark,
            ["held_ns_by_thread"] = _heldNsByThread.SinceMark(),
        };
    }

    sealed class Contention : Sickness
    {
        readonly Dictionary<string, Fight> _fights = [];

        public override string Name => "contention";
        public override string About => "threads that fight for a Monitor and (from .NET 9) a Lock";
        public override Key[] Keys =>
        [
            Choice("kind", "which lock; both = monitor only on net8.0", "both", "monitor", "lock"),
            new("threads", "4", "fighting threads per lock", 2, 200),
            new("hold-ms", "5", "time the lock is held", 0, 10_000),
            new("think-ms", "1", "time between two acquisitions; without it the last owner mostly wins again", 0, 10_000),
        ];

        public override void Start(Settings settings)
        {
            string kind = settings.Word("kind");
            int holdMs = settings.Int("hold-ms");
            int thinkMs = settings.Int("think-ms");
            int threads = settings.Int("threads");
            if (kind != "lock")
                Begin("monitor", threads, thinkMs, new Fight("Shop.Inventory.Stock.Shelf", "Shop.Inventory.Stock.Reserve"),
                      fight => Shop.Inventory.Stock.Reserve(fight, holdMs));
#if NET9_0_OR_GREATER
            if (kind != "monitor")
                Begin("lock", threads, thinkMs, new Fight("Shop.Inventory.Stock.Cellar", "Shop.Inventory.Stock.Refill"),
                      fight => Shop.Inventory.Stock.Refill(fight, holdMs));
#else
            if (kind == "lock")
                throw new UnsupportedException("contention kind=lock: System.Threading.Lock is unsupported on net8.0");
#endif
            Worker.Until(() => _fights.Values.All(fight => fight.HasContention), "the first contention");
        }

        void Begin(string name, int threads, int thinkMs, Fight fight, Action<Fight> acquire)
        {
            _fights[name] = fight;
            for (int i = 0; i < threads; i++)
                Worker.Loop($"{name}-fighter-{i}", () =>
                {
                    acquire(fight);
                    if (thinkMs > 0)
                        Thread.Sleep(thinkMs);
                });
        }

        public override void Mark()
        {
            foreach (Fight fight in _fights.Values)
                fight.Mark();
        }

        // "contended" is every acquisition that found the lock taken. Those that the runtime reports
        // (lock_contentions under "runtime") are fewer when a thread got the lock while it still span,
        // which happens on a machine with more work than processors; otherwise the two agree.
        public override JsonObject Truth()
        {
            var locks = new JsonObject();
            foreach (var (name, fight) in _fights)
                locks[name] = fight.Truth();
            return new JsonObject { ["contended"] = _fights.Values.Sum(fight => fight.Contended), ["locks"] = locks };
        }
    }
}
