// healthy: apps with nothing wrong, in the shapes that services have in production. Speaks the protocol of the patients.
//
//   healthy api|mvc|hub|worker|batch [max-seconds]
//   healthy visitors URL COUNT       clients of the hub, until they are killed or the hub is gone
//
// `work` and `rest` on stdin put worker and batch under load and back; the others get theirs by their sockets.

using System.Text.Json.Nodes;
using Patients;
using Shop.Healthy;

if (args is ["visitors", var hub, var count])
    return await Visitors.RunAsync(new Uri(hub), int.Parse(count));

int maxSeconds = args.Length > 1 ? Math.Clamp(int.Parse(args[1]), 1, 86400) : 600;
Clock.EndProcessAfter(maxSeconds);
string kind = args.Length > 0 ? args[0] : "";
IHost? app = kind switch
{
    "api" => Api.Build(),
    "mvc" => Mvc.Build(),
    "hub" => Hubs.Build(),
    "worker" => Workers.Build(),
    "batch" => Batch.Build(),
    _ => null,
};
if (app == null)
{
    Console.Error.WriteLine("healthy: api, mvc, hub, worker or batch?");
    return 2;
}
await app.StartAsync();
var ready = new JsonObject();
if (app is WebApplication web)
    ready["url"] = web.Urls.First();
new Commander(new HealthyPatient(kind)).Start(ready);
await app.WaitForShutdownAsync();
return 0;
