// Regular expressions that backtrack: compiled at run time, generated at build time, interpreted.

using System.Text.RegularExpressions;

namespace Store;

static partial class Patterns
{
    public const string Compiled = "^(a+)+$", Generated = "^(b|b?)+$", Interpreted = "^(c+c+)+d$";
    static readonly Regex CompiledRegex = new(Compiled, RegexOptions.Compiled);
    static readonly Regex InterpretedRegex = new(Interpreted);

    [GeneratedRegex(Generated)]
    private static partial Regex GeneratedPattern();

    // Matches again and again until it is told to end. Letters and one that does not fit: each takes as long as the
    // backtracking does, well below a second.
    public static int Match(string kind)
    {
        int matched = 0;
        for (ModernPatient.Started("regex " + kind); !ModernPatient.Released;)
            matched += IsMatch(kind) ? 1 : 0;
        return matched;
    }

    static bool IsMatch(string kind) => kind switch
    {
        "compiled" => CompiledRegex.IsMatch(new string('a', 22) + "!"),
        "generated" => GeneratedPattern().IsMatch(new string('b', 20) + "!"),
        _ => InterpretedRegex.IsMatch(new string('c', 18) + "!"),
    };
}
