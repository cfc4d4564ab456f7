// What the web patient knows about itself: requests per route and what each route did.

using System.Text.Json.Nodes;
using Patients;

namespace Shop.Web;

sealed class WebPatient : IPatient
{
    readonly CounterSet _requests = new();
    readonly Dictionary<string, Counter> _counters = new()
    {
        ["on_cpu_ns"] = Routes.OnCpuNs,
        ["off_cpu_ns"] = Routes.OffCpuNs,
        ["exceptions"] = Routes.Thrown,
        ["log_messages"] = Routes.Logged,
        ["leaked_objects"] = Routes.LeakedObjects,
        ["leaked_bytes"] = Routes.LeakedBytes,
        ["mailers"] = Holders.Mailers,
        ["baskets"] = Holders.Baskets,
        ["audits"] = Holders.Audits,
        ["mix_requests"] = Mix.Requests,
        ["mix_total_ns"] = Mix.TotalNs,
        ["mix_cpu_ns"] = Mix.CpuNs,
        ["mix_sql_ns"] = Mix.SqlNs,
        ["mix_http_ns"] = Mix.HttpNs,
        ["mix_lock_ns"] = Mix.LockNs,
        ["mix_wait_ns"] = Mix.WaitNs,
        ["mix_other_ns"] = Mix.OtherNs,
    };

    public string Name => "web";

    // A request counts when it arrives, so whoever has its answer finds it counted. While paused,
    // none is served.
    public Task CountAsync(HttpContext context, RequestDelegate next)
    {
        if (Gate.IsClosed)
        {
            context.Response.StatusCode = StatusCodes.Status503ServiceUnavailable;
            return Task.CompletedTask;
        }
        if (context.GetEndpoint() != null)
            _requests[context.Request.Path.Value!.Split('/')[1]].Increment();
        return next(context);
    }

    public void Mark()
    {
        _requests.Mark();
        foreach (Counter counter in _counters.Values)
            counter.Mark();
    }

    public JsonObject Truth()
    {
        var truth = new JsonObject { ["requests"] = _requests.SinceMark() };
        foreach (var (name, counter) in _counters)
            truth[name] = counter.SinceMark;
        truth["leak_holder"] = "Shop.Web.Routes.Uploads";
        return new JsonObject { ["web"] = truth };
    }

    public bool Command(string command) => false;
}
