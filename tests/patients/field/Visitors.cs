// The load of a web app: threads with blocking sockets of their own, so that they need nothing of what the app may have run
// out of, and count among none of the runtime's own figures about HTTP.

using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.Json.Nodes;

namespace Patients;

static class Visitors
{
    static readonly Counter Answers = new(), Refused = new(), Unanswered = new(), TotalUs = new();
    static int _begun;
    static long _slowestUs;

    // `request` makes "METHOD /path" of a number. After `slowAfter` requests the rate falls to a twentieth: what is kept for
    // ever is kept below the memory of the machine.
    public static void Send(Uri server, double rate, int visitors, Func<int, string> request, int slowAfter = int.MaxValue,
                            int patienceMs = 10_000)
    {
        rate = Load.Rate(rate);
        for (int i = 0; i < visitors; i++)
        {
            var client = new Client(new IPEndPoint(IPAddress.Loopback, server.Port), patienceMs);
            Worker.Loop($"visitor {i}", rate / visitors, () =>
            {
                int number = Interlocked.Increment(ref _begun);
                if (number > slowAfter)
                    Thread.Sleep((int)Math.Min(20_000 * visitors / rate, 20_000));
                Ask(client, request(number));
            });
        }
    }

    static void Ask(Client client, string request)
    {
        long start = Stopwatch.GetTimestamp();
        int status = client.Ask(request);
        long us = (Stopwatch.GetTimestamp() - start) / 1000;
        TotalUs.Add(us);
        _slowestUs = Math.Max(_slowestUs, us);
        (status == 0 ? Unanswered : status >= 500 ? Refused : Answers).Increment();
    }

    public static void Mark()
    {
        foreach (Counter counter in new[] { Answers, Refused, Unanswered, TotalUs })
            counter.Mark();
        _slowestUs = 0;
    }

    public static JsonObject SinceMark()
    {
        long all = Answers.SinceMark + Refused.SinceMark + Unanswered.SinceMark;
        return new JsonObject
        {
            ["begun"] = _begun,
            ["answers"] = Answers.SinceMark,
            ["errors"] = Refused.SinceMark,
            ["unanswered"] = Unanswered.SinceMark,
            ["mean_ms"] = all == 0 ? 0 : TotalUs.SinceMark / all / 1000.0,
            ["slowest_ms"] = _slowestUs / 1000.0,
        };
    }

    sealed class Client(IPEndPoint server, int patienceMs)
    {
        readonly byte[] _buffer = new byte[16 * 1024];
        Socket? _socket;

        // The status; 0 when there was no answer in time.
        public int Ask(string request)
        {
            try
            {
                _socket ??= Connect();
                string length = request.StartsWith('P') ? "Content-Length: 0\r\n" : "";
                _socket.Send(Encoding.ASCII.GetBytes($"{request} HTTP/1.1\r\nHost: {server}\r\n{length}\r\n"));
                return ReadAnswer(_socket);
            }
            catch (Exception error) when (error is SocketException or InvalidDataException)
            {
                _socket?.Dispose();
                _socket = null;
                return 0;
            }
        }

        Socket Connect()
        {
            var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true, ReceiveTimeout = patienceMs };
            socket.Connect(server);
            return socket;
        }

        int ReadAnswer(Socket socket)
        {
            int have = 0, end;
            while ((end = _buffer.AsSpan(0, have).IndexOf("\r\n\r\n"u8)) < 0)
                have += Receive(socket, have);
            string head = Encoding.ASCII.GetString(_buffer, 0, end + 2);
            int status = int.Parse(head.AsSpan(9, 3));
            int field = head.IndexOf("Content-Length: ", StringComparison.OrdinalIgnoreCase);
            if (field >= 0)
            {
                field += 16;
                SkipBytes(socket, long.Parse(head.AsSpan(field, head.IndexOf('\r', field) - field)) - (have - end - 4));
            }
            else if (head.Contains("chunked"))
            {
                SkipChunks(socket, end + 4, have);
            }
            return status;
        }

        void SkipBytes(Socket socket, long left)
        {
            while (left > 0)
                left -= Receive(socket, 0);
        }

        // The last chunk is what ends the stream of bytes: JSON and plain text have no line of a single 0.
        void SkipChunks(Socket socket, int from, int have)
        {
            _buffer.AsSpan(from - 2, have - from + 2).CopyTo(_buffer);
            have = have - from + 2;
            while (!_buffer.AsSpan(0, have).EndsWith("\r\n0\r\n\r\n"u8))
            {
                if (have > 7)
                {
                    _buffer.AsSpan(have - 7, 7).CopyTo(_buffer);
                    have = 7;
                }
                have += Receive(socket, have);
            }
        }

        int Receive(Socket socket, int at)
        {
            int got = at < _buffer.Length ? socket.Receive(_buffer, at, _buffer.Length - at, SocketFlags.None) : 0;
            return got > 0 ? got : throw new InvalidDataException();
        }
    }
}
