// web: an ASP.NET Core API with healthy and sick routes. Speaks the same protocol on stdin and
// stdout as `sick`; the only address it may listen on is this machine's own.

using System.Net;
using System.Text.Json.Nodes;
using Patients;
using Shop.Web;

var builder = WebApplication.CreateBuilder(args);
builder.Logging.ClearProviders(); // stdout belongs to the protocol
builder.Logging.AddEventSourceLogger();

string urls = builder.Configuration["urls"] ?? "http://127.0.0.1:0";
if (!Uri.TryCreate(urls, UriKind.Absolute, out Uri? asked)
    || !IPAddress.TryParse(asked.DnsSafeHost, out IPAddress? address) || !IPAddress.IsLoopback(address))
{
    Console.Error.WriteLine($"web: --urls {urls}: only a loopback address such as http://127.0.0.1:0 is allowed");
    return 2;
}
if (!int.TryParse(builder.Configuration["max-seconds"] ?? "600", out int maxSeconds) || maxSeconds is < 1 or > 86400)
{
    Console.Error.WriteLine("web: --max-seconds must be a number from 1 to 86400");
    return 2;
}
Clock.EndProcessAfter(maxSeconds);
builder.WebHost.UseUrls(urls);
Holders.Add(builder.Services);

WebApplication app = builder.Build();
var patient = new WebPatient();
app.Use(Mix.MeasureAsync);
app.Use(patient.CountAsync);
app.MapGet("/healthy", Routes.Healthy);
app.MapGet("/on-cpu", (int ms = 100) => Routes.OnCpu(ms));
app.MapGet("/off-cpu", (int ms = 100) => Routes.OffCpu(ms));
app.MapGet("/exception/{n:int}", (int n) => Routes.Throw(n));
app.MapGet("/log", (ILogger<WebPatient> log, int n = 100) => Routes.Log(log, n));
app.MapGet("/concurrent-dict", (int n = 1000) => Routes.FillDictionary(n));
app.MapGet("/slow-linq", (int n = 2000) => Routes.SlowLinq(n));
app.MapGet("/sync-over-async", (int ms = 100) => Routes.SyncOverAsync(ms));
app.MapGet("/leak", (int bytes = 10_000) => Routes.Leak(bytes));
Holders.Map(app);
Mix.Map(app);
app.MapGet("/truth", () => Results.Text(patient.Truth().ToJsonString(), "application/json"));

await app.StartAsync();
new Commander(patient).Start(new JsonObject { ["url"] = app.Urls.First() });
await app.WaitForShutdownAsync();
return 0;
