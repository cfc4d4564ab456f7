// The REST API as this program uses it. Paths and shapes come from the OpenAPI document (rest.d.ts, made by
// openapi-typescript), so that a route that changes stops this from compiling. What a target said stays text until it is
// drawn as text.
import type { ReportDocument } from "./document";
import type { CounterSeries } from "./counters";
import type { components, paths } from "./rest";

type Schemas = components["schemas"];
export type Way = Schemas["Way"];
/** ways: only of one process alone. */
export type Process = Schemas["ProcessInfo"] & { ways?: Way[] };
export type ProfilerParameter = Schemas["ProfilerParameter"];
export type Profiler = Schemas["ProfilerInfo"];
export type SessionFile = Schemas["FileInfo"];
export type ServerInfo = Schemas["ServerInfo"];
export type LogLine = Schemas["LogLine"];
export type Core = Schemas["CoreInfo"];
/** What the rules say of a process that was not examined. */
export type Judged = Schemas["Condition"];
type SessionInfo = Schemas["SessionInfo"];

export type State = "queued" | "running" | "analysing" | "done" | "failed" | "cancelled";

export type Session = Omit<SessionInfo, "state" | "health" | "processName" | "parameters"> & {
  state: State;
  health: "ok" | "info" | "warn" | "bad" | null;
  processName: string;
  parameters: Record<string, string>;
  createdMs: number;
  startedMs: number;
  finishedMs: number;
};

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly parameter: string | null = null,
  ) {
    super(message);
  }
}

/** Told when the server wants a token. */
export const TOKEN_WANTED = "drdotnet:token";

async function problem(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => "");
  let words = text,
    parameter: string | null = null;
  try {
    const body = JSON.parse(text) as unknown;
    if (typeof body === "string") words = body;
    else if (body && typeof body === "object") {
      const p = body as { detail?: string; title?: string; parameter?: string };
      words = p.detail || p.title || text;
      parameter = p.parameter ?? null;
    }
  } catch {
    // One plain sentence, as the contract has it.
  }
  if (answer.status === 401) dispatchEvent(new Event(TOKEN_WANTED));
  words = words.trim() || `the server answered ${answer.status}`;
  return new ApiError(answer.status, /[.!?]$/.test(words) ? words : `${words}.`, parameter);
}

let lastContact = Date.now();
export function lastHeard(): number {
  return lastContact;
}

/** Where this program finds a route: also when the server offers its REST API to nobody else. */
export function route(path: string): string {
  return `/ui${path}`;
}

/** A server that was started anew does not know this page any more, and answers with a page: load it again, once. */
function isForgotten(answer: Response): boolean {
  if (!answer.headers.get("Content-Type")?.startsWith("text/html")) return false;
  const last = Number(sessionStorage.getItem("reloaded") ?? 0);
  if (Date.now() - last > 10_000) {
    sessionStorage.setItem("reloaded", String(Date.now()));
    location.reload();
  }
  return true;
}

async function call(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(route(path), { credentials: "same-origin", ...init });
  } catch {
    throw new ApiError(0, "The server cannot be reached.");
  }
  lastContact = Date.now();
  if (isForgotten(answer)) throw new ApiError(0, "The server was started anew: load this page again.");
  if (!answer.ok) throw await problem(answer);
  return answer;
}

type Json<T> = T extends { responses: { 200: { content: { "application/json": infer A } } } }
  ? A
  : T extends { responses: { 202: { content: { "application/json": infer A } } } }
    ? A
    : unknown;
type Verb = "get" | "post" | "delete";
type With<V extends Verb> = { [P in keyof paths]: paths[P] extends Record<V, object> ? P : never }[keyof paths];
interface Options {
  path?: Record<string, string | number>;
  query?: Record<string, string | number>;
  body?: unknown;
}

function address(pattern: string, { path = {}, query }: Options): string {
  const filled = pattern.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(path[name] ?? "")));
  return query ? `${filled}?${new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)]))}` : filled;
}

function init(method: string, { body }: Options): RequestInit {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
}

async function get<P extends With<"get">>(pattern: P, options: Options = {}): Promise<Json<paths[P]["get"]>> {
  return (await (await call(address(pattern, options), init("GET", options))).json()) as Json<paths[P]["get"]>;
}

