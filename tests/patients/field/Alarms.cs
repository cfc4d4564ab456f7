// Alarms of buildings: a hundred subscriptions are long requests by HTTP/2, and all go over one connection, which the other
// side lets carry a hundred streams. What else the client sends waits until a subscription ends.

using System.Net;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Patients;

namespace Building.Alarms;

public sealed class AlarmCentre(HttpClient http) : BackgroundService
{
    public const int Subscriptions = 100;
    long _waiting;

    public long Waiting => Interlocked.Read(ref _waiting);

    protected override async Task ExecuteAsync(CancellationToken token)
    {
        Task subscriptions = Task.WhenAll(Enumerable.Range(0, Subscriptions).Select(n => SubscribeAsync(n, token)));
        await Task.Delay(2000, token);
        await Task.WhenAll([subscriptions, .. Enumerable.Range(0, 5).Select(_ => AcknowledgeAllAsync(token))]);
    }

    async Task SubscribeAsync(int building, CancellationToken token)
    {
        while (!token.IsCancellationRequested)
        {
            Figures.Count("subscriptions");
            await http.GetStringAsync($"buildings/{building}/alarms", token);
        }
    }

    async Task AcknowledgeAllAsync(CancellationToken token)
    {
        for (int alarm = 0; !token.IsCancellationRequested; alarm++)
        {
            long start = Environment.TickCount64;
            Interlocked.Increment(ref _waiting);
            await http.GetStringAsync($"alarms/{alarm}/ack", token);
            Interlocked.Decrement(ref _waiting);
            Figures.Count("acknowledged");
            Figures.Count("acknowledge_ms", Environment.TickCount64 - start);
            await Task.Delay(100, token);
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.WebHost.ConfigureKestrel(kestrel => kestrel.ConfigureEndpointDefaults(end => end.Protocols = HttpProtocols.Http2));
        WebApplication app = builder.Build();
        app.MapGet("/buildings/{building:int}/alarms", async (int building, CancellationToken token) =>
        {
            await Task.Delay(TimeSpan.FromSeconds(40 + building % 20), token);
            return "none";
        });
        app.MapGet("/alarms/{alarm:int}/ack", (int alarm) => $"{alarm}");
        var http = new HttpClient
        {
            BaseAddress = await app.ListenAsync(),
            DefaultRequestVersion = HttpVersion.Version20,
            DefaultVersionPolicy = HttpVersionPolicy.RequestVersionExact,
            Timeout = TimeSpan.FromMinutes(5),
        };
        var centre = new AlarmCentre(http);
        await centre.StartAsync(default);
        Figures.Gauge("acknowledges_waiting", () => centre.Waiting);
    }
}
