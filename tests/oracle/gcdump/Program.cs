// gcdump read FILE:  reads a .gcdump file through Microsoft's own serialization library and prints, as JSON, the objects
//                    and bytes of each type, and the roots.
// gcdump write FILE: writes one through it: three objects of Shop.Order in a chain, held by a static field.
using System.Text.Json;
using FastSerialization;
using Graphs;

SerializationSettings settings = SerializationSettings.Default.WithStreamLabelWidth(StreamLabelWidth.FourBytes);
switch (args)
{
    case ["read", var file]:
        Console.WriteLine(JsonSerializer.Serialize(Read(file).Summary()));
        return 0;
    case ["write", var file]:
        new Serializer(new IOStreamStreamWriter(file, settings), new GCHeapDump { Graph = MemoryGraph.Sample() }).Close();
        return 0;
    default:
        Console.Error.WriteLine("usage: gcdump read|write FILE");
        return 2;
}

GCHeapDump Read(string file)
{
    using var input = new Deserializer(file, settings);
    var dump = new GCHeapDump();
    input.RegisterFactory(typeof(GCHeapDump), () => dump);
    input.RegisterFactory(typeof(MemoryGraph), () => new MemoryGraph());
    input.GetEntryObject();
    return dump;
}

sealed class GCHeapDump : IFastSerializable, IFastSerializableVersion
{
    public MemoryGraph? Graph;
    public string? Process = "Shop.Api", Tool;
    public int Pid = 4211;
    public long Ticks = DateTime.UnixEpoch.Ticks;

    public int Version => 10;
    public int MinimumVersionCanRead => 4;
    public int MinimumReaderVersion => 8;

    public void ToStream(Serializer to)
    {
        to.Write(Graph);
        to.Write(true);
        to.Write(1f);
        to.Write(1f);
        to.Write((IFastSerializable?)null);
        to.Write((IFastSerializable?)null);
        to.Write((string?)null);
        to.Write(Ticks);
        to.Write("machine");
        to.Write(Process);
        to.Write(Pid);
        to.Write(0L);
        to.Write(0L);
        to.Write(0);
        to.WriteTagged((IFastSerializable?)null);
        to.WriteTagged("oracle");
    }

    public void FromStream(Deserializer from)
    {
        Graph = (MemoryGraph)from.ReadObject();
        from.ReadByte();
        from.ReadInt();
        from.ReadInt();
        from.ReadObject();
        from.ReadObject();
        from.ReadString();
        Ticks = from.ReadInt64();
        from.ReadString();
        Process = from.ReadString();
        Pid = from.ReadInt();
        from.ReadInt64();
        from.ReadInt64();
        from.ReadInt();
        MemoryGraph? interop = null;
        from.TryReadTagged(ref interop);
        from.TryReadTagged(ref Tool);
    }

    public object Summary() => new
    {
        process = Process,
        pid = Pid,
        tool = Tool,
        time = new DateTime(Ticks, DateTimeKind.Utc),
        types = Graph!.Nodes.Where(node => node.Size > 0).GroupBy(node => node.Type.Name)
            .ToDictionary(group => group.Key, group => new { count = group.Count(), bytes = group.Sum(node => (long)node.Size) }),
        roots = Graph.Reached(node => node.Size == 0).Where(node => node.Size == 0).Select(node => node.Type.Name).Order(),
        reached = Graph.Reached(_ => true).Count(node => node.Size > 0),
    };
}

namespace Graphs
{
    sealed record NodeType(string Name, int Size, string? Module);

    sealed record Node(NodeType Type, int Size, int[] To, ulong Address);

    sealed class MemoryGraph : IFastSerializable, IFastSerializableVersion
    {
        public List<Node> Nodes = [];
        int _root;

        public int Version => 1;
        public int MinimumVersionCanRead => 0;
        public int MinimumReaderVersion => 0;

