// Memory that only grows, in three well-known shapes, and a cache that fills and then stops.

using System.Collections.Concurrent;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Sessions
{
    sealed class Session(int id, int payload)
    {
        public readonly int Id = id;
        public readonly byte[] State = new byte[payload];
    }

    static class SessionStore
    {
        static readonly Dictionary<int, Session> _sessions = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Open(int id, int payload) => _sessions.Add(id, new Session(id, payload));
    }
}

namespace Shop.Notifications
{
    sealed class PriceFeed
    {
        public static readonly PriceFeed Current = new();
        public event EventHandler? PriceChanged;

        public void Publish() => PriceChanged?.Invoke(this, EventArgs.Empty);
    }

    // Subscribes and never unsubscribes: the feed keeps every subscriber alive.
    sealed class PriceSubscriber
    {
        readonly byte[] _state;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public PriceSubscriber(PriceFeed feed, int payload)
        {
            _state = new byte[payload];
            feed.PriceChanged += OnPriceChanged;
        }

        void OnPriceChanged(object? sender, EventArgs args) => _state[0]++;
    }
}

namespace Shop.Catalog
{
    sealed class Product(int payload)
    {
        public readonly byte[] Picture = new byte[payload];
    }

    static class Registry<T> where T : class
    {
        static readonly List<T> Items = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Add(T item) => Items.Add(item);
    }

    static class Basket
    {
        [ThreadStatic]
        static List<Product>? _products;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Add(Product product) => (_products ??= []).Add(product);
    }

    sealed class ProductCache(int limit)
    {
        public static readonly ProductCache Unlimited = new(int.MaxValue);
        public static ProductCache Limited = new(0);
        readonly ConcurrentDictionary<string, Product> _products = new();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public bool Load(int id, int payload) =>
            _products.Count < limit && _products.TryAdd($"product-{id}", new Product(payload));
    }
}

namespace Patients
{
    sealed class Leak : Sickness
    {
        sealed class Holder(string field, string type, int objectBytes, Func<int, int, bool> add)
        {
            public readonly Counter Objects = new();
            int _nextId;

            public void Grow(int payload)
            {
                if (add(_nextId++, payload))
                    Objects.Increment();
            }

            // objectBytes is the object itself; the payload array comes on top, the collection's own
            // slots do not.
            public JsonObject Truth(int payload)
            {
                long each = objectBytes + (24 + payload + 7) / 8 * 8;
                return new JsonObject
                {
                    ["field"] = field,
                    ["type"] = type,
                    ["objects"] = Objects.Total,
                    ["bytes"] = Objects.Total * each,
                    ["added_objects"] = Objects.SinceMark,
                    ["added_bytes"] = Objects.SinceMark * each,
                };
            }
        }

        readonly Dictionary<string, Holder> _holders = new()
        {
            ["static"] = new("Shop.Sessions.SessionStore._sessions", "Shop.Sessions.Session", 32, (id, payload) =>
            {
                Shop.Sessions.SessionStore.Open(id, payload);
                return true;
            }),
            // A delegate of 64 bytes comes with each subscriber.
            ["event"] = new("Shop.Notifications.PriceFeed.Current", "Shop.Notifications.PriceSubscriber", 24 + 64,
                (id, payload) =>
                {
                    _ = new Shop.Notifications.PriceSubscriber(Shop.Notifications.PriceFeed.Current, payload);
                    return true;
                }),
            ["cache"] = new("Shop.Catalog.ProductCache.Unlimited", "Shop.Catalog.Product", 24,
                (id, payload) => Shop.Catalog.ProductCache.Unlimited.Load(id, payload)),
            ["generic-static"] = new("Shop.Catalog.Registry<Shop.Catalog.Product>.Items", "Shop.Catalog.Product", 24,
                (id, payload) =>
                {
                    Shop.Catalog.Registry<Shop.Catalog.Product>.Add(new(payload));
                    return true;
                }),
            // Of the thread "visitors"; what was there before READY belongs to the main thread.
            ["thread-static"] = new("Shop.Catalog.Basket._products", "Shop.Catalog.Product", 24, (id, payload) =>
            {
                Shop.Catalog.Basket.Add(new(payload));
                return true;
            }),
            // Made by many threads, so that those of a server's collector are in the tables of several processors.
            ["handle"] = new("strong handles", "Shop.Catalog.Product", 24, (id, payload) =>
            {
                if (id % 25 == 0)
                    OnAnotherThread(() => GCHandle.Alloc(new Shop.Catalog.Product(payload)));
                else
                    GCHandle.Alloc(new Shop.Catalog.Product(payload));
                return true;
            }),
            ["cache-bounded"] = new("Shop.Catalog.ProductCache.Limited", "Shop.Catalog.Product", 24,
                (id, payload) => Shop.Catalog.ProductCache.Limited.Load(id, payload)),
        };
        Dictionary<string, Holder> _chosen = [];
        int _payload;

        public override string Name => "leak";
        public override string About => "objects that are never let go, by several holders (cache-bounded is no leak)";
        public override Key[] Keys =>
        [
            Choice("holder", "who holds them; all = static, event and cache",
                   "all", "static", "event", "cache", "cache-bounded", "generic-static", "thread-static", "handle"),
            new("rate", "500", "objects a second and holder", 0.1, 1e6),
            new("size", "1000", "payload bytes of each object", 1, 1e6),
            new("initial", "0", "objects per holder before READY", 0, 2e7),
            new("limit", "2000", "objects after which cache-bounded stops", 1, 1e7),
            new("max", "1000000", "objects per holder after which growth ends, to spare the machine", 1, 2e7),
        ];

        public override void Start(Settings settings)
        {
            string holder = settings.Word("holder");
            Shop.Catalog.ProductCache.Limited = new(settings.Int("limit"));
            _chosen = _holders.Where(pair => holder == "all" ? pair.Key is "static" or "event" or "cache" : pair.Key == holder)
                              .ToDictionary();
            _payload = settings.Int("size");
            int initial = settings.Int("initial");
            int max = settings.Int("max");
            foreach (Holder one in _chosen.Values)
                for (int i = 0; i < initial; i++)
                    one.Grow(_payload);
            Worker.Loop("visitors", settings.Number("rate"), () =>
            {
                foreach (Holder one in _chosen.Values)
                    if (one.Objects.Total < max)
                        one.Grow(_payload);
            });
            Worker.Until(() => _chosen.Values.All(one => one.Objects.Total > 0), "the first object");
        }

        static void OnAnotherThread(Action action)
        {
            var thread = new Thread(() => action());
            thread.Start();
            thread.Join();
        }

        public override void Mark()
        {
            foreach (Holder holder in _chosen.Values)
                holder.Objects.Mark();
        }

        public override JsonObject Truth()
        {
            var holders = new JsonObject();
            foreach (var (name, holder) in _chosen)
                holders[name] = holder.Truth(_payload);
            return new JsonObject { ["holders"] = holders };
        }
    }
}
