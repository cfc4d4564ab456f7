// Tariffs of an insurance: each refresh loads the plug-in into a collectible AssemblyLoadContext of its own. It calls Unload,
// but the engine keeps the tariff it made in a list, so no context is ever gone.

using System.Reflection;
using System.Runtime.Loader;
using Patients;

namespace Insurance.Tariffs;

public interface ITariff
{
    decimal Premium(int age);
}

// In the plug-in, which here is this program's own assembly, loaded again.
public sealed class LifeTariff
{
    readonly decimal[] _table = [.. Enumerable.Range(0, 120).Select(age => age * 1.5m)];

    public decimal Premium(int age) => _table[age];
}

public sealed class TariffEngine
{
    readonly byte[] _plugin = File.ReadAllBytes(Path.Combine(AppContext.BaseDirectory, "field.dll"));
    readonly List<Func<int, decimal>> _tariffs = [];

    public decimal Refresh(int age)
    {
        var context = new AssemblyLoadContext("tariffs", isCollectible: true);
        Assembly assembly = context.LoadFromStream(new MemoryStream(_plugin));
        object tariff = Activator.CreateInstance(assembly.GetType(typeof(LifeTariff).FullName!)!)!;
        _tariffs.Add(tariff.GetType().GetMethod("Premium")!.CreateDelegate<Func<int, decimal>>(tariff));
        context.Unload();
        Figures.Count("loaded");
        return _tariffs[^1](age);
    }
}

static class Startup
{
    public static Task RunAsync()
    {
        var engine = new TariffEngine();
        int age = 0;
        Worker.Loop("tariff refresh", Load.Rate(3), () =>
        {
            if (age > 300)
                Thread.Sleep(3000);
            engine.Refresh(age++ % 100);
        });
        Figures.Gauge("copies", () => AppDomain.CurrentDomain.GetAssemblies().Count(each => each.GetName().Name == "field"));
        return Task.CompletedTask;
    }
}
