// The protocol between a patient and its test, one line each way:
//
//   patient: READY {...}     once, when the sickness is established
//   test:    mark            patient: MARKED {"mono_ns":...}    truth counts from here
//   test:    truth           patient: TRUTH {...}
//   test:    pause, resume   patient: PAUSED {...}, RESUMED {}
//   test:    collect         patient: COLLECTED {}    one collection of each generation, the youngest first
//   test:    quit            the patient exits with 0
//
// A sickness may know more commands (answered with DONE). The end of stdin changes nothing. All of
// this happens on one thread of its own with plain reads and writes, so it works when the thread
// pool is starved and every other thread is deadlocked.

using System.Runtime;
using System.Text;
using System.Text.Json.Nodes;

namespace Patients;

interface IPatient
{
    string Name { get; }
    void Mark();
    JsonObject Truth();
    bool Command(string command);
}

sealed class Commander(IPatient patient)
{
    readonly Stream _input = Console.OpenStandardInput();
    readonly Stream _output = Console.OpenStandardOutput();
    readonly RuntimeTruth _runtime = new();
    long _markedNs = Clock.MonotonicNs();

    public Thread Start(JsonObject ready)
    {
        ready["pid"] = Environment.ProcessId;
        ready["sickness"] = patient.Name;
        ready["runtime"] = Environment.Version.ToString();
        ready["server_gc"] = GCSettings.IsServerGC;
        var thread = new Thread(() => Obey(ready)) { Name = "commander", IsBackground = true };
        thread.Start();
        return thread;
    }

    void Obey(JsonObject ready)
    {
        Mark();
        ready["mono_ns"] = _markedNs;
        Say("READY", ready);
        while (ReadLine() is { } line)
            Answer(line.Trim());
        Thread.Sleep(Timeout.Infinite);
    }

    void Answer(string command)
    {
        switch (command)
        {
            case "mark":
                Mark();
                Say("MARKED", new JsonObject { ["mono_ns"] = _markedNs });
                break;
            case "truth":
                Say("TRUTH", Truth());
                break;
            case "pause":
                Say("PAUSED", new JsonObject { ["quiet"] = Gate.Close(TimeSpan.FromSeconds(2)) });
                break;
            case "resume":
                Gate.Open();
                Say("RESUMED", new JsonObject());
                break;
            case "collect":
                // Nobody knows when one comes by itself: that depends on the processor's cache.
                for (int generation = 0; generation <= GC.MaxGeneration; generation++)
                    GC.Collect(generation, GCCollectionMode.Forced, blocking: true);
                Say("COLLECTED", new JsonObject());
                break;
            case "quit":
                Environment.Exit(0);
                break;
            default:
                if (patient.Command(command))
                    Say("DONE", new JsonObject { ["command"] = command });
                else
                    Say("ERROR", new JsonObject { ["unknown"] = command });
                break;
        }
    }

    void Mark()
    {
        patient.Mark();
        _runtime.Mark();
        _markedNs = Clock.MonotonicNs();
    }

    JsonObject Truth()
    {
        long now = Clock.MonotonicNs();
        JsonObject truth = patient.Truth();
        truth["mono_ns"] = now;
        truth["since_mark_ns"] = now - _markedNs;
        truth["paused"] = Gate.IsClosed;
        truth["runtime"] = _runtime.SinceMark();
        return truth;
    }

    void Say(string word, JsonObject json)
    {
        _output.Write(Encoding.UTF8.GetBytes($"{word} {json.ToJsonString()}\n"));
        _output.Flush();
    }

    // Byte by byte: nothing is read ahead, and commands are rare.
    string? ReadLine()
    {
        var line = new List<byte>();
        while (true)
        {
            int next = _input.ReadByte();
            if (next < 0)
                return null;
            if (next == '\n')
                return Encoding.UTF8.GetString(line.ToArray());
            if (line.Count < 1000)
                line.Add((byte)next);
        }
    }
}
