// A newsletter's sign-up, MVC: addresses are checked by a generated regular expression that tries a name in exponentially
// many ways when no @ follows it.

using System.Text.RegularExpressions;
using Microsoft.AspNetCore.Mvc;
using Patients;

namespace Marketing.Newsletter;

[ApiController]
[Route("subscriptions")]
public sealed partial class SubscriptionsController : ControllerBase
{
    [GeneratedRegex(@"^([a-z0-9]+[._-]?)+@([a-z0-9-]+\.)+[a-z]{2,}$", RegexOptions.IgnoreCase)]
    private static partial Regex Address();

    [HttpPost("{list}")]
    public IActionResult Subscribe(string list, [FromQuery] string email)
    {
        Figures.Count("checked");
        return Address().IsMatch(email) ? Accepted() : BadRequest($"not an address on {list}");
    }
}

static class Startup
{
    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddControllers().AddApplicationPart(typeof(Startup).Assembly);
        WebApplication app = builder.Build();
        app.MapControllers();
        string[] emails = ["ann.smith@example.org", "bob@example.com", "carolinejohannaaschnei", "dave@mail.example.net"];
        Visitors.Send(await app.ListenAsync(), 5, 2, n => $"POST /subscriptions/weekly?email={emails[n % 4]}");
    }
}
