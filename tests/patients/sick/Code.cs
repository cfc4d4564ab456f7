// Code that piles up: methods compiled at run time, load contexts that are never unloaded, and a
// regular expression compiled for every request.

using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Text.Json.Nodes;
using System.Text.RegularExpressions;
using Patients;

namespace Shop.Rules
{
    struct Pair<TFirst, TSecond>;

    static class Rule<T>
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Apply(int amount) => amount + Unsafe.SizeOf<T>();
    }

    static class Engine
    {
        static readonly Type[] Units =
        [
            typeof(byte), typeof(short), typeof(int), typeof(long), typeof(float), typeof(double),
            typeof(char), typeof(bool), typeof(decimal), typeof(DateTime),
        ];

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int RunDynamic(int number)
        {
            var method = new DynamicMethod($"Formula{number}", typeof(int), [typeof(int)]);
            ILGenerator code = method.GetILGenerator();
            code.Emit(OpCodes.Ldarg_0);
            code.Emit(OpCodes.Ldc_I4, number);
            code.Emit(OpCodes.Add);
            code.Emit(OpCodes.Ret);
            return method.CreateDelegate<Func<int, int>>()(1);
        }

        // Every number below 10,000 gives a type of its own, so Apply is compiled anew.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int RunGeneric(int number)
        {
            Type first = PairOf(Units[number % 10], Units[number / 10 % 10]);
            Type second = PairOf(Units[number / 100 % 10], Units[number / 1000 % 10]);
            MethodInfo apply = typeof(Rule<>).MakeGenericType(PairOf(first, second)).GetMethod("Apply")!;
            return (int)apply.Invoke(null, [1])!;
        }

        static Type PairOf(Type first, Type second) => typeof(Pair<,>).MakeGenericType(first, second);
    }
}

namespace Shop.Search
{
    static class Filter
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static bool Matches(int request, string text) =>
            new Regex($"order-{request}-[a-z]+[0-9]{{2,{request % 9 + 3}}}", RegexOptions.Compiled).IsMatch(text);
    }
}

namespace Shop.Plugins
{
    public sealed class PriceRule
    {
        readonly byte[] _table = new byte[10_000];

        public int Size => _table.Length;

        // Compiled once and for all, and not in the midst of its work.
        [MethodImpl(MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization)]
        public ulong Price(int steps)
        {
            ulong sum = 1;
            for (int i = 0; i < steps; i++)
                sum = (sum ^ (ulong)i) * 6364136223846793005 + 1;
            return sum;
        }
    }

    static class PluginHost
    {
        public static readonly List<(AssemblyLoadContext Context, object Rule)> Loaded = [];

        // Looks for the code and has it compiled, which can take longer than its work.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static Func<int, ulong> Prepare(object rule)
        {
            var price = rule.GetType().GetMethod("Price")!.CreateDelegate<Func<int, ulong>>(rule);
            price(0);
            return price;
        }

        // Work that is done by code which is gone soon after, and nothing else.
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static ulong Price(Func<int, ulong> price, int steps) => price(steps);

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static object Load(byte[] assembly, int number, bool keep)
        {
            var context = new AssemblyLoadContext($"plugin-{number}", isCollectible: true);
            Assembly plugin = context.LoadFromStream(new MemoryStream(assembly));
            object rule = Activator.CreateInstance(plugin.GetType("Shop.Plugins.PriceRule", throwOnError: true)!)!;
            if (keep)
                Loaded.Add((context, rule));
            else
                context.Unload();
            return rule;
        }
    }
}

namespace Patients
{
    sealed class Jit : Sickness
    {
        const int MaxInstantiations = 10_000;
        readonly Counter _dynamic = new(), _generic = new(), _regex = new();
        long _result;

        public override string Name => "jit";
        public override string About => "new dynamic methods, generic instantiations and regexes all the time";
        public override Key[] Keys =>
        [
            new("rate", "20", "new ones a second, of each kind", 0.1, 5000),
            Choice("kind", "of what", "all", "dynamic", "generic", "regex"),
        ];

        public override void Start(Settings settings)
        {
            string kind = settings.Word("kind");
            Worker.Loop("compiler", settings.Number("rate"), () => Compile(kind));
            Worker.Until(() => _dynamic.Total + _generic.Total + _regex.Total > 0, "the first new code");
        }

