// A worker service: hosted services that await timers, delays, a channel and a semaphore, and a thread that takes from a
// blocking queue.

using System.Collections.Concurrent;
using System.Text;
using System.Threading.Channels;

namespace Shop.Healthy;

sealed class Parcels
{
    public readonly Channel<int> Incoming = Channel.CreateBounded<int>(100);
    public readonly SemaphoreSlim Scales = new(2);
}

sealed class Collector(Parcels parcels) : BackgroundService
{
    int _next;

    protected override async Task ExecuteAsync(CancellationToken token)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromMilliseconds(50));
        while (await timer.WaitForNextTickAsync(token))
            for (int n = 0; HealthyPatient.Working && n < 20; n++)
                await parcels.Incoming.Writer.WriteAsync(_next++, token);
    }
}

sealed class Packer(Parcels parcels, Labels labels) : BackgroundService
{
    protected override Task ExecuteAsync(CancellationToken token) =>
        Task.WhenAll(Enumerable.Range(0, 4).Select(_ => PackAsync(token)));

    async Task PackAsync(CancellationToken token)
    {
        await foreach (int parcel in parcels.Incoming.Reader.ReadAllAsync(token))
        {
            await parcels.Scales.WaitAsync(token);
            try
            {
                await Task.Delay(1, token);
                labels.Print(parcel);
            }
            finally
            {
                parcels.Scales.Release();
            }
        }
    }
}

// The printer's own thread, as libraries with blocking interfaces have it.
sealed class Labels : IHostedService
{
    readonly BlockingCollection<int> _queue = new(1000);
    Thread? _thread;

    public void Print(int parcel) => _queue.Add(parcel);

    public Task StartAsync(CancellationToken token)
    {
        _thread = new Thread(PrintAll) { Name = "printer", IsBackground = true };
        _thread.Start();
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken token)
    {
        _queue.CompleteAdding();
        return Task.CompletedTask;
    }

    void PrintAll()
    {
        var label = new StringBuilder();
        foreach (int parcel in _queue.GetConsumingEnumerable())
        {
            label.Clear().Append("parcel ").Append(parcel).Append(" to customer ").Append(parcel % 700);
            HealthyPatient.Done.Increment();
        }
    }
}

sealed class Nightly(ILogger<Nightly> log) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        while (!token.IsCancellationRequested)
        {
            log.LogInformation("the next nightly run is in 8 hours");
            await Task.Delay(TimeSpan.FromHours(8), token);
        }
    }
}

static class Workers
{
    public static IHost Build()
    {
        HostApplicationBuilder builder = Host.CreateApplicationBuilder();
        HealthyPatient.Logging(builder.Logging);
        builder.Services.AddSingleton<Parcels>().AddSingleton<Labels>();
        builder.Services.AddHostedService(services => services.GetRequiredService<Labels>());
        builder.Services.AddHostedService<Collector>().AddHostedService<Packer>().AddHostedService<Nightly>();
        return builder.Build();
    }
}
