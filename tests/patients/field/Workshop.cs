// Healthy: a workshop's back office with everything that waits by design: threads that take from blocking queues, many timers,
// a client that retries with growing pauses, requests that are cancelled now and then, and a lock that is held for moments.

using System.Collections.Concurrent;
using Patients;

namespace Garage.Workshop;

public sealed record Job(int Car, string Work);

public sealed class JobBoard
{
    readonly BlockingCollection<Job> _jobs = new(100);
    readonly object _gate = new();
    int _done;

    public void Add(Job job) => _jobs.Add(job);

    public void Work()
    {
        foreach (Job job in _jobs.GetConsumingEnumerable())
        {
            Thread.Sleep(20);
            lock (_gate)
                _done += job.Car >= 0 ? 1 : 0;
            Figures.Count("done");
        }
    }
}

public sealed class Reminders : BackgroundService
{
    protected override Task ExecuteAsync(CancellationToken token) =>
        Task.WhenAll(Enumerable.Range(0, 100).Select(n => RemindAsync(n, token)));

    static async Task RemindAsync(int customer, CancellationToken token)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromSeconds(5 + customer % 20));
        while (await timer.WaitForNextTickAsync(token))
            Figures.Count("reminders");
    }
}

public sealed class PartsClient(HttpClient http) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        for (int part = 0; !token.IsCancellationRequested; part++)
        {
            await FetchAsync(part, token);
            await Task.Delay(500, token);
        }
    }

    async Task FetchAsync(int part, CancellationToken token)
    {
        for (int attempt = 0; attempt < 4; attempt++)
        {
            using var deadline = CancellationTokenSource.CreateLinkedTokenSource(token);
            deadline.CancelAfter(TimeSpan.FromSeconds(5));
            using HttpResponseMessage answer = await http.GetAsync($"parts/{part + attempt}", deadline.Token);
            if (answer.IsSuccessStatusCode)
                return;
            Figures.Count("retries");
            await Task.Delay(200 << attempt, token);
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri parts = Downstream.Start(10, path => path.EndsWith('3') ? "" : "{}");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<JobBoard>().AddHostedService<Reminders>();
        builder.Services.AddSingleton<IHostedService>(_ => new PartsClient(new HttpClient { BaseAddress = parts }));
        WebApplication app = builder.Build();
        JobBoard board = app.Services.GetRequiredService<JobBoard>();
        for (int i = 0; i < 4; i++)
            Worker.Start($"mechanic {i}", board.Work);
        app.MapPost("/cars/{car:int}/jobs", (int car, JobBoard jobs) => jobs.Add(new Job(car, "oil")));
        Visitors.Send(await app.ListenAsync(), 40, 3, n => $"POST /cars/{n}/jobs");
    }
}
