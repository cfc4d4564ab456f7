// modern: a program as its author writes one today: top-level statements with local functions, a minimal API with real
// routing, MVC controllers, generated regular expressions, async streams, records. Speaks the same protocol on stdin
// and stdout as `sick`. Every handler does its work in its own body, so that a report has no other method to name.

using System.Net;
using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;
using Store;

var builder = WebApplication.CreateBuilder(args);
builder.Logging.ClearProviders(); // stdout belongs to the protocol
string urls = builder.Configuration["urls"] ?? "http://127.0.0.1:0";
if (!Uri.TryCreate(urls, UriKind.Absolute, out Uri? asked)
    || !IPAddress.TryParse(asked.DnsSafeHost, out IPAddress? address) || !IPAddress.IsLoopback(address))
{
    Console.Error.WriteLine($"modern: --urls {urls}: only a loopback address such as http://127.0.0.1:0 is allowed");
    return 2;
}
Clock.EndProcessAfter(Math.Clamp(builder.Configuration.GetValue("max-seconds", 600), 1, 86400));
builder.WebHost.UseUrls(urls);
builder.Services.AddControllers();
builder.Services.AddSingleton<Prices>();

WebApplication app = builder.Build();
var patient = new ModernPatient();
var gate = new object();
string shelf = "top";

app.MapGet("/orders/{id:int}", (int id) =>
{
    patient.Begin("GET /orders/{id:int}");
    ulong sum = 1;
    for (long end = Environment.TickCount64 + 100; Environment.TickCount64 < end;)
        for (int i = 0; i < 100_000; i++)
            sum = (sum ^ (ulong)(i + id)) * 6364136223846793005 + 1;
    return sum;
});
RouteGroupBuilder carts = app.MapGroup("/carts");
carts.MapPost("/{cart}/lines", async (string cart, HttpContext context) =>
{
    patient.Begin("POST /carts/{cart}/lines");
    await Task.Yield();
    lock (gate)
    {
        Pack(cart);
        Thread.Sleep(20);
    }
    return $"{shelf} {cart}";
});
app.MapGet("/failing/{n:int}", (int n) =>
{
    for (int i = 0; i < Math.Clamp(n, 0, 1000); i++)
    {
        try
        {
            patient.Thrown.Increment();
            throw new InvalidOperationException($"order {i} has no lines");
        }
        catch (InvalidOperationException) { }
    }
    return "caught";
});
app.MapGet("/growing/{kb:int}", (int kb) =>
{
    long length = 0;
    for (int i = 0; i < Math.Clamp(kb, 0, 100_000); i++)
        length += new byte[1024 - 24].Length;
    return length;
});
app.MapGet("/blocked/{id}", (string id) =>
{
    patient.Begin("GET /blocked/{id}");
    patient.Never.Task.Wait();
    return id;
});
app.MapGet("/waiting/{id}", async (string id) =>
{
    patient.Begin("GET /waiting/{id}");
    await patient.Never.Task;
    return id;
});
app.MapMethods("/either/{id}", ["GET", "HEAD"], Handlers.Either);
app.MapGet("/import/{n:int}", Import);
app.MapGet("/regex/{kind}", (string kind) => Patterns.Match(kind));
app.MapControllers();

await app.StartAsync();
patient.Establish();
new Commander(patient).Start(new JsonObject { ["url"] = app.Urls.First() });
await app.WaitForShutdownAsync();
return 0;

[MethodImpl(MethodImplOptions.NoInlining)]
static void Pack(string cart) => GC.KeepAlive(cart);

// A local function that is a route, with local functions of its own.
async Task<long> Import(int n)
{
    patient.Begin("GET /import/{n:int}");
    long sum = 0;
    await foreach (long row in Rows(n))
        sum += Total(row);
    return sum;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Total(long row)
    {
        for (long end = Environment.TickCount64 + 10; Environment.TickCount64 < end;)
            row = row * 31 + 1;
        return row;
    }
}

static async IAsyncEnumerable<long> Rows(int n)
{
    for (int i = 0; i < n; i++)
    {
        await Task.Yield();
        yield return i;
    }
}
