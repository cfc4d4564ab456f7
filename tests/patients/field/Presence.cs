// Who is there: the session of each request subscribes to a static event and never unsubscribes, so the event keeps all
// sessions, and each announcement calls all of them.

using Patients;

namespace Chat.Presence;

public static class Lobby
{
    public static event EventHandler<string>? Changed;

    public static int Listeners => Changed?.GetInvocationList().Length ?? 0;

    public static void Announce(string user) => Changed?.Invoke(null, user);
}

public sealed class Session
{
    readonly byte[] _outbox = new byte[12_000];
    int _seen;

    public Session()
    {
        Lobby.Changed += OnChanged;
    }

    public int Enter(string user)
    {
        _outbox[0] = (byte)user.Length;
        return _seen;
    }

    void OnChanged(object? sender, string user) => _seen++;
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddScoped<Session>();
        WebApplication app = builder.Build();
        app.MapPost("/rooms/{room}/enter", (string room, string user, Session session) => session.Enter(user));
        Visitors.Send(await app.ListenAsync(), 90, 4, n => $"POST /rooms/main/enter?user=u{n}", slowAfter: 10_000);
        Worker.Loop("announcer", 2, () => Lobby.Announce("somebody"));
        Figures.Gauge("listeners", () => Lobby.Listeners);
    }
}
