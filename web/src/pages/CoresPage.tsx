// Core files that the server keeps: taken here, or put into its folder by hand; each can be examined like a process.
import { useState } from "preact/hooks";
import { api, route, type Core, type Profiler } from "../lib/api";
import { ago, bytes, dateUtc, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { go } from "../lib/router";
import { useReadOnly } from "../lib/scope";
import { Dialog } from "../parts/Dialog";
import { Icon, Mark } from "../parts/marks";
import { Empty, Trouble, Waiting } from "../parts/states";

function Row({ core, profilers, onDelete }: { core: Core; profilers: Profiler[]; onDelete: () => void }) {
  const [chosen, setChosen] = useState(""),
    [error, setError] = useState(""),
    [busy, setBusy] = useState(false),
    readOnly = useReadOnly();
  const uuid = chosen || profilers[0]?.uuid || "";
  async function examine() {
    setBusy(true);
    try {
      go(`/sessions/${(await api.startOnCore(uuid, core.name)).guid}`);
    } catch (e) {
      setBusy(false);
      setError((e as Error).message);
    }
  }
  return (
    <li class="panel core">
      <div class="cn">
        <b class="mono">{visible(core.name)}</b>
        <span class="sub" title={dateUtc(core.writtenUnixMs)}>
          {bytes(core.bytes)}
          {core.diskBytes < core.bytes * 0.9 ? `, ${bytes(core.diskBytes)} on disk` : ""}, written{" "}
          {ago(core.writtenUnixMs, Date.now())}
        </span>
      </div>
      {!readOnly && (
        <div class="acts">
          <select
            class="field"
            aria-label={`What is asked of ${core.name}`}
            value={uuid}
            onChange={(e) => setChosen(e.currentTarget.value)}
          >
            {profilers.map((p) => (
              <option value={p.uuid}>
                {p.name}: {p.label}
              </option>
            ))}
          </select>
          <button type="button" class="btn" disabled={busy || !uuid} onClick={examine}>
            Examine
          </button>
          <a
            class="btn icon quiet"
            href={route(`/api/cores/${encodeURIComponent(core.name)}`)}
            download={core.name}
            aria-label={`Download ${core.name}`}
          >
            <Icon name="download" />
          </a>
          <button type="button" class="btn icon quiet danger" aria-label={`Delete ${core.name}`} onClick={onDelete}>
            <Icon name="trash" />
          </button>
        </div>
      )}
      {error && (
        <p class="bad" role="alert">
          Not started: {visible(error)}
        </p>
      )}
    </li>
  );
}

function Delete({ core, onClose, onDone }: { core: Core; onClose: () => void; onDone: () => void }) {
  const [error, setError] = useState("");
  const remove = () => api.removeCore(core.name).then(onDone, (e: Error) => setError(e.message));
  return (
    <Dialog title="Delete this core file?" onClose={onClose}>
      <p class="sub">
        <span class="mono">{visible(core.name)}</span>, {bytes(core.diskBytes)} on disk. Sessions made of it stay. This
        cannot be undone.
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

export function CoresPage() {
  useTitle("Core files");
  const cores = useLoad("cores", api.cores),
    profilers = useLoad("profilers", api.profilers),
    [doomed, setDoomed] = useState<Core | null>(null);
  if (cores.error)
    return <Trouble error={cores.error} what="The core files could not be listed." retry={cores.reload} />;
  if (!cores.data || !profilers.data) return <Waiting />;
  const { files, folder } = cores.data,
    able = profilers.data.filter((p) => p.ways?.[0] === "image");
  // Why it died is what one wants to know of a core first.
  able.sort((a, b) => Number(b.forCore) - Number(a.forCore));
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="/processes">Patients</a>
        <span>/</span>
        <span>Core files</span>
      </nav>
      <div class="head">
        <div>
          <h1>Core files</h1>
          <p class="sub">
            What a process had in its memory at one instant, with all its secrets. They are examined like a living one.
          </p>
        </div>
      </div>
      {!files.length ? (
        <Empty
          title="None is kept here"
          acts={
            <a class="btn" href="/processes">
              Patients
            </a>
          }
        >
          Take one on a patient's page by <i>Dump or trace</i>, or put one that a dead process left into{" "}
          <code>{folder}</code>.
        </Empty>
      ) : (
        <>
          <ul class="cores">
            {files.map((c) => (
              <Row key={c.name} core={c} profilers={able} onDelete={() => setDoomed(c)} />
            ))}
          </ul>
          <p class="dim after">
            <Mark is="info" /> They lie in <code>{folder}</code>; nothing deletes them but you.
          </p>
        </>
      )}
      {doomed && (
        <Delete
          core={doomed}
          onClose={() => setDoomed(null)}
          onDone={() => {
            setDoomed(null);
            cores.reload();
          }}
        />
      )}
    </>
  );
}
