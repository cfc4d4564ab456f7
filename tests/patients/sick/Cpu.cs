// Work on the processor, on paths with names. Each slice of work is measured with the thread's own
// CPU clock, so the truth does not depend on how fast the machine is or who else uses it.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Pricing
{
    static class Quote
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Total(int steps, bool tax) => tax ? Tax.Compute(steps) + 1 : Discount.Apply(steps) + 1;
    }

    // Tax and Discount do the same arithmetic, each in a loop of its own: the number of steps
    // decides the split, and the leaf of every sample is the method that a report must name.
    static class Tax
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Compute(int steps)
        {
            ulong sum = 1;
            for (int i = 0; i < steps; i++)
                sum = (sum ^ (ulong)i) * 6364136223846793005 + 1;
            return sum;
        }
    }

    static class Discount
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Apply(int steps)
        {
            ulong sum = 1;
            for (int i = 0; i < steps; i++)
                sum = (sum ^ (ulong)i) * 6364136223846793005 + 1;
            return sum;
        }
    }
}

namespace Shop.Search
{
    readonly record struct Price(long Cents) : IComparable<Price>
    {
        public int CompareTo(Price other) => Cents.CompareTo(other.Cents);
    }

    static class Ranking<T> where T : IComparable<T>
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Rank(T[] items, int rounds)
        {
            int inversions = 0;
            for (int round = 0; round < rounds; round++)
                for (int i = 1; i < items.Length; i++)
                    if (items[i - 1].CompareTo(items[i]) > 0)
                        inversions++;
            return inversions;
        }
    }

    static class CategoryTree
    {
        // Two branches per level: a recursion that is deep and busy.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Walk(int depth) => depth <= 1 ? 1UL : Walk(depth - 1) + Walk(depth - 2);

        // The addition after the call keeps it from becoming a jump.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Descend(int depth, int steps) => depth <= 1 ? Leaf(steps) : Descend(depth - 1, steps) + 1;

        [MethodImpl(MethodImplOptions.NoInlining)]
        static ulong Leaf(int steps)
        {
            ulong sum = 1;
            for (int i = 0; i < steps; i++)
                sum = (sum ^ (ulong)i) * 6364136223846793005 + 1;
            return sum;
        }
    }
}

namespace Shop.Archive
{
    static unsafe class Checksum
    {
        [DllImport("libz.so.1")]
        static extern nuint crc32(nuint crc, byte* bytes, uint length);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Sum(byte[] data)
        {
            fixed (byte* start = data)
                return crc32(0, start, (uint)data.Length);
        }
    }

    static unsafe class Sorter
    {
        [DllImport("libc")]
        static extern void qsort(int* items, nuint count, nuint size, delegate* unmanaged<int*, int*, int> compare);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Sort(int[] unsorted)
        {
            var items = (int[])unsorted.Clone();
            fixed (int* start = items)
                qsort(start, (nuint)items.Length, sizeof(int), &Compare);
            return (ulong)items[0];
        }

        [UnmanagedCallersOnly]
        static int Compare(int* a, int* b) => *a < *b ? -1 : *a > *b ? 1 : 0;
    }
}

namespace Patients
{
    sealed class Cpu : Sickness
    {
        const int Unit = 100_000; // steps: some tenths of a millisecond
        const int DeepStackBytes = 256 << 20;
        static readonly int[] Ints = Numbers(1000);
        static readonly string[] Texts = Ints.Select(number => $"product {number}").ToArray();
        static readonly Shop.Search.Price[] Prices = Ints.Select(number => new Shop.Search.Price(number)).ToArray();
        static readonly int[] Unsorted = Numbers(5000);
        static readonly byte[] File = new byte[1 << 20];

        sealed record Path(string Group, string Name, string Method, Func<ulong> Work);

