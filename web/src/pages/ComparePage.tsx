// Two sessions of one profiler, the older first: what changed, biggest first.
import { api, type Session } from "../lib/api";
import { compareBlocks, compareFigures, type FigureChange } from "../lib/compare";
import { dateUtc, percent, splitUnit, value, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { Icon, Mark } from "../parts/marks";
import { conditionOf, wordsOf } from "../parts/SessionList";
import { Empty, Trouble, Waiting } from "../parts/states";
import { Rows } from "../report/Rows";

function Side({ s, word }: { s: Session; word: string }) {
  return (
    <div class="cmp-side">
      <p class="dim">{word}</p>
      <div class="vl">
        <Mark is={conditionOf(s)} />
        <p>
          <a href={`/sessions/${s.guid}`}>
            {visible(s.processName)}, {dateUtc(s.createdMs)}
          </a>
        </p>
      </div>
      <p class="sub">{visible(wordsOf(s))}</p>
    </div>
  );
}

export function changeWords(c: FigureChange): string {
  if (c.a === null || c.b === null) return "not measured in both";
  if (c.a === c.b) return "the same";
  if (c.a && Math.abs(c.b / c.a - 1) < 0.01) return "about the same";
  const d = c.b - c.a,
    more = d > 0 ? "more" : "less";
  return c.a === 0
    ? `${value(c.kind, Math.abs(d))} ${more}`
    : `${value(c.kind, Math.abs(d))} ${more}, ${d > 0 ? "+" : "−"}${percent(Math.abs(d / c.a))}`;
}

function Changes({ figures }: { figures: FigureChange[] }) {
  if (!figures.length) return null;
  return (
    <dl class={`kfs n${Math.min(figures.length, 6)}`}>
      {figures.map((c) => {
        const [n, unit] = splitUnit(c.b === null ? "–" : value(c.kind, c.b));
        return (
          <div class="kf">
            <dt>{c.label}</dt>
            <dd>
              {n}
              {unit && <small>{unit}</small>}
            </dd>
            <dd class="x">
              {c.a !== null && c.a !== c.b ? `was ${value(c.kind, c.a)}; ` : ""}
              {changeWords(c)}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

export function ComparePage({ a, b }: { a: string; b: string }) {
  useTitle("Compare");
  const both = useLoad(`compare ${a} ${b}`, async () => {
    const [sa, sb, ra, rb] = await Promise.all([api.session(a), api.session(b), api.report(a), api.report(b)]);
    return {
      sa,
      sb,
      figures: compareFigures(ra.figures, rb.figures),
      tables: compareBlocks(ra, rb),
      same: ra.verdict?.finding === rb.verdict?.finding,
    };
  });
  if (both.error)
    return <Trouble error={both.error} what="The two sessions could not be compared." retry={both.reload} />;
  if (!both.data) return <Waiting rows={5} />;
  const { sa, sb, figures, tables, same } = both.data;
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="/sessions">Sessions</a>
        <span>/</span>
        <span>Compare</span>
      </nav>
      <div class="head">
        <div>
          <h1>{sb.profiler.name}, before and after</h1>
          <p class="sub">
            {visible(sa.processName)}
            {sa.processName !== sb.processName ? ` and ${visible(sb.processName)}` : ""}
          </p>
        </div>
        <div class="acts">
          <a class="btn lab" href={`/compare/${b}/${a}`}>
            <Icon name="compare" />
            Swap
          </a>
        </div>
      </div>
      {sa.profiler.id !== sb.profiler.id ? (
        <Empty title="These two cannot be compared">
          They come from different profilers: {sa.profiler.name} and {sb.profiler.name}.
        </Empty>
      ) : (
        <>
          <section class="panel cmp" aria-label="The two verdicts">
            <Side s={sa} word="Before" />
            <Side s={sb} word={same ? "After, the same finding" : "After, another finding"} />
          </section>
          <Changes figures={figures} />
          {tables.map((t, i) => (
            <Rows block={t} id={`c${i}`} key={i} />
          ))}
          {!tables.length && <Empty>No row or frame differs between the two.</Empty>}
        </>
      )}
    </>
  );
}
