// A warehouse: goods that come in lock the shelf and then the list of goods, an audit locks the list and then the shelf. They
// meet within a second, and all that comes later waits behind them.

using Patients;

namespace Warehouse.Inventory;

public sealed class Shelf
{
    public readonly List<int> Pallets = [];
}

public sealed class GoodsList
{
    public readonly Dictionary<int, int> Counts = [];
}

public sealed class Inventory
{
    readonly Shelf _shelf = new();
    readonly GoodsList _goods = new();

    public void Receive(int article)
    {
        lock (_shelf)
        {
            _shelf.Pallets.Add(article);
            Thread.Sleep(2); // the scale
            lock (_goods)
                _goods.Counts[article] = _goods.Counts.GetValueOrDefault(article) + 1;
        }
        Figures.Count("received");
    }

    public int Audit()
    {
        lock (_goods)
        {
            int counted = _goods.Counts.Values.Sum();
            Thread.Sleep(2); // the report
            lock (_shelf)
                return counted - _shelf.Pallets.Count;
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<Inventory>();
        WebApplication app = builder.Build();
        app.MapPost("/goods/{article:int}", (int article, Inventory inventory) => inventory.Receive(article));
        app.MapGet("/audit", (Inventory inventory) => inventory.Audit());
        Visitors.Send(await app.ListenAsync(), 60, 8, n => n % 3 == 0 ? "GET /audit" : $"POST /goods/{n % 50}", patienceMs: 300_000);
        Figures.Gauge("pool_threads", () => ThreadPool.ThreadCount);
    }
}
