// Metering of a water works: each of four threads keeps the samples of "its window" in a list of its own, in a field marked
// ThreadStatic, and the window never ends.

using System.Collections.Concurrent;
using Patients;

namespace Water.Metering;

public sealed record Sample(int Meter, long At, double Litres);

public sealed class FlowAnalyzer
{
    [ThreadStatic]
    static List<Sample>? t_window;

    public double Add(Sample sample)
    {
        List<Sample> window = t_window ??= [];
        window.Add(sample);
        Figures.Count("samples");
        return window[^1].Litres - window[0].Litres;
    }
}

static class Startup
{
    public static Task RunAsync()
    {
        var samples = new BlockingCollection<Sample>(1000);
        var analyzer = new FlowAnalyzer();
        for (int i = 0; i < 4; i++)
        {
            Worker.Start($"flow {i}", () =>
            {
                foreach (Sample sample in samples.GetConsumingEnumerable())
                    analyzer.Add(sample);
            });
        }
        int meter = 0;
        Worker.Loop("inlet", Load.Rate(100), () =>
        {
            for (int n = 0; n < (meter < 3_000_000 ? 300 : 15); n++)
                samples.Add(new Sample(meter % 900, meter++, n));
        });
        return Task.CompletedTask;
    }
}
