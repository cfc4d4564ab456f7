// The REST API as this program uses it. Every answer is checked no further than its shape here: what a target said stays
// text until it is drawn as text.
import type { CounterSeries } from "./counters";
import type { ReportDocument } from "./document";

export interface Way { way: string; open: boolean; how: string | null; why: string | null; fix: string | null }

export interface Process {
  id: number;
  managedAssemblyName: string;
  version: string;
  pid?: number | null;
  name?: string | null;
  architecture?: string | null;
  user?: string | null;
  container?: string | null;
  uptimeSeconds?: number | null;
  cpuPercent?: number | null;
  cpuWindowMs?: number | null;
  rssBytes?: number | null;
  /** Only while its counters are listened to. */
  gcHeapBytes?: number | null;
  exceptionsPerSecond?: number | null;
  commandLine?: string | null;
  answered?: boolean;
  remark?: string | null;
  /** Only of one process alone. */
  ways?: Way[];
}

export interface ProfilerParameter {
  key: string;
  name: string;
  description: string;
  /** 1 string, 2 whole number, 3 number, 4 yes or no. */
  type: number;
  value: string;
  unit?: string | null;
  defaultValue?: string;
  min?: number | null;
  max?: number | null;
  choices?: string[] | null;
}

export interface Profiler {
  guid: string;
  uuid: string;
  id: string;
  name: string;
  description: string;
  symptom?: string;
  cost?: string;
  ways?: string[];
  experimental?: boolean;
  parameters: ProfilerParameter[];
}

export type State = "queued" | "running" | "analysing" | "done" | "failed" | "cancelled";

export interface SessionFile { name: string; bytes: number }

export interface Session {
  guid: string;
  processName: string;
  isCompleted: boolean;
  timestampDate: string;
  profiler: Profiler;
  state: State;
  progress?: number | null;
  progressText?: string | null;
  health?: "ok" | "info" | "warn" | "bad" | null;
  finding?: string | null;
  verdict?: string | null;
  partial?: string | null;
  error?: string | null;
  processId?: number | null;
  runtime?: string | null;
  createdMs: number;
  startedMs: number;
  finishedMs: number;
  bytes?: number | null;
  parameters?: Record<string, string>;
}

export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly parameter: string | null = null) {
    super(message);
  }
}

/** Told when the server wants a token. */
export const TOKEN_WANTED = "drdotnet:token";

async function problem(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => "");
  let words = text, parameter: string | null = null;
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
  return new ApiError(answer.status, words || `the server answered ${answer.status}`, parameter);
}

let lastContact = Date.now();
export function lastHeard(): number {
  return lastContact;
}

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...init });
  } catch {
    throw new ApiError(0, "The server cannot be reached.");
  }
  lastContact = Date.now();
  if (!answer.ok) throw await problem(answer);
  return answer;
}

async function json<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await call(path, { ...init, headers: { Accept: "application/json", ...init.headers } })).json()) as T;
}

function send(method: string, body?: unknown): RequestInit {
  return body === undefined ? { method } : { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
}

export const api = {
  processes: () => json<Process[]>("/api/processes"),
  process: (id: number) => json<Process>(`/api/processes/${id}`),
  profilers: () => json<Profiler[]>("/api/profilers"),
  sessions: async () => (await json<RawSession[]>("/api/sessions")).map(session),
  session: async (guid: string) => session(await json<RawSession>(`/api/sessions/${guid}`)),
  report: (guid: string) => json<ReportDocument>(`/api/sessions/${guid}/report.json`),
  start: async (profiler: string, process: number, parameters: { key: string; value: string }[], way?: string) =>
    session(await json<RawSession>("/api/sessions", send("POST", { profilerGuid: profiler, processId: process, parameters, ...(way ? { way } : {}) }))),
  files: (guid: string) => json<SessionFile[]>(`/api/sessions/${guid}/files`),
  cancel: (guid: string) => call(`/api/sessions/${guid}/cancel`, send("POST")),
  remove: (guid: string) => call(`/api/sessions/${guid}`, send("DELETE")),
  counters: (id: number, sinceMs: number) => json<{ now: number; series: CounterSeries[] }>(`/api/processes/${id}/counters?since=${Math.floor(sinceMs)}`),
  stacks: async (id: number) => (await call(`/api/processes/${id}/stacks`, { headers: { Accept: "text/plain" } })).text(),
};

/** A session as the server tells it; what an older one leaves out is filled in. */
export type RawSession = Partial<Session> & { guid: string; profiler: Profiler; isCompleted: boolean; timestampDate: string; processName: string } & Record<string, unknown>;

function ms(raw: RawSession, name: string): number {
  const at = raw[`${name}UnixMs`];
  return typeof at === "number" ? at : 0;
}

export function session(raw: RawSession): Session {
  return {
    ...raw,
    state: raw.state ?? (raw.isCompleted ? "done" : "running"),
    createdMs: ms(raw, "created") || Date.parse(`${raw.timestampDate}Z`) || 0,
    startedMs: ms(raw, "started"),
    finishedMs: ms(raw, "finished"),
  };
}

export function isOver(s: Session): boolean {
  return s.state === "done" || s.state === "failed" || s.state === "cancelled";
}
