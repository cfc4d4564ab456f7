// The parameters of a profiler, defaults filled in, checked in place; then it starts.
import { useEffect, useState } from "preact/hooks";
import { api, ApiError, type Process, type Profiler, type ProfilerParameter } from "../lib/api";
import { visible } from "../lib/format";
import { check, clean, effect, hint, takes, wayFor } from "../lib/registry";
import { go } from "../lib/router";
import { Prose } from "../parts/Prose";
import { Dialog } from "../parts/Dialog";
import { nameOf } from "./PatientsPage";

function Field({
  p,
  value,
  error,
  onChange,
}: {
  p: ProfilerParameter;
  value: string;
  error: string | null;
  onChange: (v: string) => void;
}) {
  const id = `p-${p.key}`,
    common = { class: "field", id, "aria-invalid": error ? true : undefined, "aria-describedby": `${id}-h` };
  const words = p.type === 4 ? ["true", "false"] : p.choices.length ? p.choices : null;
  return (
    <>
      <label for={id} title={p.description}>
        {p.name}
        {p.unit && <span class="dim"> ({p.unit})</span>}
      </label>
      {words ? (
        <select {...common} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
          {words.map((w) => (
            <option value={w}>{w === "true" ? "yes" : w === "false" ? "no" : w}</option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          value={value}
          inputMode={p.type === 2 || p.type === 3 ? "decimal" : "text"}
          onInput={(e) => onChange(e.currentTarget.value)}
        />
      )}
      {error ? (
        <span class="err" id={`${id}-h`} role="alert">
          {error}
        </span>
      ) : (
        <span class="hint" id={`${id}-h`}>
          {p.description} {p.type === 4 ? "" : hint(p)}
        </span>
      )}
    </>
  );
}

export function StartDialog({
  p,
  profiler,
  like,
  onClose,
}: {
  p: Process;
  profiler: Profiler;
  like?: string;
  onClose: () => void;
}) {
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(profiler.parameters.map((x) => [x.key, x.defaultValue ?? x.value])),
  );
  const ways = (profiler.ways ?? []).filter((w) => p.ways?.find((x) => x.way === w)?.open ?? true);
  const [way, setWay] = useState(""),
    [refused, setRefused] = useState<{ key: string | null; text: string } | null>(null),
    [busy, setBusy] = useState(false);
  useEffect(() => {
    // Run again starts from what was used then.
    if (like)
      api.session(like).then(
        (s) => setValues((v) => ({ ...v, ...s.parameters })),
        () => undefined,
      );
  }, [like]);
  const errors = Object.fromEntries(
    profiler.parameters.map((x) => [
      x.key,
      check(x, values[x.key] ?? "") ?? (refused?.key === x.key ? refused.text : null),
    ]),
  );
  const wrong = profiler.parameters.some((x) => check(x, values[x.key] ?? ""));
  async function start(e: Event) {
    e.preventDefault();
    if (wrong) return;
    setBusy(true);
    try {
      const set = profiler.parameters.map((x) => ({ key: x.key, value: clean(x, values[x.key] ?? "") }));
      go(`/sessions/${(await api.start(profiler.uuid, p.id, set, way || undefined)).guid}`);
    } catch (x) {
      setBusy(false);
      setRefused({ key: x instanceof ApiError ? x.parameter : null, text: (x as Error).message });
    }
  }
  return (
    <Dialog title={`${profiler.name} on ${nameOf(p)}`} onClose={onClose} wide>
      <form onSubmit={start}>
        <Prose text={profiler.description} />
        <div class="form">
          {profiler.parameters.map((x) => (
            <Field
              p={x}
              value={values[x.key] ?? ""}
              error={errors[x.key] ?? null}
              onChange={(v) => {
                setValues({ ...values, [x.key]: v });
                setRefused(null);
              }}
            />
          ))}
          {ways.length > 1 && (
            <>
              <label for="p-way">Way</label>
              <select
                class="field"
                id="p-way"
                value={way}
                onChange={(e) => setWay(e.currentTarget.value)}
                aria-describedby="p-way-h"
              >
                <option value="">best</option>
                {ways.map((w) => (
                  <option value={w}>{w}</option>
                ))}
              </select>
              <span class="hint" id="p-way-h">
                How to look into the process; best takes the first that is open.
              </span>
            </>
          )}
          {!profiler.parameters.length && <span class="hint all">It has no parameters.</span>}
        </div>
        {refused && !refused.key && (
          <p class="bad" role="alert">
            Not started: {visible(refused.text)} The process was not touched.
          </p>
        )}
        <div class="acts spread">
          <span class="dim">
            {wayFor(profiler, p)
              ? `By ${way || wayFor(profiler, p)!}, ${effect(profiler, p)}, takes ${takes(profiler, values)}.`
              : "None of its ways is open."}
          </span>
          <button class="btn" type="button" onClick={onClose}>
            Not now
          </button>
          <button class="btn primary" type="submit" data-safe disabled={wrong || busy || !wayFor(profiler, p)}>
            Examine
          </button>
        </div>
      </form>
    </Dialog>
  );
}
