// What a shop has in stock, MVC: for each article all reservations are searched again with LINQ.

using Microsoft.AspNetCore.Mvc;
using Patients;

namespace Retail.Availability;

public sealed record Article(int Number, int Pieces);
public sealed record Reservation(int Article, int Pieces);

public sealed class StockBook
{
    public readonly List<Article> Articles = [.. Enumerable.Range(0, 2000).Select(n => new Article(n, n % 30))];
    public readonly List<Reservation> Reservations = [.. Enumerable.Range(0, 3000).Select(n => new Reservation(n * 7 % 2000, n % 5))];
}

[ApiController]
[Route("stock")]
public sealed class StockController(StockBook book) : ControllerBase
{
    [HttpGet("availability")]
    public IActionResult Availability([FromQuery] int least)
    {
        Figures.Count("asked");
        return Ok(FreeArticles(least).Count);
    }

    List<int> FreeArticles(int least) =>
        [.. book.Articles
            .Where(article => article.Pieces - book.Reservations.Where(r => r.Article == article.Number).Sum(r => r.Pieces) >= least)
            .Select(article => article.Number)];
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<StockBook>();
        builder.Services.AddControllers().AddApplicationPart(typeof(Startup).Assembly);
        WebApplication app = builder.Build();
        app.MapControllers();
        Visitors.Send(await app.ListenAsync(), 20, 2, n => $"GET /stock/availability?least={n % 9}");
    }
}
