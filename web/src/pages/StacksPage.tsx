// Where every thread is right now, as text. It stops the process for a moment, so nothing happens before one is told and
// asks for it: a tab that is opened again must not.
import { useState } from "preact/hooks";
import { api } from "../lib/api";
import { dateUtc, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { pauseWords } from "../lib/registry";
import { useReadOnly } from "../lib/scope";
import { Copy } from "../parts/Dialog";
import { Icon } from "../parts/marks";
import { Empty, Trouble, Waiting } from "../parts/states";
import { nameOf } from "./PatientsPage";

/** Lines stay lines; all else that cannot be seen is shown. */
function safeLines(text: string): string {
  return text.split("\n").map(visible).join("\n");
}

export function StacksPage({ id }: { id: number }) {
  const process = useLoad(`process ${id}`, () => api.process(id)),
    [looks, setLooks] = useState(0);
  const stacks = useLoad(`stacks ${id} ${looks}`, () => (looks ? api.stacks(id) : Promise.resolve("")));
  const name = process.data ? nameOf(process.data) : `pid ${id}`;
  useTitle(`Stacks, ${name}`);
  const readOnly = useReadOnly();
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="/processes">Patients</a>
        <span>/</span>
        <a href={`/profilers/${id}`}>{name}</a>
        <span>/</span>
        <span>Stacks now</span>
      </nav>
      <div class="head">
        <div>
          <h1>Stacks now</h1>
          <p class="sub">
            {name}, pid {id}
            {looks && stacks.data ? `. ${dateUtc(stacks.at)}` : ""}
          </p>
        </div>
        <div class="acts">
          {looks > 0 && (
            <button type="button" class="btn lab" onClick={() => setLooks(looks + 1)}>
              <Icon name="again" />
              Look again
            </button>
          )}
          {stacks.data && <Copy text={stacks.data} icon={<Icon name="copy" size={12} />} />}
        </div>
      </div>
      {readOnly ? (
        <Empty title="Your token is for reading">
          To look at the stacks stops the process for a moment: enter with the full token.
        </Empty>
      ) : !looks ? (
        <Empty
          title="Where is every thread?"
          acts={
            <button type="button" class="btn primary" onClick={() => setLooks(1)}>
              Look now
            </button>
          }
        >
          This will stop {name} for {pauseWords(process.data) ?? "a few milliseconds"}, once, and leaves nothing behind.
        </Empty>
      ) : stacks.error ? (
        <Trouble error={stacks.error} what="The stacks could not be read." retry={() => setLooks(looks + 1)} />
      ) : !stacks.data ? (
        <Waiting rows={6} />
      ) : (
        <pre class="panel stacks" tabIndex={0} role="region" aria-label={`Stacks of ${name}`}>
          {safeLines(stacks.data)}
        </pre>
      )}
    </>
  );
}
