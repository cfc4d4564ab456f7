// A help desk: each search registers a callback with the token of the application's end and keeps the registration to
// itself, so the callbacks, and the results they hold, live as long as the application.

using Patients;

namespace Support.Tickets;

public sealed record Ticket(int Id, string Title, byte[] Attachment);

public sealed class TicketSearch(IHostApplicationLifetime lifetime)
{
    public async Task<int> FindAsync(string words, CancellationToken token)
    {
        Ticket[] found = [.. Enumerable.Range(0, 8).Select(n => new Ticket(n, $"{words} {n}", new byte[3000]))];
        lifetime.ApplicationStopping.Register(() => Abandon(found));
        Figures.Count("searches");
        await Task.Delay(2, token);
        return found.Length;
    }

    static void Abandon(Ticket[] found) => Figures.Count("abandoned", found.Length);
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddScoped<TicketSearch>();
        WebApplication app = builder.Build();
        app.MapGet("/tickets/search", async (string words, TicketSearch search, CancellationToken token) =>
            Results.Ok(await search.FindAsync(words, token)));
        Visitors.Send(await app.ListenAsync(), 80, 4, n => $"GET /tickets/search?words=printer{n}", slowAfter: 8000);
    }
}
