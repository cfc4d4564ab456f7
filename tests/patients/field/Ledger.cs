// A general ledger: sixteen threads post entries, each under one lock, and inside it all balances are added up and the entry
// is written to the journal on a slow disk.

using System.Security.Cryptography;
using Patients;

namespace Accounting.Ledger;

public sealed record Entry(int From, int To, decimal Amount);

public sealed class GeneralLedger : IDisposable
{
    readonly object _gate = new();
    readonly decimal[] _balances = new decimal[20_000];
    readonly FileStream _journal = new(Path.GetTempFileName(), FileMode.Create, FileAccess.Write, FileShare.Read, 1, FileOptions.DeleteOnClose);

    public void Post(Entry entry)
    {
        Thread.Sleep(1); // the other bank's confirmation
        lock (_gate)
        {
            _balances[entry.From] -= entry.Amount;
            _balances[entry.To] += entry.Amount;
            Append(entry);
        }
        Figures.Count("posted");
    }

    void Append(Entry entry)
    {
        decimal sum = 0;
        foreach (decimal balance in _balances)
            sum += balance;
        _journal.SetLength(0);
        _journal.Write(SHA256.HashData(BitConverter.GetBytes((double)(sum + entry.Amount))));
        Thread.Sleep(3); // the disk
    }

    public void Dispose() => _journal.Dispose();
}

static class Startup
{
    public static Task RunAsync()
    {
        var ledger = new GeneralLedger();
        AppDomain.CurrentDomain.ProcessExit += (_, _) => ledger.Dispose();
        for (int i = 0; i < 16; i++)
        {
            int account = i * 1000;
            Worker.Loop($"posting {i}", Load.Rate(60), () => ledger.Post(new Entry(account, account + 1, 10)));
        }
        return Task.CompletedTask;
    }
}
