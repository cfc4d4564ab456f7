// A restaurant's kitchen: the service that hands out orders asks its queue for the next one without a pause, and the queue is
// nearly always empty.

using System.Collections.Concurrent;
using Patients;

namespace Restaurant.Kitchen;

public sealed record Order(int Table, string Dish);

public sealed class OrderBoard
{
    readonly ConcurrentQueue<Order> _orders = new();

    public void Pin(Order order) => _orders.Enqueue(order);

    public bool TryTake(out Order? order) => _orders.TryDequeue(out order);
}

public sealed class Pass(OrderBoard board) : BackgroundService
{
    protected override Task ExecuteAsync(CancellationToken token) => Task.Run(() => HandOut(token), token);

    void HandOut(CancellationToken token)
    {
        while (!token.IsCancellationRequested)
        {
            if (board.TryTake(out Order? order))
                Figures.Count($"cooked {order!.Dish}");
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<OrderBoard>().AddHostedService<Pass>();
        WebApplication app = builder.Build();
        app.MapPost("/tables/{table:int}/orders", (int table, OrderBoard board) => board.Pin(new Order(table, "soup")));
        Visitors.Send(await app.ListenAsync(), 5, 1, n => $"POST /tables/{n % 20}/orders");
    }
}
