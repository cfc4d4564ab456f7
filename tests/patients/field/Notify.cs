// Push messages: the gateway answers 503, and a message that was refused is sent again at once, up to five hundred times.

using System.Threading.Channels;
using Patients;

namespace Mobile.Notify;

public sealed record Push(int Device, string Text);

public sealed class PushGateway(HttpClient http, ILogger<PushGateway> log)
{
    const int Attempts = 500;

    public async Task<bool> SendAsync(Push push, CancellationToken token)
    {
        for (int attempt = 1; attempt <= Attempts; attempt++)
        {
            try
            {
                Figures.Count("attempts");
                using HttpResponseMessage answer = await http.GetAsync($"push/{push.Device}", token);
                answer.EnsureSuccessStatusCode();
                return true;
            }
            catch (HttpRequestException error)
            {
                log.LogDebug(error, "attempt {Attempt} for {Device}", attempt, push.Device);
            }
        }
        return false;
    }
}

public sealed class Outbox(PushGateway gateway) : BackgroundService
{
    readonly Channel<Push> _messages = Channel.CreateBounded<Push>(200);

    protected override Task ExecuteAsync(CancellationToken token) =>
        Task.WhenAll([WriteAsync(token), .. Enumerable.Range(0, 3).Select(_ => SendAllAsync(token))]);

    async Task WriteAsync(CancellationToken token)
    {
        for (int device = 0; ; device++)
            await _messages.Writer.WriteAsync(new Push(device, "your parcel has arrived"), token);
    }

    async Task SendAllAsync(CancellationToken token)
    {
        await foreach (Push push in _messages.Reader.ReadAllAsync(token))
            await gateway.SendAsync(push, token);
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri gateway = Downstream.Start(4, _ => "");
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddHttpClient<PushGateway>(http => http.BaseAddress = gateway);
        builder.Services.AddHostedService<Outbox>();
        await builder.Build().StartAsync();
    }
}