        void Compile(string kind)
        {
            if (kind is "all" or "dynamic")
            {
                _result += Shop.Rules.Engine.RunDynamic((int)_dynamic.Total);
                _dynamic.Increment();
            }
            if (kind is "all" or "generic" && _generic.Total < MaxInstantiations)
            {
                _result += Shop.Rules.Engine.RunGeneric((int)_generic.Total);
                _generic.Increment();
            }
            if (kind is "all" or "regex")
            {
                Shop.Search.Filter.Matches((int)_regex.Total, "order-17-abc42");
                _regex.Increment();
            }
        }

        public override void Mark()
        {
            _dynamic.Mark();
            _generic.Mark();
            _regex.Mark();
        }

        // What the JIT really compiled stands under "runtime".
        public override JsonObject Truth() => new()
        {
            ["dynamic_methods"] = _dynamic.SinceMark,
            ["instantiations"] = _generic.SinceMark,
            ["regexes"] = _regex.SinceMark,
        };
    }

    sealed class RegexPerRequest : Sickness
    {
        readonly Counter _requests = new();

        public override string Name => "regex";
        public override string About => "a compiled regular expression made anew for every request";
        public override Key[] Keys => [new("rate", "10", "requests a second", 0.1, 1000)];

        public override void Start(Settings settings)
        {
            Worker.Loop("requests", settings.Number("rate"), () =>
            {
                Shop.Search.Filter.Matches((int)_requests.Total, "order-17-abc42");
                _requests.Increment();
            });
            Worker.Until(() => _requests.Total > 0, "the first request");
        }

        public override void Mark() => _requests.Mark();

        public override JsonObject Truth() => new()
        {
            ["regexes"] = _requests.SinceMark,
            ["method"] = "Shop.Search.Filter.Matches",
        };
    }

    sealed class Contexts : Sickness
    {
        readonly Counter _loaded = new(), _workNs = new();
        int _steps;
        ulong _sum;

        public override string Name => "contexts";
        public override string About => "collectible load contexts that are kept, each with its copy of this assembly";
        public override Key[] Keys =>
        [
            new("rate", "5", "contexts a second", 0.1, 100),
            new("max", "1000", "contexts after which it ends, to spare the machine", 1, 10_000),
            new("keep", "1", "0 = unload each again (no leak)", 0, 1),
            new("work", "0", "thousands of steps of work that the code of each does", 0, 1e6),
        ];

        public override void Start(Settings settings)
        {
            byte[] assembly = File.ReadAllBytes(typeof(Contexts).Assembly.Location);
            bool keep = settings.Int("keep") == 1;
            int max = settings.Int("max");
            _steps = 1000 * settings.Int("work");
            Worker.Loop("plugins", settings.Number("rate"), () =>
            {
                if (_loaded.Total >= max)
                    return;
                Work(Shop.Plugins.PluginHost.Load(assembly, (int)_loaded.Total, keep));
                _loaded.Increment();
                if (_steps > 0 && _loaded.Total % 10 == 0)
                    GC.Collect(); // what is unloaded goes with a collection, and its place is used again
            });
            Worker.Until(() => _loaded.Total > 0, "the first context");
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        void Work(object rule)
        {
            if (_steps == 0)
                return;
            Func<int, ulong> price = Shop.Plugins.PluginHost.Prepare(rule);
            long start = Clock.ThreadCpuNs();
            _sum += Shop.Plugins.PluginHost.Price(price, _steps);
            _workNs.Add(Clock.ThreadCpuNs() - start);
        }

        public override void Mark()
        {
            _loaded.Mark();
            _workNs.Mark();
        }

        public override JsonObject Truth() => new()
        {
            ["work"] = "Shop.Plugins.PriceRule.Price",
            ["work_ns"] = _workNs.SinceMark,
            ["loaded"] = _loaded.SinceMark,
            ["loaded_total"] = _loaded.Total,
            ["kept"] = Shop.Plugins.PluginHost.Loaded.Count,
            ["holder"] = "Shop.Plugins.PluginHost.Loaded",
            ["method"] = "Shop.Plugins.PluginHost.Load",
        };
    }
}
