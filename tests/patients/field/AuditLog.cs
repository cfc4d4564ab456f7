// An audit log's report: a text of hundreds of lines is put together with +=, and each figure is boxed on its way into it.

using Patients;

namespace Compliance.Audit;

public sealed record AuditEvent(int User, string Action, DateTime At);

public sealed class AuditReport
{
    public string Write(IReadOnlyList<AuditEvent> events)
    {
        string text = "";
        foreach (AuditEvent each in events)
            text += string.Format("{0};{1};{2};{3}\n", each.User, each.Action, each.At.Ticks, text.Length);
        Figures.Count("reports");
        return text;
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        AuditEvent[] events = [.. Enumerable.Range(0, 700).Select(n => new AuditEvent(n, "login", DateTime.UtcNow))];
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<AuditReport>();
        WebApplication app = builder.Build();
        app.MapGet("/audit/report.csv", (AuditReport report) => report.Write(events).Length);
        Visitors.Send(await app.ListenAsync(), 30, 2, _ => "GET /audit/report.csv");
    }
}
