// traceevent FILE: reads a nettrace file with Microsoft's own reader and prints, as JSON, how many events of each
// provider and id it holds, how many payload bytes they have, and how many events the stream says were lost.
// Our reader is compared with it.
using System.Text.Json;
using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.EventPipe;
using Microsoft.Diagnostics.Tracing.Parsers.Clr;

if (args.Length != 1)
{
    Console.Error.WriteLine("usage: traceevent FILE");
    return 2;
}

var kinds = new SortedDictionary<string, (long Count, long Bytes)>(StringComparer.Ordinal);
long total = 0, disorder = 0;
var last = double.MinValue;
using var source = new EventPipeEventSource(args[0]);

// Without a parser for it an event shows its provider's guid only.
source.Clr.All += _ => { };
source.Dynamic.All += _ => { };
new ClrRundownTraceEventParser(source).All += _ => { };
new SampleProfilerTraceEventParser(source).All += _ => { };

source.AllEvents += data =>
{
    // Its parser gives the subtypes of GCDynamicEvent (39) made-up ids at the top of the range.
    var id = (int)data.ID > 65000 ? 39 : (int)data.ID;
    var key = $"{data.ProviderName}/{id}";
    kinds.TryGetValue(key, out var kind);
    kinds[key] = (kind.Count + 1, kind.Bytes + data.EventDataLength);
    total++;
    if (data.TimeStampRelativeMSec < last)
        disorder++;
    last = data.TimeStampRelativeMSec;
};
source.Process();

var result = new
{
    events = total,
    lost = source.EventsLost,
    disorder,
    kinds = kinds.ToDictionary(k => k.Key, k => new { count = k.Value.Count, bytes = k.Value.Bytes }),
};
Console.WriteLine(JsonSerializer.Serialize(result, new JsonSerializerOptions { WriteIndented = true }));
return 0;
