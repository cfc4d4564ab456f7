// What ClrMD sees, for comparing with drdotnet: clrmd stacks|facts|exceptions|memory|heap|refs|path CORE DAC, or clrmd live PID DAC for the benchmark.
// (It does not find the version in every core, hence ignoreMismatch.)
using Microsoft.Diagnostics.Runtime;

var held = System.Diagnostics.Stopwatch.StartNew();
using DataTarget target = args[0] == "live" ? DataTarget.AttachToProcess(int.Parse(args[1]), suspend: true) : DataTarget.LoadDump(args[1]);
using ClrRuntime runtime = target.ClrVersions.Single().CreateRuntime(args[2], ignoreMismatch: true);
if (args[0] == "facts")
    Facts();
else if (args[0] == "exceptions")
    Exceptions();
else if (args[0] == "memory")
{
    Heap(references: true);
    Statics();
    Graph();
}
else if (args[0] == "heap")
    Heap(references: false);
else if (args[0] == "refs")
    Heap(references: true);
else if (args[0] == "path")
    Path();
else
    Stacks();
if (args[0] == "live")
{
    target.Dispose(); // lets the process run on
    Console.WriteLine($"pause {held.Elapsed.TotalSeconds}");
}

// `thread MANAGED-ID OS-ID`, then one line a frame: ip, sp, name of the runtime's own frame or -, method or -.
void Stacks()
{
    foreach (ClrThread thread in runtime.Threads)
    {
        Console.WriteLine($"thread {thread.ManagedThreadId} {thread.OSThreadId}");
        if (!thread.IsAlive)
            continue;
        foreach (ClrStackFrame frame in thread.EnumerateStackTrace(includeContext: false, maxFrames: 1_000_000))
        {
            string kind = frame.Kind == ClrStackFrameKind.Runtime ? frame.FrameName ?? "?" : "-";
            Console.WriteLine($"{frame.InstructionPointer:x} {frame.StackPointer:x} {kind} {frame.Method?.Signature ?? "-"}");
        }
    }
}

// What threads throw, with inner ones, and the stacks that they carry.
void Exceptions()
{
    foreach (ClrThread thread in runtime.Threads)
        for (ClrException? thrown = thread.CurrentException; thrown is not null; thrown = thrown.Inner)
        {
            Console.WriteLine($"exception {thread.OSThreadId} {thrown.Address:x} {thrown.Type.Name} {thrown.Message ?? "-"}");
            for (int i = 0; i < thrown.StackTrace.Length; i++)
                Console.WriteLine($"thrown {thrown.Address:x} {i} {thrown.StackTrace[i].InstructionPointer:x} {thrown.StackTrace[i].Method?.Signature}");
        }
}

// One line a thing, in the words of tests/oracle/dac_facts.c; the order means nothing.
void Facts()
{
    foreach (ClrModule module in runtime.EnumerateModules())
        Console.WriteLine($"module {module.Address:x} {module.Name}");
    foreach (ClrSegment segment in runtime.Heap.Segments)
        Console.WriteLine($"segment {segment.Address:x} {segment.ObjectRange.Start:x} {segment.SubHeap.Index}");
    var types = new Dictionary<ulong, ClrType>();
    foreach (ClrHandle handle in runtime.EnumerateHandles())
    {
        Console.WriteLine($"handle {handle.Address:x} {handle.Object.Address:x} {(int)handle.HandleKind} {(handle.IsStrong ? 1 : 0)}");
        if (handle.Object.Type is ClrType type)
            types[type.MethodTable] = type;
    }
    foreach (ClrType type in types.Values)
    {
        Console.WriteLine($"type {type.MethodTable:x} {type.StaticSize} {type.ComponentSize} {(type.ContainsPointers ? 1 : 0)} {type.MetadataToken:x}");
        foreach (ClrInstanceField field in type.Fields.Where(f => f.ContainingType.MethodTable == type.MethodTable))
            Console.WriteLine($"field {type.MethodTable:x} {field.Name} {field.Offset} {(field.IsObjectReference ? 18 : (int)field.ElementType)}");
    }
    foreach (SyncBlock block in runtime.Heap.EnumerateSyncBlocks())
        Console.WriteLine($"sync {block.Index} {block.Object:x} {(block.IsMonitorHeld ? 1 : 0)} {block.HoldingThreadAddress:x} {block.WaitingThreadCount}");
    foreach (ClrThread thread in runtime.Threads.Where(t => t.IsAlive))
    {
        foreach (ClrStackRoot root in thread.EnumerateStackRoots().Where(r => !r.IsInterior))
            Console.WriteLine($"ref {thread.OSThreadId} {root.Address:x} {root.Object.Address:x}");
        foreach (ClrStackFrame frame in thread.EnumerateStackTrace().Where(f => f.Kind == ClrStackFrameKind.ManagedMethod))
            foreach (ILToNativeMap map in frame.Method!.ILOffsetMap)
                Console.WriteLine($"il {frame.Method.MethodDesc:x} {map.StartAddress:x} {map.ILOffset}");
    }
}

