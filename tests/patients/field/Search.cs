// Search in a library's stock: pages of results are cached by the words and the minute's second they were asked in, so none
// is ever found again, and nothing removes them.

using System.Collections.Concurrent;
using Patients;

namespace Library.Search;

public sealed record Book(string Title, string Author, int Year);
public sealed record ResultPage(string Words, IReadOnlyList<Book> Books);

public sealed class ResultCache
{
    readonly ConcurrentDictionary<string, ResultPage> _pages = new();

    public int Count => _pages.Count;

    public ResultPage GetOrAdd(string words, Func<string, ResultPage> find) =>
        _pages.GetOrAdd($"{words}@{DateTime.UtcNow:O}", _ => find(words));
}

public sealed class BookIndex(ResultCache cache)
{
    public ResultPage Search(string words) => cache.GetOrAdd(words, Find);

    static ResultPage Find(string words) =>
        new(words, [.. Enumerable.Range(0, 100).Select(n => new Book($"{words} in {n} lessons", $"Author {n}", 1900 + n))]);
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<ResultCache>().AddScoped<BookIndex>();
        WebApplication app = builder.Build();
        app.MapGet("/search", (string words, BookIndex index) => index.Search(words).Books.Count);
        Visitors.Send(await app.ListenAsync(), 80, 4, n => $"GET /search?words=gardening{n % 50}", slowAfter: 10_000);
        Figures.Gauge("pages", () => app.Services.GetRequiredService<ResultCache>().Count);
    }
}
