// A price book that several importers write and requests read: a plain Dictionary, without a lock. Within seconds it is
// corrupted, and its operations throw for ever after.

using Patients;

namespace Shop.Catalog;

public readonly record struct Price(decimal Net, int Supplier);

public sealed class PriceBook
{
    readonly Dictionary<string, Price> _prices = [];

    public void Set(string sku, Price price) => _prices[sku] = price;

    public bool Discontinue(string sku) => _prices.Remove(sku);

    public Price? Find(string sku) => _prices.TryGetValue(sku, out Price price) ? price : null;
}

public sealed class SupplierFeed(PriceBook book, ILogger<SupplierFeed> log) : BackgroundService
{
    static readonly string[] Skus = [.. Enumerable.Range(0, 4000).Select(n => $"SKU-{n:D6}")];

    protected override Task ExecuteAsync(CancellationToken token) =>
        Task.WhenAll(Enumerable.Range(0, 4).Select(supplier => Task.Run(() => ImportAsync(supplier, token), token)));

    async Task ImportAsync(int supplier, CancellationToken token)
    {
        var random = new Random(supplier);
        while (!token.IsCancellationRequested)
        {
            try
            {
                Apply(supplier, random);
            }
            catch (Exception error)
            {
                Figures.Count($"failed imports: {error.GetType().Name}");
                log.LogError(error, "feed of supplier {Supplier} was not applied", supplier);
            }
            await Task.Delay(20, token);
        }
    }

    void Apply(int supplier, Random random)
    {
        for (int i = 0; i < 20_000; i++)
        {
            string sku = Skus[random.Next(Skus.Length)];
            if (random.Next(3) == 0)
                book.Discontinue(sku);
            else
                book.Set(sku, new Price(random.Next(100), supplier));
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<PriceBook>().AddHostedService<SupplierFeed>();
        WebApplication app = builder.Build();
        app.MapGet("/prices/{sku}", (string sku, PriceBook book) => book.Find(sku) is { } price ? Results.Ok(price) : Results.NotFound());
        Visitors.Send(await app.ListenAsync(), 40, 4, n => $"GET /prices/SKU-{n % 4000:D6}");
    }
}
