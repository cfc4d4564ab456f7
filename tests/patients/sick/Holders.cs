// Objects that are kept by what people forget: subscriptions, timers, registrations, captured variables and contexts.

using System.Collections.Concurrent;
using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Holding
{
    // Payload is what makes a forgotten object expensive.
    abstract class Weight(int payload)
    {
        public readonly byte[] Payload = new byte[payload];
    }

    sealed class Exchange
    {
        public static readonly Exchange Main = new();
        public event EventHandler? RateChanged;
        public event Action? Closed;

        public void Close()
        {
            RateChanged?.Invoke(this, EventArgs.Empty);
            Closed?.Invoke();
        }
    }

    sealed class Dashboard : Weight
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public Dashboard(int payload) : base(payload) => Exchange.Main.RateChanged += OnRateChanged;

        void OnRateChanged(object? sender, EventArgs args) => Payload[0]++;
    }

    sealed class Page(int payload) : Weight(payload)
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Open(int payload)
        {
            var page = new Page(payload);
            Exchange.Main.Closed += () => page.Payload[0]++;
        }
    }

    sealed class Poller : Weight
    {
        readonly Timer _timer;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public Poller(int payload) : base(payload) => _timer = new Timer(Tick, null, 90_000, 90_000);

        void Tick(object? state) => Payload[0]++;
    }

    static class Shutdown
    {
        public static readonly CancellationTokenSource Source = new();
    }

    sealed class Job : Weight
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public Job(int payload) : base(payload) => Shutdown.Source.Token.Register(Stop);

        void Stop() => Payload[0]++;
    }

    // Links a source to the one of the process and never disposes it.
    sealed class Call : Weight
    {
        readonly CancellationTokenSource _linked = CancellationTokenSource.CreateLinkedTokenSource(Shutdown.Source.Token);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public Call(int payload) : base(payload) => _linked.Token.Register(Abort);

        void Abort() => Payload[0]++;
    }

    // A time-out that is neither reached nor disposed.
    sealed class Lookup : Weight
    {
        readonly CancellationTokenSource _limit = new(TimeSpan.FromHours(1));

        [MethodImpl(MethodImplOptions.NoInlining)]
        public Lookup(int payload) : base(payload) => _limit.Token.Register(Abort);

        void Abort() => Payload[0]++;
    }

    sealed record Reminder(byte[] Letter)
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task SendAsync(int payload)
        {
            var reminder = new Reminder(new byte[payload]);
            await Task.Delay(TimeSpan.FromHours(2));
            reminder.Letter[0]++;
        }
    }

    sealed record Tenant(byte[] Rights)
    {
        public static readonly AsyncLocal<Tenant?> Current = new();
    }

    static class Heart
    {
        static readonly List<Timer> Beats = [];

        // The timer keeps the context of who made it.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Begin(int payload)
        {
            Tenant.Current.Value = new Tenant(new byte[payload]);
            lock (Beats)
                Beats.Add(new Timer(Beat, null, 120_000, 120_000));
            Tenant.Current.Value = null;
        }

        static void Beat(object? state) { }
    }

    sealed class Visitor
    {
        static readonly List<Visitor> All = [];
        static readonly ConditionalWeakTable<Visitor, Footprint> Footprints = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Enter(int payload)
        {
            var visitor = new Visitor();
            All.Add(visitor);
            Footprints.Add(visitor, new Footprint(payload));
        }
    }

    sealed class Footprint(int payload) : Weight(payload);

    sealed class Receipt(int payload) : Weight(payload)
    {
        static readonly ConcurrentBag<Receipt> Printed = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Print(int payload) => Printed.Add(new Receipt(payload));
    }

    // Its finalizer waits for something that never comes.
    sealed class Connection(int payload) : Weight(payload)
    {
        static readonly ManualResetEventSlim Flushed = new();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Forget(int payload) => _ = new Connection(payload);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Flush() => Flushed.Wait();

        ~Connection() => Flush();
    }
}

