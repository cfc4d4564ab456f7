// Memory that the garbage collector knows nothing of: taken with malloc or mmap, or by stacks of threads.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Imaging
{
    static class Codec
    {
        [DllImport("libc")]
        public static extern IntPtr malloc(nuint bytes);

        [DllImport("libc")]
        public static extern void free(IntPtr memory);

        [DllImport("libc")]
        public static extern IntPtr mmap(IntPtr where, nuint bytes, int protection, int flags, int file, nint offset);
    }

    static class Thumbnails
    {
        public static readonly List<IntPtr> Pixels = [];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static IntPtr Render(int bytes)
        {
            IntPtr pixels = Codec.malloc((nuint)bytes);
            unsafe
            {
                new Span<byte>((void*)pixels, bytes).Fill(0x5a);
            }
            return pixels;
        }
    }

    static class Renderer
    {
        // Its frame reaches so far down the stack.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void Wait(ManualResetEventSlim end, CountdownEvent begun, int bytes)
        {
            Span<byte> scratch = stackalloc byte[bytes];
            scratch.Fill(0x5a);
            begun.Signal();
            end.Wait();
            GC.KeepAlive(scratch[bytes / 2].ToString());
        }
    }
}

namespace Patients
{
    using Shop.Imaging;

    // "kept" and "lost" are chunks that are in use, "trimmable" gives back all but the last one, "fragments" every large one
    // between small ones.
    sealed class Native : Sickness
    {
        const int Small = 300, Large = 3000, Big = 60000, Mapping = 64 << 10, Stack = 1 << 20, More = 1000;
        readonly ManualResetEventSlim _end = new(false);
        string _kind = "";
        int _chunkBytes, _threads;
        long _used, _freed, _mapped;

        public override string Name => "native";
        public override string About => "memory outside of the managed heap: malloc, mmap, stacks";
        public override Key[] Keys =>
        [
            Choice("kind", "what takes it", "kept", "lost", "trimmable", "fragments", "mmap", "stacks"),
            new("mb", "240", "how much", 1, 2000),
            new("bytes", "1000", "of a chunk that is kept or lost", 32, 100000),
        ];

        public override void Start(Settings settings)
        {
            _kind = settings.Word("kind");
            long bytes = (long)settings.Int("mb") << 20;
            switch (_kind)
            {
                case "kept" or "lost":
                    _chunkBytes = settings.Int("bytes");
                    Leak(bytes / _chunkBytes);
                    break;
                case "trimmable":
                    _chunkBytes = Big;
                    Trimmable(bytes / Big);
                    break;
                case "fragments":
                    _chunkBytes = Large;
                    Fragments(bytes / (Large + Small));
                    break;
                case "mmap":
                    Map(bytes / Mapping);
                    break;
                case "stacks":
                    Threads((int)(bytes / Stack));
                    break;
            }
        }

        void Leak(long n)
        {
            for (long i = 0; i < n; i++)
            {
                IntPtr pixels = Thumbnails.Render(_chunkBytes);
                if (_kind == "kept")
                    Thumbnails.Pixels.Add(pixels);
            }
            _used = n;
        }

        void Trimmable(long n)
        {
            IntPtr[] all = new IntPtr[n];
            for (long i = 0; i < n; i++)
                all[i] = Thumbnails.Render(_chunkBytes);
            // As large, so that it finds no room below them: what is free stays under it.
            Thumbnails.Pixels.Add(Thumbnails.Render(_chunkBytes));
            foreach (IntPtr one in all)
                Codec.free(one);
            _freed = n;
        }

        void Fragments(long n)
        {
            IntPtr[] large = new IntPtr[n];
            for (long i = 0; i < n; i++)
            {
                large[i] = Thumbnails.Render(Large);
                Thumbnails.Pixels.Add(Thumbnails.Render(Small));
            }
            foreach (IntPtr one in large)
                Codec.free(one);
            _freed = n;
        }

        void Map(long n)
        {
            const int ReadWrite = 3, PrivateAnonymous = 0x22;
            for (long i = 0; i < n; i++)
            {
                IntPtr at = Codec.mmap(IntPtr.Zero, Mapping, ReadWrite, PrivateAnonymous, -1, 0);
                unsafe
                {
                    new Span<byte>((void*)at, Mapping).Fill(0x5a);
                }
                Thumbnails.Pixels.Add(at);
            }
            _mapped = n * Mapping;
        }

        void Threads(int n)
        {
            using var begun = new CountdownEvent(n);
            for (int i = 0; i < n; i++)
                new Thread(() => Renderer.Wait(_end, begun, Stack), 2 * Stack) { IsBackground = true, Name = "renderer" }.Start();
            begun.Wait();
            _threads = n;
        }

        // A thousand more of what is kept or lost.
        public override bool Command(string command)
        {
            if (command != "more" || _used == 0)
                return false;
            long had = _used;
            Leak(More);
            _used += had;
            return true;
        }

        // What free has taken is in no chunk of its size any more: neighbours merge.
        public override JsonObject Truth() => new()
        {
            ["kind"] = _kind,
            ["chunk_bytes"] = _chunkBytes,
            ["used"] = _used,
            ["freed"] = _freed,
            ["mapped_bytes"] = _mapped,
            ["threads"] = _threads,
            ["stack_bytes"] = (long)_threads * Stack,
        };
    }
}
