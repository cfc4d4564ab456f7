import { describe, expect, it } from "vitest";
import * as f from "../src/lib/format";
import { shortName, splitName } from "../src/lib/names";

describe("times near another", () => {
  it("need no date", () => {
    const at = Date.UTC(2026, 10, 15, 3, 12, 9);
    expect(f.timeUtc(at, at + 5 * 3600e3)).toBe("03:12 UTC");
    expect(f.timeUtc(at, at + 50 * 3600e3)).toBe("15 Nov 2026, 03:12:09 UTC");
    expect(f.timeUtc(Number.NaN, at)).toBe("unknown time");
  });
});

// The same cases as test_base.c: the two must never drift apart.
describe("numbers", () => {
  it("reads like the command line", () => {
    expect(f.count(1204311)).toBe("1,204,311");
    expect(f.count(999)).toBe("999");
    expect(f.bytes(812)).toBe("812 bytes");
    expect(f.bytes(1)).toBe("1 byte");
    expect(f.bytes(310 * 2 ** 20)).toBe("310 MB");
    expect(f.bytes(4614000)).toBe("4.4 MB");
    expect(f.durationNs(6200000)).toBe("6.2 ms");
    expect(f.durationNs(12340000000)).toBe("12.3 s");
    expect(f.durationNs(125000000000)).toBe("2 min 5 s");
    expect(f.durationNs(940)).toBe("940 ns");
    expect(f.durationNs(45600)).toBe("45.6 µs");
    expect(f.percent(0.77)).toBe("77 %");
    expect(f.percent(0.0015)).toBe("0.15 %");
    expect(f.percent(0.00001)).toBe("below 0.01 %");
    expect(f.percent(0.9999)).toBe("99.9 %");
    expect(f.percent(1)).toBe("100 %");
    expect(f.percent(0)).toBe("0 %");
    expect(f.rate(412)).toBe("412/s");
    expect(f.rate(0.05)).toBe("3 per min");
    expect(f.plural(1, "pause", "pauses")).toBe("1 pause");
    expect(f.plural(1400, "pause", "pauses")).toBe("1,400 pauses");
    expect(f.number(12.5)).toBe("12.5");
    expect(f.number(NaN)).toBe("unknown");
  });
  it("keeps the sign, but not of nothing", () => {
    expect(f.value("bytes", -1024 * 1024)).toBe("-1 MB");
    expect(f.value("number", -0.000001)).toBe("0");
  });
  it("says the time without its date on the report's own day", () => {
    const at = Date.UTC(2026, 10, 15, 3, 12, 9, 123) * 1e6;
    expect(f.value("time", at, at)).toBe("03:12:09.123Z");
    expect(f.value("time", at, at - 86400e9)).toBe("2026-11-15 03:12:09Z");
    expect(f.dateUtc(at / 1e6)).toBe("15 Nov 2026, 03:12:09 UTC");
  });
  it("splits the unit off", () => {
    expect(f.splitUnit("402 MB")).toEqual(["402", " MB"]);
    expect(f.splitUnit("412/s")).toEqual(["412", "/s"]);
    expect(f.splitUnit("below 0.01 %")).toEqual(["below 0.01 %", ""]);
    expect(f.splitUnit("1,204,311")).toEqual(["1,204,311", ""]);
  });
  it("tells how long ago", () => {
    expect(f.ago(0, 4 * 60e3 + 1)).toBe("4 min ago");
    expect(f.ago(0, 90000e3)).toBe("yesterday");
    expect(f.elapsed(31500)).toBe("0:31");
    expect(f.elapsed(3723000)).toBe("1:02:03");
  });
});

describe("hostile text", () => {
  it("is made visible", () => {
    expect(f.visible("a\u0000b\u202ec\nd")).toBe("a\\u{0}b\\u{202e}c\\u{a}d");
    expect(f.visible("Grüße 你好")).toBe("Grüße 你好");
  });
});

describe("names", () => {
  it("are split as in the report", () => {
    expect(splitName("Shop.Cache._orders : Dictionary<int, Order>")).toEqual({
      space: "Shop.Cache.",
      member: "_orders",
      rest: " : Dictionary<int, Order>",
    });
    expect(splitName("Shop.Order..ctor(int)")).toEqual({ space: "Shop.Order.", member: ".ctor", rest: "(int)" });
    expect(splitName("Main")).toEqual({ space: "", member: "Main", rest: "" });
    expect(splitName("A.B<C.D>.<Run>b__0(X.Y)")).toEqual({ space: "A.B<C.D>.", member: "<Run>b__0", rest: "(X.Y)" });
    expect(shortName("System.Text.Regex.Match(String)")).toBe("Regex.Match");
    for (const whole of ["finish_task_switch.isra.0", "Cpu.cs:25", "memcpy"])
      expect(splitName(whole)).toEqual({ space: "", member: whole, rest: "" });
    expect(splitName("ns::f.Method2")).toEqual({ space: "ns::f.", member: "Method2", rest: "" });
  });
});
