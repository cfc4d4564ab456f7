// A checkout with a pool of database connections of its own making. AuthorizeAsync returns early when the card is declined,
// without giving its connection back: after a few hundred orders all twenty are gone.

using System.Collections.Concurrent;
using System.Net.Sockets;
using System.Text;
using Patients;

namespace Shop.Checkout;

public sealed record Payment(int Order, decimal Amount);

public sealed class DbConnection(TcpClient wire)
{
    readonly byte[] _buffer = new byte[4096];

    public static async Task<DbConnection> OpenAsync(Uri server)
    {
        var wire = new TcpClient();
        await wire.ConnectAsync(server.Host, server.Port);
        return new DbConnection(wire);
    }

    public async Task<decimal> ScalarAsync(string table)
    {
        NetworkStream stream = wire.GetStream();
        await stream.WriteAsync(Encoding.ASCII.GetBytes($"GET /{table} HTTP/1.1\r\n\r\n"));
        int got = await stream.ReadAsync(_buffer);
        string answer = Encoding.ASCII.GetString(_buffer, 0, got);
        return decimal.Parse(answer.AsSpan(answer.LastIndexOf('\n') + 1));
    }
}

public sealed class ConnectionPool(Uri server)
{
    const int Size = 20;
    readonly SemaphoreSlim _slots = new(Size);
    readonly ConcurrentBag<DbConnection> _idle = [];
    readonly ConcurrentBag<DbConnection> _all = [];

    public long Free => _slots.CurrentCount;

    public async Task<DbConnection> RentAsync()
    {
        if (!await _slots.WaitAsync(TimeSpan.FromSeconds(5)))
            throw new TimeoutException("The timeout elapsed before a connection was obtained from the pool");
        if (_idle.TryTake(out DbConnection? connection))
            return connection;
        connection = await DbConnection.OpenAsync(server);
        _all.Add(connection);
        return connection;
    }

    public void Return(DbConnection connection)
    {
        _idle.Add(connection);
        _slots.Release();
    }
}

public sealed class PaymentStore(ConnectionPool pool)
{
    public async Task<bool> AuthorizeAsync(Payment payment)
    {
        DbConnection connection = await pool.RentAsync();
        decimal limit = await connection.ScalarAsync("limits");
        if (payment.Amount > limit)
        {
            Figures.Count("declined");
            return false;
        }
        await connection.ScalarAsync("payments");
        pool.Return(connection);
        return true;
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri database = Downstream.Start(5, _ => "500");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton(new ConnectionPool(database)).AddSingleton<PaymentStore>();
        WebApplication app = builder.Build();
        app.MapPost("/checkout/{order:int}", async (int order, PaymentStore payments) =>
            await payments.AuthorizeAsync(new Payment(order, order % 15 == 0 ? 900 : 20)) ? Results.Accepted() : Results.Conflict());
        Uri url = await app.ListenAsync();
        Figures.Gauge("free_connections", () => app.Services.GetRequiredService<ConnectionPool>().Free);
        Visitors.Send(url, 50, 12, n => $"POST /checkout/{n}");
    }
}
