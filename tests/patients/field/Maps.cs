// Healthy: tiles of maps in a cache that is filled to 4000 in its first seconds and stays so, the oldest leaving; each request
// renders or finds one. What is kept is large and old, and does not grow.

using Patients;

namespace Geo.Maps;

public sealed record TileKey(int Zoom, int X, int Y);
public sealed record Tile(TileKey Key, byte[] Image);

public sealed class TileCache(int capacity)
{
    readonly object _gate = new();
    readonly Dictionary<TileKey, LinkedListNode<Tile>> _tiles = [];
    readonly LinkedList<Tile> _byAge = new();

    public int Count => _tiles.Count;

    public Tile GetOrAdd(TileKey key, Func<TileKey, Tile> render)
    {
        lock (_gate)
        {
            if (_tiles.TryGetValue(key, out LinkedListNode<Tile>? node))
            {
                _byAge.Remove(node);
                _byAge.AddFirst(node);
                return node.Value;
            }
            Tile tile = render(key);
            _tiles[key] = _byAge.AddFirst(tile);
            if (_tiles.Count > capacity)
            {
                _tiles.Remove(_byAge.Last!.Value.Key);
                _byAge.RemoveLast();
            }
            return tile;
        }
    }
}

public sealed class TileRenderer
{
    public Tile Render(TileKey key)
    {
        var image = new byte[20_000];
        Random.Shared.NextBytes(image);
        Figures.Count("rendered");
        return new Tile(key, image);
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        var cache = new TileCache(4000);
        var renderer = new TileRenderer();
        for (int n = 0; n < 4000; n++)
            cache.GetOrAdd(new TileKey(12, n % 100, n / 100), renderer.Render);
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton(cache).AddSingleton(renderer);
        WebApplication app = builder.Build();
        app.MapGet("/tiles/{zoom:int}/{x:int}/{y:int}", (int zoom, int x, int y, TileCache tiles, TileRenderer tileRenderer) =>
            Results.Bytes(tiles.GetOrAdd(new TileKey(zoom, x, y), tileRenderer.Render).Image, "image/png"));
        Visitors.Send(await app.ListenAsync(), 150, 4, _ => $"GET /tiles/12/{Random.Shared.Next(100)}/{Random.Shared.Next(44)}");
        Figures.Gauge("tiles", () => cache.Count);
    }
}
