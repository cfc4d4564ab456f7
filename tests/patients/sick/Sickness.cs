// What every sickness is: a name, the keys it understands, a way to fall ill, and the truth.

using System.Globalization;
using System.Text.Json.Nodes;

namespace Patients;

// A wrong command line: one line on stderr and exit code 2.
sealed class UsageException(string message) : Exception(message);

// A sickness this runtime cannot have: one line on stderr and exit code 3.
sealed class UnsupportedException(string message) : Exception(message);

// A number with a range, or (when Choices is given) one of a few words.
sealed record Key(string Name, string Default, string About, double Min = 0, double Max = 1e9)
{
    public string[]? Choices { get; init; }

    public void Check(string value)
    {
        if (Choices != null)
        {
            if (!Choices.Contains(value))
                throw new UsageException($"{Name}={value}: must be one of {string.Join('|', Choices)}");
            return;
        }
        if (!double.TryParse(value, CultureInfo.InvariantCulture, out double number)
            || !(number >= Min && number <= Max))
            throw new UsageException($"{Name}={value}: must be a number from {Min} to {Max}");
    }
}

sealed class Settings(Key[] keys)
{
    readonly Dictionary<string, string> _values = keys.ToDictionary(key => key.Name, key => key.Default);

    public void Set(Key key, string value)
    {
        key.Check(value);
        _values[key.Name] = value;
    }

    public string Word(string name) => _values[name];

    public double Number(string name) => double.Parse(_values[name], CultureInfo.InvariantCulture);

    public int Int(string name) => (int)Number(name);
}

abstract class Sickness
{
    public abstract string Name { get; }
    public abstract string About { get; }
    public virtual Key[] Keys => [];

    // Returns when the sickness is established.
    public abstract void Start(Settings settings);

    public virtual void Mark() { }

    public abstract JsonObject Truth();

    public virtual bool Command(string command) => false;

    protected static Key Choice(string name, string about, params string[] choices) =>
        new(name, choices[0], about) { Choices = choices };
}

// The sicknesses chosen on the command line, as one patient.
sealed class Patient(IReadOnlyList<Sickness> sicknesses) : IPatient
{
    public string Name => string.Join(',', sicknesses.Select(sickness => sickness.Name));

    public void Mark()
    {
        foreach (Sickness sickness in sicknesses)
            sickness.Mark();
    }

    public JsonObject Truth()
    {
        var truth = new JsonObject();
        foreach (Sickness sickness in sicknesses)
            truth[sickness.Name] = sickness.Truth();
        return truth;
    }

    public bool Command(string command) => sicknesses.Any(sickness => sickness.Command(command));
}
