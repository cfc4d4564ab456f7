// Deadlocks of several kinds, with bystanders who wait behind them.

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Bank
{
    sealed class Account(string name)
    {
        public readonly string Name = name;
        public readonly object Gate = new();
        public readonly SemaphoreSlim Slot = new(1, 1);
        public readonly ReaderWriterLockSlim Book = new();
#if NET9_0_OR_GREATER
        public readonly Lock Lock = new();
#endif
    }

    static class Ledger
    {
        public static readonly Account Savings = new("savings");
        public static readonly Account Checking = new("checking");
        public static readonly Account Credit = new("credit");

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void TransferByMonitor(Account from, Account to, Barrier meeting)
        {
            lock (from.Gate)
            {
                meeting.SignalAndWait();
                lock (to.Gate)
                    throw new InvalidOperationException("no deadlock");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void TransferBySemaphore(Account from, Account to, Barrier meeting)
        {
            from.Slot.Wait();
            meeting.SignalAndWait();
            to.Slot.Wait();
        }

        // Each reads in one book and wants to write in the other.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void TransferByBook(Account from, Account to, Barrier meeting)
        {
            from.Book.EnterReadLock();
            meeting.SignalAndWait();
            to.Book.EnterWriteLock();
        }

#if NET9_0_OR_GREATER
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void TransferByLock(Account from, Account to, Barrier meeting)
        {
            lock (from.Lock)
            {
                meeting.SignalAndWait();
                lock (to.Lock)
                    throw new InvalidOperationException("no deadlock");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void TransferMonitorThenLock(Account from, Account to, Barrier meeting)
        {
            lock (from.Gate)
            {
                meeting.SignalAndWait();
                lock (to.Lock)
                    throw new InvalidOperationException("no deadlock");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void TransferLockThenMonitor(Account from, Account to, Barrier meeting)
        {
            lock (from.Lock)
            {
                meeting.SignalAndWait();
                lock (to.Gate)
                    throw new InvalidOperationException("no deadlock");
            }
        }
#endif
    }

    // Sync over async: the checkout holds the gate and waits for a task that needs the gate.
    static class Checkout
    {
        static readonly object CartGate = new();
        public static Thread? Completer;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void PayBlocking()
        {
            lock (CartGate)
                _ = ConfirmAsync().Result;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task<int> ConfirmAsync()
        {
            await Task.Yield();
            return UpdateCart();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int UpdateCart()
        {
            Completer = Thread.CurrentThread;
            lock (CartGate)
                return 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ShowCart()
        {
            lock (CartGate) { }
        }
    }

    // One waits for the end of a thread that waits for what the first one has; or for an event that only such a thread sets.
    static class Closing
    {
        static readonly object Till = new();
        static readonly ManualResetEventSlim Counted = new();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void CloseAndJoin(Thread counter)
        {
            lock (Till)
            {
                counter.Start();
                counter.Join();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void CloseAndWait(Thread counter)
        {
            lock (Till)
            {
                counter.Start();
                Counted.Wait();
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Count()
        {
            lock (Till)
                Counted.Set();
        }
    }

    static class Teller
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void WriteBook(Account account) => account.Book.EnterWriteLock();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ShowBalance(Account account)
        {
            lock (account.Gate) { }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ShowBalanceBySemaphore(Account account) => account.Slot.Wait();

#if NET9_0_OR_GREATER
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ShowBalanceByLock(Account account)
        {
            lock (account.Lock) { }
        }
#endif
    }
}

namespace Patients
{
    using Shop.Bank;

    sealed class Deadlock : Sickness
    {
        sealed record Party(string Thread, string Method, string Holds, string WaitsFor, Action Act);

        string _kind = "";
        readonly List<Party> _cycle = [];
        readonly Dictionary<string, (int Tid, int ManagedId)> _ids = [];
        string _bystanderMethod = "";
        string _bystandersWaitFor = "";
        int _bystanders;

        public override string Name => "deadlock";
        public override string About => "threads that wait for each other, and bystanders behind them";
        public override Key[] Keys =>
        [
            Choice("kind", "what they wait with", "monitor", "lock", "mixed", "semaphore", "threeway", "async",
                   "rwlock", "join", "event"),
            new("bystanders", "3", "threads that wait behind the first lock", 0, 500),
        ];

        public override void Start(Settings settings)
        {
            _kind = settings.Word("kind");
            _bystanders = settings.Int("bystanders");
            Action bystander = Prepare();

            List<Thread> threads = _cycle.Where(party => party.Thread is not ("pool" or Counter))
                .Select(party => Worker.Start(party.Thread, () => Act(party.Thread, party.Act))).ToList();
            if (_kind == "async")
            {
                Worker.Until(() => Checkout.Completer != null, "the pool thread");
                threads.Add(Checkout.Completer!);
            }
            if (_counter != null)
            {
                Worker.Until(() => (_counter.ThreadState & (ThreadState.Unstarted | ThreadState.WaitSleepJoin)) ==
                                   ThreadState.WaitSleepJoin, "the counting thread");
                threads.Add(_counter);
            }
            // Threads also wait at the barrier, so they must be past it before "blocked" means deadlock.
            Worker.Until(() => Volatile.Read(ref _met), "all parties to hold their first lock");
            Worker.UntilBlocked(threads);
            Worker.UntilBlocked(Enumerable.Range(0, _bystanders).Select(i => Worker.Start($"teller-{i}", bystander)).ToList());
        }

        const string Counter = "counter";
        bool _met;
        Thread? _counter;

        void Act(string thread, Action act)
        {
            lock (_ids)
                _ids[thread] = (Clock.ThreadId(), Environment.CurrentManagedThreadId);
            act();
        }

        // Fills the cycle and returns what a bystander does.
        Action Prepare()
        {
            switch (_kind)
            {
                case "monitor":
                    return Cycle(Ledger.TransferByMonitor, "TransferByMonitor", "Gate", Ledger.Savings, Ledger.Checking);
                case "threeway":
                    return Cycle(Ledger.TransferByMonitor, "TransferByMonitor", "Gate",
                                 Ledger.Savings, Ledger.Checking, Ledger.Credit);
                case "semaphore":
                    Cycle(Ledger.TransferBySemaphore, "TransferBySemaphore", "Slot", Ledger.Savings, Ledger.Checking);
                    return Bystander("ShowBalanceBySemaphore", "savings.Slot",
                                     () => Teller.ShowBalanceBySemaphore(Ledger.Savings));
                case "rwlock":
                    Cycle(Ledger.TransferByBook, "TransferByBook", "Book", Ledger.Savings, Ledger.Checking);
                    return Bystander("WriteBook", "savings.Book", () => Teller.WriteBook(Ledger.Savings));
                case "join":
                    return Close("CloseAndJoin", "thread counter", Closing.CloseAndJoin);
                case "event":
                    return Close("CloseAndWait", "event Counted", Closing.CloseAndWait);
                case "async":
                    _met = true;
                    _cycle.Add(new("checkout", "Shop.Bank.Checkout.PayBlocking", "CartGate", "task of ConfirmAsync",
                                   Checkout.PayBlocking));
                    _cycle.Add(new("pool", "Shop.Bank.Checkout.UpdateCart", "task of ConfirmAsync", "CartGate", () => { }));
                    _bystanderMethod = "Shop.Bank.Checkout.ShowCart";
                    _bystandersWaitFor = "CartGate";
                    return Checkout.ShowCart;
                default:
                    return PrepareLock();
            }
        }

        Action Close(string method, string waitsFor, Action<Thread> close)
        {
            _met = true;
            _counter = new Thread(() => Act(Counter, Closing.Count)) { Name = Counter, IsBackground = true };
            _cycle.Add(new("closer", $"Shop.Bank.Closing.{method}", "Till", waitsFor, () => close(_counter)));
            _cycle.Add(new(Counter, "Shop.Bank.Closing.Count", waitsFor, "Till", () => { }));
            _bystanderMethod = "Shop.Bank.Closing.Count";
            _bystandersWaitFor = "Till";
            return Closing.Count;
        }

        Action PrepareLock()
        {
#if NET9_0_OR_GREATER
            if (_kind == "lock")
            {
                Cycle(Ledger.TransferByLock, "TransferByLock", "Lock", Ledger.Savings, Ledger.Checking);
                return Bystander("ShowBalanceByLock", "savings.Lock", () => Teller.ShowBalanceByLock(Ledger.Savings));
            }
            var meeting = new Barrier(2, _ => Volatile.Write(ref _met, true));
            _cycle.Add(new("transfer-savings", "Shop.Bank.Ledger.TransferMonitorThenLock", "savings.Gate", "checking.Lock",
                           () => Ledger.TransferMonitorThenLock(Ledger.Savings, Ledger.Checking, meeting)));
            _cycle.Add(new("transfer-checking", "Shop.Bank.Ledger.TransferLockThenMonitor", "checking.Lock", "savings.Gate",
                           () => Ledger.TransferLockThenMonitor(Ledger.Checking, Ledger.Savings, meeting)));
            return Bystander("ShowBalance", "savings.Gate", () => Teller.ShowBalance(Ledger.Savings));
#else
            throw new UnsupportedException($"deadlock kind={_kind}: System.Threading.Lock is unsupported on net8.0");
#endif
        }

        Action Cycle(Action<Account, Account, Barrier> transfer, string method, string field, params Account[] accounts)
        {
            var meeting = new Barrier(accounts.Length, _ => Volatile.Write(ref _met, true));
            for (int i = 0; i < accounts.Length; i++)
            {
                Account from = accounts[i];
                Account to = accounts[(i + 1) % accounts.Length];
                _cycle.Add(new($"transfer-{from.Name}", $"Shop.Bank.Ledger.{method}", $"{from.Name}.{field}",
                               $"{to.Name}.{field}", () => transfer(from, to, meeting)));
            }
            return Bystander("ShowBalance", "savings.Gate", () => Teller.ShowBalance(Ledger.Savings));
        }

        Action Bystander(string method, string waitsFor, Action wait)
        {
            _bystanderMethod = $"Shop.Bank.Teller.{method}";
            _bystandersWaitFor = waitsFor;
            return wait;
        }

        public override JsonObject Truth()
        {
            var cycle = new JsonArray();
            foreach (Party party in _cycle)
            {
                _ids.TryGetValue(party.Thread, out var ids);
                cycle.Add(new JsonObject
                {
                    ["thread"] = party.Thread,
                    ["tid"] = ids.Tid,
                    ["managed_id"] = party.Thread == "pool" ? Checkout.Completer!.ManagedThreadId : ids.ManagedId,
                    ["method"] = party.Method,
                    ["holds"] = party.Holds,
                    ["waits_for"] = party.WaitsFor,
                });
            }
            return new JsonObject
            {
                ["kind"] = _kind,
                ["cycle"] = cycle,
                ["bystanders"] = _bystanders,
                ["bystander_method"] = _bystanderMethod,
                ["bystanders_wait_for"] = _bystandersWaitFor,
            };
        }
    }
}
