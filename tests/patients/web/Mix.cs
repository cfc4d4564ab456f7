// A request that does several things one after the other, each for a known time, and measures what each really took: the truth
// about where the time of an endpoint goes. It calls the process at `peer` and the database at `database`, both of this machine.

using System.Collections.Concurrent;
using System.Runtime.CompilerServices;
using Npgsql;
using Patients;

namespace Shop.Web;

static class Mix
{
    const int MaxMs = 2000;

    public static readonly Counter Requests = new(), TotalNs = new(), CpuNs = new(), SqlNs = new(), HttpNs = new();
    public static readonly Counter LockNs = new(), WaitNs = new(), OtherNs = new();

    static readonly object Gate = new();
    static readonly BlockingCollection<(int Ms, TaskCompletionSource Held)> Holds = [];
    static readonly HttpClient Client = new(new SocketsHttpHandler { UseProxy = false });
    static readonly Lazy<Thread> Refill = new(() =>
    {
        var thread = new Thread(Hold) { IsBackground = true, Name = "refill" };
        thread.Start();
        return thread;
    });
    static Uri? _peer;
    static string? _database;

    public static void Map(WebApplication app)
    {
        if (Uri.TryCreate(app.Configuration["peer"], UriKind.Absolute, out Uri? peer) && peer.IsLoopback)
            _peer = peer;
        _database = app.Configuration["database"];
        app.MapGet("/delay/{ms:int}", (int ms) => Task.Delay(Math.Clamp(ms, 0, MaxMs)));
        app.MapGet("/mix/{id:int}", (int cpu = 0, int sql = 0, int http = 0, int held = 0, int block = 0, int other = 0) =>
            Handle(cpu, sql, http, held, block, other));
        app.MapGet("/mix/{name}", (string name) => name);
        app.MapGet("/files/{**path}", (string path) => path);
        app.MapGet("/leave/{ms:int}", (int ms) => Leave(ms));
    }

    // Before everything else, so that the time is that of the whole request.
    public static async Task MeasureAsync(HttpContext context, RequestDelegate next)
    {
        if (!context.Request.Path.StartsWithSegments("/mix"))
        {
            await next(context);
            return;
        }
        long start = Clock.MonotonicNs();
        await next(context);
        TotalNs.Add(Clock.MonotonicNs() - start);
        Requests.Increment();
    }

    static async Task<string> Handle(int cpu, int sql, int http, int held, int block, int other)
    {
        long at = Clock.MonotonicNs();
        if (cpu > 0)
            Routes.OnCpu(cpu);
        Took(CpuNs, ref at);
        if (sql > 0)
            await Query(Math.Clamp(sql, 0, MaxMs));
        Took(SqlNs, ref at);
        if (http > 0)
            await Client.GetStringAsync(new Uri(_peer!, $"/delay/{http}"));
        Took(HttpNs, ref at);
        if (held > 0)
        {
            var refilling = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            _ = Refill.Value;
            Holds.Add((Math.Clamp(held, 0, MaxMs), refilling));
            await refilling.Task;
            Took(OtherNs, ref at);
            Enter();
            Took(LockNs, ref at);
        }
        if (block > 0)
            Task.Delay(Math.Clamp(block, 0, MaxMs)).Wait();
        Took(WaitNs, ref at);
        if (other > 0)
            await Task.Delay(Math.Clamp(other, 0, MaxMs));
        Took(OtherNs, ref at);
        return "mixed";
    }

    // Apart, so that the driver is loaded only where there is a database.
    static class Database
    {
        public static readonly NpgsqlDataSource Source =
            NpgsqlDataSource.Create($"Host={_database};Username=postgres;Database=postgres;Maximum Pool Size=20");
    }

    static void Took(Counter counter, ref long at)
    {
        long now = Clock.MonotonicNs();
        counter.Add(now - at);
        at = now;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static async Task Query(int ms)
    {
        await using NpgsqlCommand command = Database.Source.CreateCommand(
            FormattableString.Invariant($"select pg_sleep({ms / 1000.0}), 'secret of customer {ms}'"));
        await command.ExecuteNonQueryAsync();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Enter()
    {
        lock (Gate)
            Interlocked.MemoryBarrier();
    }

    static void Hold()
    {
        foreach ((int ms, TaskCompletionSource held) in Holds.GetConsumingEnumerable())
        {
            lock (Gate)
            {
                held.SetResult();
                Thread.Sleep(ms);
            }
        }
    }

    // Answers at once, and goes on with a call that is no part of the request.
    static string Leave(int ms)
    {
        _ = Task.Run(async () =>
        {
            await Task.Delay(Math.Clamp(ms, 0, MaxMs));
            await Client.GetStringAsync(new Uri(_peer!, "/healthy"));
        });
        return "left";
    }
}
