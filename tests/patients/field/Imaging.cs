// Thumbnails of uploaded pages: the bitmap of a page and its thumbnail are both large objects, made one after the other. When
// the first batch is complete its bitmaps go, and the thumbnails stay in between. What comes later is larger than any of the
// gaps: most of the heap of large objects is free and of no use.

using Patients;

namespace Print.Imaging;

public sealed record Thumbnail(int Page, byte[] Pixels);

public sealed class PageStore : BackgroundService
{
    const int Batch = 800;
    readonly List<Thumbnail> _thumbnails = [];
    readonly List<byte[]> _bitmaps = [];

    protected override async Task ExecuteAsync(CancellationToken token)
    {
        for (int page = 0; !token.IsCancellationRequested; page++)
        {
            Upload(page);
            await Task.Delay(page < Batch ? 5 : 100, token);
        }
    }

    void Upload(int page)
    {
        byte[] bitmap = new byte[page < Batch ? 180_000 + page * 100 : 600_000];
        bitmap.AsSpan().Fill((byte)page);
        Figures.Count("pages");
        if (page >= Batch)
        {
            _bitmaps.Clear();
            return;
        }
        _bitmaps.Add(bitmap);
        _thumbnails.Add(new Thumbnail(page, bitmap.AsSpan(0, 90_000).ToArray()));
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        HostApplicationBuilder builder = Shape.Worker();
        builder.Services.AddHostedService<PageStore>();
        await builder.Build().StartAsync();
        Figures.Gauge("loh_size", () => GC.GetGCMemoryInfo().GenerationInfo[3].SizeAfterBytes);
        Figures.Gauge("loh_free", () => GC.GetGCMemoryInfo().GenerationInfo[3].FragmentationAfterBytes);
    }
}