        public static MemoryGraph Sample()
        {
            NodeType order = new("Shop.Order", 40, "/app/Shop.Api.dll"), large = new("Shop.Order (Bytes > 1K)", -1, null);
            return new()
            {
                Nodes =
                [
                    new(new("[.NET Roots]", 0, null), 0, [1], 0),
                    new(new("[static vars]", 0, null), 0, [2], 0),
                    new(new("[static var Shop.Café.Orders]", 0, null), 0, [5], 0),
                    new(order, 40, [], 0x1000),
                    new(order, 40, [3], 0x2000),
                    new(large, 2000, [4], 0x3000),
                ],
            };
        }

        public IEnumerable<Node> Reached(Func<Node, bool> through)
        {
            var open = new Queue<int>([_root]);
            var seen = new HashSet<int> { _root };
            while (open.TryDequeue(out int at))
            {
                yield return Nodes[at];
                foreach (int to in through(Nodes[at]) ? Nodes[at].To : [])
                    if (seen.Add(to))
                        open.Enqueue(to);
            }
        }

        public void ToStream(Serializer to)
        {
            NodeType[] types = Nodes.Select(node => node.Type).Distinct().ToArray();
            var blob = new List<byte>();
            var labels = new List<int>();
            foreach ((int index, Node node) in Nodes.Index())
            {
                int type = Array.IndexOf(types, node.Type);
                bool sized = node.Size != node.Type.Size;
                labels.Add(blob.Count);
                Pack(blob, type * 2 + (sized ? 1 : 0));
                if (sized)
                    Pack(blob, node.Size);
                Pack(blob, node.To.Length);
                foreach (int child in node.To)
                    Pack(blob, child - index);
            }
            to.Write(Nodes.Sum(node => (long)node.Size));
            to.Write(_root);
            to.Write(types.Length);
            foreach (NodeType type in types)
            {
                to.Write(type.Name);
                to.Write(type.Size);
                to.Write(type.Module);
            }
            to.Write(labels.Count);
            labels.ForEach(to.Write);
            to.Write(blob.Count);
            blob.ForEach(to.Write);
            to.Write(Nodes.Count);
            Nodes.ForEach(node => to.Write((long)node.Address));
            to.WriteTagged(true);
        }

        public void FromStream(Deserializer from)
        {
            from.ReadInt64();
            _root = from.ReadInt();
            var types = new NodeType[from.ReadInt()];
            for (int i = 0; i < types.Length; i++)
                types[i] = new(from.ReadString() ?? "", from.ReadInt(), from.ReadString());
            var labels = new int[from.ReadInt()];
            for (int i = 0; i < labels.Length; i++)
                labels[i] = from.ReadInt();
            var blob = new byte[from.ReadInt()];
            for (int i = 0; i < blob.Length; i++)
                blob[i] = from.ReadByte();
            for (int i = 0; i < labels.Length; i++)
            {
                int at = labels[i], head = Unpack(blob, ref at);
                int size = (head & 1) != 0 ? Unpack(blob, ref at) : types[head >> 1].Size;
                var to = new int[Unpack(blob, ref at)];
                for (int k = 0; k < to.Length; k++)
                    to[k] = i + Unpack(blob, ref at);
                Nodes.Add(new(types[head >> 1], size, to, 0));
            }
            int addresses = from.ReadInt();
            for (int i = 0; i < addresses; i++)
                from.ReadInt64();
            bool wide = false;
            from.TryReadTagged(ref wide);
        }

        static void Pack(List<byte> blob, int value)
        {
            int more = 0;
            while (more < 4 && value >> (7 * more + 6) is not (0 or -1))
                more++;
            for (; more > 0; more--)
                blob.Add((byte)(value >> (7 * more) | 0x80));
            blob.Add((byte)(value & 0x7F));
        }

        static int Unpack(byte[] blob, ref int at)
        {
            int value = (sbyte)(blob[at] << 1) >> 1;
            while ((blob[at++] & 0x80) != 0)
                value = value << 7 | (blob[at] & 0x7F);
            return value;
        }
    }
}
