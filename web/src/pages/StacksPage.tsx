// Where every thread is right now, as text.
import { api } from "../lib/api";
import { dateUtc, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { Copy } from "../parts/Dialog";
import { Icon } from "../parts/marks";
import { Trouble, Waiting } from "../parts/states";
import { nameOf } from "./PatientsPage";

/** Lines stay lines; all else that cannot be seen is shown. */
function safeLines(text: string): string {
  return text.split("\n").map(visible).join("\n");
}

export function StacksPage({ id }: { id: number }) {
  const process = useLoad(`process ${id}`, () => api.process(id)), stacks = useLoad(`stacks ${id}`, () => api.stacks(id));
  const name = process.data ? nameOf(process.data) : `pid ${id}`;
  useTitle(`Stacks, ${name}`);
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb"><a href="/processes">Patients</a><span>/</span><a href={`/profilers/${id}`}>{name}</a><span>/</span><span>Stacks now</span></nav>
      <div class="head">
        <div><h1>Stacks now</h1><p class="sub">{name}, pid {id}. {stacks.at ? dateUtc(stacks.at) : ""}</p></div>
        <div class="acts">
          <button class="btn lab" onClick={stacks.reload}><Icon name="again" />Look again</button>
          {stacks.data && <Copy text={stacks.data} icon={<Icon name="copy" size={12} />} />}
        </div>
      </div>
      {stacks.error ? <Trouble error={stacks.error} what="The stacks could not be read." retry={stacks.reload} /> : !stacks.data ? <Waiting rows={6} /> : <pre class="panel stacks" tabIndex={0} aria-label={`Stacks of ${name}`}>{safeLines(stacks.data)}</pre>}
    </>
  );
}
