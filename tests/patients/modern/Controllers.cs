// MVC: actions that return a value, a task and a result. The framework calls each through a method that it compiles
// from an expression.

using Microsoft.AspNetCore.Mvc;

namespace Store;

public sealed class Prices
{
    public readonly TaskCompletionSource Never = new();
}

[ApiController]
[Route("prices")]
public sealed class PricesController(Prices prices) : ControllerBase
{
    [HttpGet("{id:int}")]
    public ulong Get(int id)
    {
        ulong sum = 1;
        for (long end = Environment.TickCount64 + 100; Environment.TickCount64 < end;)
            for (int i = 0; i < 100_000; i++)
                sum = (sum ^ (ulong)(i + id)) * 6364136223846793005 + 1;
        return sum;
    }

    [HttpPut("{id:int}")]
    public async Task<IActionResult> Change(int id)
    {
        ModernPatient.Started("PUT prices/{id:int}");
        await prices.Never.Task;
        return Ok(id);
    }

    [HttpDelete("{id:int}")]
    public IActionResult Remove(int id)
    {
        ModernPatient.Started("DELETE prices/{id:int}");
        prices.Never.Task.Wait();
        return Ok(id);
    }
}
