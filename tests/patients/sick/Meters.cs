// A shop with instruments of its own: one meter and one event source whose values are known.

using System.Diagnostics.Metrics;
using System.Diagnostics.Tracing;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Metering
{
    static class Desk
    {
        public const double Temperature = 21.5;
        public const int CartItems = 42;
        public static readonly CounterSet Orders = new();
        public static readonly Counter Visits = new();
        static readonly Meter Meter = new("Shop.Meters", "1.2");
        static readonly Counter<long> OrdersTaken =
            Meter.CreateCounter<long>("shop.orders", "{order}", "Orders that were taken");
        static readonly UpDownCounter<int> Backlog = Meter.CreateUpDownCounter<int>("shop.backlog", "{order}");
        static readonly Histogram<double> Duration =
            Meter.CreateHistogram<double>("shop.order.duration", "s", "How long an order took");
        static int _round;

        public static void Open()
        {
            Meter.CreateObservableUpDownCounter("shop.cart.items", () => CartItems, "{item}");
            Meter.CreateObservableGauge("shop.temperature", () => Temperature, "Cel");
            Meter.CreateObservableCounter("shop.visits", () => Visits.Total, "{visit}");
            Meter.CreateObservableGauge("shop.free", FreePlaces, "By");
        }

        // The backlog grows by one in every round; whoever listens late sees what was added since.
        public static void Serve()
        {
            // Few rounds in a row have all sizes already: a stride without a common divisor.
            int round = _round++ % 100, size = round * 37 % 100 + 1;
            string kind = round % 4 == 0 ? "phone" : "web";
            OrdersTaken.Add(1, new KeyValuePair<string, object?>("kind", kind));
            Orders[kind].Increment();
            Visits.Add(3);
            Duration.Record(size / 1000.0, new KeyValuePair<string, object?>("route", "/orders"));
            Backlog.Add(2);
            Backlog.Add(-1);
            Events.Log.Taken(size);
        }

        static IEnumerable<Measurement<long>> FreePlaces()
        {
            yield return new(1 << 20, new KeyValuePair<string, object?>("disk", "a"));
            yield return new(3 << 20, new KeyValuePair<string, object?>("disk", "b"));
        }
    }

    [EventSource(Name = "Shop-Events")]
    sealed class Events : EventSource
    {
        public static readonly Events Log = new();
        readonly EventCounter _size;
        readonly IncrementingEventCounter _orders;
        readonly PollingCounter _temperature;
        readonly IncrementingPollingCounter _visits;

        Events()
        {
            _size = new("order-size", this) { DisplayName = "Size of an order", DisplayUnits = "items" };
            _orders = new("orders", this) { DisplayName = "Orders taken", DisplayUnits = "orders" };
            _temperature = new("temperature", this, () => Desk.Temperature) { DisplayName = "Temperature" };
            _visits = new("visits", this, () => Desk.Visits.Total) { DisplayName = "Visits" };
        }

        [NonEvent]
        public void Taken(int size)
        {
            _size.WriteMetric(size);
            _orders.Increment();
        }

        public bool Complete => _temperature != null && _visits != null;
    }
}

namespace Patients
{
    sealed class Meters : Sickness
    {
        public override string Name => "meters";
        public override string About => "a meter and an event source of its own, with known values";
        public override Key[] Keys => [new("rate", "200", "orders a second", 1, 100_000)];

        public override void Start(Settings settings)
        {
            Shop.Metering.Desk.Open();
            Worker.Loop("clerk", settings.Number("rate"), Shop.Metering.Desk.Serve);
            Worker.Until(() => Shop.Metering.Desk.Visits.Total > 0 && Shop.Metering.Events.Log.Complete,
                         "the first order");
        }

        public override void Mark()
        {
            Shop.Metering.Desk.Orders.Mark();
            Shop.Metering.Desk.Visits.Mark();
        }

        public override JsonObject Truth() => new()
        {
            ["orders"] = Shop.Metering.Desk.Orders.SinceMark(),
            ["visits"] = Shop.Metering.Desk.Visits.SinceMark,
            ["visits_ever"] = Shop.Metering.Desk.Visits.Total,
            ["temperature"] = Shop.Metering.Desk.Temperature,
        };
    }
}
