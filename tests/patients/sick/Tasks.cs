// Tasks that never end (stuck-tasks) and a thread pool that cannot keep up (starvation).

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using System.Threading.Channels;
using Patients;

namespace Shop.Orders
{
    static class OrderFlow
    {
        public static readonly List<TaskCompletionSource<int>> Confirmations = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task PlaceAsync(int order) => _ = await ReserveAsync(order) + 1;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task<int> ReserveAsync(int order)
        {
            int confirmed = await ConfirmAsync(order);
            return confirmed + 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task<int> ConfirmAsync(int order)
        {
            var confirmation = new TaskCompletionSource<int>();
            Confirmations.Add(confirmation);
            return await confirmation.Task + order;
        }
    }
}

namespace Shop.Inventory
{
    static class Shelf
    {
        static readonly SemaphoreSlim Ladder = new(0);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task FetchAsync()
        {
            await Ladder.WaitAsync();
            Ladder.Release();
        }
    }
}

namespace Shop.Mail
{
    static class Outbox
    {
        static readonly Channel<string> Letters = Channel.CreateUnbounded<string>();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task SendNextAsync() => _ = await Letters.Reader.ReadAsync();
    }

    static class Postbox
    {
        static readonly Channel<string> Slots = Channel.CreateBounded<string>(1);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task PostAsync(string letter) => await Slots.Writer.WriteAsync(letter);

        // Fills it; nobody will ever take anything out.
        public static void Fill() => Slots.Writer.TryWrite("first");
    }

    static class Newsletter
    {
        static readonly Channel<string> Issues = Channel.CreateUnbounded<string>();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task ReadAllAsync()
        {
            await foreach (string issue in IssuesAsync())
                Console.WriteLine(issue);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async IAsyncEnumerable<string> IssuesAsync()
        {
            while (true)
                yield return await Issues.Reader.ReadAsync();
        }
    }

    static class Reminder
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task RemindLaterAsync(TimeSpan later) => await Task.Delay(later);
    }
}

namespace Shop.Shipping
{
    static class Consignment
    {
        static readonly List<TaskCompletionSource> Parcels = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task CollectAsync() => await Task.WhenAll(PackAsync(), PackAsync());

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task PackAsync()
        {
            var parcel = new TaskCompletionSource();
            Parcels.Add(parcel);
            await parcel.Task;
        }
    }

    static class Rider
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task DeliverAsync() => await Task.WhenAny(RideAsync(), Task.Delay(TimeSpan.FromHours(24)));

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task RideAsync() => await Arrival();

        // The source is dropped: nobody can complete it.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static Task Arrival() => new TaskCompletionSource().Task;
    }

    static class Tracking
    {
        public static readonly Counter Beats = new();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static async Task FollowAsync()
        {
            while (true)
            {
                await Task.Delay(50);
                Beats.Increment();
            }
        }
    }
}

namespace Shop.Api
{
    static class Handler
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int HandleByResult(int blockMs) => FetchAsync(blockMs).Result;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int HandleBySleep(int blockMs)
        {
            Thread.Sleep(blockMs);
            return blockMs;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task<int> FetchAsync(int blockMs)
        {
            await Task.Delay(blockMs);
            return blockMs;
        }
    }
}

namespace Patients
{
    sealed class StuckTasks : Sickness
    {
        static readonly TimeSpan FarAway = TimeSpan.FromHours(24);
        readonly List<Task> _tasks = [];
        int _tcs, _semaphore, _channel, _whenAll, _timer, _moving, _room, _stream, _gone;

        public override string Name => "stuck-tasks";
        public override string About => "async methods that wait for something that never comes";
        public override Key[] Keys =>
        [
            new("tcs", "100", "chains that end at a TaskCompletionSource nobody completes", 0, 1e6),
            new("semaphore", "10", "waiting for a SemaphoreSlim", 0, 1e6),
            new("channel", "10", "waiting for an empty channel", 0, 1e6),
            new("whenall", "5", "waiting for two others with WhenAll", 0, 1e6),
            new("timer", "5", "waiting for a timer that is a day away", 0, 1e6),
            new("room", "0", "waiting for room in a full channel", 0, 1e6),
            new("stream", "0", "waiting for the next item of an async stream", 0, 1e6),
            new("gone", "0", "waiting with WhenAny for a day, or for a TaskCompletionSource that is gone", 0, 1e6),
            new("moving", "2", "healthy ones that make progress", 0, 1000),
        ];

        public override void Start(Settings settings)
        {
            _tcs = Begin(settings.Int("tcs"), Shop.Orders.OrderFlow.PlaceAsync);
            _semaphore = Begin(settings.Int("semaphore"), _ => Shop.Inventory.Shelf.FetchAsync());
            _channel = Begin(settings.Int("channel"), _ => Shop.Mail.Outbox.SendNextAsync());
            _whenAll = Begin(settings.Int("whenall"), _ => Shop.Shipping.Consignment.CollectAsync());
            _timer = Begin(settings.Int("timer"), _ => Shop.Mail.Reminder.RemindLaterAsync(FarAway));
            Shop.Mail.Postbox.Fill();
            _room = Begin(settings.Int("room"), i => Shop.Mail.Postbox.PostAsync($"letter {i}"));
            _stream = Begin(settings.Int("stream"), _ => Shop.Mail.Newsletter.ReadAllAsync());
            _gone = Begin(settings.Int("gone"), _ => Shop.Shipping.Rider.DeliverAsync());
            if (_gone > 0)
                GC.Collect();
            _moving = Begin(settings.Int("moving"), _ => Shop.Shipping.Tracking.FollowAsync());
            if (_moving > 0)
                Worker.Until(() => Shop.Shipping.Tracking.Beats.Total > 0, "the moving tasks");
        }

