// Time off the processor, by what a thread waits for in the kernel. Each kind has a thread that
// waits and (where needed) a partner who ends the wait after the chosen time.

using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Io
{
    static unsafe class Waiting
    {
        [DllImport("libc")]
        static extern int usleep(uint microseconds);

        [DllImport("libc")]
        static extern int epoll_create1(int flags);

        [DllImport("libc")]
        static extern int epoll_wait(int epoll, void* events, int maxEvents, int timeoutMs);

        static readonly int Epoll = epoll_create1(0);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void OnEvent(AutoResetEvent signal) => signal.WaitOne();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void OnFifo(FileStream fifo) => fifo.ReadByte();

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void OnSocket(Socket socket)
        {
            Span<byte> one = stackalloc byte[1];
            socket.Receive(one);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void InThreadSleep(int ms) => Thread.Sleep(ms);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void InNanosleep(int ms) => usleep((uint)ms * 1000);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void InEpoll(int ms)
        {
            byte* events = stackalloc byte[64];
            epoll_wait(Epoll, events, 1, ms);
        }
    }
}

namespace Patients
{
    using Shop.Io;

    sealed class Waits : Sickness
    {
        // Time waited up to now, the wait in progress included, so that a window of any length is true.
        sealed class Waiter(string method)
        {
            int _tid;
            long _waits, _doneNs, _sinceNs, _markedNs, _markedWaits;

            public void Wait(Action wait)
            {
                lock (this)
                {
                    _tid = Clock.ThreadId();
                    _sinceNs = Clock.MonotonicNs();
                }
                wait();
                lock (this)
                {
                    _doneNs += Clock.MonotonicNs() - _sinceNs;
                    _sinceNs = 0;
                    _waits++;
                }
            }

            public long Waits
            {
                get
                {
                    lock (this)
                        return _waits;
                }
            }

            long WaitedNs => _doneNs + (_sinceNs > 0 ? Clock.MonotonicNs() - _sinceNs : 0);

            public void Mark()
            {
                lock (this)
                {
                    _markedNs = WaitedNs;
                    _markedWaits = _waits;
                }
            }

            public JsonObject Truth()
            {
                lock (this)
                    return new JsonObject
                    {
                        ["method"] = method,
                        ["tid"] = _tid,
                        ["waits"] = _waits - _markedWaits,
                        ["waited_ns"] = WaitedNs - _markedNs,
                    };
            }
        }

        [DllImport("libc")]
        static extern int mkfifo(string path, uint mode);

        readonly Dictionary<string, Waiter> _waiters = [];

        public override string Name => "waits";
        public override string About => "known time in futex, FIFO and socket reads, sleeps and epoll";
        public override Key[] Keys => [new("ms", "100", "length of one wait", 1, 10_000)];

        public override void Start(Settings settings)
        {
            int ms = settings.Int("ms");
            var signal = new AutoResetEvent(false);
            (FileStream fifoReader, FileStream fifoWriter) = OpenFifo();
            (Socket near, Socket far) = Loopback.Pair();

            Begin("futex", "OnEvent", () => Waiting.OnEvent(signal));
            Begin("fifo", "OnFifo", () => Waiting.OnFifo(fifoReader));
            Begin("socket", "OnSocket", () => Waiting.OnSocket(near));
            Begin("thread-sleep", "InThreadSleep", () => Waiting.InThreadSleep(ms));
            Begin("nanosleep", "InNanosleep", () => Waiting.InNanosleep(ms));
            Begin("epoll", "InEpoll", () => Waiting.InEpoll(ms));
            Worker.Loop("waits-partner", 1000.0 / ms, () =>
            {
                signal.Set();
                fifoWriter.WriteByte(1);
                far.Send([1]);
            });
            Worker.Until(() => _waiters.Values.All(waiter => waiter.Waits > 0), "a wait of every kind");
        }

        void Begin(string name, string method, Action wait)
        {
            var waiter = new Waiter($"Shop.Io.Waiting.{method}");
            _waiters[name] = waiter;
            Worker.Start($"waits-{name}", () =>
            {
                while (true)
                    waiter.Wait(wait);
            });
        }

        // Both ends are open before this returns, so the name can go at once and nothing is left behind.
        static (FileStream Reader, FileStream Writer) OpenFifo()
        {
            string folder = Directory.CreateTempSubdirectory("sick-").FullName;
            string path = Path.Combine(folder, "fifo");
            mkfifo(path, 0b110_000_000);
            // Opened for both directions first: opening one end alone would wait for the other.
            var writer = new FileStream(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite, bufferSize: 0);
            var reader = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, bufferSize: 0);
            Directory.Delete(folder, recursive: true);
            return (reader, writer);
        }

        public override void Mark()
        {
            foreach (Waiter waiter in _waiters.Values)
                waiter.Mark();
        }

        public override JsonObject Truth()
        {
            var kinds = new JsonObject();
            foreach (var (name, waiter) in _waiters)
                kinds[name] = waiter.Truth();
            return new JsonObject { ["kinds"] = kinds };
        }
    }
}
