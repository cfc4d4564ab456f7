// Labels of parcels: a request waits on a thread of the pool until the printer has made its label, and looks every 50 ms.

using System.Collections.Concurrent;
using Patients;

namespace Post.Labels;

public sealed class Printer
{
    readonly ConcurrentDictionary<int, long> _ready = new();

    public void Order(int label) => _ready[label] = Environment.TickCount64 + 5000;

    public bool IsReady(int label) => _ready.TryGetValue(label, out long when) && when <= Environment.TickCount64 && _ready.TryRemove(label, out _);
}

public sealed class LabelService(Printer printer)
{
    public Task<int> PrintAsync(int label) => Task.Run(() =>
    {
        printer.Order(label);
        while (!printer.IsReady(label))
            Thread.Sleep(50);
        Figures.Count("printed");
        return label;
    });
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<Printer>().AddSingleton<LabelService>();
        WebApplication app = builder.Build();
        app.MapPost("/parcels/{parcel:int}/label", async (int parcel, LabelService labels) => Results.Ok(await labels.PrintAsync(parcel)));
        Visitors.Send(await app.ListenAsync(), 60, 100, n => $"POST /parcels/{n}/label", patienceMs: 60_000);
        Figures.Gauge("pool_threads", () => ThreadPool.ThreadCount);
        Figures.Gauge("pool_pending", () => ThreadPool.PendingWorkItemCount);
    }
}
