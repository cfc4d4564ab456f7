import { call } from "./api";

export interface ServerInfo { version: string; host: string; root?: boolean; scope?: string; auth?: string; exposed?: boolean; readOnly?: boolean; cores?: number }

export async function serverInfo(): Promise<ServerInfo> {
  return (await (await call("/api/server")).json()) as ServerInfo;
}

export interface LogLine { time: string; level: string; text: string }

export async function serverLog(): Promise<LogLine[]> {
  return (await (await call("/api/server/logs")).json()) as LogLine[];
}
