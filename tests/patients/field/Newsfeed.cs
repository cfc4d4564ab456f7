// A news feed: each answer is serialised with JsonSerializerOptions of its own, with a converter of its own, so the serialiser
// examines all types by reflection for each request.

using System.Text.Json;
using System.Text.Json.Serialization;
using Patients;

namespace News.Feed;

public enum Section { World, Sport, Culture }

public sealed record Author(string Name, string Desk, DateOnly Since);
public sealed record Story(int Id, string Title, Section Section, Author Author, string[] Tags, Dictionary<string, int> Votes);
public sealed record FrontPage(DateTime At, Story[] Stories);

public sealed class FeedWriter
{
    public string Write(FrontPage page)
    {
        var options = new JsonSerializerOptions(JsonSerializerDefaults.Web)
        {
            Converters = { new JsonStringEnumConverter() },
            WriteIndented = true,
        };
        Figures.Count("written");
        return JsonSerializer.Serialize(page, options);
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<FeedWriter>();
        WebApplication app = builder.Build();
        app.MapGet("/front", (FeedWriter writer) => Results.Text(writer.Write(Today()), "application/json"));
        Visitors.Send(await app.ListenAsync(), 300, 3, _ => "GET /front");
    }

    static FrontPage Today() => new(DateTime.UtcNow, [.. Enumerable.Range(0, 10).Select(n =>
        new Story(n, $"story {n}", (Section)(n % 3), new Author($"author {n}", "desk", new DateOnly(2020, 1, 1)), ["new"], new() { ["up"] = n }))]);
}
