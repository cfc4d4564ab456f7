// Equal strings kept many times over, with values that are hard to print.

using System.Text;
using System.Text.Json.Nodes;

namespace Shop.Orders
{
    sealed class OrderLine(string status)
    {
        public readonly string Status = status;
    }

    static class OrderBook
    {
        public static readonly List<OrderLine> Lines = [];
    }
}

namespace Patients
{
    sealed class DuplicateStrings : Sickness
    {
        // As UTF-8, so that the program holds no string literal that would be one more copy.
        static readonly byte[][] Values =
        [
            "waiting for payment"u8.ToArray(),
            "EUR|USD|CHF"u8.ToArray(),
            "`select` ```code```"u8.ToArray(),
            "naïve Käufer 日本語 🛒"u8.ToArray(),
            "bell\u0007 tab\t line\n escape\u001b[31mred"u8.ToArray(),
            "right-to-left \u202eabc"u8.ToArray(),
            "<script>alert('x')</script> & \"quoted\""u8.ToArray(),
        ];

        const int LongLength = 10_000;
        int _copies;
        int _unique;

        public override string Name => "duplicate-strings";
        public override string About => "known string values kept a known number of times";
        public override Key[] Keys =>
        [
            new("copies", "1000", "copies of the first value; the n-th value has 1/n of them", 10, 1e7),
            new("unique", "1000", "strings that exist only once", 0, 1e7),
        ];

        public override void Start(Settings settings)
        {
            _copies = settings.Int("copies");
            _unique = settings.Int("unique");
            for (int i = 0; i < Values.Length; i++)
                Keep(Values[i], CopiesOf(i));
            Keep(LongValue(), LongCopies);
            for (int i = 0; i < _unique; i++)
                Shop.Orders.OrderBook.Lines.Add(new($"order number {i}"));
        }

        int CopiesOf(int index) => _copies / (index + 1);

        int LongCopies => Math.Max(2, _copies / 100);

        static byte[] LongValue()
        {
            var value = new byte[LongLength];
            Array.Fill(value, (byte)'L');
            return value;
        }

        static void Keep(byte[] value, int copies)
        {
            for (int i = 0; i < copies; i++)
                Shop.Orders.OrderBook.Lines.Add(new(Encoding.UTF8.GetString(value)));
        }

        public override JsonObject Truth()
        {
            var values = new JsonArray();
            long wasted = 0;
            for (int i = 0; i <= Values.Length; i++)
            {
                bool last = i == Values.Length;
                string value = Encoding.UTF8.GetString(last ? LongValue() : Values[i]);
                int copies = last ? LongCopies : CopiesOf(i);
                long each = (22 + 2 * value.Length + 7) / 8 * 8; // header, length, characters, terminator
                wasted += each * (copies - 1);
                values.Add(new JsonObject
                {
                    ["value"] = value,
                    ["copies"] = copies,
                    ["bytes_each"] = each,
                    ["wasted_bytes"] = each * (copies - 1),
                });
            }
            return new JsonObject
            {
                ["holder"] = "Shop.Orders.OrderBook.Lines",
                ["unique"] = _unique,
                ["wasted_bytes"] = wasted,
                ["values"] = values,
            };
        }
    }
}
