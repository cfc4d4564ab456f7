// Collections that hurt (gc-pauses) and garbage of a known mix (allocations).

using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Reports
{
    sealed class Booking
    {
        public Booking? Next;
        public long Amount;
    }

    static class MonthEnd
    {
        public static Booking? Ledger; // what a full collection has to mark
        public static readonly Counter Collections = new();
        public static readonly Counter BlockedNs = new();

        public static void FillLedger(long bytes)
        {
            const int bookingBytes = 32;
            for (long used = 0; used < bytes; used += bookingBytes)
                Ledger = new Booking { Next = Ledger, Amount = used };
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void CloseBooks()
        {
            long start = Clock.MonotonicNs();
            GC.Collect(2, GCCollectionMode.Forced, blocking: true);
            BlockedNs.Add(Clock.MonotonicNs() - start);
            Collections.Increment();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ScanReceipts(int bytes)
        {
            for (int used = 0; used < bytes; used += 1024)
                _lastReceipt = new byte[1000];
        }

        static byte[]? _lastReceipt;
    }
}

namespace Shop.Import
{
    sealed class Row
    {
        public long Id;
        public long Price;
        public Row? Previous;
    }

    // Sizes as the GC counts them: header, method table, fields, rounded up to 8.
    static class Sizes
    {
        public const int BlockLength = 1000;
        public const int AttachmentLength = 100_000; // above 85,000: large object heap
        public const int LineLength = 80;
        public const int BlockBytes = 24 + BlockLength;
        public const int AttachmentBytes = 24 + AttachmentLength;
        public const int LineBytes = (22 + 2 * LineLength + 7) / 8 * 8;
        public const int RowBytes = 40;
    }

    static class Reader
    {
        static byte[]? _block;
        static byte[]? _attachment;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ReadBlock() => _block = new byte[Sizes.BlockLength];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ReadAttachment() => _attachment = new byte[Sizes.AttachmentLength];
    }

    static class Parser
    {
        static string? _line;
        static Row? _row;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void MakeLine() => _line = new string('x', Sizes.LineLength);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void MakeRow() => _row = new Row { Id = 1, Price = 2, Previous = null };
    }
}

namespace Patients
{
    sealed class GcPauses : Sickness
    {
        public override string Name => "gc-pauses";
        public override string About => "induced blocking full collections at a known rate, and natural young ones";
        public override Key[] Keys =>
        [
            new("induced", "2", "induced full collections a second", 0.1, 100),
            new("allocate-mb", "50", "garbage a second, for natural collections", 0, 2000),
            new("live-mb", "20", "live objects that a full collection has to mark", 0, 4000),
        ];

        public override void Start(Settings settings)
        {
            Shop.Reports.MonthEnd.FillLedger((long)(settings.Number("live-mb") * 1e6));
            Worker.Loop("month-end", settings.Number("induced"), Shop.Reports.MonthEnd.CloseBooks);
            double megabytes = settings.Number("allocate-mb");
            if (megabytes > 0)
                Worker.Loop("receipts", 100, () => Shop.Reports.MonthEnd.ScanReceipts((int)(megabytes * 1e4)));
            Worker.Until(() => Shop.Reports.MonthEnd.Collections.Total > 0, "the first induced collection");
        }

        public override void Mark()
        {
            Shop.Reports.MonthEnd.Collections.Mark();
            Shop.Reports.MonthEnd.BlockedNs.Mark();
        }

        // Collections by generation and their total pause stand under "runtime".
        public override JsonObject Truth() => new()
        {
            ["induced"] = Shop.Reports.MonthEnd.Collections.SinceMark,
            ["induced_blocked_ns"] = Shop.Reports.MonthEnd.BlockedNs.SinceMark,
            ["induced_by"] = "Shop.Reports.MonthEnd.CloseBooks",
        };
    }

    sealed class Allocations : Sickness
    {
        sealed record Site(string Method, string Type, bool Large, int ObjectBytes, Action Allocate)
        {
            public double Share;
            public readonly Counter Objects = new();
        }

        readonly Site[] _sites =
        [
            new("Shop.Import.Reader.ReadBlock", "System.Byte[]", false,
                Shop.Import.Sizes.BlockBytes, Shop.Import.Reader.ReadBlock),
            new("Shop.Import.Parser.MakeLine", "System.String", false,
                Shop.Import.Sizes.LineBytes, Shop.Import.Parser.MakeLine),
            new("Shop.Import.Parser.MakeRow", "Shop.Import.Row", false,
                Shop.Import.Sizes.RowBytes, Shop.Import.Parser.MakeRow),
            new("Shop.Import.Reader.ReadAttachment", "System.Byte[]", true,
                Shop.Import.Sizes.AttachmentBytes, Shop.Import.Reader.ReadAttachment),
        ];
        double _dueBytes;

        public override string Name => "allocations";
        public override string About => "60 % byte[], 30 % string, 10 % small objects, and some on the large object heap";
        public override Key[] Keys =>
        [
            new("rate-mb", "50", "megabytes a second", 0.1, 2000),
            new("loh", "5", "percent of all bytes that go to the large object heap", 0, 100),
        ];

        public override void Start(Settings settings)
        {
            const double ticks = 100;
            double large = settings.Number("loh") / 100;
            double[] shares = [0.6 * (1 - large), 0.3 * (1 - large), 0.1 * (1 - large), large];
            for (int i = 0; i < _sites.Length; i++)
                _sites[i].Share = shares[i];
            double bytesPerTick = settings.Number("rate-mb") * 1e6 / ticks;
            Worker.Loop("importer", ticks, () => Import(bytesPerTick));
            Worker.Until(() => _sites[0].Objects.Total > 0, "the first allocation");
        }

        void Import(double bytes)
        {
            _dueBytes += bytes;
            foreach (Site site in _sites)
            {
                long due = (long)(_dueBytes * site.Share / site.ObjectBytes) - site.Objects.Total;
                for (long i = 0; i < due; i++)
                    site.Allocate();
                site.Objects.Add(due);
            }
        }

        public override void Mark()
        {
            foreach (Site site in _sites)
                site.Objects.Mark();
        }

        public override JsonObject Truth()
        {
            var sites = new JsonArray();
            long total = 0;
            foreach (Site site in _sites)
            {
                long objects = site.Objects.SinceMark;
                total += objects * site.ObjectBytes;
                sites.Add(new JsonObject
                {
                    ["method"] = site.Method,
                    ["type"] = site.Type,
                    ["large"] = site.Large,
                    ["objects"] = objects,
                    ["bytes"] = objects * site.ObjectBytes,
                });
            }
            return new JsonObject { ["bytes"] = total, ["sites"] = sites };
        }
    }
}
