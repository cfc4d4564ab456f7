// Exchange rates for quotes: ExchangeClient makes an HttpClient for each call and disposes of it, so each call leaves a
// socket in TIME_WAIT.

using System.Text.Json;
using Patients;

namespace Trading.Quotes;

public sealed record Rate(string Pair, decimal Value);

public sealed class ExchangeClient(Uri bank)
{
    static readonly JsonSerializerOptions Web = new(JsonSerializerDefaults.Web);

    public async Task<Rate> GetRateAsync(string pair, CancellationToken token)
    {
        using var http = new HttpClient { BaseAddress = bank };
        Figures.Count("calls");
        return (await http.GetFromJsonAsync<Rate>($"rates/{pair}", Web, token))!;
    }
}

static class Startup
{
    static readonly string[] Pairs = ["EURUSD", "EURCHF", "GBPUSD", "USDJPY"];

    public static async Task RunAsync()
    {
        Uri bank = Downstream.Start(3, path => $$"""{"pair":"{{path[7..]}}","value":1.08}""");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton(new ExchangeClient(bank));
        WebApplication app = builder.Build();
        RouteGroupBuilder api = app.MapGroup("/api/v1");
        api.MapGet("/quotes/{pair}/{amount:decimal}", async (string pair, decimal amount, ExchangeClient client, CancellationToken token) =>
            new { pair, total = amount * (await client.GetRateAsync(pair, token)).Value });
        Visitors.Send(await app.ListenAsync(), 80, 8, n => $"GET /api/v1/quotes/{Pairs[n % 4]}/{n % 500}");
    }
}
