// A dispatcher of deliveries: each one is carried out under a source linked to the token of the service and a deadline, and
// the source is not disposed: it stays registered with the token of the service.

using System.Threading.Channels;
using Patients;

namespace Parcels.Dispatch;

public sealed record Delivery(int Number, string Address, byte[] Label);

public sealed class Depot : BackgroundService
{
    readonly Channel<Delivery> _deliveries = Channel.CreateBounded<Delivery>(100);

    protected override Task ExecuteAsync(CancellationToken token) =>
        Task.WhenAll(CollectAsync(token), CarryAsync(token), CarryAsync(token));

    async Task CollectAsync(CancellationToken token)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromMilliseconds(50));
        double per = Load.Rate(100) / 20;
        for (int number = 0; await timer.WaitForNextTickAsync(token);)
            for (int last = number + (int)Math.Ceiling(number < 10_000 ? per : per / 20); number < last; number++)
                await _deliveries.Writer.WriteAsync(new Delivery(number, $"Street {number % 300}", new byte[20_000]), token);
    }

    async Task CarryAsync(CancellationToken token)
    {
        await foreach (Delivery delivery in _deliveries.Reader.ReadAllAsync(token))
            await HandOverAsync(delivery, token);
    }

    static async Task HandOverAsync(Delivery delivery, CancellationToken token)
    {
        var deadline = CancellationTokenSource.CreateLinkedTokenSource(token);
        deadline.Token.Register(state => ((Delivery)state!).Label.AsSpan().Clear(), delivery);
        await Task.Delay(1, deadline.Token);
        Figures.Count("handed over");
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddHostedService<Depot>();
        await builder.Build().StartAsync();
    }
}
