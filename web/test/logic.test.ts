import { describe, expect, it } from "vitest";
import type { Process, Profiler, ProfilerParameter, Session } from "../src/lib/api";
import { addUp, curated, keyOf, single, type CounterSeries } from "../src/lib/counters";
import type { Block, FlameBlock, ReportDocument } from "../src/lib/document";
import { flameTree } from "../src/lib/flame";
import { withProgress } from "../src/lib/sessions";
import { canBeExamined, closedBecause, conditionOf, findingOf, newVital, profilerFor, push } from "../src/lib/history";
import { chapters, check, clean, effect, hint, pauseWords, stops, takes, varied, wayFor } from "../src/lib/registry";
import { treeEnds } from "../src/lib/rows";

// What `drdotnet PROFILER TARGET --json` wrote about real processes.
const reports = Object.values(
  import.meta.glob<ReportDocument>("./fixtures/*.json", { eager: true, import: "default" }),
);
const report = (id: string) => reports.find((r) => r.facts.profiler === id)!;

describe("real reports", () => {
  it("are of kinds that are known", () => {
    expect(reports.length).toBeGreaterThanOrEqual(5);
    const known = new Set<Block["block"]>(["table", "tree", "chart", "histogram", "flame", "note"]);
    for (const r of reports) {
      expect(r.format).toBe("drdotnet-report");
      for (const b of r.blocks) expect(known).toContain(b.block);
    }
  });
  it("have cells for their columns and trees that hang together", () => {
    for (const b of reports.flatMap((r) => r.blocks)) {
      if (b.block !== "table" && b.block !== "tree") continue;
      for (const row of b.rows) expect(row.cells.length).toBe(b.columns.length);
      if (b.block === "tree") expect(Math.max(...treeEnds(b.rows))).toBe(b.rows.length);
    }
  });
  it("have flame graphs whose weights add up", () => {
    const flame = report("cpu-hotpaths").blocks.find((b) => b.block === "flame") as FlameBlock;
    const tree = flameTree(flame);
    expect(tree.total[0]).toBe(flame.nodes.reduce((sum, n) => sum + n[2], 0));
    expect(tree.total[0]).toBeGreaterThan(0);
  });
});

const parameter = (p: Partial<ProfilerParameter>): ProfilerParameter => ({
  key: "duration",
  name: "Duration",
  description: "",
  type: 2,
  value: "10",
  valueInt32: 10,
  valueFloat32: 10,
  valueBoolean: false,
  defaultValue: "10",
  unit: "s",
  min: 1,
  max: 600,
  maxBytes: null,
  choices: [],
  ...p,
});
const profiler = (p: Partial<Profiler>): Profiler => ({
  guid: "g",
  uuid: "G",
  id: "x",
  name: "X",
  label: "",
  symptom: "",
  description: "",
  summary: "",
  cost: "no stop; well under 1 % of its CPU",
  effect: "no stop",
  durationKey: "duration",
  chapter: "Runtime",
  experimental: false,
  forCore: false,
  ways: ["events"],
  parameters: [parameter({})],
  ...p,
});
const way = (name: string, open: boolean, pauseMs: number | null = null) => ({
  way: name,
  open,
  how: null,
  pauseMs,
  why: open ? null : `${name} is closed`,
  fix: open ? null : "be root",
});
const process = (p: Partial<Process>): Process =>
  ({
    id: 1,
    managedAssemblyName: "Shop",
    version: "10.0.1",
    pid: 1,
    name: "Shop",
    architecture: null,
    os: null,
    user: null,
    container: null,
    uptimeSeconds: 1,
    cpuPercent: 1,
    cpuWindowMs: 1,
    cpuSeconds: 1,
    rssBytes: 1,
    commandLine: null,
    answered: true,
    remark: null,
    ...p,
  }) as Process;

