// A shop that works as it should: timers, a little garbage, a few tasks, nothing wrong.

using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Front
{
    static class Desk
    {
        public static readonly Counter Orders = new();
        public static readonly Counter Tasks = new();
        static Timer? _timer;
        static int _lastTotal;

        public static void Open(int intervalMs) => _timer = new Timer(_ => Serve(), null, 0, intervalMs);

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Serve()
        {
            if (Gate.IsClosed)
                return;
            Volatile.Write(ref _lastTotal, PrintReceipt(20).Length);
            Orders.Increment();
            _ = NotifyAsync();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static string PrintReceipt(int lines)
        {
            var receipt = new StringBuilder();
            for (int line = 0; line < lines; line++)
                receipt.Append("item ").Append(line).Append(": ").Append(line * 3).AppendLine(" EUR");
            return receipt.ToString();
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static async Task NotifyAsync()
        {
            await Task.Delay(5);
            Tasks.Increment();
        }
    }
}

namespace Patients
{
    sealed class Healthy : Sickness
    {
        public override string Name => "healthy";
        public override string About => "a small amount of honest work, nothing wrong";
        public override Key[] Keys => [new("interval-ms", "50", "time between two orders", 1, 60_000)];

        public override void Start(Settings settings)
        {
            Shop.Front.Desk.Open(settings.Int("interval-ms"));
            Worker.Until(() => Shop.Front.Desk.Tasks.Total > 0, "the first order");
        }

        public override void Mark()
        {
            Shop.Front.Desk.Orders.Mark();
            Shop.Front.Desk.Tasks.Mark();
        }

        public override JsonObject Truth() => new()
        {
            ["orders"] = Shop.Front.Desk.Orders.SinceMark,
            ["tasks"] = Shop.Front.Desk.Tasks.SinceMark,
            ["exceptions"] = 0,
        };
    }
}
