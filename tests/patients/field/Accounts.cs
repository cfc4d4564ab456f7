// Accounts of a bank, MVC: an action waits for its asynchronous client with .Result. Each request keeps a thread of the pool,
// and the answers of the client wait for one.

using System.Text.Json.Serialization;
using Microsoft.AspNetCore.Mvc;
using Patients;

namespace Bank.Accounts;

public sealed record Balance([property: JsonPropertyName("amount")] decimal Amount);

public sealed class CoreBankingClient(HttpClient http)
{
    public async Task<Balance> GetBalanceAsync(int account)
    {
        using HttpResponseMessage answer = await http.GetAsync($"balances/{account}");
        answer.EnsureSuccessStatusCode();
        return (await answer.Content.ReadFromJsonAsync<Balance>())!;
    }
}

[ApiController]
[Route("api/accounts")]
public sealed class AccountsController(CoreBankingClient core) : ControllerBase
{
    [HttpGet("{account:int}/balance")]
    public ActionResult<Balance> GetBalance(int account)
    {
        Balance balance = core.GetBalanceAsync(account).Result;
        Figures.Count("balances");
        return balance;
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri core = Downstream.Start(800, _ => """{"amount":12.5}""");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddControllers().AddApplicationPart(typeof(Startup).Assembly);
        builder.Services.AddHttpClient<CoreBankingClient>(http => http.BaseAddress = core);
        WebApplication app = builder.Build();
        app.MapControllers();
        Visitors.Send(await app.ListenAsync(), 200, 100, n => $"GET /api/accounts/{n % 5000}/balance", patienceMs: 30_000);
        Figures.Gauge("pool_threads", () => ThreadPool.ThreadCount);
        Figures.Gauge("pool_pending", () => ThreadPool.PendingWorkItemCount);
    }
}
