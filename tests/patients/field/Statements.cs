// Bank statements: a singleton asks the root provider for a renderer for each document. The renderer is transient and
// disposable, so the root scope keeps every one until the application ends.

using System.Buffers.Text;
using Patients;

namespace Bank.Statements;

public interface IPageRenderer
{
    int Render(int account);
}

public sealed class PdfRenderer : IPageRenderer, IDisposable
{
    readonly byte[] _page = new byte[24_000];

    public int Render(int account)
    {
        Utf8Formatter.TryFormat(account, _page, out int written);
        return written;
    }

    public void Dispose() => Figures.Count("disposed");
}

public sealed class StatementService(IServiceProvider services)
{
    public int Print(int account)
    {
        Figures.Count("rendered");
        return services.GetRequiredService<IPageRenderer>().Render(account);
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddTransient<IPageRenderer, PdfRenderer>().AddSingleton<StatementService>();
        WebApplication app = builder.Build();
        app.MapGet("/accounts/{account:int}/statement", (int account, StatementService statements) => statements.Print(account));
        Visitors.Send(await app.ListenAsync(), 80, 4, n => $"GET /accounts/{n % 2000}/statement", slowAfter: 8000);
    }
}
