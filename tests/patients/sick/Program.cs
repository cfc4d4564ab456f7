// sick: a shop that is ill on purpose. `sick list` shows the sicknesses and their keys.

using System.Runtime.InteropServices;
using System.Text.Json.Nodes;

namespace Patients;

static class Program
{
    const string Usage = "usage: sick SICKNESS[,SICKNESS...] [key=value ...] | sick list | sick load key=value ...";
    static readonly Key MaxSeconds = new("max-seconds", "600", "the patient ends by itself after this time", 1, 86400);

    static readonly Sickness[] Known =
    [
        new Healthy(), new GcPauses(), new Exceptions(), new Leak(), new DuplicateStrings(), new Cpu(),
        new Blocked(), new Deadlock(), new HealthyWaits(), new StuckTasks(), new Starvation(),
        new Contention(), new Allocations(), new ZombieThreads(), new Jit(), new Contexts(),
        new RegexPerRequest(), new Crash(), new Exec(), new Churn(), new Waits(), new Switches(), new Faults(), new Meters(),
        new WastedCollections(), new Heartbeat(), new Holders(), new Held(), new PoolCrowd(), new Descriptors(), new Native(),
    ];

    static int Main(string[] args)
    {
        try
        {
            if (args.Length == 0)
                throw new UsageException(Usage);
            if (args[0] == "list")
                return List();
            if (args[0] == "load")
                return Load.Run(args[1..]);
            FallIll(args);
            return 0;
        }
        catch (UsageException wrong)
        {
            Console.Error.WriteLine($"sick: {wrong.Message}");
            return 2;
        }
        catch (UnsupportedException wrong)
        {
            Console.Error.WriteLine($"sick: {wrong.Message}");
            return 3;
        }
    }

    static void FallIll(string[] args)
    {
        Sickness[] chosen = args[0].Split(',').Select(Find).ToArray();
        Settings[] settings = chosen.Select(sickness => new Settings(sickness.Keys)).ToArray();
        int maxSeconds = int.Parse(MaxSeconds.Default);
        foreach (string arg in args[1..])
        {
            (string name, string value) = Split(arg);
            if (name == MaxSeconds.Name)
            {
                MaxSeconds.Check(value);
                maxSeconds = (int)double.Parse(value);
            }
            else
                Apply(chosen, settings, name, value);
        }

        Clock.EndProcessAfter(maxSeconds);
        // .NET 10 has no handler of its own: it would die without removing its diagnostics socket.
        using var terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, _ => Environment.Exit(143));
        for (int i = 0; i < chosen.Length; i++)
            chosen[i].Start(settings[i]);
        new Commander(new Patient(chosen)).Start(new JsonObject()).Join();
    }

    static Sickness Find(string name) =>
        Known.FirstOrDefault(sickness => sickness.Name == name)
        ?? throw new UsageException($"unknown sickness '{name}'; 'sick list' shows them");

    public static (string Name, string Value) Split(string arg)
    {
        int equals = arg.IndexOf('=');
        if (equals <= 0)
            throw new UsageException($"'{arg}' is not key=value");
        return (arg[..equals], arg[(equals + 1)..]);
    }

    // A key goes to every chosen sickness that knows it; "exceptions.rate" means that one only.
    static void Apply(Sickness[] chosen, Settings[] settings, string name, string value)
    {
        bool known = false;
        for (int i = 0; i < chosen.Length; i++)
        {
            foreach (Key key in chosen[i].Keys)
            {
                if (name != key.Name && name != $"{chosen[i].Name}.{key.Name}")
                    continue;
                settings[i].Set(key, value);
                known = true;
            }
        }
        if (!known)
            throw new UsageException($"unknown key '{name}'; 'sick list' shows them");
    }

    static int List()
    {
        foreach (Sickness sickness in Known)
        {
            Console.WriteLine($"{sickness.Name,-18} {sickness.About}");
            foreach (Key key in sickness.Keys)
                Show(key);
        }
        Console.WriteLine($"{"any of them",-18}");
        Show(MaxSeconds);
        Console.WriteLine($"{"load",-18} {Load.About}");
        foreach (Key key in Load.Keys)
            Show(key);
        return 0;
    }

    static void Show(Key key)
    {
        string choices = key.Choices == null ? "" : $" ({string.Join('|', key.Choices)})";
        Console.WriteLine($"    {key.Name + "=" + key.Default,-20} {key.About}{choices}");
    }
}
