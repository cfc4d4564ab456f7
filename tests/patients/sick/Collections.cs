// Collections that are empty, far too large or mostly unused, and equal numbers in many boxes.

using System.Collections.Concurrent;
using System.Reflection;
using System.Text;
using System.Text.Json.Nodes;

namespace Shop.Baskets
{
    sealed class Gift;

    sealed class Options : List<long>; // derived, so that its own name is not a collection's

    sealed class Basket
    {
        public readonly List<Gift> Gifts = new();
        public readonly Dictionary<string, string> Notes = new();
        public readonly List<int> Articles = new(64) { 1, 2 };
        public readonly Options Options = new();
        public readonly Dictionary<int, int> Prices = new(100) { [1] = 2, [2] = 3, [3] = 4 };
        public readonly HashSet<long> Seen = new(100) { 1, 2 };
        public readonly Queue<Gift> Wishes = new(50);
        public readonly ConcurrentDictionary<int, int> Votes = new(1, 200);
        public readonly StringBuilder Log = new(1000);
        public readonly Gift?[] Slots = new Gift?[100];
        public readonly byte[] Photo = new byte[1000];
        public readonly int[] Nothing = MakeNothing();
        public readonly object Quantity;
        // These are in order.
        public readonly List<int> Days = new(4) { 1, 2, 3 };
        public readonly int[] Weights = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];

        public Basket(int number)
        {
            Options.EnsureCapacity(20);
            Options.Add(1);
            Options.Add(2);
            Options.Add(3);
            Wishes.Enqueue(new());
            for (int i = 0; i < 7; i++)
                Votes[i] = i;
            Log.Append("x");
            Slots[3] = Slots[5] = new();
            Array.Fill(Photo, (byte)1, 0, 100);
            Quantity = number % 10;
        }

        static int[] MakeNothing()
        {
            int none = Environment.TickCount64 < 0 ? 1 : 0;
            return new int[none];
        }
    }

    static class Shelf
    {
        public static readonly List<Basket> Baskets = [];
    }
}

namespace Patients
{
    sealed class WastedCollections : Sickness
    {
        const int EmptyList = 32, EmptyDictionary = 80, Box = 24, BoxedValues = 10;
        int _baskets;

        public override string Name => "wasted-collections";
        public override string About => "baskets whose collections are empty or far too large";
        public override Key[] Keys => [new("baskets", "3000", "how many of them", BoxedValues, 1e6)];

        public override void Start(Settings settings)
        {
            _baskets = settings.Int("baskets");
            Shop.Baskets.Shelf.Baskets.Capacity = _baskets;
            for (int i = 0; i < _baskets; i++)
                Shop.Baskets.Shelf.Baskets.Add(new(i));
        }

        // An array's bytes: header, type, length, elements.
        static long Size(long elements, long each) => (24 + elements * each + 7) / 8 * 8;

        static long Spare(long room, long used, long each) => Size(room, each) - Size(used, each);

        public override JsonObject Truth()
        {
            Shop.Baskets.Basket one = Shop.Baskets.Shelf.Baskets[0];
            long prices = one.Prices.EnsureCapacity(0), seen = one.Seen.EnsureCapacity(0);
            var places = new JsonArray
            {
                Place("Gifts", "empty List<Gift>", EmptyList),
                Place("Notes", "empty Dictionary<String, String>", EmptyDictionary),
                Place("Articles", "List<Int32>", Spare(64, 2, 4)),
                Place("Options", "Options", Spare(one.Options.Capacity, 3, 8)),
                Place("Prices", "Dictionary<Int32, Int32>", Spare(prices, 3, 16) + Spare(prices, 3, 4)),
                Place("Seen", "HashSet<Int64>", Spare(seen, 2, 16) + Spare(seen, 2, 4)),
                Place("Wishes", "Queue<Gift>", Spare(50, 1, 8)),
                Place("Votes", "ConcurrentDictionary<Int32, Int32>", Spare(Buckets(one.Votes), 7, 8)),
                Place("Log", "StringBuilder", Spare(1000, 1, 2)),
                Place("Slots", "Gift[]", Spare(100, 2, 8)),
                Place("Photo", "Byte[]", Spare(1000, 100, 1)),
                Place("Nothing", "empty Int32[]", Size(0, 4)),
            };
            places.Add(new JsonObject
            {
                ["field"] = "Shop.Baskets.Basket.Quantity",
                ["what"] = "boxed Int32",
                ["objects"] = _baskets,
                ["wasted_bytes"] = Box * (_baskets - BoxedValues),
            });
            return new JsonObject
            {
                ["holder"] = "Shop.Baskets.Shelf.Baskets",
                ["in_order"] = new JsonArray("Shop.Baskets.Basket.Days", "Shop.Baskets.Basket.Weights"),
                ["places"] = places,
            };
        }

        static int Buckets(object dictionary)
        {
            const BindingFlags Hidden = BindingFlags.Instance | BindingFlags.NonPublic;
            object tables = dictionary.GetType().GetField("_tables", Hidden)!.GetValue(dictionary)!;
            return ((Array)tables.GetType().GetField("_buckets", Hidden)!.GetValue(tables)!).Length;
        }

        JsonObject Place(string field, string what, long wasted) => new()
        {
            ["field"] = "Shop.Baskets.Basket." + field,
            ["what"] = what,
            ["objects"] = _baskets,
            ["wasted_bytes"] = wasted * _baskets,
        };
    }
}
