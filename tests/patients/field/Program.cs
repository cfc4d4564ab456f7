// field: services as they are met in the field, each with one sickness of its own or none, each under a load it makes itself.
// What is wrong with which stands in truths.json. Speaks the protocol of the patients.
//
//   field NAME [--load PERCENT] [--max-seconds N]      field list

using System.Text.Json.Nodes;
using Patients;

var apps = new SortedDictionary<string, Func<Task>>(StringComparer.Ordinal)
{
    ["accounts"] = Bank.Accounts.Startup.RunAsync,
    ["alarms"] = Building.Alarms.Startup.RunAsync,
    ["archive"] = Archive.Tapes.Startup.RunAsync,
    ["audit-log"] = Compliance.Audit.Startup.RunAsync,
    ["availability"] = Retail.Availability.Startup.RunAsync,
    ["booking"] = Cinema.Booking.Startup.RunAsync,
    ["capture"] = Market.Capture.Startup.RunAsync,
    ["catalog"] = Shop.Catalog.Startup.RunAsync,
    ["checkout"] = Shop.Checkout.Startup.RunAsync,
    ["courier"] = Courier.Desk.Startup.RunAsync,
    ["dispatch"] = Parcels.Dispatch.Startup.RunAsync,
    ["exports"] = Warehouse.Exports.Startup.RunAsync,
    ["filters"] = Estate.Filters.Startup.RunAsync,
    ["forecast"] = Farm.Forecast.Startup.RunAsync,
    ["freight"] = Freight.Customs.Startup.RunAsync,
    ["imaging"] = Print.Imaging.Startup.RunAsync,
    ["ingest"] = Iot.Ingest.Startup.RunAsync,
    ["intake"] = Hospital.Intake.Startup.RunAsync,
    ["inventory"] = Warehouse.Inventory.Startup.RunAsync,
    ["invoices"] = Billing.Invoices.Startup.RunAsync,
    ["kitchen"] = Restaurant.Kitchen.Startup.RunAsync,
    ["labels"] = Post.Labels.Startup.RunAsync,
    ["ledger"] = Accounting.Ledger.Startup.RunAsync,
    ["maps"] = Geo.Maps.Startup.RunAsync,
    ["metering"] = Water.Metering.Startup.RunAsync,
    ["newsfeed"] = News.Feed.Startup.RunAsync,
    ["newsletter"] = Marketing.Newsletter.Startup.RunAsync,
    ["notify"] = Mobile.Notify.Startup.RunAsync,
    ["packing"] = Logistics.Packing.Startup.RunAsync,
    ["poller"] = Heating.Control.Startup.RunAsync,
    ["presence"] = Chat.Presence.Startup.RunAsync,
    ["pricing"] = Shop.Pricing.Startup.RunAsync,
    ["quotes"] = Trading.Quotes.Startup.RunAsync,
    ["readings"] = Energy.Readings.Startup.RunAsync,
    ["rides"] = Taxi.Rides.Startup.RunAsync,
    ["scanner"] = Office.Scanner.Startup.RunAsync,
    ["search"] = Library.Search.Startup.RunAsync,
    ["simulation"] = Risk.Simulation.Startup.RunAsync,
    ["statements"] = Bank.Statements.Startup.RunAsync,
    ["storefront"] = Shop.Storefront.Startup.RunAsync,
    ["tariffs"] = Insurance.Tariffs.Startup.RunAsync,
    ["tenants"] = Saas.Tenants.Startup.RunAsync,
    ["ticker"] = Stocks.Ticker.Startup.RunAsync,
    ["tickets"] = Support.Tickets.Startup.RunAsync,
    ["tracking"] = Fleet.Tracking.Startup.RunAsync,
    ["transfers"] = Payments.Transfers.Startup.RunAsync,
    ["workshop"] = Garage.Workshop.Startup.RunAsync,
};

if (args is ["list"])
{
    Console.WriteLine(string.Join('\n', apps.Keys));
    return 0;
}
if (args.Length % 2 == 0 || !apps.TryGetValue(args[0], out Func<Task>? run))
{
    Console.Error.WriteLine("usage: field NAME [--load PERCENT] [--max-seconds N], or: field list");
    return 2;
}
int maxSeconds = 600;
for (int i = 1; i < args.Length; i += 2)
{
    bool isNumber = int.TryParse(args[i + 1], out int value) && value is >= 1 and <= 86400;
    switch (args[i])
    {
        case "--load" when isNumber && value <= 1000:
            Load.Percent = value;
            break;
        case "--max-seconds" when isNumber:
            maxSeconds = value;
            break;
        default:
            Console.Error.WriteLine($"field: {args[i]} {args[i + 1]} is not understood");
            return 2;
    }
}
Clock.EndProcessAfter(maxSeconds);
// Settings come from nowhere, so nothing watches the folder that the app was started in.
Environment.SetEnvironmentVariable("DOTNET_hostBuilder__reloadConfigOnChange", "false");
await run();
new Commander(new FieldPatient(args[0])).Start(new JsonObject());
await Task.Delay(Timeout.Infinite);
return 0;
