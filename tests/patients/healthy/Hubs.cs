// SignalR: a hub whose visitors talk in groups, a service that tells all of them the time, and the visitors.

using System.Net.WebSockets;
using System.Text;
using Microsoft.AspNetCore.SignalR;

namespace Shop.Healthy;

public sealed class ChatHub : Hub
{
    public override async Task OnConnectedAsync()
    {
        await Groups.AddToGroupAsync(Context.ConnectionId, Room(Context.ConnectionId));
        await base.OnConnectedAsync();
    }

    public async Task Say(string text)
    {
        HealthyPatient.Done.Increment();
        await Clients.Group(Room(Context.ConnectionId)).SendAsync("said", text);
    }

    static string Room(string id) => $"room {id[0] % 4}";
}

sealed class Bell(IHubContext<ChatHub> hub) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        using var timer = new PeriodicTimer(TimeSpan.FromSeconds(2));
        while (await timer.WaitForNextTickAsync(token))
            await hub.Clients.All.SendAsync("time", DateTime.UtcNow, token);
    }
}

static class Hubs
{
    public static WebApplication Build()
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        HealthyPatient.Logging(builder.Logging);
        builder.Services.AddSignalR();
        builder.Services.AddHostedService<Bell>();
        WebApplication app = builder.Build();
        app.MapHub<ChatHub>("/chat");
        return app;
    }
}

// Clients that speak the hub's JSON protocol by hand: the client library is a package, which is not needed for this.
static class Visitors
{
    const char End = '\x1e';

    public static async Task<int> RunAsync(Uri hub, int count)
    {
        await Task.WhenAll(Enumerable.Range(0, Math.Clamp(count, 1, 500)).Select(n => VisitAsync(hub, n)));
        return 0;
    }

    static async Task VisitAsync(Uri hub, int number)
    {
        using var socket = new ClientWebSocket();
        await socket.ConnectAsync(hub, CancellationToken.None);
        await SendAsync(socket, """{"protocol":"json","version":1}""");
        Task heard = ListenAsync(socket);
        for (int n = 0; !heard.IsCompleted; n++)
        {
            await SendAsync(socket, $$"""{"type":1,"target":"Say","arguments":["visitor {{number}} says {{n}}"]}""");
            await Task.Delay(100);
        }
    }

    static Task SendAsync(ClientWebSocket socket, string text) =>
        socket.SendAsync(Encoding.UTF8.GetBytes(text + End), WebSocketMessageType.Text, true, CancellationToken.None);

    static async Task ListenAsync(ClientWebSocket socket)
    {
        var buffer = new byte[4096];
        while ((await socket.ReceiveAsync(buffer, CancellationToken.None)).MessageType != WebSocketMessageType.Close)
        {
        }
    }
}
