// `sick load`: a small load generator for the web patient. Bounded in time and count, and only for
// this machine.

using System.Net;
using System.Text.Json.Nodes;

namespace Patients;

static class Load
{
    const int MaxRequests = 1_000_000;
    public const string About = "sends requests to a loopback address and prints DONE {...}";

    public static readonly Key[] Keys =
    [
        new("rate", "50", "requests a second; 0 = as fast as possible", 0, 100_000),
        new("seconds", "5", "length", 0.1, 600),
        new("concurrency", "4", "requests under way at once", 1, 500),
        new("timeout", "30", "seconds until a request counts as failed", 1, 120),
    ];

    sealed class Tally
    {
        public int Tickets, Sent, Ok, Failed;
        public readonly List<double> LatenciesMs = [];
    }

    public static int Run(string[] args)
    {
        var settings = new Settings(Keys);
        Uri? url = null;
        foreach (string arg in args)
        {
            (string name, string value) = Program.Split(arg);
            if (name == "url")
                url = LoopbackUrl(value);
            else
                settings.Set(Keys.FirstOrDefault(key => key.Name == name)
                             ?? throw new UsageException($"unknown key '{name}'; 'sick list' shows them"), value);
        }
        if (url == null)
            throw new UsageException("load needs url=http://127.0.0.1:PORT/...");

        Clock.EndProcessAfter((int)(settings.Number("seconds") + settings.Number("timeout")) + 10);
        Console.WriteLine($"DONE {SendAll(url, settings).ToJsonString()}");
        return 0;
    }

    static Uri LoopbackUrl(string text)
    {
        if (!Uri.TryCreate(text, UriKind.Absolute, out Uri? url) || url.Scheme != "http")
            throw new UsageException($"url={text}: must be http://...");
        if (!IPAddress.TryParse(url.DnsSafeHost, out IPAddress? address) || !IPAddress.IsLoopback(address))
            throw new UsageException($"url={text}: only loopback addresses (127.0.0.1, [::1]) are allowed");
        return url;
    }

    static JsonObject SendAll(Uri url, Settings settings)
    {
        using var handler = new SocketsHttpHandler { UseProxy = false, AllowAutoRedirect = false };
        using var client = new HttpClient(handler) { Timeout = TimeSpan.FromSeconds(settings.Number("timeout")) };
        double rate = settings.Number("rate");
        double seconds = settings.Number("seconds");
        int count = rate > 0 ? (int)Math.Min(Math.Ceiling(rate * seconds), MaxRequests) : MaxRequests;
        long startNs = Clock.MonotonicNs();
        long endNs = startNs + (long)(seconds * 1e9);
        var tally = new Tally();

        Task[] senders = Enumerable.Range(0, settings.Int("concurrency"))
            .Select(_ => Task.Run(() => SendAsync(client, url, tally, count, rate, startNs, endNs))).ToArray();
        Task.WaitAll(senders);
        return Summary(tally, (Clock.MonotonicNs() - startNs) / 1e9);
    }

    // Request n is due at n / rate: when the server is slow and every sender busy, it is sent late
    // or, after the end, not at all.
    static async Task SendAsync(HttpClient client, Uri url, Tally tally, int count, double rate, long startNs, long endNs)
    {
        while (true)
        {
            int ticket = Interlocked.Increment(ref tally.Tickets) - 1;
            long dueNs = rate > 0 ? startNs + (long)(ticket / rate * 1e9) : 0;
            if (ticket >= count || Math.Max(dueNs, Clock.MonotonicNs()) >= endNs)
                return;
            long waitMs = (dueNs - Clock.MonotonicNs()) / 1_000_000;
            if (waitMs > 0)
                await Task.Delay((int)waitMs);

            Interlocked.Increment(ref tally.Sent);
            long sentNs = Clock.MonotonicNs();
            bool ok = await GetAsync(client, url);
            Interlocked.Increment(ref ok ? ref tally.Ok : ref tally.Failed);
            lock (tally.LatenciesMs)
                tally.LatenciesMs.Add((Clock.MonotonicNs() - sentNs) / 1e6);
        }
    }

    static async Task<bool> GetAsync(HttpClient client, Uri url)
    {
        try
        {
            using HttpResponseMessage response = await client.GetAsync(url);
            return response.IsSuccessStatusCode;
        }
        catch (Exception failure) when (failure is HttpRequestException or TaskCanceledException)
        {
            return false;
        }
    }

    static JsonObject Summary(Tally tally, double seconds)
    {
        double[] sorted = tally.LatenciesMs.Order().ToArray();
        double At(double quantile) => sorted.Length == 0 ? 0 : sorted[(int)Math.Min(sorted.Length - 1, quantile * sorted.Length)];
        return new JsonObject
        {
            ["sent"] = tally.Sent,
            ["ok"] = tally.Ok,
            ["failed"] = tally.Failed,
            ["seconds"] = seconds,
            ["p50_ms"] = At(0.5),
            ["p95_ms"] = At(0.95),
            ["p99_ms"] = At(0.99),
            ["max_ms"] = At(1),
        };
    }
}