// The words of tests/oracle/heap_facts.c: per method table the objects, their bytes, references and the sum of those.
void Heap(bool references)
{
    var types = new Dictionary<ulong, (ulong Objects, ulong Bytes, ulong References, ulong Sum)>();
    foreach (ClrObject obj in runtime.Heap.EnumerateObjects())
    {
        ulong type = obj.Type!.MethodTable;
        types.TryGetValue(type, out var seen);
        seen.Objects++;
        seen.Bytes += obj.Size + 7 & ~7UL;
        if (references)
          foreach (ulong reference in obj.EnumerateReferenceAddresses(carefully: false, considerDependantHandles: false))
        {
            seen.References++;
            unchecked { seen.Sum += reference; }
        }
        types[type] = seen;
    }
    foreach (var (type, seen) in types)
        Console.WriteLine($"type {type:x} {seen.Objects} {seen.Bytes} {seen.References} {seen.Sum:x}");
}

// Static fields that hold an object: method table, name, object.
void Statics()
{
    ClrAppDomain domain = runtime.AppDomains.Single();
    foreach (ClrModule module in runtime.EnumerateModules())
        foreach ((ulong address, int _) in module.EnumerateTypeDefToMethodTableMap())
            foreach (ClrStaticField field in runtime.GetTypeByMethodTable(address)?.StaticFields ?? [])
                if (field.IsObjectReference && field.ReadObject(domain) is { IsNull: false } value)
                    Console.WriteLine($"static {address:x} {field.Name} {value.Address:x}");
}

// How many objects and bytes the roots reach, dependent handles included; and by kind of root, the different objects.
void Graph()
{
    var kinds = new Dictionary<ClrRootKind, HashSet<ulong>>();
    var seen = new HashSet<ulong>();
    var left = new Stack<ulong>();
    ulong bytes = 0;
    void Reach(ulong address)
    {
        if (address != 0 && seen.Add(address))
            left.Push(address);
    }
    foreach (ClrRoot root in runtime.Heap.EnumerateRoots())
    {
        Reach(root.Object.Address);
        if (root.Object.Address != 0 && (kinds.TryGetValue(root.RootKind, out var objects) || kinds.TryAdd(root.RootKind, objects = [])))
            objects.Add(root.Object.Address);
    }
    foreach (var (kind, objects) in kinds)
        Console.WriteLine($"roots {Word(kind)} {objects.Count} {objects.Aggregate(0UL, (sum, address) => sum + address):x}");
    while (left.TryPop(out ulong address))
    {
        ClrObject obj = runtime.Heap.GetObject(address);
        bytes += obj.Size + 7 & ~7UL;
        foreach (ClrObject reference in obj.EnumerateReferences(carefully: false, considerDependantHandles: true))
            Reach(reference.Address);
    }
    Console.WriteLine($"reached {seen.Count} {bytes}");
    static string Word(ClrRootKind kind) => kind switch
    {
        ClrRootKind.Stack => "stack", ClrRootKind.FinalizerQueue => "finalizer", ClrRootKind.StrongHandle => "strong",
        ClrRootKind.PinnedHandle => "pinned", ClrRootKind.RefCountedHandle => "counted",
        ClrRootKind.AsyncPinnedHandle => "overlapped", ClrRootKind.SizedRefHandle => "sized", _ => kind.ToString(),
    };
}

// A way from a root to the object at the address that the third argument names.
void Path()
{
    ulong wanted = Convert.ToUInt64(args[3], 16);
    var search = new GCRoot(runtime.Heap, new[] { wanted });
    foreach ((ClrRoot root, GCRoot.ChainLink path) in search.EnumerateRootPaths())
    {
        int steps = 0;
        for (GCRoot.ChainLink? link = path; link != null; link = link.Next)
            steps++;
        Console.WriteLine($"path {root.RootKind} {steps}");
        break;
    }
}
