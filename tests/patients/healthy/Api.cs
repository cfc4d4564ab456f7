// A minimal API: orders in a store of bounded size, a cache that forgets, mails sent by a background service.

using System.Collections.Concurrent;
using System.Text.Json.Serialization;
using System.Threading.Channels;
using Microsoft.Extensions.Caching.Memory;

namespace Shop.Healthy;

record OrderLine(string Article, int Pieces, decimal Price);
record Order(int Id, string Customer, OrderLine[] Lines)
{
    public decimal Total => Lines.Sum(line => line.Pieces * line.Price);
}
record OrderTotal(int Id, decimal Total);

[JsonSerializable(typeof(Order))]
[JsonSerializable(typeof(OrderTotal))]
sealed partial class OrderJson : JsonSerializerContext;

sealed class OrderStore
{
    const int Kept = 5000;
    readonly ConcurrentDictionary<int, Order> _orders = new();

    public OrderStore()
    {
        for (int id = 0; id < Kept; id++)
            Put(Sample(id));
    }

    public static Order Sample(int id) =>
        new(id, $"customer {id % 700}", [.. Enumerable.Range(0, 1 + id % 5).Select(n => new OrderLine($"article {n}", n + 1, 9.95m))]);

    public async Task<Order?> FindAsync(int id, CancellationToken token)
    {
        await Task.Delay(1, token); // the database
        return _orders.GetValueOrDefault(id % Kept);
    }

    public void Put(Order order) => _orders[order.Id % Kept] = order;
}

sealed class Mailbox
{
    readonly Channel<Order> _mails = Channel.CreateBounded<Order>(1000);
    public ValueTask SendAsync(Order order, CancellationToken token) => _mails.Writer.WriteAsync(order, token);
    public IAsyncEnumerable<Order> AllAsync(CancellationToken token) => _mails.Reader.ReadAllAsync(token);
}

sealed class Mailer(Mailbox mailbox, ILogger<Mailer> log) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        await foreach (Order order in mailbox.AllAsync(token))
        {
            await Task.Delay(2, token); // the mail server
            if (order.Id % 100 == 0)
                log.LogInformation("mailed order {Order} of {Customer}", order.Id, order.Customer);
        }
    }
}

sealed class Cleaner(IMemoryCache cache, ILogger<Cleaner> log) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromSeconds(15));
        while (await timer.WaitForNextTickAsync(token))
        {
            cache.Remove("newest");
            log.LogInformation("cleaned");
        }
    }
}

static class Api
{
    public static WebApplication Build()
    {
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        HealthyPatient.Logging(builder.Logging);
        builder.Services.ConfigureHttpJsonOptions(options => options.SerializerOptions.TypeInfoResolverChain.Insert(0, OrderJson.Default));
        builder.Services.AddMemoryCache(options => options.SizeLimit = 1000);
        builder.Services.AddSingleton<OrderStore>().AddSingleton<Mailbox>();
        builder.Services.AddHostedService<Mailer>().AddHostedService<Cleaner>();
        builder.Services.AddHealthChecks();
        WebApplication app = builder.Build();
        app.MapHealthChecks("/healthz");
        app.MapGet("/orders/{id:int}", async (int id, OrderStore store, CancellationToken token) =>
        {
            HealthyPatient.Done.Increment();
            return await store.FindAsync(id, token) is { } order ? Results.Ok(order) : Results.NotFound();
        });
        app.MapGet("/orders/{id:int}/total", async (int id, OrderStore store, IMemoryCache cache, CancellationToken token) =>
        {
            HealthyPatient.Done.Increment();
            return await cache.GetOrCreateAsync(id, async entry =>
            {
                entry.SetSize(1).SetAbsoluteExpiration(TimeSpan.FromSeconds(5));
                Order? order = await store.FindAsync(id, token);
                return new OrderTotal(id, order?.Total ?? 0);
            });
        });
        app.MapGet("/buy/{id:int}", async (int id, OrderStore store, Mailbox mailbox, CancellationToken token) =>
        {
            Order order = OrderStore.Sample(id);
            store.Put(order);
            await mailbox.SendAsync(order, token);
            HealthyPatient.Done.Increment();
            return Results.Accepted();
        });
        return app;
    }
}
