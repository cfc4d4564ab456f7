// Deaths of several kinds, after a delay or at the command "crash"; and a life as somebody else after "exec".

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Patients;

namespace Shop.Accounting
{
    static unsafe class Auditor
    {
        const ulong HeapLimitBytes = 200 << 20;
        static readonly List<byte[]> Papers = [];

        [DllImport("libc")]
        static extern void* memset(void* where, int value, nuint count);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void FindMistake()
        {
            try
            {
                ReadBooks();
            }
            catch (FormatException unreadable)
            {
                throw new InvalidOperationException("the books do not balance", unreadable);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void ReadBooks() => throw new FormatException("page 17 is unreadable");

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int RecurseForEver(int page) => RecurseForEver(page + 1) + 1;

        // Under a limit of our own: the machine's memory is not ours to use up.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void CopyEverything()
        {
            AppContext.SetData("GCHeapHardLimit", HeapLimitBytes);
            GC.RefreshMemoryLimit();
            while (true)
                Papers.Add(new byte[1 << 20]);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void ShredInNativeCode() => memset((void*)64, 0, 8);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static void GiveUp() =>
            Environment.FailFast("the ledger is inconsistent", new InvalidOperationException("debit is not credit"));
    }
}

namespace Patients
{
    sealed class Crash : Sickness
    {
        readonly ManualResetEvent _now = new(false);
        string _kind = "";

        static readonly Dictionary<string, (string Method, Action Die)> Deaths = new()
        {
            ["unhandled"] = ("Shop.Accounting.Auditor.FindMistake", Shop.Accounting.Auditor.FindMistake),
            ["stackoverflow"] = ("Shop.Accounting.Auditor.RecurseForEver", () => Shop.Accounting.Auditor.RecurseForEver(0)),
            ["oom"] = ("Shop.Accounting.Auditor.CopyEverything", Shop.Accounting.Auditor.CopyEverything),
            ["segv"] = ("Shop.Accounting.Auditor.ShredInNativeCode", Shop.Accounting.Auditor.ShredInNativeCode),
            ["failfast"] = ("Shop.Accounting.Auditor.GiveUp", Shop.Accounting.Auditor.GiveUp),
        };

        public override string Name => "crash";
        public override string About => "dies in a chosen way, after a time or at the command 'crash'";
        public override Key[] Keys =>
        [
            Choice("kind", "cause of death", Deaths.Keys.ToArray()),
            new("after", "0", "seconds until death; 0 = only at the command", 0, 3600),
        ];

        public override void Start(Settings settings)
        {
            _kind = settings.Word("kind");
            double after = settings.Number("after");
            Action die = Deaths[_kind].Die;
            Thread auditor = Worker.Start("auditor", () =>
            {
                _now.WaitOne(after > 0 ? TimeSpan.FromSeconds(after) : Timeout.InfiniteTimeSpan);
                die();
            });
            Worker.UntilBlocked([auditor]);
        }

        public override bool Command(string command) => command == "crash" && _now.Set();

        public override JsonObject Truth() => new()
        {
            ["kind"] = _kind,
            ["method"] = Deaths[_kind].Method,
            ["thread"] = "auditor",
        };
    }

    sealed unsafe class Exec : Sickness
    {
        [DllImport("libc")]
        static extern int execve(byte* path, byte** arguments, byte** environment);

        readonly ManualResetEvent _now = new(false);

        public override string Name => "exec";
        public override string About => "becomes another program at the command 'exec'; its process id stays";
        public override Key[] Keys => [];

        public override void Start(Settings settings)
        {
            Thread actor = Worker.Start("actor", () =>
            {
                _now.WaitOne();
                byte* end = null;
                fixed (byte* path = "/bin/sleep\0"u8, seconds = "600\0"u8)
                {
                    byte** arguments = stackalloc byte*[] { path, seconds, null };
                    execve(path, arguments, &end);
                }
            });
            Worker.UntilBlocked([actor]);
        }

        public override bool Command(string command) => command == "exec" && _now.Set();
        public override JsonObject Truth() => [];
    }
}
