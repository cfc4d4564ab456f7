// MVC: controllers with attribute routes, scoped services, a filter, reflection-based JSON.

using Microsoft.AspNetCore.Mvc;
using Microsoft.AspNetCore.Mvc.Filters;

namespace Shop.Healthy;

public sealed record Article(int Id, string Name, string[] Tags, double Rating);

public interface IArticles
{
    Task<Article> GetAsync(int id);
    IAsyncEnumerable<Article> SearchAsync(string word, int count);
}

public sealed class Articles : IArticles, IDisposable
{
    public async Task<Article> GetAsync(int id)
    {
        await Task.Yield();
        return new Article(id, $"article {id}", ["new", "sale", $"shelf {id % 40}"], id % 50 / 10.0);
    }

    public async IAsyncEnumerable<Article> SearchAsync(string word, int count)
    {
        for (int id = 0; id < count; id++)
        {
            Article article = await GetAsync(id);
            if (article.Name.Contains(word, StringComparison.OrdinalIgnoreCase))
                yield return article;
        }
    }

    public void Dispose() { }
}

public sealed class CountingFilter : IAsyncActionFilter
{
    public async Task OnActionExecutionAsync(ActionExecutingContext context, ActionExecutionDelegate next)
    {
        await next();
        HealthyPatient.Done.Increment();
    }
}

[ApiController]
[Route("articles")]
public sealed class ArticlesController(IArticles articles, ILogger<ArticlesController> log) : ControllerBase
{
    [HttpGet("{id:int}")]
    public async Task<ActionResult<Article>> Get(int id)
    {
        log.LogDebug("article {Id}", id);
        return id < 0 ? NotFound() : await articles.GetAsync(id);
    }

    [HttpGet("search/{word}")]
    public IAsyncEnumerable<Article> Search(string word) => articles.SearchAsync(word, 20);
}

static class Mvc
{
    public static WebApplication Build()
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        HealthyPatient.Logging(builder.Logging);
        builder.Services.AddControllers(options => options.Filters.Add<CountingFilter>()).AddApplicationPart(typeof(Mvc).Assembly);
        builder.Services.AddScoped<IArticles, Articles>();
        builder.Services.AddResponseCompression();
        WebApplication app = builder.Build();
        app.UseResponseCompression();
        app.MapControllers();
        return app;
    }
}
