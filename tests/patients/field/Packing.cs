// Healthy: a packing station. One side could be faster than the other, so it waits at a bounded channel, as it should: the queue
// is full all the time and never longer.

using System.Threading.Channels;
using Patients;

namespace Logistics.Packing;

public sealed record Parcel(int Number, byte[] Contents);

public sealed class Belt
{
    readonly Channel<Parcel> _parcels = Channel.CreateBounded<Parcel>(200);

    public ChannelReader<Parcel> Reader => _parcels.Reader;
    public ChannelWriter<Parcel> Writer => _parcels.Writer;
}

public sealed class Picker(Belt belt) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        for (int number = 0; ; number++)
            await belt.Writer.WriteAsync(new Parcel(number, new byte[2000]), token);
    }
}

public sealed class Packer(Belt belt) : BackgroundService
{
    readonly SemaphoreSlim _tables = new(3);

    protected override Task ExecuteAsync(CancellationToken token) =>
        Parallel.ForEachAsync(belt.Reader.ReadAllAsync(token), new ParallelOptions { MaxDegreeOfParallelism = 6, CancellationToken = token }, PackAsync);

    async ValueTask PackAsync(Parcel parcel, CancellationToken token)
    {
        await _tables.WaitAsync(token);
        try
        {
            await Task.Delay(8, token);
            Figures.Count("packed bytes", parcel.Contents.Length);
        }
        finally
        {
            _tables.Release();
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddSingleton<Belt>().AddHostedService<Picker>().AddHostedService<Packer>();
        IHost host = builder.Build();
        await host.StartAsync();
        Figures.Gauge("belt", () => host.Services.GetRequiredService<Belt>().Reader.Count);
    }
}
