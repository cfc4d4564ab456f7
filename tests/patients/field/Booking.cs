// Seats of a cinema: a semaphore lets eight bookings in at a time, and one that finds its row sold out leaves by an exception,
// without releasing it. After eight of those every booking waits for ever.

using Patients;

namespace Cinema.Booking;

public sealed record Seat(int Show, int Row);

public sealed class SoldOutException(Seat seat) : Exception($"row {seat.Row} of show {seat.Show} is sold out");

public sealed class SeatPlan
{
    readonly SemaphoreSlim _counters = new(8);

    public int Free => _counters.CurrentCount;

    public async Task<Seat> ReserveAsync(int show, int row)
    {
        await _counters.WaitAsync();
        Seat seat = await HoldAsync(new Seat(show, row));
        _counters.Release();
        return seat;
    }

    static async Task<Seat> HoldAsync(Seat seat)
    {
        await Task.Delay(5);
        Figures.Count("tried");
        return seat.Row % 25 == 0 ? throw new SoldOutException(seat) : seat;
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<SeatPlan>();
        WebApplication app = builder.Build();
        RouteGroupBuilder shows = app.MapGroup("/shows/{show:int}");
        shows.MapPost("/rows/{row:int}/book", async (int show, int row, SeatPlan plan) =>
        {
            try
            {
                return Results.Ok(await plan.ReserveAsync(show, row));
            }
            catch (SoldOutException error)
            {
                return Results.Conflict(error.Message);
            }
        });
        Visitors.Send(await app.ListenAsync(), 40, 30, n => $"POST /shows/3/rows/{n % 100}/book", patienceMs: 120_000);
        Figures.Gauge("free_counters", () => app.Services.GetRequiredService<SeatPlan>().Free);
    }
}
