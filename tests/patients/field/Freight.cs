// Customs declarations of a freighter: the office closes each connection after its answer, and CustomsLink keeps its socket
// open "for the next time": file descriptors in CLOSE_WAIT. It ends at 2000.

using System.Net.Sockets;
using System.Text;
using Patients;

namespace Freight.Customs;

public sealed class CustomsLink(Uri office)
{
    readonly List<Socket> _links = [];

    public int Links => _links.Count;

    public async Task<string> DeclareAsync(int container, CancellationToken token)
    {
        Socket link = await OpenAsync(token);
        await link.SendAsync(Encoding.ASCII.GetBytes($"GET /declarations/{container} HTTP/1.1\r\n\r\n"), token);
        var answer = new byte[512];
        int got = await link.ReceiveAsync(answer, token);
        Figures.Count("declared");
        return Encoding.ASCII.GetString(answer, 0, got)[^4..];
    }

    async Task<Socket> OpenAsync(CancellationToken token)
    {
        var link = new Socket(SocketType.Stream, ProtocolType.Tcp);
        await link.ConnectAsync(office.Host, office.Port, token);
        lock (_links)
            _links.Add(link);
        return link;
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        Uri office = Downstream.Start(5, _ => "done", closes: true);
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton(new CustomsLink(office));
        WebApplication app = builder.Build();
        app.MapPut("/containers/{container:int}/declaration", (int container, CustomsLink customs, CancellationToken token) =>
            customs.DeclareAsync(container, token));
        Visitors.Send(await app.ListenAsync(), 30, 3, n => $"PUT /containers/{n}/declaration", slowAfter: 1600);
        Figures.Gauge("links", () => app.Services.GetRequiredService<CustomsLink>().Links);
    }
}
