// A controller of heat pumps: a timer polls the bus ten times a second, one poll takes six, and each tick begins another
// while those before still wait, each on a thread of the pool.

using System.Net.Sockets;
using System.Text;
using Patients;

namespace Heating.Control;

public sealed class BusPoller(Uri bus) : IHostedService
{
    Timer? _timer;
    int _running;

    public int Running => _running;

    public Task StartAsync(CancellationToken token)
    {
        _timer = new Timer(Poll, null, TimeSpan.Zero, TimeSpan.FromMilliseconds(1000 / Load.Rate(10)));
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken token)
    {
        _timer?.Dispose();
        return Task.CompletedTask;
    }

    void Poll(object? state)
    {
        Interlocked.Increment(ref _running);
        using var wire = new TcpClient(bus.Host, bus.Port);
        wire.GetStream().Write(Encoding.ASCII.GetBytes("GET /pumps HTTP/1.1\r\n\r\n"));
        wire.GetStream().ReadByte();
        Interlocked.Decrement(ref _running);
        Figures.Count("polled");
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        var poller = new BusPoller(Downstream.Start(6000, _ => "[1,2]"));
        builder.Services.AddHostedService(_ => poller);
        await builder.Build().StartAsync();
        Figures.Gauge("polls_at_once", () => poller.Running);
        Figures.Gauge("pool_pending", () => ThreadPool.PendingWorkItemCount);
    }
}
