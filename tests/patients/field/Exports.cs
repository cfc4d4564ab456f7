// Exports of a warehouse's stock, MVC: each is written to a MemoryStream of megabytes and copied by ToArray. These large
// objects make the collector collect everything, again and again, and everything is a few hundred thousand items.

using Microsoft.AspNetCore.Mvc;
using Patients;

namespace Warehouse.Exports;

public sealed class Item(int number)
{
    public int Number { get; } = number;
    public string Name { get; } = $"item {number}";
    public Item? Next { get; set; }
}

public sealed class StockList
{
    public readonly Item[] Items = [.. Enumerable.Range(0, 300_000).Select(n => new Item(n))];
}

[ApiController]
[Route("exports")]
public sealed class ExportsController(StockList stock) : ControllerBase
{
    [HttpGet("stock.csv")]
    public IActionResult Stock([FromQuery] int from)
    {
        byte[] file = Build(from);
        Figures.Count("exports");
        return Ok(file.Length);
    }

    byte[] Build(int from)
    {
        var memory = new MemoryStream();
        Span<byte> line = stackalloc byte[64];
        for (int i = 0; i < 60_000; i++)
        {
            line.Fill((byte)stock.Items[(from + i) % stock.Items.Length].Number);
            memory.Write(line);
        }
        return memory.ToArray();
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<StockList>();
        builder.Services.AddControllers().AddApplicationPart(typeof(Startup).Assembly);
        WebApplication app = builder.Build();
        app.MapControllers();
        Visitors.Send(await app.ListenAsync(), 12, 2, n => $"GET /exports/stock.csv?from={n}");
    }
}
