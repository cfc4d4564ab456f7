// Threads that leave the processor in ways a report must tell apart or must not make worse: pairs that hand a byte to
// and fro as fast as they can, and a reader of mapped memory whose pages are not there.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Io
{
    static unsafe class Paging
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static byte Touch(byte* page) => *page;
    }
}

namespace Patients
{
    using Shop.Io;

    sealed unsafe class Switches : Sickness
    {
        [DllImport("libc")]
        static extern int pipe(int* ends);

        [DllImport("libc")]
        static extern nint read(int fd, byte* bytes, nint count);

        [DllImport("libc")]
        static extern nint write(int fd, byte* bytes, nint count);

        static readonly Counter Rounds = new(), Steps = new();
        static long _periodNs;

        public override string Name => "switches";
        public override string About => "pairs of threads that hand a byte to and fro: tens of thousands of switches a second";
        public override Key[] Keys =>
        [
            new("pairs", "1", "pairs of threads; as many as processors leave no turn to others on some kernels", 1, 100),
            new("rate", "0", "switches a second of each pair, with work in between; 0 = as many as can be", 0, 1e6),
        ];

        public override void Start(Settings settings)
        {
            double rate = settings.Number("rate");
            _periodNs = rate > 0 ? (long)(2e9 / rate) : 0;
            int* there = stackalloc int[2], back = stackalloc int[2];
            for (int i = 0; i < settings.Int("pairs"); i++)
            {
                pipe(there);
                pipe(back);
                (int From, int To) ping = (back[0], there[1]), pong = (there[0], back[1]);
                Worker.Start($"ping-{i}", () => Hand(ping.From, ping.To, first: true));
                Worker.Start($"pong-{i}", () => Hand(pong.From, pong.To, first: false));
            }
            Worker.Until(() => Rounds.Total > 100, "bytes go to and fro");
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Hand(int from, int to, bool first)
        {
            byte one = 1;
            long due = Clock.MonotonicNs();
            if (first)
                write(to, &one, 1);
            while (read(from, &one, 1) == 1)
            {
                if (first)
                {
                    Rounds.Increment();
                    due = Work(due + _periodNs);
                }
                write(to, &one, 1);
            }
        }

        // What is done in the time that the switches leave: the less of it, the more they cost.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static long Work(long due)
        {
            long now;
            for (now = Clock.MonotonicNs(); now < due; now = Clock.MonotonicNs())
                Steps.Increment();
            return now - due > 1_000_000 ? now : due;
        }

        public override void Mark()
        {
            Rounds.Mark();
            Steps.Mark();
        }

        public override JsonObject Truth() => new() { ["rounds"] = Rounds.SinceMark, ["steps"] = Steps.SinceMark };
    }

    sealed unsafe class Faults : Sickness
    {
        const long Bytes = 64 << 20;
        const int Page = 4096, ProtRead = 1, MapShared = 1, DontNeed = 4, Random = 1, RusageThread = 1, MajorFaults = 72;

        [DllImport("libc")]
        static extern void* mmap(void* address, nint length, int protection, int flags, int fd, nint offset);

        [DllImport("libc")]
        static extern int madvise(void* address, nint length, int advice);

        [DllImport("libc")]
        static extern int posix_fadvise(int fd, nint offset, nint length, int advice);

        [DllImport("libc")]
        static extern int getrusage(int who, byte* usage);

        long _waitedNs, _majors, _markedNs, _markedMajors, _sum;

        public override string Name => "faults";
        public override string About => "reads of mapped pages that are not in memory";
        public override Key[] Keys => [];

        public override void Start(Settings settings)
        {
            string folder = Directory.CreateTempSubdirectory("sick-").FullName;
            var file = new FileStream(Path.Combine(folder, "pages"), FileMode.CreateNew, FileAccess.ReadWrite);
            Directory.Delete(folder, recursive: true); // the open file stays
            for (long at = 0; at < Bytes; at += 1 << 20)
                file.Write(new byte[1 << 20]);
            file.Flush(flushToDisk: true);
            int fd = (int)file.SafeFileHandle.DangerousGetHandle();
            byte* memory = (byte*)mmap(null, (nint)Bytes, ProtRead, MapShared, fd, 0);
            madvise(memory, (nint)Bytes, Random);
            Worker.Start("faults", () => Read(file, fd, memory));
            Worker.Until(() => Volatile.Read(ref _majors) > 0, "a page that comes from the disk");
        }

        void Read(FileStream file, int fd, byte* memory)
        {
            var random = new Random(1);
            while (true)
            {
                madvise(memory, (nint)Bytes, DontNeed);
                posix_fadvise(fd, 0, 0, DontNeed);
                for (int i = 0; i < 200; i++)
                {
                    long start = Clock.MonotonicNs(), cpu = Clock.ThreadCpuNs(), before = Majors();
                    _sum += Paging.Touch(memory + random.NextInt64(Bytes / Page) * Page);
                    Interlocked.Add(ref _waitedNs, Clock.MonotonicNs() - start - (Clock.ThreadCpuNs() - cpu));
                    Interlocked.Add(ref _majors, Majors() - before);
                }
                GC.KeepAlive(file);
            }
        }

        static long Majors()
        {
            byte* usage = stackalloc byte[144];
            getrusage(RusageThread, usage);
            return *(long*)(usage + MajorFaults);
        }

        public override void Mark()
        {
            _markedNs = Interlocked.Read(ref _waitedNs);
            _markedMajors = Interlocked.Read(ref _majors);
        }

        public override JsonObject Truth() => new()
        {
            ["method"] = "Shop.Io.Paging.Touch",
            ["waited_ns"] = Interlocked.Read(ref _waitedNs) - _markedNs,
            ["faults"] = Interlocked.Read(ref _majors) - _markedMajors,
        };
    }
}
