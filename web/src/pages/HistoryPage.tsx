// All sessions: filter, search, delete, and choosing two to compare.
import { useState } from "preact/hooks";
import { api, isOver, type Session } from "../lib/api";
import { plural, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { go, useQuery } from "../lib/router";
import { useReadOnly } from "../lib/scope";
import { useSessions } from "../lib/sessions";
import { Dialog } from "../parts/Dialog";
import { SessionList, wordsOf } from "../parts/SessionList";
import { Empty, Trouble, Waiting } from "../parts/states";

const STEP = 50;

function DeleteMany({ chosen, onClose, onDone }: { chosen: Session[]; onClose: () => void; onDone: () => void }) {
  const [error, setError] = useState("");
  async function remove() {
    try {
      for (const s of chosen) await api.remove(s.guid);
      onDone();
    } catch (e) {
      setError((e as Error).message);
    }
  }
  return (
    <Dialog title={`Delete ${plural(chosen.length, "session", "sessions")}?`} onClose={onClose}>
      <p class="sub">Their reports and files go, and their share links stop working. This cannot be undone.</p>
      <ul class="files">
        {chosen.slice(0, 6).map((s) => (
          <li>
            <span>
              {s.profiler.name} of {visible(s.processName)}
            </span>
          </li>
        ))}
        {chosen.length > 6 && <li class="dim">and {chosen.length - 6} more</li>}
      </ul>
      {error && (
        <p class="bad" role="alert">
          Not all were deleted: {error}
        </p>
      )}
      <div class="acts">
        <button type="button" class="btn" data-safe onClick={onClose}>
          Keep
        </button>
        <button type="button" class="btn danger" onClick={remove}>
          Delete
        </button>
      </div>
    </Dialog>
  );
}

export function HistoryPage() {
  useTitle("Sessions");
  const sessions = useSessions("history");
  const [term, setTerm] = useQuery("find"),
    [profiler, setProfiler] = useQuery("profiler"),
    [state, setState] = useQuery("state"),
    [process, setProcess] = useQuery("process");
  const [first, setFirst] = useQuery("compare"),
    [chosen, setChosen] = useState<Set<string>>(new Set()),
    [limit, setLimit] = useState(STEP),
    [deleting, setDeleting] = useState(false),
    readOnly = useReadOnly();
  if (sessions.error && !sessions.data)
    return <Trouble error={sessions.error} what="The sessions could not be read." retry={sessions.reload} />;
  if (!sessions.data) return <Waiting rows={6} />;
  const all = sessions.data,
    words = term.toLowerCase().split(/\s+/).filter(Boolean);
  const other = all.find((s) => s.guid === first);
  const shown = all.filter((s) => {
    if (profiler && s.profiler.id !== profiler) return false;
    if (process && s.processName !== process) return false;
    if (
      state &&
      (state === "problem"
        ? s.health !== "warn" && s.health !== "bad"
        : state === "running"
          ? isOver(s)
          : s.state !== state)
    )
      return false;
    if (other && (s.guid === other.guid || !isOver(s) || s.state === "failed")) return false;
    const text = `${s.profiler.name} ${s.processName} ${s.processId} ${s.guid} ${wordsOf(s)}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  const names = [...new Map(all.map((s) => [s.profiler.id, s.profiler.name])).entries()].sort((a, b) =>
    a[1].localeCompare(b[1]),
  );
  const processes = [...new Set(all.map((s) => s.processName))].sort();
  const picked = all.filter((s) => chosen.has(s.guid));
  const toggle = (guid: string) =>
    setChosen((old) => {
      const next = new Set(old);
      if (!next.delete(guid)) next.add(guid);
      return next;
    });
  return (
    <>
      <div class="head">
        <div>
          <h1>Sessions</h1>
          <p class="sub">
            {plural(all.length, "session", "sessions")}
            {shown.length !== all.length ? `, ${shown.length} shown` : ""}.
          </p>
        </div>
        <div class="acts">
          <input
            class="field"
            type="search"
            placeholder="Search verdicts, names, pids"
            aria-label="Search sessions"
            value={term}
            onInput={(e) => setTerm(e.currentTarget.value)}
          />
          <select
            class="field"
            aria-label="Profiler"
            value={profiler}
            onChange={(e) => setProfiler(e.currentTarget.value)}
          >
            <option value="">All profilers</option>
            {names.map(([id, name]) => (
              <option value={id}>{name}</option>
            ))}
          </select>
          <select
            class="field"
            aria-label="Process"
            value={process}
            onChange={(e) => setProcess(e.currentTarget.value)}
          >
            <option value="">All processes</option>
            {processes.map((p) => (
              <option value={p}>{visible(p)}</option>
            ))}
          </select>
          <select class="field" aria-label="State" value={state} onChange={(e) => setState(e.currentTarget.value)}>
            <option value="">Any outcome</option>
            <option value="problem">Found something</option>
            <option value="done">Done</option>
            <option value="running">Running</option>
            <option value="failed">Failed</option>
            <option value="cancelled">Cancelled</option>
          </select>
        </div>
      </div>
      {other && (
        <div class="say-bar" role="status">
          <span>
            Choose the session to compare with{" "}
            <b>
              {other.profiler.name} of {visible(other.processName)}
            </b>
            .
          </span>
          <span class="end">
            <button type="button" class="btn sm" onClick={() => setFirst("")}>
              Never mind
            </button>
          </span>
        </div>
      )}
      {picked.length > 0 && !other && (
        <div class="say-bar" role="status">
          <span>{plural(picked.length, "session", "sessions")} chosen</span>
          <span class="end">
            {picked.length === 2 &&
              picked[0]!.profiler.id === picked[1]!.profiler.id &&
              picked.every((s) => isOver(s) && s.state !== "failed") && (
                <button
                  type="button"
                  class="btn sm"
                  onClick={() => go(`/compare/${picked[1]!.guid}/${picked[0]!.guid}`)}
                >
                  Compare
                </button>
              )}
            {!readOnly && (
              <button type="button" class="btn sm danger" onClick={() => setDeleting(true)}>
                Delete
              </button>
            )}
            <button type="button" class="btn sm quiet" onClick={() => setChosen(new Set())}>
              Clear
            </button>
          </span>
        </div>
      )}
      {!all.length ? (
        <Empty
          title="Nothing has been examined yet"
          acts={
            <a class="btn" href="/processes">
              Patients
            </a>
          }
        >
          Choose a patient and say what is wrong with it. Its session is then kept here.
        </Empty>
      ) : !shown.length ? (
        <Empty>
          {other ? (
            "There is no other session of this profiler to compare with."
          ) : (
            <>
              No session matches.{" "}
              <button type="button" class="link" onClick={() => go("/sessions")}>
                Clear the filters
              </button>
            </>
          )}
        </Empty>
      ) : (
        <div class="first-panel">
          <SessionList
            sessions={shown.slice(0, limit)}
            pick={(s) =>
              other ? (
                <a
                  class="btn sm"
                  href={`/compare/${other.createdMs < s.createdMs ? `${other.guid}/${s.guid}` : `${s.guid}/${other.guid}`}`}
                >
                  Compare
                </a>
              ) : (
                <input
                  type="checkbox"
                  aria-label={`Choose ${s.profiler.name} of ${s.processName}`}
                  disabled={!isOver(s)}
                  checked={chosen.has(s.guid)}
                  onChange={() => toggle(s.guid)}
                />
              )
            }
          />
          {shown.length > limit && (
            <p class="more">
              <button type="button" class="btn" onClick={() => setLimit(limit + 200)}>
                Show more
              </button>
            </p>
          )}
        </div>
      )}
      {deleting && (
        <DeleteMany
          chosen={picked}
          onClose={() => setDeleting(false)}
          onDone={() => {
            setDeleting(false);
            setChosen(new Set());
            sessions.reload();
          }}
        />
      )}
    </>
  );
}
