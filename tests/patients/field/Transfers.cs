// Transfers between accounts: one takes the semaphore of the payer and then that of the payee, each by await. Two that go in
// opposite directions wait for each other for ever, and no thread waits.

using Patients;

namespace Payments.Transfers;

public sealed class Account(int number)
{
    public readonly SemaphoreSlim Gate = new(1);
    public int Number => number;
    public decimal Balance;
}

public sealed class TransferService
{
    readonly Account[] _accounts = [.. Enumerable.Range(0, 6).Select(n => new Account(n))];

    public async Task<decimal> TransferAsync(int from, int to, decimal amount)
    {
        Account payer = _accounts[from], payee = _accounts[to];
        await payer.Gate.WaitAsync();
        await CheckLimitAsync(payer);
        await payee.Gate.WaitAsync();
        payer.Balance -= amount;
        payee.Balance += amount;
        payee.Gate.Release();
        payer.Gate.Release();
        Figures.Count("transferred");
        return payer.Balance;
    }

    static Task CheckLimitAsync(Account payer) => Task.Delay(payer.Number >= 0 ? 15 : 0);
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<TransferService>();
        WebApplication app = builder.Build();
        app.MapPost("/transfers/{from:int}/{to:int}", (int from, int to, TransferService transfers) => transfers.TransferAsync(from, to, 5));
        Visitors.Send(await app.ListenAsync(), 60, 24, n => $"POST /transfers/{n % 6}/{(n % 6 + 1 + n / 6 % 5) % 6}", patienceMs: 120_000);
    }
}
