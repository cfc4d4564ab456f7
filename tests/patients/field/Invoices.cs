// Invoices: after each of them the service asks for a full collection, "to keep the memory small", with a heap of customers
// that has to be walked each time.

using Patients;

namespace Billing.Invoices;

public sealed record Customer(int Id, string Name, string[] Contracts);

public sealed class CustomerBook
{
    public readonly List<Customer> All =
        [.. Enumerable.Range(0, 150_000).Select(n => new Customer(n, $"customer {n}", [$"contract {n}", "basic"]))];
}

public sealed class InvoiceRun(CustomerBook customers) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        await Task.Yield();
        for (int n = 0; !token.IsCancellationRequested; n++)
        {
            Write(customers.All[n % customers.All.Count]);
            await Task.Delay(TimeSpan.FromMilliseconds(1000 / Load.Rate(12)), token);
        }
    }

    static void Write(Customer customer)
    {
        string[] lines = [.. Enumerable.Range(0, 50).Select(n => $"{customer.Name}: {n} x {customer.Contracts[n % 2]}")];
        Figures.Count("invoices", lines.Length > 0 ? 1 : 0);
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddSingleton<CustomerBook>().AddHostedService<InvoiceRun>();
        await builder.Build().StartAsync();
        Figures.Gauge("pause_ms_in_all", () => (long)GC.GetTotalPauseDuration().TotalMilliseconds);
    }
}
