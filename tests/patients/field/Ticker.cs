// Healthy: a ticker of prices. A hundred and fifty listeners have a long request open each, an async stream of events that says
// something once a second; nearly all tasks wait, nearly all connections are idle.

using System.Runtime.CompilerServices;
using Patients;

namespace Stocks.Ticker;

public sealed record Tick(string Symbol, decimal Price);

public sealed class TickSource
{
    public async IAsyncEnumerable<Tick> ListenAsync(string symbol, [EnumeratorCancellation] CancellationToken token)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromSeconds(1));
        while (await timer.WaitForNextTickAsync(token))
        {
            Figures.Count("ticks");
            yield return new Tick(symbol, Random.Shared.Next(100));
        }
    }
}

public sealed class Listener(HttpClient http, int number)
{
    public async Task ListenAsync()
    {
        using HttpResponseMessage answer =
            await http.GetAsync($"ticks/S{number}", HttpCompletionOption.ResponseHeadersRead);
        using var reader = new StreamReader(await answer.Content.ReadAsStreamAsync());
        while (await reader.ReadLineAsync() is { } line)
            Figures.Count("received", line.Length > 0 ? 1 : 0);
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<TickSource>();
        WebApplication app = builder.Build();
        app.MapGet("/ticks/{symbol}", async (string symbol, HttpContext context, TickSource source) =>
        {
            context.Response.ContentType = "text/event-stream";
            await foreach (Tick tick in source.ListenAsync(symbol, context.RequestAborted))
            {
                await context.Response.WriteAsync($"data: {tick.Symbol} {tick.Price}\n\n", context.RequestAborted);
                await context.Response.Body.FlushAsync(context.RequestAborted);
            }
        });
        var http = new HttpClient { BaseAddress = await app.ListenAsync(), Timeout = Timeout.InfiniteTimeSpan };
        int listeners = (int)Load.Rate(150);
        _ = Task.WhenAll(Enumerable.Range(0, listeners).Select(n => new Listener(http, n).ListenAsync()));
    }
}
