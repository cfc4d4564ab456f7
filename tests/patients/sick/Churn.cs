// Everything at once, for tests of survival: whatever a tool does to this process, its work must
// come out right. Each part hands a number through the thing it exercises and adds what comes back;
// after n rounds the sum must be Factor * n(n+1)/2 (modulo 2^64), which the reader can compute.

using System.Diagnostics;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Mall
{
    sealed class TicketException(ulong ticket) : Exception("ticket")
    {
        public readonly ulong Ticket = ticket;
    }

    static class Stalls
    {
        static readonly object?[] Shelf = new object?[1000];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughMemory(ulong ticket)
        {
            var box = new ulong[64];
            Array.Fill(box, ticket);
            Shelf[ticket % (ulong)Shelf.Length] = box;
            for (int i = 0; i < 100; i++)
                Shelf[(ticket + (ulong)i * 7) % (ulong)Shelf.Length] ??= new byte[500];
            if (ticket % 200 == 0)
                Array.Clear(Shelf);
            return box[ticket % 64];
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughCollection(ulong ticket)
        {
            var box = new ulong[] { ticket };
            var weak = new WeakReference(box);
            GC.Collect((int)(ticket % 3));
            return ((ulong[])weak.Target!)[0] + box[0] - ticket;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughException(ulong ticket)
        {
            try
            {
                throw new TicketException(ticket);
            }
            catch (TicketException caught)
            {
                return caught.Ticket;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughThread(ulong ticket)
        {
            ulong result = 0;
            var thread = new Thread(() => result = ticket, 128 << 10) { Name = "runner" };
            thread.Start();
            thread.Join();
            return result;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughTimer(ulong ticket)
        {
            ulong result = 0;
            using var done = new ManualResetEventSlim();
            using var timer = new Timer(_ =>
            {
                result = ticket;
                done.Set();
            }, null, 1, Timeout.Infinite);
            done.Wait();
            return result;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughProcess(ulong ticket)
        {
            using Process child = Process.Start(new ProcessStartInfo("/bin/echo", ticket.ToString()) { RedirectStandardOutput = true })!;
            ulong result = ulong.Parse(child.StandardOutput.ReadToEnd());
            child.WaitForExit();
            return child.ExitCode == 0 ? result : 0;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong ThroughSocket(Socket near, Socket far, ulong ticket)
        {
            Span<byte> bytes = stackalloc byte[8];
            BitConverter.TryWriteBytes(bytes, ticket);
            near.Send(bytes);
            bytes.Clear();
            for (int got = 0; got < bytes.Length;)
                got += far.Receive(bytes[got..]);
            return BitConverter.ToUInt64(bytes);
        }
    }
}

namespace Patients
{
    using Shop.Mall;

    sealed class Churn : Sickness
    {
        const ulong Factor = 2654435761;

        sealed class Part
        {
            public ulong Rounds, Checksum, MarkedRounds, MarkedChecksum;
        }

        readonly Dictionary<string, Part> _parts = [];

        public override string Name => "churn";
        public override string About =>
            "allocation, collections, exceptions, threads, sockets and timers at once, with a checksum";
        public override Key[] Keys =>
        [
            new("rate", "200", "rounds a second of each part; 0 = as fast as possible", 0, 1e6),
            new("processes", "0", "child processes a second", 0, 1000),
        ];

        public override void Start(Settings settings)
        {
            double rate = settings.Number("rate");
            (Socket near, Socket far) = Loopback.Pair();
            Begin("memory", rate, Stalls.ThroughMemory);
            // Without a limit of its own this part would leave nothing to the others.
            Begin("collection", rate > 0 ? rate / 20 : 50, Stalls.ThroughCollection);
            Begin("exception", rate, Stalls.ThroughException);
            Begin("thread", rate, Stalls.ThroughThread);
            Begin("timer", rate, Stalls.ThroughTimer);
            Begin("socket", rate, ticket => Stalls.ThroughSocket(near, far, ticket));
            if (settings.Number("processes") > 0)
                Begin("process", settings.Number("processes"), Stalls.ThroughProcess);
            Worker.Until(() => _parts.Values.All(part => Volatile.Read(ref part.Rounds) > 0), "a round of every part");
        }

        void Begin(string name, double rate, Func<ulong, ulong> handThrough)
        {
            var part = new Part();
            _parts[name] = part;
            Worker.Loop($"churn-{name}", rate, () =>
            {
                ulong returned = handThrough(part.Rounds + 1);
                lock (part) // rounds and checksum change together
                {
                    part.Rounds++;
                    part.Checksum += returned * Factor;
                }
            });
        }

        public override void Mark()
        {
            foreach (Part part in _parts.Values)
                lock (part)
                {
                    part.MarkedRounds = part.Rounds;
                    part.MarkedChecksum = part.Checksum;
                }
        }

        // The checksum covers all rounds since the start; a mark does not restart it.
        public override JsonObject Truth()
        {
            var parts = new JsonObject();
            bool right = true;
            foreach (var (name, part) in _parts)
                lock (part)
                {
                    bool partRight = part.Checksum == Expected(part.Rounds);
                    right &= partRight;
                    parts[name] = new JsonObject
                    {
                        ["rounds"] = part.Rounds - part.MarkedRounds,
                        ["rounds_total"] = part.Rounds,
                        ["checksum"] = part.Checksum,
                        ["right"] = partRight,
                    };
                }
            return new JsonObject { ["right"] = right, ["factor"] = Factor, ["parts"] = parts };
        }

        static ulong Expected(ulong rounds)
        {
            ulong sum = rounds % 2 == 0 ? rounds / 2 * (rounds + 1) : (rounds + 1) / 2 * rounds;
            return sum * Factor;
        }
    }
}
