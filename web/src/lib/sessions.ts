// The list of sessions as it changes: a new state asks again, progress is taken in place.
import { useMemo, useState } from "preact/hooks";
import { api, isOver, type Session } from "./api";
import { useEvents, useLoad, type Loaded } from "./load";

export interface Progress {
  guid: string;
  progress: number;
  progressText: string | null;
}

/** What was heard since the list came; what has ended needs none. */
export function withProgress(sessions: Session[], heard: ReadonlyMap<string, Progress>): Session[] {
  return heard.size ? sessions.map((s) => (isOver(s) ? s : { ...s, ...heard.get(s.guid) })) : sessions;
}

export function useSessions(key: string): Loaded<Session[]> {
  const loaded = useLoad(key, api.sessions),
    [heard, setHeard] = useState<ReadonlyMap<string, Progress>>(new Map());
  useEvents(
    "/api/events",
    {
      session: loaded.reload,
      progress: (d) => {
        const p = d as Progress;
        setHeard((old) => new Map(old).set(p.guid, p));
      },
      deleted: loaded.reload,
    },
    loaded.reload,
  );
  return { ...loaded, data: useMemo(() => loaded.data && withProgress(loaded.data, heard), [loaded.data, heard]) };
}
