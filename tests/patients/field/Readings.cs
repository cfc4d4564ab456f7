// Readings of meters: each one that arrives gets a thread of its own, which waits for the meter's confirmation.

using System.Net.Sockets;
using System.Text;
using Patients;

namespace Energy.Readings;

public sealed record Reading(int Meter, double KilowattHours);

public sealed class ReadingHandler(Uri meters)
{
    public void Accept(Reading reading)
    {
        new Thread(() => Confirm(reading), 256 * 1024) { IsBackground = true }.Start();
        Figures.Count("accepted");
    }

    void Confirm(Reading reading)
    {
        using var wire = new TcpClient(meters.Host, meters.Port);
        wire.GetStream().Write(Encoding.ASCII.GetBytes($"GET /meters/{reading.Meter}/confirm HTTP/1.1\r\n\r\n"));
        wire.GetStream().ReadByte();
        Figures.Count("confirmed");
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri meters = Downstream.Start(7000, _ => "true");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton(new ReadingHandler(meters));
        WebApplication app = builder.Build();
        app.MapPost("/meters/{meter:int}/readings", (int meter, double value, ReadingHandler handler) =>
        {
            handler.Accept(new Reading(meter, value));
            return Results.Accepted();
        });
        Visitors.Send(await app.ListenAsync(), 40, 4, n => $"POST /meters/{n % 700}/readings?value={n}.5");
    }
}