        // Each call runs up to its first await on this thread, so all are stuck when it returns.
        int Begin(int count, Func<int, Task> begin)
        {
            for (int i = 0; i < count; i++)
                _tasks.Add(begin(i));
            return count;
        }

        public override void Mark() => Shop.Shipping.Tracking.Beats.Mark();

        public override JsonObject Truth() => new()
        {
            ["stuck"] = _tasks.Count(task => !task.IsCompleted) - _moving,
            ["kinds"] = new JsonObject
            {
                ["tcs"] = _tcs,
                ["semaphore"] = _semaphore,
                ["channel"] = _channel,
                ["whenall"] = _whenAll,
                ["timer"] = _timer,
                ["room"] = _room,
                ["stream"] = _stream,
                ["gone"] = _gone,
            },
            // State machines that exist, by async method.
            ["methods"] = Methods(),
            ["moving"] = _moving,
            ["beats"] = Shop.Shipping.Tracking.Beats.SinceMark,
        };

        JsonObject Methods()
        {
            var all = new JsonObject();
            foreach ((string method, int count) in new[]
            {
                ("Shop.Orders.OrderFlow.PlaceAsync", _tcs),
                ("Shop.Orders.OrderFlow.ReserveAsync", _tcs),
                ("Shop.Orders.OrderFlow.ConfirmAsync", _tcs),
                ("Shop.Inventory.Shelf.FetchAsync", _semaphore),
                ("Shop.Mail.Outbox.SendNextAsync", _channel),
                ("Shop.Shipping.Consignment.CollectAsync", _whenAll),
                ("Shop.Shipping.Consignment.PackAsync", 2 * _whenAll),
                ("Shop.Mail.Reminder.RemindLaterAsync", _timer),
                ("Shop.Mail.Postbox.PostAsync", _room),
                ("Shop.Mail.Newsletter.ReadAllAsync", _stream),
                ("Shop.Mail.Newsletter.IssuesAsync", _stream),
                ("Shop.Shipping.Rider.DeliverAsync", _gone),
                ("Shop.Shipping.Rider.RideAsync", _gone),
                ("Shop.Shipping.Tracking.FollowAsync", _moving),
            })
                if (count > 0)
                    all[method] = count;
            return all;
        }
    }

    sealed class Starvation : Sickness
    {
        const int MaxBacklog = 20_000; // to spare the machine
        readonly Counter _queued = new(), _started = new(), _finished = new(), _latencyNs = new();
        long _maxLatencyNs;
        string _kind = "";

        public override string Name => "starvation";
        public override string About => "work items that block their pool threads faster than the pool grows";
        public override Key[] Keys =>
        [
            Choice("kind", "how a work item blocks", "result", "sleep"),
            new("rate", "100", "work items a second", 1, 10_000),
            new("block-ms", "2000", "time one work item blocks its thread", 1, 60_000),
            new("max-threads", "0", "limit of the pool; 0 = the runtime's own", 0, 1000),
        ];

        public override void Start(Settings settings)
        {
            _kind = settings.Word("kind");
            int blockMs = settings.Int("block-ms");
            if (settings.Int("max-threads") is > 0 and int limit)
            {
                ThreadPool.SetMinThreads(1, 1);
                if (!ThreadPool.SetMaxThreads(limit, limit))
                    throw new UsageException(
                        $"max-threads={limit}: the runtime accepts no fewer than {Environment.ProcessorCount}");
            }
            Worker.Loop("listener", settings.Number("rate"), () => Accept(blockMs));
            Worker.Until(() => ThreadPool.PendingWorkItemCount >= 10, "the queue to grow");
        }

        void Accept(int blockMs)
        {
            if (_queued.Total - _started.Total >= MaxBacklog)
                return;
            _queued.Increment();
            long queuedNs = Clock.MonotonicNs();
            ThreadPool.UnsafeQueueUserWorkItem(_ => Handle(queuedNs, blockMs), null);
        }

        void Handle(long queuedNs, int blockMs)
        {
            long latency = Clock.MonotonicNs() - queuedNs;
            _latencyNs.Add(latency);
            _started.Increment();
            InterlockedMax(ref _maxLatencyNs, latency);
            if (_kind == "result")
                Shop.Api.Handler.HandleByResult(blockMs);
            else
                Shop.Api.Handler.HandleBySleep(blockMs);
            _finished.Increment();
        }

        static void InterlockedMax(ref long place, long value)
        {
            long seen = Interlocked.Read(ref place);
            while (value > seen)
            {
                long before = Interlocked.CompareExchange(ref place, value, seen);
                if (before == seen)
                    return;
                seen = before;
            }
        }

        public override void Mark()
        {
            foreach (Counter counter in new[] { _queued, _started, _finished, _latencyNs })
                counter.Mark();
            Interlocked.Exchange(ref _maxLatencyNs, 0);
        }

        public override JsonObject Truth() => new()
        {
            ["queued"] = _queued.SinceMark,
            ["started"] = _started.SinceMark,
            ["finished"] = _finished.SinceMark,
            ["waiting"] = _queued.Total - _started.Total,
            ["blocked"] = _started.Total - _finished.Total,
            ["mean_latency_ns"] = _latencyNs.SinceMark / Math.Max(1, _started.SinceMark),
            ["max_latency_ns"] = Interlocked.Read(ref _maxLatencyNs),
            ["method"] = _kind == "result" ? "Shop.Api.Handler.HandleByResult" : "Shop.Api.Handler.HandleBySleep",
        };
    }
}
