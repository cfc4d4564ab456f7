// One session: while it runs its progress and log, then its report.
import { useState } from "preact/hooks";
import { api, isOver, route, session as toSession, type RawSession, type Session } from "../lib/api";
import { bytes, dateUtc, durationNs, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { useEvents, useLoad } from "../lib/load";
import { go } from "../lib/router";
import { useReadOnly } from "../lib/scope";
import { Dialog } from "../parts/Dialog";
import { Icon, Mark } from "../parts/marks";
import { Trouble, Waiting } from "../parts/states";
import { Report } from "../report/Report";
import { Running, type LogEvent } from "./Running";
import { Share } from "./Share";

function factsLine(s: Session): string {
  const who = [visible(s.processName), s.processId ? `pid ${s.processId}` : "", s.runtime ? `.NET ${s.runtime}` : ""]
    .filter(Boolean)
    .join(", ");
  if (!isOver(s)) return `${who}. Started ${dateUtc(s.startedMs || s.createdMs)}`;
  return `${who}. ${dateUtc(s.startedMs || s.createdMs)}${s.finishedMs && s.startedMs ? `, took ${durationNs((s.finishedMs - s.startedMs) * 1e6)}` : ""}`;
}

function Downloads({ s, onClose }: { s: Session; onClose: () => void }) {
  const at = route(`/api/sessions/${s.guid}`);
  const files = useLoad(`files ${s.guid}`, () => api.files(s.guid)).data ?? [];
  return (
    <Dialog title="Download" onClose={onClose}>
      <ul class="files">
        <li>
          <a href={`${at}/download`} download data-safe>
            Everything as a zip
          </a>
          <span class="dim">{s.bytes ? `${bytes(s.bytes)} on disk` : ""}</span>
        </li>
        {files.map((f) => (
          <li>
            <a href={`${at}/files/${encodeURIComponent(f.name)}?download=true`} download={f.name}>
              {f.name}
            </a>
            <span class="dim">{bytes(f.bytes)}</span>
          </li>
        ))}
      </ul>
      <div class="acts">
        <button type="button" class="btn" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function Delete({ s, onClose }: { s: Session; onClose: () => void }) {
  const [error, setError] = useState("");
  const remove = () =>
    api.remove(s.guid).then(
      () => go("/sessions"),
      (e: Error) => setError(e.message),
    );
  return (
    <Dialog title="Delete this session?" onClose={onClose}>
      <p class="sub">
        {s.profiler.name} of {visible(s.processName)}, {dateUtc(s.createdMs)}. Its report and files
        {s.bytes ? ` (${bytes(s.bytes)})` : ""} go, and its share links stop working. This cannot be undone.
      </p>
      {error && (
        <p class="bad" role="alert">
          Not deleted: {error}
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

/** How the process is now, and what can be done: said only when it is known. */
function Afterwards({ s }: { s: Session }) {
  const process = useLoad(`after ${s.processId}`, () => api.process(s.processId));
  // Its number may be another's by now.
  const lives = process.data && [process.data.name, process.data.managedAssemblyName].includes(s.processName);
  return (
    <div class="next">
      {lives ? (
        <span>The process runs on as before.</span>
      ) : (
        (process.data || process.error?.status === 404) && <span>The process has ended.</span>
      )}
      {lives && (
        <a class="btn" href={`/job/${s.processId}/${s.profiler.uuid}?like=${s.guid}`}>
          Change and run again
        </a>
      )}
    </div>
  );
}

function Finished({ s, shared }: { s: Session; shared: boolean }) {
  const report = useLoad(`report ${s.guid}`, () => api.report(s.guid)),
    profilers = useLoad("profilers", api.profilers);
  if (s.state === "failed" || (report.error && s.state !== "done"))
    return (
      <section class="verdict" aria-label="Verdict">
        <div class="vl">
          <Mark is="off" />
          <p class="say">
            Not measured:{" "}
            {visible(
              s.error ??
                (s.state === "cancelled" ? "it was cancelled before anything was seen." : "the reason is not known"),
            )}
          </p>
          {!shared && <Afterwards s={s} />}
        </div>
      </section>
    );
  if (report.error) return <Trouble error={report.error} what="The report could not be read." retry={report.reload} />;
  if (!report.data) return <Waiting rows={5} />;
  const id = report.data.nextProfiler,
    step = shared || !id ? undefined : profilers.data?.find((p) => p.id === id);
  return (
    <Report
      doc={report.data}
      next={
        step && (
          <>
            <a class="btn" href={`/job/${s.processId}/${step.uuid}`}>
              Run {step.name}
            </a>
            <span class="dim">{step.effect}</span>
          </>
        )
      }
    />
  );
}

export function SessionPage({ guid }: { guid: string }) {
  const shared = useReadOnly();
  const loaded = useLoad(`session ${guid}`, () => api.session(guid));
  const [live, setLive] = useState<Session | null>(null),
    [log, setLog] = useState<LogEvent[]>([]),
    [dialog, setDialog] = useState<"" | "download" | "delete" | "share">("");
  const s = live?.guid === guid ? live : loaded.data,
    running = !!s && !isOver(s);
  useEvents(running ? `/api/sessions/${guid}/events` : null, {
    session: (d) => setLive(toSession(d as RawSession)),
    progress: (d) => {
      const p = d as { progress: number; progressText: string | null };
      if (s) setLive({ ...s, progress: p.progress, progressText: p.progressText });
    },
    // What was said before comes again with every connection.
    log: (d) =>
      setLog((lines) => {
        const l = d as LogEvent;
        return lines.length && lines[lines.length - 1]!.number >= l.number ? lines : [...lines, l].slice(-2000);
      }),
    deleted: () => go("/sessions"),
  });
  useTitle(s ? `${s.profiler.name}, ${s.processName}` : "Session");
  if (loaded.error && !s)
    return (
      <Trouble
        error={loaded.error}
        what={loaded.error.status === 404 ? "There is no such session." : "The session could not be read."}
        retry={loaded.reload}
      />
    );
  if (!s) return <Waiting rows={5} />;
  return (
    <>
      {!shared && (
        <nav class="crumbs" aria-label="Breadcrumb">
          <a href="/processes">Patients</a>
          <span>/</span>
          {s.processId ? (
            <a href={`/profilers/${s.processId}`}>{visible(s.processName)}</a>
          ) : (
            <span>{visible(s.processName)}</span>
          )}
          <span>/</span>
          <span>{s.profiler.name}</span>
        </nav>
      )}
      <div class="head">
        <div>
          <h1>{s.profiler.name}</h1>
          <p class="sub">{factsLine(s)}</p>
        </div>
        <div class="acts">
          {running ? (
            !shared && (
              <button
                type="button"
                class="btn lab danger"
                onClick={() => api.cancel(guid).then(loaded.reload, loaded.reload)}
              >
                <Icon name="cancel" />
                Cancel
              </button>
            )
          ) : (
            <>
              {!shared && (
                <a class="btn lab" href={`/job/${s.processId}/${s.profiler.uuid}?like=${guid}`}>
                  <Icon name="again" />
                  Run again
                </a>
              )}
              {s.state !== "failed" && !shared && (
                <a class="btn lab" href={`/sessions?profiler=${s.profiler.id}&compare=${guid}`}>
                  <Icon name="compare" />
                  Compare
                </a>
              )}
              <button type="button" class="btn lab" onClick={() => setDialog("download")}>
                <Icon name="download" />
                Download
              </button>
              {!shared && (
                <button type="button" class="btn lab" onClick={() => setDialog("share")}>
                  <Icon name="link" />
                  Share link
                </button>
              )}
              {!shared && (
                <button
                  type="button"
                  class="btn icon quiet danger"
                  aria-label="Delete this session"
                  onClick={() => setDialog("delete")}
                >
                  <Icon name="trash" />
                </button>
              )}
            </>
          )}
        </div>
      </div>
      {running ? <Running s={s} log={log} /> : <Finished s={s} shared={shared} />}
      {dialog === "download" && <Downloads s={s} onClose={() => setDialog("")} />}
      {dialog === "delete" && <Delete s={s} onClose={() => setDialog("")} />}
      {dialog === "share" && <Share s={s} onClose={() => setDialog("")} />}
    </>
  );
}
