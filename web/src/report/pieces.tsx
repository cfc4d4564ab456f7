// Words and values of a report. Text from a target is only ever a text node.
import type { Bare, Fact, Kind, Piece } from "../lib/document";
import { splitUnit, value, visible } from "../lib/format";
import { splitName } from "../lib/names";

/** Where a line is too short for a name, it ends behind a dot. */
function CodeWords({ text }: { text: string }) {
  return (
    <code>
      {visible(text)
        .split(/(?<=[.,])/)
        .map((part, i) =>
          i ? (
            <>
              <wbr />
              {part}
            </>
          ) : (
            part
          ),
        )}
    </code>
  );
}

/** A number with its unit, which belong on one line, is no longer than this. */
const SHORT = 24;

export function Rich({ pieces }: { pieces: Piece[] }) {
  return (
    <>
      {pieces.map((p) =>
        p.kind === "strong" ? (
          <b class={p.text.length <= SHORT ? "nb" : undefined}>{visible(p.text)}</b>
        ) : p.kind === "code" ? (
          <CodeWords text={p.text} />
        ) : (
          visible(p.text)
        ),
      )}
    </>
  );
}

/** The namespace is grey and shortened first; the member never. */
export function Name({ text }: { text: string }) {
  const shown = visible(text),
    { space, member, rest } = splitName(shown);
  return (
    <span class="id" title={shown}>
      {space && <span class="ns">{space}</span>}
      <span class="nm">{member}</span>
      {rest && <span class="ty">{rest}</span>}
    </span>
  );
}

export function valueText(kind: Kind, v: Bare, dayNs = 0): string {
  if (v === null) return "–";
  return typeof v === "string" ? visible(v) : value(kind, v, dayNs);
}

export function Value({ kind, v, dayNs = 0, signed }: { kind: Kind; v: Bare; dayNs?: number; signed?: boolean }) {
  if (v === null)
    return (
      <span class="none">
        <span aria-hidden="true">–</span>
        <span class="sr">not measured, or does not apply</span>
      </span>
    );
  if (kind === "code" && typeof v === "string") return <Name text={v} />;
  return (
    <>
      {signed && Number(v) > 0 ? "+" : ""}
      {valueText(kind, v, dayNs)}
    </>
  );
}

function FigureValue({ fact, dayNs }: { fact: Fact; dayNs: number }) {
  if (fact.value === null || typeof fact.value === "string" || fact.kind === "time")
    return <Value kind={fact.kind} v={fact.value} dayNs={dayNs} />;
  const [number, unit] = splitUnit(value(fact.kind, fact.value, dayNs));
  return (
    <>
      {number}
      {unit && <small>{unit}</small>}
    </>
  );
}

export function Figures({ facts, dayNs }: { facts: Fact[]; dayNs: number }) {
  if (!facts.length) return null;
  return (
    <dl class={`kfs n${Math.min(facts.length, 6)}`}>
      {facts.map((f) => (
        <div class="kf">
          <dt>{f.label}</dt>
          <dd>
            <FigureValue fact={f} dayNs={dayNs} />
          </dd>
          <dd class="x">{f.context ? visible(f.context) : f.value === null ? "not measured" : " "}</dd>
        </div>
      ))}
    </dl>
  );
}

export function How({ facts, dayNs }: { facts: Fact[]; dayNs: number }) {
  if (!facts.length) return null;
  return (
    <section>
      <div class="sec-h">
        <h2>How this was measured</h2>
      </div>
      <dl class="strip">
        {facts.map((f) => (
          <div>
            <dt>{f.label}</dt>
            <dd>
              <Value kind={f.kind} v={f.value} dayNs={dayNs} />
              {(f.context || f.value === null) && (
                <span class="x">{f.context ? visible(f.context) : "not measured"}</span>
              )}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

export function Bar({ share, low }: { share: number; low?: boolean }) {
  const width = share > 0 ? Math.max(Math.min(share, 1) * 100, 0.8) : 0;
  return (
    <svg class="bar" aria-hidden="true">
      <rect class={low ? "lo" : ""} width={`${width}%`} height="100%" />
    </svg>
  );
}
