// Counters of what the patient really did. Each has a baseline that the "mark" command moves, so
// that a test can compare a report of one window with the truth of the same window.

using System.Collections.Concurrent;
using System.Text.Json.Nodes;

namespace Patients;

sealed class Counter
{
    long _value;
    long _baseline;

    public void Add(long amount) => Interlocked.Add(ref _value, amount);

    public void Increment() => Interlocked.Increment(ref _value);

    public long Total => Interlocked.Read(ref _value);

    public long SinceMark => Total - Interlocked.Read(ref _baseline);

    public void Mark() => Interlocked.Exchange(ref _baseline, Total);
}

sealed class CounterSet
{
    readonly ConcurrentDictionary<string, Counter> _counters = new();

    public Counter this[string name] => _counters.GetOrAdd(name, _ => new Counter());

    public long SumSinceMark => _counters.Values.Sum(counter => counter.SinceMark);

    public void Mark()
    {
        foreach (Counter counter in _counters.Values)
            counter.Mark();
    }

    public JsonObject SinceMark()
    {
        var json = new JsonObject();
        foreach (var (name, counter) in _counters.OrderBy(pair => pair.Key, StringComparer.Ordinal))
            json[name] = counter.SinceMark;
        return json;
    }
}