describe("the registry for people", () => {
  it("shows something of every chapter first", () => {
    const all = ["cpu:a", "cpu:b", "cpu:c", "memory:d", "memory:e", "threads:f"].map((x) =>
      profiler({ id: x.split(":")[1]!, chapter: x.split(":")[0]! }),
    );
    expect(chapters(all).map(([name, list]) => `${name} ${list.map((p) => p.id).join("")}`)).toEqual([
      "cpu abc",
      "memory de",
      "threads f",
    ]);
    expect(
      varied(all)
        .map((p) => p.id)
        .join(""),
    ).toBe("adfbec");
    expect(varied([])).toEqual([]);
  });
  it("checks values in place and says what would be right", () => {
    const p = parameter({});
    expect(check(p, "10")).toBeNull();
    expect(check(p, "10 s")).toBeNull();
    expect(clean(p, "10 s")).toBe("10");
    expect(check(p, "900")).toBe("At most 600 s. Use 1 s to 600 s.");
    expect(check(p, "0")).toBe("At least 1 s. Use 1 s to 600 s.");
    expect(check(p, "1.5")).toBe("Whole numbers only. Use 1 s to 600 s.");
    for (const bad of ["", "abc", "1e", "0x10", "1,5"]) expect(check(p, bad), bad).toMatch(/^Not a number/);
    expect(check(parameter({ type: 3 }), "1.5")).toBeNull();
    expect(check(parameter({ type: 1, choices: ["a", "b"] }), "c")).toBe("One of a, b.");
    expect(check(parameter({ type: 1, maxBytes: 256 }), "anything")).toBeNull();
    expect(check(parameter({ type: 1, maxBytes: 256 }), "ä".repeat(129))).toBe("At most 256 bytes.");
    expect(hint(p)).toBe("1 s to 600 s, default 10 s.");
    const words = (value: string) =>
      hint(parameter({ type: 1, min: null, max: null, unit: null, value, defaultValue: value }));
    expect(words("all")).toBe("Default all.");
    expect(words("")).toBe("");
  });
  it("says the effect before it runs", () => {
    const p = process({
      ways: [way("events", true), way("image", true, 2.4)],
    });
    expect(effect(profiler({}), p)).toBe("no stop");
    expect(effect(profiler({ ways: ["image"] }), p)).toBe("pauses ~2.4 ms");
    expect(pauseWords(p)).toBe("about 2.4 ms");
    expect(stops(profiler({ ways: ["events"] }))).toBe(false);
    expect(pauseWords(process({ ways: [way("image", true)] }))).toBeNull();
    expect(takes(profiler({}), { duration: "5" })).toBe("5 s");
    expect(takes(profiler({ durationKey: null }))).toBe("seconds");
  });
  it("takes the first way that is open", () => {
    const p = process({ ways: [way("samples", false), way("events", true)] });
    expect(wayFor(profiler({ ways: ["samples", "events"] }), p)).toBe("events");
    expect(wayFor(profiler({ ways: ["samples"] }), p)).toBeNull();
  });
});

describe("progress", () => {
  it("moves what runs and leaves alone what has ended", () => {
    const list = [
      { guid: "a", state: "running", progress: 0.1 },
      { guid: "b", state: "done", progress: 1 },
      { guid: "c", state: "queued", progress: 0 },
    ] as Session[];
    const heard = new Map(["a", "b"].map((guid) => [guid, { guid, progress: 0.5, progressText: "listening" }]));
    expect(withProgress(list, heard).map((s) => s.progress)).toEqual([0.5, 1, 0]);
    expect(withProgress(list, new Map())).toBe(list);
  });
});

