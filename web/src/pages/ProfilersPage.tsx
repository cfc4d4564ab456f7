// What can be asked: every profiler, its question, its cost.
import { api } from "../lib/api";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { Trouble, Waiting } from "../parts/states";
import { sentence, stops } from "../lib/registry";
import { Prose } from "../parts/Prose";
import { Pause } from "../parts/marks";

export function ProfilersPage() {
  useTitle("Profilers");
  const profilers = useLoad("profilers", api.profilers);
  if (profilers.error)
    return <Trouble error={profilers.error} what="The profilers could not be read." retry={profilers.reload} />;
  if (!profilers.data) return <Waiting rows={6} />;
  return (
    <>
      <div class="head">
        <div>
          <h1>Profilers</h1>
          <p class="sub">
            Each answers one complaint. Choose a <a href="/processes">patient</a> to run one; on the command line it is{" "}
            <code>drdotnet NAME TARGET</code>.
          </p>
        </div>
      </div>
      <ul class="pcards">
        {profilers.data.map((p) => (
          <li class="panel">
            <h2>{p.name}</h2>
            <p class="sym-line">{sentence(p.symptom)}</p>
            <Prose text={p.description} />
            <dl class="mini">
              <div>
                <dt>Way</dt>
                <dd>{(p.ways ?? []).join(", then ") || "–"}</dd>
              </div>
              <div>
                <dt>Effect</dt>
                <dd class={stops(p) ? "cost pause" : "cost"}>
                  <Pause stops={stops(p)} />
                  {p.cost ?? (stops(p) ? "pauses it for a moment" : "no stop")}
                </dd>
              </div>
              <div>
                <dt>Command</dt>
                <dd>
                  <code>drdotnet {p.id}</code>
                </dd>
              </div>
            </dl>
          </li>
        ))}
      </ul>
    </>
  );
}
