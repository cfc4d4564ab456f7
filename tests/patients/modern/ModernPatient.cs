// What the modern patient knows about itself, and threads that are known by what they do: a finalizer that hangs when
// asked to, an async void method, a timer, a handler of a signal.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Store;

public record Stuck(string Name)
{
    ~Stuck()
    {
        while (!ModernPatient.Released)
            Thread.Sleep(50);
    }
}

static class Handlers
{
    public static string Either(string id) => id;
}

sealed class ModernPatient : IPatient
{
    static readonly CounterSet Requests = new();
    public static volatile bool Released;
    public readonly TaskCompletionSource Never = new();
    public readonly Counter Thrown = new();
    Timer? _timer;
    PosixSignalRegistration? _signal;

    // All of them from the start: the truth is told while requests come.
    static ModernPatient()
    {
        foreach (string counted in (string[])[
            "GET /orders/{id:int}", "POST /carts/{cart}/lines", "GET /blocked/{id}", "GET /waiting/{id}", "GET /import/{n:int}",
            "PUT prices/{id:int}", "DELETE prices/{id:int}", "regex compiled", "regex generated", "regex interpreted",
            "forgotten", "tick", "signal"])
            _ = Requests[counted];
    }

    public string Name => "modern";

    public void Begin(string route) => Requests[route].Increment();
    public static void Started(string route) => Requests[route].Increment();

    public void Establish()
    {
        _timer = new Timer(_ => Tick(), null, Timeout.Infinite, Timeout.Infinite);
        _signal = PosixSignalRegistration.Create(PosixSignal.SIGHUP, OnSignal);
        Forget();
    }

    // Waits for ever, and nobody can see its task.
    async void Forget()
    {
        await Never.Task;
        Requests["forgotten"].Increment();
    }

    void Tick()
    {
        Requests["tick"].Increment();
        while (!Released)
            Thread.Sleep(50);
    }

    void OnSignal(PosixSignalContext context)
    {
        context.Cancel = true;
        Requests["signal"].Increment();
        while (!Released)
            Thread.Sleep(50);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Drop() => GC.KeepAlive(new Stuck("dropped"));

    public void Mark()
    {
        Requests.Mark();
        Thrown.Mark();
    }

    public JsonObject Truth() => new()
    {
        ["modern"] = new JsonObject { ["requests"] = Requests.SinceMark(), ["thrown"] = Thrown.SinceMark },
    };

    public bool Command(string command)
    {
        switch (command)
        {
            case "finalize":
                Drop();
                GC.Collect();
                return true;
            case "timer":
                _timer!.Change(0, Timeout.Infinite);
                return true;
            case "release":
                Released = true;
                return true;
            default:
                return false;
        }
    }
}
