// Descriptors that are kept: files, sockets, watchers. Each way of keeping them is one sickness's `what`.
//
//   files          FileStreams in a static list
//   files-dropped  FileStreams that nobody holds and nobody disposes
//   sockets        connections to a server of its own, in a static list
//   close-wait     the same, but the server has closed them all
//   clients        an HttpClient for each request, kept
//   watchers       a FileSystemWatcher for each tenant, kept
//
// "open" is how many it has opened and not closed; "server" is the port of its own server, 0 without one.

using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Storage
{
    static class Uploads
    {
        public static readonly List<FileStream> Open = [];
        public static string Folder = "";

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static FileStream Begin(int number) =>
            new(Path.Combine(Folder, $"upload-{number}.tmp"), FileMode.Create, FileAccess.ReadWrite);
    }

    static class Tenants
    {
        public static readonly List<FileSystemWatcher> Watchers = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Watch(string folder) =>
            Watchers.Add(new FileSystemWatcher(folder) { EnableRaisingEvents = true });
    }
}

namespace Shop.Partners
{
    static class Feed
    {
        public static readonly List<Socket> Connections = [];
        public static readonly List<HttpClient> Clients = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Connect(IPEndPoint to)
        {
            var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            socket.Connect(to);
            Connections.Add(socket);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Ask(IPEndPoint of)
        {
            var client = new HttpClient();
            client.GetStringAsync($"http://{of}/").GetAwaiter().GetResult();
            Clients.Add(client);
        }
    }
}

namespace Patients
{
    sealed class Descriptors : Sickness
    {
        readonly List<Socket> _served = [];
        Socket? _listener;
        string _what = "";
        int _open;

        public override string Name => "descriptors";
        public override string About => "keeps files, sockets or watchers open";
        public override Key[] Keys =>
        [
            Choice("what", "what is kept", "files", "files-dropped", "sockets", "close-wait", "clients", "watchers"),
            new("count", "300", "how many at the start", 0, 20000),
            new("more", "0", "how many more a second", 0, 10000),
        ];

        public override void Start(Settings settings)
        {
            _what = settings.Word("what");
            Shop.Storage.Uploads.Folder = Directory.CreateTempSubdirectory("shop-uploads-").FullName;
            AppDomain.CurrentDomain.ProcessExit += (_, _) => Directory.Delete(Shop.Storage.Uploads.Folder, true);
            if (_what is "sockets" or "close-wait" or "clients")
                Serve();
            for (int i = 0; i < settings.Int("count"); i++)
                OpenOne();
            if (_what == "close-wait")
                CloseAll(settings.Int("count"));
            if (settings.Number("more") > 0)
                Worker.Loop("uploads", settings.Number("more"), OpenOne);
        }

        void OpenOne()
        {
            int number = Interlocked.Increment(ref _open);
            switch (_what)
            {
                case "files":
                    Shop.Storage.Uploads.Open.Add(Shop.Storage.Uploads.Begin(number));
                    break;
                case "files-dropped":
                    Shop.Storage.Uploads.Begin(number);
                    break;
                case "watchers":
                    Shop.Storage.Tenants.Watch(Shop.Storage.Uploads.Folder);
                    break;
                case "clients":
                    Shop.Partners.Feed.Ask((IPEndPoint)_listener!.LocalEndPoint!);
                    break;
                default:
                    Shop.Partners.Feed.Connect((IPEndPoint)_listener!.LocalEndPoint!);
                    break;
            }
        }

        // A server that answers what looks like a request and keeps every connection.
        void Serve()
        {
            _listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            _listener.Listen(512);
            bool answers = _what == "clients";
            Worker.Start("partner", () =>
            {
                var buffer = new byte[4096];
                byte[] answer = Encoding.ASCII.GetBytes("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                while (true)
                {
                    Socket connection = _listener.Accept();
                    if (answers)
                    {
                        connection.Receive(buffer);
                        connection.Send(answer);
                    }
                    lock (_served)
                        _served.Add(connection);
                }
            });
        }

        void CloseAll(int count)
        {
            while (true)
            {
                lock (_served)
                {
                    if (_served.Count == count)
                    {
                        _served.ForEach(connection => connection.Dispose());
                        return;
                    }
                }
                Thread.Sleep(5);
            }
        }

        public override JsonObject Truth() => new()
        {
            ["open"] = Volatile.Read(ref _open),
            ["folder"] = Shop.Storage.Uploads.Folder,
            ["server"] = (_listener?.LocalEndPoint as IPEndPoint)?.Port ?? 0,
        };
    }
}
