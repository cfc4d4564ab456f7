// A scanner's driver: each page gets a buffer from Marshal.AllocHGlobal, and only those of pages that are blank are freed.

using System.Runtime.InteropServices;
using Patients;

namespace Office.Scanner;

public readonly record struct RawPage(nint Pixels, int Length);

public sealed class ScanDriver
{
    const int PageBytes = 40_000;

    public unsafe RawPage Acquire(int page)
    {
        nint pixels = Marshal.AllocHGlobal(PageBytes);
        new Span<byte>((void*)pixels, PageBytes).Fill((byte)page);
        Figures.Count("native_bytes", PageBytes);
        return new RawPage(pixels, PageBytes);
    }

    public static void Discard(RawPage page)
    {
        Marshal.FreeHGlobal(page.Pixels);
        Figures.Count("native_bytes", -page.Length);
    }
}

public sealed class ScanQueue(ScanDriver driver) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken token)
    {
        for (int page = 0; !token.IsCancellationRequested; page++)
        {
            RawPage raw = driver.Acquire(page);
            if (page % 10 == 0)
                ScanDriver.Discard(raw);
            await Task.Delay(TimeSpan.FromMilliseconds(page < 6000 ? 1000 / Load.Rate(60) : 500), token);
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddSingleton<ScanDriver>().AddHostedService<ScanQueue>();
        await builder.Build().StartAsync();
    }
}
