// A farm's weather: the forecast comes from a station that accepts connections and does not answer, and the client has no
// timeout. The requests that need it pile up.

using Patients;

namespace Farm.Forecast;

public sealed record Outlook(int Field, double Millimetres);

public sealed class StationClient(HttpClient http)
{
    public async Task<Outlook> FetchAsync(int field)
    {
        string rain = await http.GetStringAsync($"stations/{field}/rain");
        return new Outlook(field, double.Parse(rain));
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri stations = Downstream.Start(-1, _ => "1");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddHttpClient<StationClient>(http =>
        {
            http.BaseAddress = stations;
            http.Timeout = Timeout.InfiniteTimeSpan;
        });
        WebApplication app = builder.Build();
        long waiting = 0;
        app.MapGet("/fields/{field:int}/forecast", async (int field, StationClient station) =>
        {
            Interlocked.Increment(ref waiting);
            Outlook outlook = await station.FetchAsync(field);
            Interlocked.Decrement(ref waiting);
            return outlook;
        });
        app.MapGet("/fields/{field:int}", (int field) => new { field, crop = "barley" });
        Visitors.Send(await app.ListenAsync(), 60, 40, n => n % 10 == 0 ? $"GET /fields/{n % 30}/forecast" : $"GET /fields/{n % 30}", patienceMs: 300_000);
        Figures.Gauge("waiting", () => Interlocked.Read(ref waiting));
    }
}
