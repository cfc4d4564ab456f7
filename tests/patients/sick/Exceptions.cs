// Exceptions of several kinds, each from its own named method.
//
// "objects" are exceptions created and thrown, "rethrows" are `throw;`, and "dispatched" are throws
// of an existing exception by an await (or GetResult) that saw its task fail. "raised" is the sum of
// the three; "events" is how many of them the runtime reports as ExceptionThrown: .NET 8 all, .NET 9
// and later all but the rethrows (counted in an EventPipe trace of each runtime).

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Orders
{
    sealed class OrderRejectedException(string message) : Exception(message);

    static class Validator
    {
        public static string Message = "order 17 rejected";

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Try(int depth)
        {
            try
            {
                Check(depth);
            }
            catch (OrderRejectedException) { }
        }

        // Recursion gives the throw site a stack of known depth.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Check(int depth)
        {
            if (depth <= 1)
            {
                ThrowLog.Created("Shop.Orders.Validator.Check", "Shop.Orders.OrderRejectedException");
                throw new OrderRejectedException(Message);
            }
            return Check(depth - 1) + 1;
        }
    }

    static class Stock
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Try()
        {
            try
            {
                Reserve();
            }
            catch (InvalidOperationException) { }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Reserve()
        {
            try
            {
                TakeFromShelf();
            }
            catch (InvalidOperationException)
            {
                ThrowLog.Rethrown("Shop.Orders.Stock.Reserve", "System.InvalidOperationException");
                throw;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void TakeFromShelf()
        {
            ThrowLog.Created("Shop.Orders.Stock.TakeFromShelf", "System.InvalidOperationException");
            throw new InvalidOperationException("shelf is empty");
        }
    }
}

namespace Shop.Billing
{
    sealed class PaymentFailedException(string message, Exception inner) : Exception(message, inner);

    static class Gateway
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Try()
        {
            try
            {
                Pay();
            }
            catch (PaymentFailedException) { }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Pay()
        {
            try
            {
                Charge();
            }
            catch (TimeoutException timeout)
            {
                ThrowLog.Created("Shop.Billing.Gateway.Pay", "Shop.Billing.PaymentFailedException", hasInner: true);
                throw new PaymentFailedException("payment failed", timeout);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Charge()
        {
            ThrowLog.Created("Shop.Billing.Gateway.Charge", "System.TimeoutException");
            throw new TimeoutException("bank did not answer");
        }
    }
}

namespace Shop.Shipping
{
    sealed class CourierUnavailableException(string message) : Exception(message);

    static class Courier
    {
        const string Type = "Shop.Shipping.CourierUnavailableException";

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Try()
        {
            Task shipping = ShipAsync();
            try
            {
                shipping.GetAwaiter().GetResult();
            }
            catch (CourierUnavailableException)
            {
                ThrowLog.Dispatched("Shop.Shipping.Courier.Try", Type);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task ShipAsync()
        {
            try
            {
                await BookAsync();
            }
            finally
            {
                ThrowLog.Dispatched("Shop.Shipping.Courier.ShipAsync", Type);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task BookAsync()
        {
            await Task.Yield();
            ThrowLog.Created("Shop.Shipping.Courier.BookAsync", Type);
            throw new CourierUnavailableException("no courier today");
        }
    }
}

namespace Shop.Data
{
    static class Repository<T>
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Try<TKey>(TKey key)
        {
            try
            {
                Find(key);
            }
            catch (KeyNotFoundException) { }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static T Find<TKey>(TKey key)
        {
            ThrowLog.Created("Shop.Data.Repository.Find", "System.Collections.Generic.KeyNotFoundException");
            throw new KeyNotFoundException($"no {typeof(T).Name} with key {key}");
        }
    }
}

namespace Patients
{
    static class ThrowLog
    {
        public static readonly CounterSet Objects = new(), Rethrows = new(), DispatchedTypes = new();
        public static readonly CounterSet WithInner = new(), Sites = new();

        public static void Created(string site, string type, bool hasInner = false)
        {
            Objects[type].Increment();
            Sites[site].Increment();
            if (hasInner)
                WithInner[type].Increment();
        }

        public static void Rethrown(string site, string type)
        {
            Rethrows[type].Increment();
            Sites[site].Increment();
        }

        public static void Dispatched(string site, string type)
        {
            DispatchedTypes[type].Increment();
            Sites[site].Increment();
        }
    }

    sealed class Exceptions : Sickness
    {
        const string HostileMessage = "a|b `c` <script>\u001b[31m\u202e 日本 \n second line";

        // How many exception objects one call of each kind creates.
        readonly Dictionary<string, (int Objects, Action<int> Throw)> _kinds = new()
        {
            ["simple"] = (1, Shop.Orders.Validator.Try),
            ["rethrow"] = (1, _ => Shop.Orders.Stock.Try()),
            ["inner"] = (2, _ => Shop.Billing.Gateway.Try()),
            ["async"] = (1, _ => Shop.Shipping.Courier.Try()),
            ["generic"] = (2, _ =>
            {
                Shop.Data.Repository<string>.Try(17);
                Shop.Data.Repository<int>.Try("seventeen");
            }),
        };
        readonly Counter _rounds = new();
        static bool RethrowsAreReported => Environment.Version.Major < 9;

        public override string Name => "exceptions";
        public override string About => "exceptions of several types at a known rate from named methods";
        public override Key[] Keys =>
        [
            new("rate", "100", "exception objects a second; 0 = as fast as possible", 0, 1e6),
            new("count", "0", "stop after so many rounds (a round throws each kind once); 0 = never", 0),
            new("depth", "5", "frames of Validator.Check above the throw of kind simple", 1, 1000),
            new("threads", "1", "throwing threads", 1, 100),
            Choice("kind", "which exceptions", "all", "simple", "rethrow", "inner", "async", "generic"),
            Choice("message", "message of kind simple", "plain", "hostile"),
        ];

        public override void Start(Settings settings)
        {
            string kind = settings.Word("kind");
            var chosen = _kinds.Where(pair => kind == "all" || pair.Key == kind).Select(pair => pair.Value).ToArray();
            int threads = settings.Int("threads");
            int depth = settings.Int("depth");
            int count = settings.Int("count");
            double roundsPerSecond = settings.Number("rate") / chosen.Sum(one => one.Objects) / threads;
            if (settings.Word("message") == "hostile")
                Shop.Orders.Validator.Message = HostileMessage;

            int taken = 0;
            for (int i = 0; i < threads; i++)
                Worker.Loop($"checkout-{i}", roundsPerSecond, () =>
                {
                    if (count > 0 && Interlocked.Increment(ref taken) > count)
                    {
                        Thread.Sleep(10);
                        return;
                    }
                    foreach (var one in chosen)
                        one.Throw(depth);
                    _rounds.Increment();
                });
            Worker.Until(() => _rounds.Total > 0, "the first exceptions");
        }

        public override void Mark()
        {
            foreach (CounterSet set in new[] { ThrowLog.Objects, ThrowLog.Rethrows, ThrowLog.DispatchedTypes,
                                               ThrowLog.WithInner, ThrowLog.Sites })
                set.Mark();
            _rounds.Mark();
        }

        public override JsonObject Truth()
        {
            JsonObject objects = ThrowLog.Objects.SinceMark();
            var types = new JsonObject();
            foreach (string type in objects.Select(pair => pair.Key))
            {
                long created = ThrowLog.Objects[type].SinceMark;
                long rethrows = ThrowLog.Rethrows[type].SinceMark;
                long dispatched = ThrowLog.DispatchedTypes[type].SinceMark;
                types[type] = new JsonObject
                {
                    ["objects"] = created,
                    ["rethrows"] = rethrows,
                    ["dispatched"] = dispatched,
                    ["raised"] = created + rethrows + dispatched,
                    ["events"] = created + dispatched + (RethrowsAreReported ? rethrows : 0),
                    ["with_inner"] = ThrowLog.WithInner[type].SinceMark,
                };
            }
            return new JsonObject
            {
                ["rounds"] = _rounds.SinceMark,
                ["rounds_total"] = _rounds.Total,
                ["objects"] = ThrowLog.Objects.SumSinceMark,
                ["raised"] = ThrowLog.Sites.SumSinceMark,
                ["events"] = types.Sum(pair => (long)pair.Value!["events"]!),
                ["types"] = types,
                ["sites"] = ThrowLog.Sites.SinceMark(),
            };
        }
    }
}
