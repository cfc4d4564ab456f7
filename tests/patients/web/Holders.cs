// Services and cache entries that stay: what people forget about containers and caches.

using System.Runtime.CompilerServices;
using Microsoft.Extensions.Caching.Memory;
using Patients;

namespace Shop.Web;

// A transient that is disposable: the scope that made it keeps it until the scope ends.
sealed class Mailer : IDisposable
{
    public readonly byte[] Buffer = new byte[2000];

    public void Dispose() => Buffer[0]++;
}

sealed record Basket(int Id, byte[] Lines);

// What the eviction callback of an entry refers to.
sealed class Audit
{
    public readonly byte[] Journal = new byte[2000];

    public void Evicted(object key, object? value, EvictionReason reason, object? state) => Journal[0]++;
}

static class Holders
{
    const int MaxCount = 100_000;
    public static readonly Counter Mailers = new(), Baskets = new(), Audits = new();
    static int _next;

    public static void Add(IServiceCollection services)
    {
        services.AddMemoryCache();
        services.AddTransient<Mailer>();
    }

    public static void Map(WebApplication app)
    {
        app.MapGet("/keep/mailers", (int n = 100) => Resolve(app.Services, n));
        app.MapGet("/keep/baskets", (IMemoryCache cache, int n = 100) => Cache(cache, n));
        app.MapGet("/keep/audits", (IMemoryCache cache, int n = 100) => Watch(cache, n));
    }

    // The root provider: what it makes lives as long as the process.
    [MethodImpl(MethodImplOptions.NoInlining)]
    static string Resolve(IServiceProvider root, int n)
    {
        for (int i = 0; i < Math.Clamp(n, 0, MaxCount); i++)
        {
            root.GetRequiredService<Mailer>().Buffer[0] = 1;
            Mailers.Increment();
        }
        return "sent";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static string Cache(IMemoryCache cache, int n)
    {
        for (int i = 0; i < Math.Clamp(n, 0, MaxCount); i++)
        {
            int id = Interlocked.Increment(ref _next);
            cache.Set($"basket-{id}", new Basket(id, new byte[2000]));
            Baskets.Increment();
        }
        return "cached";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static string Watch(IMemoryCache cache, int n)
    {
        for (int i = 0; i < Math.Clamp(n, 0, MaxCount); i++)
        {
            var options = new MemoryCacheEntryOptions();
            options.RegisterPostEvictionCallback(new Audit().Evicted);
            cache.Set($"audit-{Interlocked.Increment(ref _next)}", true, options);
            Audits.Increment();
        }
        return "watched";
    }
}
