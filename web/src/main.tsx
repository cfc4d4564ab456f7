import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./style/tokens.css";
import "./style/base.css";
import "./style/pages.css";
import "./style/report.css";
import "./style/narrow.css";
import { api, TOKEN_WANTED } from "./lib/api";
import { useLoad } from "./lib/load";
import { followLinks, match, usePlace } from "./lib/router";
import { ReadOnly } from "./lib/scope";
import { listenToKeys } from "./lib/keyboard";
import { ComparePage } from "./pages/ComparePage";
import { CoresPage } from "./pages/CoresPage";
import { HistoryPage } from "./pages/HistoryPage";
import { PatientPage } from "./pages/PatientPage";
import { PatientsPage } from "./pages/PatientsPage";
import { ProfilersPage } from "./pages/ProfilersPage";
import { SessionPage } from "./pages/SessionPage";
import { StacksPage } from "./pages/StacksPage";
import { TokenPage } from "./pages/TokenPage";
import { Shell } from "./parts/Shell";
import { Empty } from "./parts/states";

function page(path: string): [string, preact.ComponentChildren] {
  let m: Record<string, string> | null;
  if (path === "/" || match("/processes", path)) return ["patients", <PatientsPage />];
  if ((m = match("/profilers/:pid", path))) return ["patients", <PatientPage key={m.pid} id={Number(m.pid)} />];
  if ((m = match("/job/:pid/:uuid", path)))
    return ["patients", <PatientPage key={m.pid} id={Number(m.pid)} profiler={m.uuid} />];
  if ((m = match("/stacks/:pid", path))) return ["patients", <StacksPage id={Number(m.pid)} />];
  if (match("/cores", path)) return ["patients", <CoresPage />];
  if (match("/sessions", path)) return ["sessions", <HistoryPage />];
  if ((m = match("/sessions/:guid", path))) return ["sessions", <SessionPage key={m.guid} guid={m.guid!} />];
  if ((m = match("/compare/:a/:b", path))) return ["sessions", <ComparePage a={m.a!} b={m.b!} />];
  if (match("/profilers", path)) return ["profilers", <ProfilersPage />];
  return [
    "",
    <>
      <h1>There is no such page</h1>
      <Empty
        acts={
          <a class="btn" href="/processes">
            Patients
          </a>
        }
      >
        The address may be mistyped, or come from another version.
      </Empty>
    </>,
  ];
}

function App() {
  const { path } = usePlace(),
    [locked, setLocked] = useState(false),
    server = useLoad("server", api.server, 5000);
  useEffect(() => {
    const lock = () => setLocked(true);
    addEventListener(TOKEN_WANTED, lock);
    return () => removeEventListener(TOKEN_WANTED, lock);
  }, []);
  if (locked)
    return (
      <TokenPage
        onDone={() => {
          setLocked(false);
          server.reload();
        }}
      />
    );
  const [here, content] = page(path);
  return (
    <ReadOnly.Provider value={server.data?.scope === "read"}>
      <Shell here={here} server={server.data}>
        {content}
      </Shell>
    </ReadOnly.Provider>
  );
}

followLinks();
listenToKeys();
render(<App />, document.getElementById("app")!);
