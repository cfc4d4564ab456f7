// A core file or a trace of one process, for other tools or for later.
import { useState } from "preact/hooks";
import { api, route, type Core, type Process } from "../lib/api";
import { bytes, visible } from "../lib/format";
import { pauseWords } from "../lib/registry";
import { Dialog } from "../parts/Dialog";
import { Icon } from "../parts/marks";
import { nameOf } from "./PatientsPage";

const TYPES: [string, string][] = [
  ["full", "everything"],
  ["heap", "without mapped files"],
  ["mini", "threads and stacks only"],
];
const PROFILES: [string, string][] = [
  ["cpu", "stack samples of all threads"],
  ["exceptions", "exceptions"],
  ["gc", "garbage collection"],
  ["alloc", "allocations"],
  ["contention", "lock waits"],
  ["threading", "thread pool"],
  ["jit", "compiling"],
  ["loader", "loading"],
  ["http", "HTTP requests"],
];
const FORMATS: [string, string][] = [
  ["nettrace", ".nettrace, for PerfView and dotnet-trace"],
  ["speedscope", "speedscope"],
  ["chromium", "Chromium trace"],
  ["pprof", "pprof"],
  ["folded", "folded stacks"],
];
const FILES: Record<string, string> = {
  nettrace: "trace.nettrace",
  speedscope: "trace.speedscope.json",
  chromium: "trace.chromium.json",
  pprof: "trace.pb.gz",
  folded: "trace.folded",
};
const MAX_SECONDS = 3600;

function Choice({
  label,
  about,
  of,
  value,
  onChange,
}: {
  label: string;
  about: string;
  of: [string, string][];
  value: string;
  onChange: (v: string) => void;
}) {
  return (
    <label>
      {label}{" "}
      <select class="field" aria-label={about} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {of.map(([v, words]) => (
          <option value={v}>{words}</option>
        ))}
      </select>
    </label>
  );
}

function CoreFile({ p, open }: { p: Process; open: boolean }) {
  const [type, setType] = useState("full"),
    [busy, setBusy] = useState(false),
    [core, setCore] = useState<Core | null>(null),
    [error, setError] = useState("");
  async function take() {
    setBusy(true);
    setError("");
    setCore(null);
    try {
      setCore(await api.takeCore(p.id, type));
    } catch (e) {
      setError((e as Error).message);
    }
    setBusy(false);
  }
  return (
    <section class="take">
      <h3>Core file</h3>
      <p class="sub">
        {open
          ? `Its memory at one instant, with all its secrets. This will stop ${nameOf(p)} for ${pauseWords(p) ?? "a few milliseconds"}, once; the file is kept on the server.`
          : "Its memory cannot be copied from here: the way image is closed."}
      </p>
      <div class="row">
        <Choice label="With" about="What the core file holds" of={TYPES} value={type} onChange={setType} />
        <button type="button" class="btn" disabled={busy || !open} onClick={take}>
          <Icon name="download" />
          {busy ? "Writing" : "Take a core file"}
        </button>
      </div>
      {core && (
        <p role="status">
          <a href={route(`/api/cores/${encodeURIComponent(core.name)}`)} download={core.name}>
            {visible(core.name)}
          </a>
          , {bytes(core.diskBytes)}. <a href="/cores">Examine it</a>
        </p>
      )}
      {error && (
        <p class="bad" role="alert">
          Not taken: {visible(error)}
        </p>
      )}
    </section>
  );
}

function Trace({ p, open }: { p: Process; open: boolean }) {
  const [profile, setProfile] = useState("cpu"),
    [seconds, setSeconds] = useState("10"),
    [format, setFormat] = useState("nettrace"),
    [asked, setAsked] = useState(false);
  const n = Number(seconds),
    wrong = !Number.isInteger(n) || n < 1 || n > MAX_SECONDS;
  const href = route(`/api/processes/${p.id}/trace?${new URLSearchParams({ seconds, profile, format })}`);
  return (
    <section class="take">
      <h3>Trace</h3>
      <p class="sub">
        {open
          ? "What its runtime reports, as a file. Nothing stops."
          : "It cannot be traced from here: the way events is closed."}
      </p>
      <div class="row">
        <Choice label="Of" about="What is traced" of={PROFILES} value={profile} onChange={setProfile} />
        <label>
          Seconds{" "}
          <input
            class="field secs"
            inputMode="numeric"
            aria-invalid={wrong || undefined}
            value={seconds}
            onInput={(e) => setSeconds(e.currentTarget.value)}
          />
        </label>
        <Choice label="As" about="Form of the file" of={FORMATS} value={format} onChange={setFormat} />
        {wrong || !open ? (
          <button type="button" class="btn" disabled>
            <Icon name="download" />
            Trace
          </button>
        ) : (
          <a class="btn" href={href} download={FILES[format]} onClick={() => setAsked(true)}>
            <Icon name="download" />
            Trace
          </a>
        )}
      </div>
      {wrong ? (
        <p class="bad" role="alert">
          Whole seconds, 1 to {MAX_SECONDS}.
        </p>
      ) : (
        asked && (
          <p class="dim" role="status">
            Your browser saves it; it is complete after {n} s.
          </p>
        )
      )}
    </section>
  );
}

export function TakeDialog({ p, onClose }: { p: Process; onClose: () => void }) {
  const open = (way: string) => p.ways?.find((w) => w.way === way)?.open ?? false;
  return (
    <Dialog title={`Dump or trace ${nameOf(p)}`} onClose={onClose} wide>
      <CoreFile p={p} open={open("image")} />
      <Trace p={p} open={open("events")} />
      <div class="acts">
        <button type="button" class="btn" data-safe onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
