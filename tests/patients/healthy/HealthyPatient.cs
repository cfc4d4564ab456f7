// What all five have in common: their logger, and what they count.

using System.Text.Json.Nodes;
using Microsoft.Extensions.Logging.Console;
using Patients;

namespace Shop.Healthy;

sealed class HealthyPatient(string kind) : IPatient
{
    public static readonly Counter Done = new();
    public static volatile bool Working;

    public string Name => kind;
    public void Mark() => Done.Mark();
    public JsonObject Truth() => new() { [kind] = new JsonObject { ["done"] = Done.SinceMark } };

    public bool Command(string command)
    {
        if (command is not ("work" or "rest"))
            return false;
        Working = command == "work";
        return true;
    }

    // The console logger as every template has it, with its queue thread; stdout belongs to the protocol.
    public static void Logging(ILoggingBuilder logging)
    {
        logging.ClearProviders();
        logging.AddConsole();
        logging.AddFilter("Microsoft", LogLevel.Warning);
        logging.Services.Configure<ConsoleLoggerOptions>(options => options.LogToStandardErrorThreshold = LogLevel.Trace);
    }
}