async function post<P extends With<"post">>(pattern: P, options: Options = {}): Promise<Json<paths[P]["post"]>> {
  const text = await (await call(address(pattern, options), init("POST", options))).text();
  return (text ? JSON.parse(text) : null) as Json<paths[P]["post"]>;
}

async function remove<P extends With<"delete">>(pattern: P, options: Options = {}): Promise<void> {
  await call(address(pattern, options), init("DELETE", options));
}

export interface Vitals {
  now: number;
  columns: string[];
  processes: { id: number; points: (number | null)[][]; condition: Judged | null }[];
}

export const api = {
  server: (): Promise<ServerInfo> => get("/api/server"),
  logs: () => get("/api/server/logs"),
  processes: (): Promise<Process[]> => get("/api/processes"),
  process: (id: number): Promise<Process> => get("/api/processes/{id}", { path: { id } }),
  vitals: async (since: number) => (await get("/api/processes/vitals", { query: { since } })) as Vitals,
  counters: async (id: number, since: number) =>
    (await get("/api/processes/{id}/counters", { path: { id }, query: { since } })) as {
      now: number;
      series: CounterSeries[];
    },
  meters: async (id: number, since: number) => {
    const answer = (await get("/api/processes/{id}/meters", { path: { id }, query: { since } })) as {
      now: number;
      series: CounterSeries[];
    };
    return { ...answer, series: answer.series.map((s) => ({ ...s, meter: true })) };
  },
  stacks: async (id: number) =>
    (
      await call(address("/api/processes/{id}/stacks" satisfies With<"get">, { path: { id } }), {
        headers: { Accept: "text/plain" },
      })
    ).text(),
  profilers: () => get("/api/profilers"),
  sessions: async () => (await get("/api/sessions")).map(session),
  session: async (guid: string) => session(await get("/api/sessions/{guid}", { path: { guid } })),
  report: async (guid: string) =>
    (await get("/api/sessions/{guid}/report.json", { path: { guid } })) as unknown as ReportDocument,
  compare: async (before: string, after: string) => {
    const answer = await get("/api/sessions/{guid}/compare/{other}", { path: { guid: before, other: after } });
    return answer.report as unknown as ReportDocument;
  },
  files: (guid: string) => get("/api/sessions/{guid}/files", { path: { guid } }),
  start: async (profilerGuid: string, processId: number, parameters: { key: string; value: string }[], way?: string) =>
    session(
      await post("/api/sessions", {
        body: { profilerGuid, processId, parameters, ...(way ? { way } : {}) } satisfies Schemas["StartSession"],
      }),
    ),
  startOnCore: async (profilerGuid: string, core: string) =>
    session(await post("/api/sessions", { body: { profilerGuid, core } satisfies Schemas["StartSession"] })),
  cores: () => get("/api/cores"),
  takeCore: async (processId: number, type: string) =>
    (await post("/api/cores", { body: { processId, type } satisfies Schemas["TakeCore"] })) as Core,
  removeCore: (name: string) => remove("/api/cores/{name}", { path: { name } }),
  cancel: (guid: string) => post("/api/sessions/{guid}/cancel", { path: { guid } }),
  shares: (guid: string) => get("/api/sessions/{guid}/shares", { path: { guid } }),
  share: (guid: string, days: number) => post("/api/sessions/{guid}/shares", { path: { guid }, body: { days } }),
  unshare: (guid: string, token: string) => remove("/api/sessions/{guid}/shares/{token}", { path: { guid, token } }),
  login: (token: string) => post("/api/login", { body: { token } }),
  remove: (guid: string) => remove("/api/sessions/{guid}", { path: { guid } }),
};

export type RawSession = SessionInfo;

export function session(raw: RawSession): Session {
  return {
    ...raw,
    processName: raw.processName ?? "",
    state: raw.state as State,
    health: raw.health as Session["health"],
    parameters: (raw.parameters ?? {}) as Record<string, string>,
    createdMs: raw.createdUnixMs ?? 0,
    startedMs: raw.startedUnixMs ?? 0,
    finishedMs: raw.finishedUnixMs ?? 0,
  };
}

export function isOver(s: Session): boolean {
  return s.state === "done" || s.state === "failed" || s.state === "cancelled";
}
