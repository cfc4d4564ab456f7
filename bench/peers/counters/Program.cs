// counters PID SECONDS METER...: the least that shows meters with Microsoft's own libraries: one session, every value
// printed as a line.
using System.Diagnostics.Tracing;
using Microsoft.Diagnostics.NETCore.Client;
using Microsoft.Diagnostics.Tracing;

var arguments = new Dictionary<string, string>
{
    ["SessionId"] = "SHARED",
    ["ClientId"] = Guid.NewGuid().ToString(),
    ["Metrics"] = string.Join(',', args[2..]),
};
var provider = new EventPipeProvider("System.Diagnostics.Metrics", EventLevel.Informational, 6, arguments);
var client = new DiagnosticsClient(int.Parse(args[0]));
using EventPipeSession session = client.StartEventPipeSession([provider], requestRundown: false, circularBufferMB: 16);
using var source = new EventPipeEventSource(session.EventStream);
var output = new StreamWriter(Console.OpenStandardOutput());
DateTime end = DateTime.UtcNow.AddSeconds(double.Parse(args[1]));
bool stopped = false;

source.Dynamic.All += data =>
{
    switch ((int)data.ID)
    {
        case 4 or 16:
            output.WriteLine($"{data.PayloadByName("meterName")} {data.PayloadByName("instrumentName")} "
                             + $"{data.PayloadByName("tags")} {data.PayloadByName("rate")} {data.PayloadByName("value")}");
            break;
        case 5:
            output.WriteLine($"{data.PayloadByName("meterName")} {data.PayloadByName("instrumentName")} "
                             + $"{data.PayloadByName("tags")} {data.PayloadByName("lastValue")}");
            break;
        case 6:
            output.WriteLine($"{data.PayloadByName("meterName")} {data.PayloadByName("instrumentName")} "
                             + $"{data.PayloadByName("tags")} {data.PayloadByName("quantiles")} {data.PayloadByName("count")}");
            break;
        case 3:
            output.Flush();
            // Between two collections, as we do.
            if (!stopped && DateTime.UtcNow >= end)
            {
                stopped = true;
                Task.Run(session.Stop);
            }
            break;
    }
};
source.Process();
output.Flush();