describe("conditions", () => {
  const vital = newVital();
  for (let t = 0; t <= 20000; t += 2000) push(vital.exceptions, t, t < 6000 ? 0 : 400);
  it("are told as facts once they last", () => {
    const none = { severity: 0, finding: null, text: null, profiler: null };
    const thrown = { severity: 80, finding: "exceptions-many", text: "400 exceptions/s", profiler: "exceptions" };
    expect(conditionOf(process({}), thrown)).toEqual({
      is: "bad",
      why: "400 exceptions/s",
      where: "exceptions",
      profiler: "exceptions",
    });
    expect(conditionOf(process({}), { ...thrown, severity: 60 }).is).toBe("warn");
    expect(conditionOf(process({}), none)).toEqual({ is: "ok", why: "Nothing unusual" });
    expect(conditionOf(process({}), null).is).toBe("off");
    expect(profilerFor(conditionOf(process({}), { ...thrown, profiler: null }))).toBe("diagnose");
    expect(profilerFor(conditionOf(process({}), none))).toBe("");
  });
  it("stay until a newer look of the same kind, or a diagnosis, clears them", () => {
    const session = (id: string, health: string, minute: number) =>
      ({
        guid: `${id}-${minute}`,
        processId: 7,
        state: "done",
        health,
        verdict: "Two threads wait for each other. More.",
        profiler: { id },
        createdMs: minute * 60000,
        finishedMs: minute * 60000 + 1,
      }) as Session;
    const p = process({ id: 7, uptimeSeconds: 600 }),
      now = 20 * 60000,
      found = (...list: Session[]) => findingOf(p, list, now)?.guid;
    expect(found(session("deadlocks", "bad", 12), session("cpu-hotpaths", "ok", 13))).toBe("deadlocks-12");
    expect(found(session("deadlocks", "bad", 12), session("deadlocks", "ok", 13))).toBeUndefined();
    expect(found(session("deadlocks", "bad", 12), session("diagnose", "ok", 13))).toBe("diagnose-13");
    expect(found(session("diagnose", "ok", 12), session("heap-stats", "warn", 13))).toBe("heap-stats-13");
    expect(found(session("deadlocks", "bad", 9))).toBeUndefined();
    expect(conditionOf(p, null, session("deadlocks", "bad", 12))).toEqual({
      is: "bad",
      why: "Two threads wait for each other.",
      profiler: "deadlocks",
      session: "deadlocks-12",
      seenMs: 12 * 60000 + 1,
    });
  });
  it("are healthy only where a diagnosis said so, and no rule says otherwise since", () => {
    const healthy = { guid: "h", health: "ok", finishedMs: 5, profiler: { id: "diagnose" } } as Session,
      none = { severity: 0, finding: null, text: null, profiler: null },
      slow = { severity: 60, finding: "requests-slow", text: "one takes 3 s", profiler: "stuck-tasks" };
    expect(conditionOf(process({}), none, healthy)).toEqual({ is: "ok", why: "Healthy", session: "h", seenMs: 5 });
    expect(conditionOf(process({}), slow, healthy).why).toBe("one takes 3 s");
    expect(conditionOf(process({}), null, healthy).why).toBe("Being looked at");
  });
  it("say why one cannot be examined", () => {
    const closed = process({ answered: false, remark: "it belongs to another user" });
    expect(canBeExamined(closed)).toBe(false);
    expect(closedBecause(closed)).toEqual({ why: "it belongs to another user", fix: null });
    expect(conditionOf(closed, null).is).toBe("off");
    expect(closedBecause(process({ ways: [way("events", false)] }))).toEqual({
      why: "events is closed",
      fix: "be root",
    });
  });
  it("never go back in time, nor keep more than an hour", () => {
    const v = newVital();
    push(v.cpu, 1000, 1);
    push(v.cpu, 1000, 2);
    push(v.cpu, 3600e3 + 2000, 3);
    expect(v.cpu).toEqual({ t: [3600e3 + 2000], v: [3] });
  });
});

describe("counters", () => {
  const series = (name: string, points: [number, number | null][], tags: string | null = null): CounterSeries => ({
    provider: "System.Runtime",
    name,
    tags,
    displayName: null,
    unit: "By",
    kind: "gauge",
    points,
  });
  it("add up by tags", () => {
    const sum = addUp([
      series(
        "a",
        [
          [1, 1],
          [2, null],
        ],
        "gen=0",
      ),
      series(
        "a",
        [
          [1, 10],
          [2, 5],
        ],
        "gen=1",
      ),
    ]);
    expect(sum).toEqual({ t: [1, 2], v: [11, 5] });
  });
  it("speak both dialects", () => {
    expect(curated([series("gc-heap-size", [[1, 4]])])[0]).toMatchObject({ id: "heap", v: [4e6] });
    expect(
      curated([
        series("dotnet.gc.last_collection.heap.size", [[1, 4]], "x"),
        series("dotnet.gc.last_collection.heap.size", [[1, 4]], "y"),
      ])[0],
    ).toMatchObject({ id: "heap", v: [8] });
  });
  it("have names of their own", () => {
    expect(single(series("a", [], "x=1")).title).toBe("a (x=1)");
    expect(keyOf(series("a", [], "x=1"))).toBe("System.Runtime/a[x=1]");
  });
});
