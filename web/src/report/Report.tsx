// A whole report, always in this order: verdict, key figures, proof, further views, how it was measured, parameters.
import type { ComponentChildren } from "preact";
import type { Block, FindingsBlock, ReportDocument } from "../lib/document";
import { plural, timeUtc, visible } from "../lib/format";
import { Mark } from "../parts/marks";
import { Flame } from "./Flame";
import { Figures, How, Rich } from "./pieces";
import { Histogram, TimeChart } from "./pictures";
import { Rows } from "./Rows";
import { Treemap } from "./Treemap";

// Many of little weight are folded: they are a result, but nobody reads them first.
function Findings({ block, dayNs }: { block: FindingsBlock; dayNs: number }) {
  const list = (
    <ul class="fnd">
      {block.findings.map((f) => (
        <li key={f.finding}>
          <Rich pieces={f.text} />
          {(f.severity > 0 || f.confidence) && (
            <span class="dim">
              {visible(f.finding)}
              {f.severity > 0 && `, severity ${f.severity}`}
              {f.confidence && `, ${visible(f.confidence)}`}
              {f.firstSeenUnixNs && `, first seen ${timeUtc(f.firstSeenUnixNs / 1e6, dayNs / 1e6)}`}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
  return (
    <section class="panel">
      {block.brief ? (
        <details class="fold">
          <summary>
            <h2>
              {visible(block.title)} ({block.findings.length})
            </h2>
          </summary>
          {list}
        </details>
      ) : (
        <>
          <div class="ph">
            <h2>{visible(block.title)}</h2>
          </div>
          {list}
        </>
      )}
    </section>
  );
}

function BlockView({ block, id, dayNs }: { block: Block; id: string; dayNs: number }) {
  switch (block.block) {
    case "table":
    case "tree":
      return !block.areas ? (
        <Rows block={block} id={id} dayNs={dayNs} />
      ) : (
        <div class={block.block === "tree" ? "with-map beside" : "with-map"}>
          <Rows block={block} id={id} dayNs={dayNs} />
          <Treemap block={block} id={id} />
        </div>
      );
    case "chart":
      return <TimeChart block={block} id={id} />;
    case "histogram":
      return <Histogram block={block} />;
    case "flame":
      return <Flame block={block} id={id} />;
    case "note":
      return (
        <aside class="aside-note">
          <Mark is={block.health} />
          <p>
            <Rich pieces={block.text} />
          </p>
        </aside>
      );
    case "findings":
      return <Findings block={block} dayNs={dayNs} />;
    case "section":
      return (
        <section class="panel proof">
          <div class="ph">
            <Mark is={block.health} />
            <h2>{visible(block.title)}</h2>
          </div>
          <p class="pfoot">
            <Rich pieces={block.text} />
          </p>
        </section>
      );
    // A document of a newer program: say so rather than hide it.
    default:
      return (
        <aside class="aside-note">
          <Mark is="info" />
          <p>A part of this report needs a newer page: {visible(String((block as { block: string }).block))}.</p>
        </aside>
      );
  }
}

function cutWords(doc: ReportDocument): string {
  return [
    doc.cutStrings ? `${plural(doc.cutStrings, "long text was", "long texts were")} cut at 64 KB.` : "",
    doc.cutItems ? `${plural(doc.cutItems, "part", "parts")} did not fit this report.` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

export function Verdict({ doc, children }: { doc: ReportDocument; children?: ComponentChildren }) {
  const partial = doc.facts.partialText ?? (doc.facts.partial && `Only a part: ${doc.facts.partial}.`);
  return (
    <section class="verdict" aria-label="Verdict">
      <div class="vl">
        <Mark is={doc.verdict?.health ?? "info"} />
        <p class="say">{doc.verdict ? <Rich pieces={doc.verdict.text} /> : "No verdict was reached."}</p>
        {partial && <p class="part">{visible(partial)}</p>}
        {doc.effect && (
          <p class="effect">
            <Rich pieces={doc.effect} />
          </p>
        )}
        {(doc.next.length > 0 || children) && (
          <div class="next">
            {doc.next.length > 0 && (
              <span>
                Next: <Rich pieces={doc.next} />
              </span>
            )}
            {children}
          </div>
        )}
      </div>
    </section>
  );
}

export function Parameters({ doc }: { doc: ReportDocument }) {
  if (!doc.parameters.length) return null;
  return (
    <section class="panel">
      <div class="ph">
        <h2>Parameters</h2>
      </div>
      <dl class="params">
        {doc.parameters.map((p) => (
          <div>
            <dt>{p.name}</dt>
            <dd>
              {visible(p.value)} <span class="def">{p.default ? "default" : "set"}</span>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

export function Report({ doc, next }: { doc: ReportDocument; next?: ComponentChildren }) {
  const dayNs = doc.facts.whenUnixNs,
    cut = cutWords(doc);
  return (
    <div class="report">
      <Verdict doc={doc}>{next}</Verdict>
      <Figures facts={doc.figures} dayNs={dayNs} />
      {doc.blocks.map((b, i) => (
        <BlockView block={b} id={`b${i}`} dayNs={dayNs} key={i} />
      ))}
      {cut && <p class="dim">{cut}</p>}
      <How facts={doc.how} dayNs={dayNs} />
      <Parameters doc={doc} />
    </div>
  );
}
