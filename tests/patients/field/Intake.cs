// Patients' notes at a hospital's intake: a note is checked by a pattern with a repetition in a repetition. A note that ends in
// what the pattern does not allow is tried in all ways there are.

using System.Text.RegularExpressions;
using Patients;

namespace Hospital.Intake;

public sealed record Note(int Patient, string Text);

public sealed class NoteRules
{
    static readonly Regex Words = new(@"^(\w+\s?)+$");

    public bool Accepts(Note note)
    {
        Figures.Count("checked");
        return Words.IsMatch(note.Text);
    }
}

static class Startup
{
    static readonly string[] Texts = ["no known allergies", "takes aspirin daily", "penicillinallergyx24!", "seen by doctor Meyer"];

    public static async Task RunAsync()
    {
        WebApplicationBuilder builder = Shape.Web();
        builder.Services.AddSingleton<NoteRules>();
        WebApplication app = builder.Build();
        app.MapPost("/patients/{patient:int}/notes", (int patient, string text, NoteRules rules) =>
            rules.Accepts(new Note(patient, text)) ? Results.Created() : Results.BadRequest("note"));
        Visitors.Send(await app.ListenAsync(), 10, 2, n => $"POST /patients/{n}/notes?text={Uri.EscapeDataString(Texts[n % 4])}");
    }
}
