// A taxi office: an offer to a driver is answered by a TaskCompletionSource in a table by the number of the ride. The answers
// of drivers who decline are dropped without completing it: those requests wait for ever, and their offers stay.

using System.Collections.Concurrent;
using Patients;

namespace Taxi.Rides;

public sealed record Offer(int Ride, int Driver);
public sealed record Reply(int Ride, bool Accepted);

public sealed class OfferDesk
{
    readonly ConcurrentDictionary<int, TaskCompletionSource<Reply>> _open = new();

    public int Open => _open.Count;

    public Task<Reply> OfferAsync(Offer offer) =>
        _open.GetOrAdd(offer.Ride, _ => new TaskCompletionSource<Reply>(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    public void Answer(Reply reply)
    {
        if (!reply.Accepted)
            return;
        if (_open.TryRemove(reply.Ride, out TaskCompletionSource<Reply>? offer))
            offer.TrySetResult(reply);
    }
}

public sealed class Drivers(OfferDesk desk)
{
    public async Task ThinkAsync(Offer offer)
    {
        await Task.Delay(30);
        desk.Answer(new Reply(offer.Ride, offer.Driver % 20 != 0));
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<OfferDesk>().AddSingleton<Drivers>();
        WebApplication app = builder.Build();
        app.MapPost("/rides/{ride:int}/offers/{driver:int}", async (int ride, int driver, OfferDesk desk, Drivers drivers) =>
        {
            var offer = new Offer(ride, driver);
            Task<Reply> reply = desk.OfferAsync(offer);
            _ = drivers.ThinkAsync(offer);
            return await reply;
        });
        Visitors.Send(await app.ListenAsync(), 80, 60, n => $"POST /rides/{n}/offers/{n % 100}", patienceMs: 120_000);
        Figures.Gauge("open_offers", () => app.Services.GetRequiredService<OfferDesk>().Open);
    }
}
