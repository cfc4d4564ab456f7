// Settings of tenants: each request builds a configuration with reloadOnChange from the tenant's file and forgets it. Each has
// a watcher of its own, an inotify instance that stays. It ends at 70, below what one user may have (128).

using Patients;

namespace Saas.Tenants;

public sealed class TenantSettings(string folder)
{
    const int Limit = 70;
    readonly List<IConfigurationRoot> _built = [];

    public string Theme(string tenant)
    {
        lock (_built)
        {
            if (_built.Count >= Limit)
                return _built[0]["theme"]!;
            IConfigurationRoot settings = new ConfigurationBuilder().SetBasePath(folder)
                .AddJsonFile($"{tenant}.json", optional: true, reloadOnChange: true).Build();
            _built.Add(settings);
            Figures.Count("configurations");
            return settings["theme"] ?? "plain";
        }
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        string folder = Directory.CreateTempSubdirectory("tenants").FullName;
        AppDomain.CurrentDomain.ProcessExit += (_, _) => Directory.Delete(folder, recursive: true);
        for (int n = 0; n < 5; n++)
            File.WriteAllText(Path.Combine(folder, $"tenant{n}.json"), """{"theme":"dark"}""");
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton(new TenantSettings(folder));
        WebApplication app = builder.Build();
        app.MapGet("/tenants/{tenant}/theme", (string tenant, TenantSettings settings) => settings.Theme(tenant));
        Visitors.Send(await app.ListenAsync(), 4, 2, n => $"GET /tenants/tenant{n % 5}/theme");
    }
}
