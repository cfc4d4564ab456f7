// Positions of vehicles: each request starts a timer that looks after the vehicle for an hour, and nothing stops it when the
// request is done. The timer holds the execution context of its request, and by an AsyncLocal the whole trip in it.

using System.Collections.Concurrent;
using Patients;

namespace Fleet.Tracking;

public sealed record Trip(int Vehicle, double[] Route);

public static class Journey
{
    static readonly AsyncLocal<Trip?> Local = new();

    public static Trip? Current
    {
        get => Local.Value;
        set => Local.Value = value;
    }
}

public sealed class Geofence
{
    long _checks;

    public void Watch(int vehicle)
    {
        Figures.Count("watches");
        Timer? timer = null;
        timer = new Timer(_ => Check(vehicle, timer), null, TimeSpan.FromMinutes(5), TimeSpan.FromHours(1));
    }

    void Check(int vehicle, Timer? timer)
    {
        Interlocked.Increment(ref _checks);
        if (vehicle < 0)
            timer?.Dispose();
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<Geofence>();
        WebApplication app = builder.Build();
        app.Use(async (context, next) =>
        {
            Journey.Current = new Trip(context.Request.Path.Value!.GetHashCode(), new double[4000]);
            await next(context);
        });
        app.MapPut("/vehicles/{vehicle:int}/position", (int vehicle, Geofence fence) =>
        {
            fence.Watch(vehicle);
            return new { vehicle, points = Journey.Current?.Route.Length };
        });
        Visitors.Send(await app.ListenAsync(), 60, 4, n => $"PUT /vehicles/{n % 900}/position", slowAfter: 7000);
    }
}
