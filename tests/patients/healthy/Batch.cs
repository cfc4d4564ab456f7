// A batch job: reads bookings, groups them, writes a summary, and begins with the next day. Between days it rests.

using System.Globalization;

namespace Shop.Healthy;

readonly record struct Booking(int Account, DateOnly Day, decimal Amount);

sealed class Settlement(ILogger<Settlement> log) : BackgroundService
{
    const int Bookings = 20_000;

    protected override async Task ExecuteAsync(CancellationToken token)
    {
        DateOnly day = new(2026, 1, 1);
        while (!token.IsCancellationRequested)
        {
            if (!HealthyPatient.Working)
            {
                await Task.Delay(100, token);
                continue;
            }
            await SettleAsync(day, token);
            HealthyPatient.Done.Increment();
            day = day.AddDays(1);
        }
    }

    async Task SettleAsync(DateOnly day, CancellationToken token)
    {
        var sums = new Dictionary<int, decimal>();
        await foreach (string line in ReadAsync(day).WithCancellation(token))
        {
            Booking booking = Parse(line);
            sums[booking.Account] = sums.GetValueOrDefault(booking.Account) + booking.Amount;
        }
        log.LogInformation("{Day}: {Accounts} accounts, {Sum} in all", day, sums.Count, sums.Values.Sum());
        await Task.Delay(50, token); // the summary is stored
    }

    static async IAsyncEnumerable<string> ReadAsync(DateOnly day)
    {
        for (int n = 0; n < Bookings; n++)
        {
            if (n % 1000 == 0)
                await Task.Delay(5); // the next page of the file
            yield return string.Create(CultureInfo.InvariantCulture, $"{n * 7 % 1000};{day:yyyy-MM-dd};{n % 900}.{n % 100:00}");
        }
    }

    static Booking Parse(string line)
    {
        string[] parts = line.Split(';');
        return new Booking(int.Parse(parts[0], CultureInfo.InvariantCulture), DateOnly.Parse(parts[1], CultureInfo.InvariantCulture),
            decimal.Parse(parts[2], CultureInfo.InvariantCulture));
    }
}

static class Batch
{
    public static IHost Build()
    {
        HostApplicationBuilder builder = Host.CreateApplicationBuilder();
        HealthyPatient.Logging(builder.Logging);
        builder.Services.AddHostedService<Settlement>();
        return builder.Build();
    }
}
