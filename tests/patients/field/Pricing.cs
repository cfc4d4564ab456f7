// Prices with discounts: that a customer has none is told by an exception, which is caught a call above, thousands of times
// a second.

using System.Collections.Frozen;
using Patients;

namespace Shop.Pricing;

public sealed class UnknownCustomerException(int customer) : Exception($"customer {customer} is unknown");

public sealed class Discounts
{
    readonly FrozenDictionary<int, decimal> _percent =
        Enumerable.Range(0, 1000).ToFrozenDictionary(n => n * 10, n => n % 20 + 1m);

    public decimal Of(int customer) =>
        _percent.TryGetValue(customer, out decimal percent) ? percent : throw new UnknownCustomerException(customer);
}

public sealed class PriceCalculator(Discounts discounts)
{
    public decimal Net(int customer, decimal gross)
    {
        try
        {
            return gross * (100 - discounts.Of(customer)) / 100;
        }
        catch (UnknownCustomerException)
        {
            Figures.Count("without discount");
            return gross;
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<Discounts>().AddScoped<PriceCalculator>();
        WebApplication app = builder.Build();
        app.MapGet("/baskets/{basket:int}/price", (int basket, PriceCalculator calculator) =>
        {
            decimal sum = 0;
            for (int line = 0; line < 100; line++)
                sum += calculator.Net(basket + line, 9.95m);
            return sum;
        });
        Visitors.Send(await app.ListenAsync(), 20, 2, n => $"GET /baskets/{n}/price");
    }
}
