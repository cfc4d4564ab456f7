// Healthy: a busy shop. Articles come by HttpClient from a service that takes 5 ms, are kept in a cache with a limit, and orders
// go through a bounded channel to a service that keeps up. Now and then an article does not exist.

using System.Text.Json.Serialization;
using System.Threading.Channels;
using Microsoft.Extensions.Caching.Memory;
using Patients;

namespace Shop.Storefront;

public sealed record Article(int Id, string Name, decimal Price);
public sealed record Order(int Id, int Article);

[JsonSerializable(typeof(Article))]
[JsonSourceGenerationOptions(PropertyNameCaseInsensitive = true)]
sealed partial class ArticleJson : JsonSerializerContext;

public sealed class ArticleClient(HttpClient http, IMemoryCache cache)
{
    public Task<Article?> FindAsync(int id, CancellationToken token) => cache.GetOrCreateAsync(id, async entry =>
    {
        entry.SetSize(1).SetAbsoluteExpiration(TimeSpan.FromSeconds(10));
        return id % 200 == 199 ? null : await http.GetFromJsonAsync($"articles/{id}", ArticleJson.Default.Article, token);
    });
}

public sealed class OrderQueue
{
    readonly Channel<Order> _orders = Channel.CreateBounded<Order>(500);

    public ChannelReader<Order> Reader => _orders.Reader;

    public ValueTask PlaceAsync(Order order, CancellationToken token) => _orders.Writer.WriteAsync(order, token);
}

public sealed class Fulfilment(OrderQueue queue) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        await foreach (Order order in queue.Reader.ReadAllAsync(token))
        {
            await Task.Delay(5, token);
            Figures.Count("fulfilled", order.Id > 0 ? 1 : 0);
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri articles = Downstream.Start(5, path => $$"""{"id":{{path[10..]}},"name":"article","price":9.95}""");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddMemoryCache(options => options.SizeLimit = 500);
        builder.Services.AddHttpClient<ArticleClient>(http => http.BaseAddress = articles);
        builder.Services.AddSingleton<OrderQueue>().AddHostedService<Fulfilment>();
        WebApplication app = builder.Build();
        app.MapGet("/articles/{id:int}", async (int id, ArticleClient client, CancellationToken token) =>
            await client.FindAsync(id, token) is { } article ? Results.Ok(article) : Results.NotFound());
        app.MapPost("/orders/{id:int}", async (int id, OrderQueue queue, CancellationToken token) =>
        {
            await queue.PlaceAsync(new Order(id, id % 300), token);
            return Results.Accepted();
        });
        Visitors.Send(await app.ListenAsync(), 200, 8, n => n % 4 == 0 ? $"POST /orders/{n}" : $"GET /articles/{n % 1000}");
    }
}