        // Method is where the path's CPU time lies, callees included; no path calls another's method.
        static readonly Path[] Paths =
        [
            new("split", "tax", "Shop.Pricing.Tax.Compute", () => Shop.Pricing.Quote.Total(7 * Unit, tax: true)),
            new("split", "discount", "Shop.Pricing.Discount.Apply", () => Shop.Pricing.Quote.Total(3 * Unit, tax: false)),
            new("generic", "rank-int", "Shop.Search.Ranking<int>.Rank",
                () => (ulong)Shop.Search.Ranking<int>.Rank(Ints, 500)),
            new("generic", "rank-string", "Shop.Search.Ranking<string>.Rank",
                () => (ulong)Shop.Search.Ranking<string>.Rank(Texts, 50)),
            new("generic", "rank-struct", "Shop.Search.Ranking<Shop.Search.Price>.Rank",
                () => (ulong)Shop.Search.Ranking<Shop.Search.Price>.Rank(Prices, 500)),
            new("recursion", "walk", "Shop.Search.CategoryTree.Walk", () => Shop.Search.CategoryTree.Walk(23)),
            new("native", "crc32", "Shop.Archive.Checksum.Sum", () => Shop.Archive.Checksum.Sum(File)),
            new("native", "qsort", "Shop.Archive.Sorter.Sort", () => Shop.Archive.Sorter.Sort(Unsorted)),
            new("deep", "descend", "Shop.Search.CategoryTree.Leaf", () => Shop.Search.CategoryTree.Descend(_depth, 100 * Unit)),
        ];

        sealed class Burner(string name)
        {
            public readonly string Name = name;
            public int Tid;
            public readonly CounterSet PathNs = new(), PathRounds = new();
            public ulong Result;
        }

        static int _depth;
        readonly List<Burner> _burners = [];

        public override string Name => "cpu";
        public override string About => "busy threads on named paths";
        public override Key[] Keys =>
        [
            Choice("path", "which work; all = everything but deep", "split", "generic", "recursion", "native", "deep", "all"),
            new("threads", "1", "busy threads", 1, 64),
            new("depth", "20000", "frames of path=deep", 1, 200_000),
        ];

        public override void Start(Settings settings)
        {
            string group = settings.Word("path");
            Path[] chosen = Paths.Where(path => group == "all" ? path.Group != "deep" : path.Group == group).ToArray();
            _depth = settings.Int("depth");
            if (chosen.Any(path => path.Name == "crc32") && !NativeLibrary.TryLoad("libz.so.1", out _))
                throw new UnsupportedException("path=native needs libz.so.1 (Debian package zlib1g)");
            for (int i = 0; i < settings.Int("threads"); i++)
            {
                var burner = new Burner($"burner-{i}");
                _burners.Add(burner);
                Worker.Loop(burner.Name, () => Burn(burner, chosen), group == "deep" ? DeepStackBytes : 0);
            }
            Worker.Until(() => _burners.All(burner => chosen.All(path => burner.PathRounds[path.Name].Total > 0)),
                         "the first round of every thread");
        }

        static void Burn(Burner burner, Path[] chosen)
        {
            burner.Tid = Clock.ThreadId();
            long last = Clock.ThreadCpuNs();
            foreach (Path path in chosen)
            {
                burner.Result += path.Work();
                long now = Clock.ThreadCpuNs();
                burner.PathNs[path.Name].Add(now - last);
                burner.PathRounds[path.Name].Increment();
                last = now;
            }
        }

        static int[] Numbers(int count)
        {
            var random = new Random(42);
            var numbers = new int[count];
            for (int i = 0; i < count; i++)
                numbers[i] = random.Next();
            return numbers;
        }

        public override void Mark()
        {
            foreach (Burner burner in _burners)
            {
                burner.PathNs.Mark();
                burner.PathRounds.Mark();
            }
        }

        // Read once per thread, so that the sums agree although the threads go on.
        public override JsonObject Truth()
        {
            var threads = new JsonArray();
            var cpuNs = new Dictionary<string, long>();
            foreach (Burner burner in _burners)
            {
                JsonObject spent = burner.PathNs.SinceMark();
                foreach (var (path, ns) in spent)
                    cpuNs[path] = cpuNs.GetValueOrDefault(path) + (long)ns!;
                threads.Add(new JsonObject
                {
                    ["name"] = burner.Name,
                    ["tid"] = burner.Tid,
                    ["cpu_ns"] = spent.Sum(pair => (long)pair.Value!),
                    ["path_cpu_ns"] = spent,
                });
            }

            long total = cpuNs.Values.Sum();
            var paths = new JsonObject();
            foreach (Path path in Paths.Where(path => cpuNs.ContainsKey(path.Name)))
                paths[path.Name] = new JsonObject
                {
                    ["method"] = path.Method,
                    ["rounds"] = _burners.Sum(burner => burner.PathRounds[path.Name].SinceMark),
                    ["cpu_ns"] = cpuNs[path.Name],
                    ["share"] = total > 0 ? (double)cpuNs[path.Name] / total : 0,
                };
            return new JsonObject { ["cpu_ns"] = total, ["threads"] = threads, ["paths"] = paths };
        }
    }
}
