// The other side of an app: an HTTP service on a loopback port that one thread of its own serves, so that it answers in its
// own time whatever happens to the app's thread pool. Requests have no body.

using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Patients;

sealed class Downstream
{
    readonly Socket _listener = new(SocketType.Stream, ProtocolType.Tcp);
    readonly List<Peer> _peers = [];
    readonly PriorityQueue<(Peer Peer, byte[] Answer), long> _due = new();
    readonly Func<string, string> _answer;
    readonly int _delayMs;
    readonly bool _closes;

    // Answers with the JSON that `answer` makes of the path (status 503 when it is empty), after `delayMs`, or never when that
    // is negative; `closes`: and closes the connection then.
    Downstream(int delayMs, Func<string, string> answer, bool closes)
    {
        (_delayMs, _answer, _closes) = (delayMs, answer, closes);
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen(512);
    }

    public static Uri Start(int delayMs, Func<string, string> answer, bool closes = false)
    {
        var service = new Downstream(delayMs, answer, closes);
        Worker.Start("downstream", service.Serve);
        return new Uri($"http://127.0.0.1:{((IPEndPoint)service._listener.LocalEndPoint!).Port}");
    }

    sealed class Peer(Socket socket)
    {
        public readonly Socket Socket = socket;
        public readonly StringBuilder Text = new();
    }

    void Serve()
    {
        var buffer = new byte[4096];
        var readable = new List<Socket>();
        while (true)
        {
            readable.Clear();
            readable.Add(_listener);
            readable.AddRange(_peers.Select(peer => peer.Socket));
            Socket.Select(readable, null, null, WaitUs());
            if (readable.Remove(_listener))
                _peers.Add(new Peer(_listener.Accept()));
            foreach (Socket socket in readable)
                Read(_peers.First(peer => peer.Socket == socket), buffer);
            while (_due.TryPeek(out _, out long when) && when <= Environment.TickCount64)
                Answer(_due.Dequeue());
        }
    }

    int WaitUs() =>
        _due.TryPeek(out _, out long when) ? (int)Math.Clamp((when - Environment.TickCount64) * 1000, 0, 1_000_000) : 1_000_000;

    void Read(Peer peer, byte[] buffer)
    {
        int got;
        try
        {
            got = peer.Socket.Receive(buffer);
        }
        catch (SocketException)
        {
            got = 0;
        }
        if (got == 0)
        {
            Drop(peer);
            return;
        }
        peer.Text.Append(Encoding.ASCII.GetString(buffer, 0, got));
        string text = peer.Text.ToString();
        if (!text.EndsWith("\r\n\r\n", StringComparison.Ordinal))
            return;
        peer.Text.Clear();
        if (_delayMs >= 0)
            _due.Enqueue((peer, Compose(_answer(text.Split(' ')[1]))), Environment.TickCount64 + _delayMs);
    }

    byte[] Compose(string body)
    {
        string status = body.Length == 0 ? "503 Service Unavailable" : "200 OK";
        string close = _closes ? "Connection: close\r\n" : "";
        return Encoding.ASCII.GetBytes(
            $"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{close}Content-Length: {body.Length}\r\n\r\n{body}");
    }

    void Answer((Peer Peer, byte[] Bytes) due)
    {
        try
        {
            due.Peer.Socket.Send(due.Bytes);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            Drop(due.Peer);
        }
        if (_closes)
            Drop(due.Peer);
    }

    void Drop(Peer peer)
    {
        peer.Socket.Dispose();
        _peers.Remove(peer);
    }
}
