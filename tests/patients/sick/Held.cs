// A crowd that waits for ever for one lock, whose holder is busy with something that has a name. The truth says which field, who has it, what the holder does and where.

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Depot
{
    sealed class Yard
    {
        public static readonly Yard Main = new();

        readonly object _gate = new();
#if NET9_0_OR_GREATER
        readonly Lock _ramp = new();
#endif
        readonly ReaderWriterLockSlim _ledger = new();
        readonly AutoResetEvent _never = new(false);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void Unload()
        {
            lock (_gate)
                GC.KeepAlive(this);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void HoldGate(Action entered)
        {
            lock (_gate)
            {
                entered();
                CountPallets();
            }
        }

#if NET9_0_OR_GREATER
        [MethodImpl(MethodImplOptions.NoInlining)]
        public void Load()
        {
            lock (_ramp)
                GC.KeepAlive(this);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void HoldRamp(Action entered)
        {
            lock (_ramp)
            {
                entered();
                CountPallets();
            }
        }
#endif

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void Read()
        {
            _ledger.EnterReadLock();
            _ledger.ExitReadLock();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public void HoldLedger(Action entered)
        {
            _ledger.EnterWriteLock();
            entered();
            CountPallets();
            _ledger.ExitWriteLock();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        void CountPallets()
        {
            _never.WaitOne();
            GC.KeepAlive(this);
        }
    }
}

namespace Patients
{
    using Shop.Depot;

    sealed class Held : Sickness
    {
        string _kind = "";
        int _threads, _tid;

        public override string Name => "lock-held";
        public override string About => "threads that wait for ever for a lock whose holder waits for an event";
        public override Key[] Keys =>
        [
            Choice("kind", "which lock", "monitor", "lock", "rwlock"),
            new("threads", "300", "threads that wait", 1, 1000),
        ];

        public override void Start(Settings settings)
        {
            _kind = settings.Word("kind");
            _threads = settings.Int("threads");
            (Action<Action> hold, Action wait) = Parts();
            using var held = new ManualResetEventSlim();
            Worker.Start("depot-holder", () => hold(() =>
            {
                _tid = Clock.ThreadId();
                held.Set();
            }));
            held.Wait();
            Worker.UntilBlocked(Enumerable.Range(0, _threads).Select(i => Worker.Start($"truck-{i}", wait, 256 << 10)).ToArray());
        }

        (Action<Action>, Action) Parts() => _kind switch
        {
            "monitor" => (Yard.Main.HoldGate, Yard.Main.Unload),
#if NET9_0_OR_GREATER
            "lock" => (Yard.Main.HoldRamp, Yard.Main.Load),
#endif
            "rwlock" => (Yard.Main.HoldLedger, Yard.Main.Read),
            _ => throw new UnsupportedException("lock-held kind=lock: System.Threading.Lock is unsupported on net8.0"),
        };

        public override JsonObject Truth() => new()
        {
            ["threads"] = _threads,
            ["lock"] = "Shop.Depot.Yard.Main." + _kind switch { "monitor" => "_gate", "lock" => "_ramp", _ => "_ledger" },
            ["waits_in"] = "Shop.Depot.Yard." + _kind switch { "monitor" => "Unload", "lock" => "Load", _ => "Read" },
            ["holder"] = "depot-holder",
            ["holder_tid"] = _tid,
            ["holder_in"] = "Shop.Depot.Yard.CountPallets",
        };
    }
}
