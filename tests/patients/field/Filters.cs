// Filters of a property portal: each search builds an expression tree and compiles it, so each search costs a new method.

using System.Linq.Expressions;
using Patients;

namespace Estate.Filters;

public sealed record Flat(int Id, int Rooms, decimal Rent, string City);

public sealed class FlatFinder
{
    readonly Flat[] _flats = [.. Enumerable.Range(0, 300).Select(n => new Flat(n, 1 + n % 5, 500 + n, n % 2 == 0 ? "Bern" : "Graz"))];

    public int Count(int rooms, decimal rent, string city)
    {
        Func<Flat, bool> matches = BuildFilter(rooms, rent, city);
        Figures.Count("searches");
        return _flats.Count(matches);
    }

    static Func<Flat, bool> BuildFilter(int rooms, decimal rent, string city)
    {
        ParameterExpression flat = Expression.Parameter(typeof(Flat), "flat");
        Expression enough = Expression.GreaterThanOrEqual(Expression.Property(flat, nameof(Flat.Rooms)), Expression.Constant(rooms));
        Expression cheap = Expression.LessThanOrEqual(Expression.Property(flat, nameof(Flat.Rent)), Expression.Constant(rent));
        Expression there = Expression.Equal(Expression.Property(flat, nameof(Flat.City)), Expression.Constant(city));
        return Expression.Lambda<Func<Flat, bool>>(Expression.AndAlso(enough, Expression.AndAlso(cheap, there)), flat).Compile();
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<FlatFinder>();
        WebApplication app = builder.Build();
        app.MapGet("/flats", (int rooms, decimal rent, string city, FlatFinder finder) => finder.Count(rooms, rent, city));
        Visitors.Send(await app.ListenAsync(), 250, 2, n => $"GET /flats?rooms={1 + n % 4}&rent={600 + n % 100}&city=Bern");
    }
}
