// Two sessions of one profiler, the older first: what changed, as the server compares them.
import { api, type Session } from "../lib/api";
import { dateUtc, visible } from "../lib/format";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { Icon, Mark } from "../parts/marks";
import { conditionOf, wordsOf } from "../parts/SessionList";
import { Empty, Trouble, Waiting } from "../parts/states";
import { Report } from "../report/Report";

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

export function ComparePage({ a, b }: { a: string; b: string }) {
  useTitle("Compare");
  const both = useLoad(`compare ${a} ${b}`, async () => {
    const [sa, sb] = await Promise.all([api.session(a), api.session(b)]);
    return { sa, sb, doc: sa.profiler.id === sb.profiler.id ? await api.compare(a, b) : null };
  });
  if (both.error)
    return <Trouble error={both.error} what="The two sessions could not be compared." retry={both.reload} />;
  if (!both.data) return <Waiting rows={5} />;
  const { sa, sb, doc } = both.data;
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
      {!doc ? (
        <Empty title="These two cannot be compared">
          They come from different profilers: {sa.profiler.name} and {sb.profiler.name}.
        </Empty>
      ) : (
        <>
          <section class="panel cmp" aria-label="The two verdicts">
            <Side s={sa} word="Before" />
            <Side s={sb} word={sa.finding === sb.finding ? "After, the same finding" : "After, another finding"} />
          </section>
          <Report doc={doc} />
        </>
      )}
    </>
  );
}
