// Measurements of sensors go through a channel without a bound; the one reader stores them more slowly than they come.

using System.Threading.Channels;
using Patients;

namespace Iot.Ingest;

public sealed record Measurement(int Sensor, DateTime At, double Value, string Unit);

public sealed class Buffer
{
    readonly Channel<Measurement> _channel = Channel.CreateUnbounded<Measurement>();

    public ChannelWriter<Measurement> Writer => _channel.Writer;
    public ChannelReader<Measurement> Reader => _channel.Reader;
}

public sealed class StorageWriter(Buffer buffer) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        var batch = new List<Measurement>();
        await foreach (Measurement measurement in buffer.Reader.ReadAllAsync(token))
        {
            batch.Add(measurement);
            if (batch.Count < 10)
                continue;
            await Task.Delay(20, token); // the database
            Figures.Count("stored", batch.Count);
            batch.Clear();
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<Buffer>().AddHostedService<StorageWriter>();
        WebApplication app = builder.Build();
        app.MapPost("/sensors/{sensor:int}/measurements", (int sensor, Buffer buffer) =>
        {
            for (int n = 0; n < 100; n++)
                buffer.Writer.TryWrite(new Measurement(sensor, DateTime.UtcNow, n, $"kW {n}"));
            Figures.Count("received", 100);
            return Results.Accepted();
        });
        Visitors.Send(await app.ListenAsync(), 100, 3, n => $"POST /sensors/{n % 400}/measurements", slowAfter: 15_000);
        Figures.Gauge("backlog", () => app.Services.GetRequiredService<Buffer>().Reader.Count);
    }
}