namespace Patients
{
    sealed class Holders : Sickness
    {
        // What is kept, and the words of the author for what keeps it.
        sealed record Kind(Type Type, string Keeper, Action<int> Add);

        static readonly Dictionary<string, Kind> Known = new()
        {
            ["event"] = new(typeof(Shop.Holding.Dashboard), "Shop.Holding.Exchange.RateChanged",
                            payload => _ = new Shop.Holding.Dashboard(payload)),
            ["closure"] = new(typeof(Shop.Holding.Page), "Shop.Holding.Exchange.Closed", Shop.Holding.Page.Open),
            ["timer"] = new(typeof(Shop.Holding.Poller), "Shop.Holding.Poller.Tick",
                            payload => _ = new Shop.Holding.Poller(payload)),
            ["registration"] = new(typeof(Shop.Holding.Job), "Shop.Holding.Shutdown.Source",
                                   payload => _ = new Shop.Holding.Job(payload)),
            ["linked"] = new(typeof(Shop.Holding.Call), "Shop.Holding.Shutdown.Source",
                             payload => _ = new Shop.Holding.Call(payload)),
            ["timeout"] = new(typeof(Shop.Holding.Lookup), "CancellationTokenSource",
                              payload => _ = new Shop.Holding.Lookup(payload)),
            ["delay"] = new(typeof(Shop.Holding.Reminder), "Shop.Holding.Reminder.SendAsync",
                            payload => _ = Shop.Holding.Reminder.SendAsync(payload)),
            ["async-local"] = new(typeof(Shop.Holding.Tenant), "Shop.Holding.Tenant.Current", Shop.Holding.Heart.Begin),
            ["weak-table"] = new(typeof(Shop.Holding.Footprint), "Shop.Holding.Visitor", Shop.Holding.Visitor.Enter),
            ["bag"] = new(typeof(Shop.Holding.Receipt), "Shop.Holding.Receipt.Printed", Print),
            ["finalizer"] = new(typeof(Shop.Holding.Connection), "Shop.Holding.Connection.Flush",
                                Shop.Holding.Connection.Forget),
        };

        readonly Counter _objects = new();
        Kind _kind = Known["event"];
        int _payload;

        public override string Name => "holders";
        public override string About => "objects that are kept by what people forget: subscriptions, timers, contexts";
        public override Key[] Keys =>
        [
            Choice("kind", "what keeps them", [.. Known.Keys]),
            new("initial", "1000", "objects before READY", 0, 1e7),
            new("rate", "0", "objects a second from then on; 0 = none", 0, 1e6),
            new("size", "1000", "payload bytes of each object", 1, 1e6),
            new("max", "1000000", "objects after which growth ends, to spare the machine", 1, 2e7),
        ];

        // Four threads, each of which has a part of the bag of its own.
        static void Print(int payload)
        {
            var thread = new Thread(() => Shop.Holding.Receipt.Print(payload));
            if (Random.Shared.Next(250) == 0)
            {
                thread.Start();
                thread.Join();
                return;
            }
            Shop.Holding.Receipt.Print(payload);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        void AddOne()
        {
            _kind.Add(_payload);
            _objects.Increment();
        }

        public override void Start(Settings settings)
        {
            _kind = Known[settings.Word("kind")];
            _payload = settings.Int("size");
            int initial = settings.Int("initial"), max = settings.Int("max");
            var first = new Thread(() =>
            {
                for (int i = 0; i < initial; i++)
                    AddOne();
            });
            first.Start();
            first.Join();
            if (settings.Number("rate") > 0)
                Worker.Loop("visitors", settings.Number("rate"), () =>
                {
                    if (_objects.Total < max)
                        AddOne();
                });
            GC.Collect();
        }

        public override void Mark() => _objects.Mark();

        public override JsonObject Truth() => new()
        {
            ["type"] = _kind.Type.FullName,
            ["keeper"] = _kind.Keeper,
            ["objects"] = _objects.Total,
            ["added"] = _objects.SinceMark,
        };
    }
}
