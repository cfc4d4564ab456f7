// What an app of the field counts and measures about itself, and what all of them share: a quiet host, the load that was
// asked for, and the start of a web app.

using System.Collections.Concurrent;
using System.Text.Json.Nodes;

namespace Patients;

static class Figures
{
    static readonly CounterSet Counters = new();
    static readonly ConcurrentDictionary<string, Func<long>> Gauges = new();

    public static void Count(string name, long amount = 1) => Counters[name].Add(amount);

    public static void Gauge(string name, Func<long> read) => Gauges[name] = read;

    public static void Mark() => Counters.Mark();

    public static JsonObject SinceMark()
    {
        JsonObject figures = Counters.SinceMark();
        foreach (var (name, read) in Gauges.OrderBy(pair => pair.Key, StringComparer.Ordinal))
            figures[name] = read();
        return figures;
    }
}

sealed class FieldPatient(string name) : IPatient
{
    public string Name => name;

    public void Mark()
    {
        Figures.Mark();
        Visitors.Mark();
    }

    public JsonObject Truth() => new() { [name] = Figures.SinceMark(), ["visitors"] = Visitors.SinceMark() };

    public bool Command(string command) => false;
}

static class Load
{
    // Of what an app does when nothing is asked for.
    public static double Percent = 100;

    public static double Rate(double perSecond) => Math.Max(perSecond * Percent / 100, 0.01);
}

static class Shape
{
    public static WebApplicationBuilder Web()
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders(); // stdout belongs to the protocol
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        return builder;
    }

    public static HostApplicationBuilder Worker()
    {
        HostApplicationBuilder builder = Host.CreateApplicationBuilder();
        builder.Logging.ClearProviders();
        return builder;
    }

    public static async Task<Uri> ListenAsync(this WebApplication app)
    {
        await app.StartAsync();
        return new Uri(app.Urls.First());
    }
}
