// A courier's order desk that logs each step to the console. The console is a pipe, and what reads it takes 40 KB/s: when the
// logger's queue is full, whoever logs waits for the pipe.

using System.Diagnostics;
using System.Runtime.InteropServices;
using Microsoft.Extensions.Logging.Console;
using Patients;

namespace Courier.Desk;

public sealed partial class Orders(ILogger<Orders> log)
{
    static readonly string Address = string.Join(", ", Enumerable.Repeat("Long Street 17", 12));

    [LoggerMessage(Level = LogLevel.Information, Message = "order {Order}, step {Step}: from {From}")]
    static partial void Step(ILogger log, int order, int step, string from);

    public async Task<int> AcceptAsync(int order)
    {
        for (int step = 0; step < 25; step++)
            Step(log, order, step, Address);
        await Task.Yield();
        Figures.Count("accepted");
        return order;
    }
}

static class Startup
{
    const int CloseOnExec = 0x80000; // O_CLOEXEC

    [DllImport("libc")]
    static extern int pipe2(int[] ends, int flags);

    [DllImport("libc")]
    static extern int dup2(int from, int to);

    public static async Task RunAsync()
    {
        Ship();
        WebApplicationBuilder builder = Shape.Web();
        builder.Logging.AddConsole().AddFilter("Microsoft", LogLevel.Warning);
        builder.Services.Configure<ConsoleLoggerOptions>(options => options.LogToStandardErrorThreshold = LogLevel.Trace);
        builder.Services.AddSingleton<Orders>();
        WebApplication app = builder.Build();
        app.MapPost("/orders/{order:int}", (int order, Orders orders) => orders.AcceptAsync(order));
        Visitors.Send(await app.ListenAsync(), 50, 12, n => $"POST /orders/{n}");
    }

    // What collects the log: a process of its own, that ends with this one.
    static void Ship()
    {
        var ends = new int[2];
        if (pipe2(ends, CloseOnExec) != 0)
            throw new IOException("no pipe");
        int pid = Environment.ProcessId;
        string script = $"exec </proc/{pid}/fd/{ends[0]}; while head -c 4096 >/dev/null && kill -0 {pid}; do sleep 0.1; done 2>/dev/null";
        Process shipper = Process.Start(new ProcessStartInfo("/bin/sh") { ArgumentList = { "-c", script } })!;
        AppDomain.CurrentDomain.ProcessExit += (_, _) => shipper.Kill();
        dup2(ends[1], 2);
    }
}
