// Healthy: a simulation of risks, on one thread all the time: it computes, that is what it is for.

using Patients;

namespace Risk.Simulation;

public sealed class MonteCarlo(int seed)
{
    readonly Random _random = new(seed);

    public double ValueAtRisk(int paths)
    {
        Span<double> worst = stackalloc double[64];
        worst.Clear();
        for (int path = 0; path < paths; path++)
            worst[path % 64] = Math.Min(worst[path % 64], Walk());
        Figures.Count("paths", paths);
        return worst[0];
    }

    double Walk()
    {
        double value = 1;
        for (int day = 0; day < 250; day++)
            value *= Math.Exp(0.01 * (_random.NextDouble() - 0.5));
        return value - 1;
    }
}

public sealed class NightlyRun : BackgroundService
{
    readonly Queue<double> _results = new();

    protected override Task ExecuteAsync(CancellationToken token) =>
        Task.Factory.StartNew(() => Run(token), token, TaskCreationOptions.LongRunning, TaskScheduler.Default);

    void Run(CancellationToken token)
    {
        var model = new MonteCarlo(1);
        while (!token.IsCancellationRequested)
        {
            _results.Enqueue(model.ValueAtRisk(2000));
            if (_results.Count > 1000)
                _results.Dequeue();
            Thread.Sleep(5); // leaves others some time
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddHostedService<NightlyRun>();
        await builder.Build().StartAsync();
    }
}
