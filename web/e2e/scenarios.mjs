// What a person does with the pages. Facts: url, token, login (a link that every page has opened before), pid, pids, still (a pid that no session stops), sessions, session, shots (a
// folder for pictures).
import { readFileSync } from "node:fs";
import { join } from "node:path";

const VERDICT = ".verdict .say";

/** From the list of patients to the patient's page, as somebody does who knows a name. */
export async function list(t) {
  const page = await t.page();
  await page.goto("/");
  await page.waitForSelector("table.pt tbody tr");
  t.check(
    /^\d+(\.\d+){3}/.test(await page.locator("header .brand small").textContent()),
    "the version is in the header",
  );
  const rows = await page.$$eval("table.pt tbody tr:not(.note)", (all) => all.map((r) => r.textContent));
  for (const pid of t.facts.pids)
    t.check(
      rows.some((r) => r.includes(String(pid))),
      `pid ${pid} is not listed: ${rows.join(" | ")}`,
    );
  // Lines grow while one looks, values change in place.
  const row = page.locator("table.pt tbody tr", { has: page.locator(`a[href="/profilers/${t.facts.pid}"]`) });
  await page.waitForFunction(
    (pid) => document.querySelectorAll(`tr:has(a[href="/profilers/${pid}"]) .spark .l[d*="L"]`).length === 4,
    t.facts.pid,
  );
  // What the server's rules say of it, once they have said so twice.
  await row.locator(".why", { hasText: /exceptions/ }).waitFor();
  await page.fill("input[aria-label='Filter patients']", `${t.facts.pid}`);
  t.equal(await page.locator("table.pt tbody tr").count(), 1, "rows with the filter");
  t.equal(new URL(page.url()).search, `?find=${t.facts.pid}`, "address");
  await page.fill("input[aria-label='Filter patients']", "nobody is called so");
  await page.getByText('No patient matches "nobody is called so".').waitFor();
  await page.getByRole("button", { name: "Clear the filter" }).click();
  t.equal(await row.getByRole("button", { name: /Diagnose/ }).count(), 1, "buttons to diagnose it");
  await row.locator(".nm").click();
  await page.waitForSelector(".exam");
  t.equal(new URL(page.url()).pathname, `/profilers/${t.facts.pid}`, "address");
  // What the list said is wrong is said here too, and is what would be looked at.
  await page.locator(".head .status", { hasText: /exceptions/ }).waitFor();
  t.equal(await page.locator(".plan .what").textContent(), "Thrown exceptions", "plan");
  // Its counters come to life, and a click on a complaint only changes the plan.
  await page.locator(".chart .n", { hasText: "GC heap" }).waitFor();
  await page.waitForSelector(".chart .uplot canvas");
  const titles = await page.$$eval(".chart .n", (all) => all.map((e) => e.textContent));
  for (const want of ["CPU", "GC heap", "Exceptions"]) t.check(titles.includes(want), `no chart of ${want}: ${titles}`);
  let posts = 0;
  page.on("request", (r) => (posts += Number(r.method() === "POST")));
  await page.locator(".sym label", { hasText: "Runtime pauses" }).click();
  t.equal(await page.locator(".plan .what").textContent(), "Runtime pauses", "plan");
  t.equal(posts, 0, "requests that start something");
  return { rows: rows.length };
}

/** One profiler by its form: wrong values are told in place, then it runs to its report. */
async function examine(t, context, profiler, pid) {
  const page = await t.page({ context });
  await page.goto(`/job/${pid}/${profiler.uuid}`);
  await page.waitForSelector("dialog form");
  const duration = profiler.parameters.find((p) => p.key.startsWith("duration"));
  if (duration) {
    const field = page.locator(`#p-${duration.key}`);
    await field.fill("99999999");
    await page.locator("dialog .err", { hasText: `At most ${duration.max}` }).waitFor();
    t.check(await page.locator("dialog button[type=submit]").isDisabled(), `${profiler.id}: a wrong value can be sent`);
    await field.fill("2");
  }
  await page.locator("dialog button[type=submit]:enabled").click();
  await page.waitForURL(/\/sessions\/[0-9a-f-]{36}/);
  const guid = new URL(page.url()).pathname.split("/").pop();
  await page.waitForSelector(VERDICT);
  const session = (await t.ask(`/api/sessions/${guid}`)).body,
    report = (await t.ask(`/api/sessions/${guid}/report.json`)).body;
  t.equal(session.state, "done", `${profiler.id} ended with "${session.error}"`);
  await page.waitForSelector(".report");
  t.equal((await page.locator(VERDICT).textContent()).trim(), report.verdict.plain.trim(), `verdict of ${profiler.id}`);
  const wanted = report.blocks.filter((b) => b.block !== "note").map((b) => b.title);
  const shown = await page.$$eval(".report > section.panel h2, .report > .with-map > .rows-panel h2", (all) =>
    all.map((e) => e.textContent),
  );
  t.equal(
    shown.filter((h) => h !== "Parameters").map((h) => h.replace(/ \(\d+\)$/, "")), // how many are folded
    wanted,
    `blocks of ${profiler.id}`,
  );
  t.equal(await page.locator(".kfs .kf").count(), report.figures.length, `figures of ${profiler.id}`);
  t.equal(await page.locator(".strip > div").count(), report.how.length, `how of ${profiler.id}`);
  t.equal(await t.sideways(page), 0, `${profiler.id}: the page scrolls sideways by`);
  const wrong = await t.axe(page);
  t.equal(wrong, [], `axe on ${profiler.id}`);
  await page.close();
  return { id: profiler.id, guid, finding: report.verdict.finding, blocks: report.blocks.map((b) => b.block) };
}

/** Every profiler of the registry, a few at a time. */
export async function profile(t) {
  const all = (await t.ask("/api/profilers")).body,
    context = await t.context(),
    results = [];
  const next = async () => {
    for (let p = all.shift(); p; p = all.shift())
      results.push(await examine(t, context, p, t.facts.pidOf[p.id] ?? t.facts.pid));
  };
  await Promise.all([next(), next(), next()]);
  return { results };
}

/** A second diagnosis: what it knows as it goes, and what changed since the first. */
export async function diagnosis(t) {
  const page = await t.page();
  await page.goto("/");
  const row = page.locator("table.pt tbody tr", { has: page.locator(`a[href="/profilers/${t.facts.sick}"]`) });
  await row.getByRole("button", { name: /Diagnose/ }).click();
  await page.waitForURL(/\/sessions\/[0-9a-f-]{36}/);
  // Its place is there from the start, and what is known is told long before the report.
  await page.locator(".so-far", { hasText: /First impression/ }).waitFor();
  await page.locator(".so-far", { hasText: /First impression[:,]/ }).waitFor();
  await page.waitForSelector(VERDICT);
  t.equal(await page.locator(".so-far").count(), 0, "first impressions beside a report");
  const since = page.locator(".aside-note", { hasText: /Since the diagnosis of \d\d:\d\d/ });
  t.equal(await since.count(), 1, "notes on what changed since the last diagnosis");
  await page
    .locator(".fnd li", { hasText: /first seen/ })
    .first()
    .waitFor();
  const out = page.locator(".fold", { hasText: /Ruled out/ });
  t.equal(await out.locator("li").first().isVisible(), false, "what was ruled out is folded");
  await out.locator("summary").click();
  t.check(await out.locator("li", { hasText: /descriptors/ }).isVisible(), "it opens");
  const wrong = await t.axe(page);
  t.equal(wrong, [], "axe");
  // The list says so too, and when.
  await page.goto("/");
  await row.locator(".why a", { hasText: /Deadlock/ }).waitFor();
  return {};
}

/** A running session shows its progress and log, survives a reload, and is cancelled. */
export async function cancel(t) {
  const page = await t.page();
  await page.goto(`/job/${t.facts.pid}/exceptions`);
  await page.locator("#p-duration").fill("600");
  await page.locator("dialog button[type=submit]:enabled").click();
  await page.waitForSelector(".runhead");
  await page.locator(".log div", { hasText: /./ }).first().waitFor();
  await page.locator(".steps .now", { hasText: "Measure" }).waitFor();
  const wrong = await t.axe(page);
  t.equal(wrong, [], "axe while it runs");
  const guid = new URL(page.url()).pathname.split("/").pop();
  // Leaving loses nothing: it is on the patient's page and on the list, and goes on.
  await page.goto(`/profilers/${t.facts.pid}`);
  const listed = page
    .locator(".side .slist li", { hasText: /running/ })
    .filter({ has: page.locator(`a[href="/sessions/${guid}"]`) });
  const far = await listed.locator(".prog i").getAttribute("style");
  await page.waitForFunction(
    ([guid, far]) =>
      document.querySelector(`.slist li:has(a[href="/sessions/${guid}"]) .prog i`)?.getAttribute("style") !== far,
    [guid, far],
  );
  await listed.locator("a").first().click();
  await page.waitForURL(`**/sessions/${guid}`);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForSelector(VERDICT);
  const session = (await t.ask(`/api/sessions/${guid}`)).body;
  t.equal(session.state, "cancelled", "state");
  return { guid };
}

/** Delete asks first; the safe answer has the focus. */
export async function remove(t) {
  const page = await t.page();
  t.expected.push("404");
  await page.goto(`/sessions/${t.facts.session}`);
  await page.waitForSelector(VERDICT);
  await page.getByRole("button", { name: "Delete this session" }).click();
  t.equal(await page.evaluate(() => document.activeElement.textContent), "Keep", "focus");
  await page.keyboard.press("Enter");
  t.equal(await page.locator("dialog").count(), 0, "dialogs");
  await page.getByRole("button", { name: "Delete this session" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await page.waitForURL("**/sessions");
  t.equal((await t.ask(`/api/sessions/${t.facts.session}`)).status, 404, "status");
  await page.goto(`/sessions/${t.facts.session}`);
  await page.getByText("There is no such session.").waitFor();
  return {};
}

/** A pasted link shows the same view in a browser that has never been here. */
export async function deepLink(t) {
  const page = await t.page();
  await page.goto(`/sessions/${t.facts.session}`);
  const table = page.locator(".rows-panel").first();
  await table.locator("[role=columnheader] button").first().click();
  await table.locator("[aria-sort=ascending]").waitFor();
  const search = page.locator("input[aria-label='Find a method in the flame graph']");
  if (await search.count()) await search.fill("Shop");
  const look = async (p) => [
    await p.locator(".rows-panel").first().locator(".r").allInnerTexts(),
    await p.locator("output").allInnerTexts(),
  ];
  const there = await look(page),
    fresh = await t.page();
  await fresh.goto(page.url().slice(t.facts.url.length));
  await fresh.locator("[aria-sort=ascending]").first().waitFor();
  t.equal(await look(fresh), there, "view");
  // The theme is the reader's own choice and stays.
  await fresh.getByRole("button", { name: "Switch between dark and light" }).click();
  await fresh.reload();
  t.equal(await fresh.evaluate(() => document.documentElement.dataset.theme), "dark", "theme");
  return {};
}

/** Tables, trees, flame graph and the whole program by keyboard. Each key waits for what the one before has done. */
export async function keyboard(t) {
  const page = await t.page();
  await page.goto(`/sessions/${t.facts.session}`);
  await page.waitForSelector(".report");
  const tree = page.locator(".rows.tree").first(),
    row = tree.locator('[data-at="0"]');
  await row.focus();
  const shown = await tree.locator(".r").count();
  await page.keyboard.press("ArrowLeft");
  await row.and(page.locator("[aria-expanded=false]")).waitFor();
  t.check((await tree.locator(".r").count()) < shown, "the branch did not close");
  await page.keyboard.press("ArrowRight");
  await row.and(page.locator("[aria-expanded=true]")).waitFor();
  t.equal(await tree.locator(".r").count(), shown, "rows");
  await page.keyboard.press("ArrowDown");
  await tree.locator('[data-at="1"]:focus').waitFor();
  const canvas = page.locator("canvas[role=application]").first(),
    whole = page.getByRole("button", { name: "Whole picture" }).first();
  const zoomed = (wanted) => page.waitForFunction((w) => /b\d+\.zoom=/.test(location.search) === w, wanted);
  await canvas.focus();
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
  await zoomed(true);
  await whole.and(page.locator(":enabled")).waitFor();
  for (const _ of ["two", "levels"]) await page.keyboard.press("Escape");
  await zoomed(false);
  await whole.and(page.locator(":disabled")).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("/");
  const closed = () => page.locator("dialog").waitFor({ state: "detached" });
  await page.locator("dialog[aria-label='Find a process or session'] input").fill(String(t.facts.pid));
  await page.locator("#found-0", { hasText: `pid ${t.facts.pid}` }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/profilers/*");
  await closed();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  await closed();
  // The second key of a pair must come within a second; on a busy machine only a clock that stands still says it did.
  await page.evaluate(() => {
    const now = Date.now();
    Date.now = () => now;
  });
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.waitForURL("**/sessions");
  await page.goBack();
  await page.waitForURL("**/profilers/*");
  return {};
}

const PAGES = (f) => [
  "/processes",
  `/profilers/${f.pid}`,
  `/job/${f.pid}/exceptions`,
  "/sessions",
  "/profilers",
  `/sessions/${f.session}`,
  `/compare/${f.sessions[0]}/${f.sessions[1]}`,
  `/stacks/${f.still}`,
  "/cores",
  "/nowhere",
];

/** Every page at one width and scheme: no sideways scrolling, nothing axe finds. */
async function everywhere(t, options) {
  const context = await t.context(options),
    wrong = [];
  for (const path of PAGES(t.facts)) {
    const page = await t.page({ context });
    await page.goto(path);
    await page.waitForSelector("main h1, main h2, main h3");
    await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
    if (path.startsWith("/profilers/"))
      await page.locator(".chart", { hasText: "GC heap" }).locator("canvas").waitFor();
    if (path.startsWith("/stacks/")) {
      // Told before it stops the process, and only when asked; how long is not known while another page has it stopped.
      await page.getByText(/This will stop \S+ for (about [\d.]+ m?s|a few milliseconds), once/).waitFor();
      // On a busy machine the stop may take longer than is allowed, or somebody else has it stopped; then it is said, and
      // nothing was done.
      t.expected.push("a status of");
      await page.getByRole("button", { name: "Look now" }).click();
      const text = page.locator("pre.stacks", { hasText: "managed threads" }),
        again = page.getByRole("button", { name: "Try again" });
      for (let i = 0; i < 5; i++) {
        await text.or(again).waitFor();
        if (await text.count()) break;
        await again.click();
      }
      await text.waitFor();
    }
    const over = await t.sideways(page);
    if (over > 0) wrong.push(`${path} scrolls sideways by ${over} px`);
    wrong.push(...(await t.axe(page)));
    await page.close();
  }
  t.equal(wrong, [], `${JSON.stringify(options)}`);
}

export const wide = (t) => everywhere(t, { width: 1280, scheme: "dark" });
export const narrow = (t) => everywhere(t, { width: 400, height: 800, scheme: "light" });

/** Search, filter, choose and delete in the history; logs; two sessions side by side. */
export async function history(t) {
  const page = await t.page();
  await page.goto("/sessions");
  await page.waitForSelector(".slist li");
  const all = await page.locator(".slist li").count();
  await page.selectOption("select[aria-label=Profiler]", "exceptions");
  const some = await page.locator(".slist li").count();
  t.check(some > 0 && some < all, `${some} of ${all} are of exceptions`);
  await page.fill("input[aria-label='Search sessions']", "no verdict has these words");
  await page.getByText("No session matches.").waitFor();
  await page.getByRole("button", { name: "Clear the filters" }).click();
  for (const guid of t.facts.sessions.slice(0, 2))
    await page
      .locator("li", { has: page.locator(`a[href="/sessions/${guid}"]`) })
      .getByRole("checkbox")
      .check();
  await page.locator(".say-bar").getByRole("button", { name: "Compare" }).click();
  await page.waitForURL("**/compare/*/*");
  await page.getByText("Before", { exact: true }).first().waitFor();
  // What the server says, and nothing that the page worked out itself.
  const [, before, after] = new URL(page.url()).pathname.match(/compare\/([^/]+)\/([^/]+)/),
    { report } = (await t.ask(`/api/sessions/${before}/compare/${after}`)).body;
  await page.locator(VERDICT).waitFor();
  t.equal(await page.locator(VERDICT).textContent(), report.verdict.plain, "verdict");
  t.equal(await page.locator(".kfs .kf").count(), report.figures.length, "figures that are compared");
  t.equal(
    await page.locator(".kfs .x").allTextContents(),
    report.figures.map((f) => f.context),
    "what is said of them",
  );
  t.equal(await page.locator(".rows-panel").count(), report.blocks.filter((b) => b.block === "table").length, "tables");
  await page.getByRole("button", { name: "Logs" }).click();
  await page.locator("dialog .log div", { hasText: "listening on" }).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    (async () => {
      await page.goto(`/sessions/${t.facts.sessions[0]}`);
      await page.getByRole("button", { name: "Download" }).click();
      await page.getByRole("link", { name: "Everything as a zip" }).click();
    })(),
  ]);
  t.check(/\.zip$/.test(download.suggestedFilename()), `downloads ${download.suggestedFilename()}`);
  return {};
}

/** A table of a hundred thousand rows in a real report: few of them are in the document, and no frame is long. */
export async function rows(t) {
  const page = await t.page(),
    n = 100000,
    doc = (await t.ask(`/api/sessions/${t.facts.session}/report.json`)).body;
  doc.blocks = [
    {
      block: "table",
      title: "Very many",
      rowsCut: 0,
      columns: [
        { name: "Type", kind: "code", bar: false, main: false },
        { name: "Objects", kind: "count", bar: false, main: false },
        { name: "Size", kind: "bytes", bar: true, main: true },
      ],
      rows: Array.from({ length: n }, (_, i) => ({
        cells: [`Shop.Models.Number${i}.Inner`, (i * 7919) % n, (n - i) * 1000],
      })),
    },
  ];
  await page.route("**/report.json", (route) => route.fulfill({ json: doc }));
  await page.goto(`/sessions/${t.facts.session}`);
  await page.waitForSelector(".scroll.tall .r");
  // The time that the page's own thread worked, by the browser's trace: what else the machine does must not count.
  await t.browser.startTracing(page, {
    categories: ["toplevel", "blink.user_timing", "devtools.timeline", "disabled-by-default-devtools.timeline"],
  });
  const found = await page.evaluate(async () => {
    const box = document.querySelector(".scroll.tall"),
      frames = 160;
    let most = 0;
    performance.mark("drdotnet-scrolls");
    for (let y = 0; y < frames; y++) {
      box.scrollTop = y < frames / 2 ? y * 90 : (y * box.scrollHeight) / frames;
      await new Promise(requestAnimationFrame);
      most = Math.max(most, box.querySelectorAll(".r").length);
    }
    return { most, frames };
  });
  const events = JSON.parse((await t.browser.stopTracing()).toString()).traceEvents;
  // Other pages may be open in this browser; the mark tells which thread is ours.
  const ours = events.find((e) => e.name === "drdotnet-scrolls");
  const tasks = events
    .filter((e) => /RunTask$/.test(e.name) && e.pid === ours.pid && e.tid === ours.tid && e.tdur !== undefined)
    .map((e) => e.tdur / 1000)
    .sort((a, b) => b - a);
  t.check(tasks.length > found.frames, `the trace has only ${tasks.length} tasks`);
  // The browser collects its garbage now and then, which has no length of ours.
  t.check(tasks[2] < 50, `tasks of ${tasks.slice(0, 5).map((x) => x.toFixed(1))} ms while scrolling`);
  t.check(found.most < 80, `${found.most} rows are in the document`);
  // By keyboard, to rows that are not in the document yet; none hides behind the head.
  await page.evaluate(() => (document.querySelector(".scroll.tall").scrollTop = 0));
  await page.locator('.r[data-at="0"]').focus();
  for (const [key, at] of [
    ["End", n - 1],
    ["ArrowUp", n - 2],
    ["Home", 0],
    ["PageDown", 19],
    ["PageDown", 38],
    ["PageUp", 19],
    ["PageUp", 0],
  ]) {
    await page.keyboard.press(key);
    await page.waitForFunction((i) => document.activeElement?.dataset.at === String(i), at);
    await page.waitForFunction(() => {
      const row = document.activeElement.getBoundingClientRect(),
        head = document.querySelector(".scroll.tall .rhead").getBoundingClientRect(),
        box = document.querySelector(".scroll.tall").getBoundingClientRect();
      return row.top >= head.bottom - 1 && row.bottom <= box.bottom + 1;
    });
  }
  // Sorted and filtered beside the page.
  await page.getByRole("columnheader", { name: "Objects" }).getByRole("button").click();
  await page.evaluate(() => (document.querySelector(".scroll.tall").scrollTop = 0));
  await page.locator(".r", { hasText: "99,999" }).first().waitFor();
  await page.fill("input[aria-label='Filter Very many']", "Number4242.");
  await page.waitForFunction(() => document.querySelectorAll(".rows .r").length === 1);
  return { ...found, longestMs: tasks[0] };
}

const BOX = ".map .tm g[data-at]";

/** Areas of a heap: the first holder in its parts, others whole; in and out by keyboard and mouse; the address keeps where. */
export async function treemap(t) {
  const page = await t.page();
  await page.route("**/report.json", (route) => route.fulfill({ json: t.facts.memory }));
  await page.goto(`/sessions/${t.facts.session}`);
  const boxes = page.locator(BOX),
    names = async () => (await boxes.evaluateAll((all) => all.map((g) => g.getAttribute("aria-label")))).sort();
  await boxes.first().waitFor();
  t.equal(await t.axe(page), [], "axe on a treemap");
  const whole = await names(),
    label = (words) => whole.find((n) => n.startsWith(words));
  t.check(label("._lines → OrderLine[], 148 MB, 37 %"), `parts of the first: ${whole}`);
  t.check(label("Shop.Bus._handlers, 38 MB") && label("all others together, 28.9 MB"), `others: ${whole}`);
  const areas = await boxes.evaluateAll((all) =>
    all.map((g) => {
      const r = g.querySelector("rect").getBoundingClientRect();
      return r.width * r.height;
    }),
  );
  const box = await page.locator(".map .tm svg").boundingBox(),
    sum = areas.reduce((a, b) => a + b, 0);
  t.check(Math.abs(sum / (box.width * box.height) - 1) < 0.02, `boxes cover ${sum} of ${box.width * box.height}`);
  await page.locator(`${BOX}[aria-label*="OrderLine"]`).first().focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /b\d+\.map=/.test(location.search));
  t.check(!(await names()).some((n) => n.startsWith("all others")), "still all of it");
  const inside = await names(),
    fresh = await t.page();
  await fresh.route("**/report.json", (route) => route.fulfill({ json: t.facts.memory }));
  await fresh.goto(page.url().slice(t.facts.url.length));
  await fresh.locator(BOX).first().waitFor();
  t.equal(
    (await fresh.locator(BOX).evaluateAll((all) => all.map((g) => g.getAttribute("aria-label")))).sort(),
    inside,
    "view of a pasted link",
  );
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !/map=/.test(location.search));
  t.equal(await names(), whole, "boxes");
  await page.locator(`${BOX}[aria-label*="Bus._handlers"]`).click();
  await page.locator(`${BOX}[aria-label*="Object[]"]`).waitFor();
  await page.locator(".map").getByRole("button", { name: "Back" }).click();
  await page.locator(`${BOX}[aria-label*="Bus._handlers"]`).waitFor();
  if (t.facts.shots) await page.screenshot({ path: `${t.facts.shots}/treemap.png`, fullPage: true });
  const narrow = await t.page({ context: await t.context({ width: 400, height: 800, scheme: "dark" }) });
  await narrow.route("**/report.json", (route) => route.fulfill({ json: t.facts.memory }));
  await narrow.goto(`/sessions/${t.facts.session}`);
  await narrow.locator(BOX).first().waitFor();
  t.equal(await t.sideways(narrow), 0, "sideways");
  t.equal(await t.axe(narrow), [], "axe on a narrow treemap");
  if (t.facts.shots) await narrow.screenshot({ path: `${t.facts.shots}/treemap-narrow.png`, fullPage: true });
  return {};
}

/** A core file and a trace from a patient's page; the core is examined and deleted. */
export async function take(t) {
  const page = await t.page();
  t.expected.push("a status of");
  await page.goto(`/profilers/${t.facts.still}`);
  await page.getByRole("button", { name: "Dump or trace" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/This will stop \S+ for about [\d.]+ ms, once/).waitFor();
  t.equal(await t.axe(page), [], "axe on the dialog");
  // Somebody else may have it stopped just now, or the machine is busy; then it is said, and nothing was done.
  const file = dialog.getByRole("link", { name: /^sick-\d+-.*\.core$/ }),
    refused = dialog.getByText("Not taken:");
  for (let i = 0; i < 5 && !(await file.count()); i++) {
    await dialog.getByRole("button", { name: "Take a core file" }).click();
    await file.or(refused).waitFor();
  }
  const name = await file.textContent();
  const seconds = dialog.getByLabel("Seconds");
  await seconds.fill("0");
  await dialog.getByText("Whole seconds, 1 to 3600.").waitFor();
  t.check(await dialog.getByRole("button", { name: "Trace" }).isDisabled(), "a wrong time can be asked for");
  await seconds.fill("1");
  await dialog.getByLabel("What is traced").selectOption("contention");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("link", { name: "Trace" }).click(),
  ]);
  t.equal(download.suggestedFilename(), "trace.nettrace", "file");
  t.equal(
    readFileSync(await download.path())
      .subarray(0, 8)
      .toString(),
    "Nettrace",
    "its beginning",
  );
  await dialog.getByRole("link", { name: "Examine it" }).click();
  await page.waitForURL("**/cores");
  const row = page.locator(".core", { hasText: name });
  const asked = (await row.locator("option").allTextContents()).find((o) => o.startsWith("Merged call stacks"));
  await row.getByRole("combobox").selectOption({ label: asked });
  t.equal(await t.axe(page), [], "axe on the core files");
  await row.getByRole("button", { name: "Examine" }).click();
  await page.waitForSelector(VERDICT);
  await page.getByText("no process was touched").first().waitFor();
  await page.goto("/cores");
  await row.getByRole("button", { name: `Delete ${name}` }).click();
  t.equal(await page.evaluate(() => document.activeElement.textContent), "Keep", "focus");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("None is kept here").waitFor();
  return {};
}

/** A meter of the app itself is picked, drawn, and part of the address. */
export async function meters(t) {
  const page = await t.page();
  await page.goto(`/profilers/${t.facts.still}`);
  await page.getByRole("button", { name: "Pick counters" }).click();
  await page.getByLabel("Filter counters").fill("shop.");
  for (const name of ["shop.temperature", "shop.order.duration"])
    await page.getByLabel(new RegExp(name)).first().check();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  const look = async (p) => {
    await p.locator(".chart", { hasText: "shop.temperature" }).locator(".v", { hasText: "21.5" }).waitFor();
    await p
      .locator(".chart", { hasText: "shop.order.duration, p95" })
      .locator(".v", { hasText: /^0\.0\d+ s$/ })
      .waitFor();
    t.equal(await p.locator(".chart").count(), 2, "charts");
  };
  await look(page);
  const fresh = await t.page();
  await fresh.goto(page.url().slice(t.facts.url.length));
  await look(fresh);
  return {};
}

/** The link that `drdotnet serve --link` prints opens the pages; its token stays nowhere that others could see. */
export async function link(t) {
  t.expected.push("401");
  const page = await t.page(),
    asked = [];
  page.on("request", (r) => asked.push(r.headers().referer ?? ""));
  await page.goto("/processes");
  await page.getByRole("heading", { name: "This server wants a token" }).waitFor();
  await page.goto(t.facts.link);
  await page.getByRole("heading", { name: "Patients" }).waitFor();
  t.equal(page.url(), `${t.facts.url}/`, "address");
  const seen = await page.evaluate(() =>
    JSON.stringify([
      document.cookie,
      document.referrer,
      { ...localStorage },
      { ...sessionStorage },
      performance.getEntries().map((e) => e.name),
      document.documentElement.outerHTML,
    ]),
  );
  t.check(!seen.includes(t.facts.token), "the page can see the token");
  t.check(!asked.some((r) => r.includes("token")), `the token is told on: ${asked}`);
  await page.goBack();
  t.equal(page.url(), `${t.facts.url}/processes`, "address one step back");
  await page.goForward();
  t.equal(page.url(), `${t.facts.url}/`, "address one step forth");
  return { banners: await page.locator(".say-bar.warn").count() };
}

/** A server that asks nobody for a token says so on every page. */
export async function open(t) {
  const page = await t.page();
  for (const path of ["/", "/sessions", "/cores"]) {
    await page.goto(path);
    await page.locator(".say-bar.warn", { hasText: "This server asks nobody for a token" }).waitFor();
  }
  t.equal(await t.axe(page), [], "axe with the banner");
  return {};
}

/** Starts, waits for and reads a session as a client without pages does; `stranger` has no token. */
async function examineByRest(t, client, link) {
  const headers = { Authorization: `Bearer ${new URL(link).searchParams.get("token")}` };
  const stranger = (await client.get("/api/profilers")).status();
  const data = {
    profilerGuid: t.facts.profiler,
    processId: t.facts.pid,
    parameters: [{ key: "duration", value: "1" }],
  };
  const { guid } = await (await client.post("/api/sessions", { headers, data })).json();
  await (await client.get(`/api/sessions/${guid}/events`, { headers, timeout: 60_000 })).text(); // it ends with the session
  const report = await (await client.get(`/api/sessions/${guid}/report.json`, { headers })).json();
  const zip = await client.get(`/api/sessions/${guid}/download`, { headers });
  return { stranger, verdict: report.verdict.plain, zip: zip.headers()["content-disposition"] };
}

/** Whichever of pages and REST API a server offers, the pages it has do all: list, examine, report, files, live progress. */
export async function switches(t) {
  const found = {};
  for (const [name, server] of Object.entries(t.facts.servers)) {
    const context = await t.browser.newContext({ baseURL: server.url });
    t.contexts.push(context);
    const page = await context.newPage(),
      streams = [];
    page.on("response", (r) => r.url().endsWith("/events") && streams.push(r.status()));
    const first = await page.goto(server.link);
    if (!server.pages) {
      found[name] = { page: first.status(), ...(await examineByRest(t, context.request, server.link)) };
      continue;
    }
    await page.locator("table.pt tbody tr", { has: page.locator(`a[href="/profilers/${t.facts.pid}"]`) }).waitFor();
    await page.goto(`/job/${t.facts.pid}/${t.facts.profiler}`);
    await page.locator("#p-duration").fill("1");
    await page.locator("dialog button[type=submit]:enabled").click();
    await page.waitForURL(/\/sessions\/[0-9a-f-]{36}/);
    const verdict = await page.locator(VERDICT).textContent();
    await page.getByRole("button", { name: "Download" }).click();
    const saved = page.waitForEvent("download");
    await page.getByRole("link", { name: "Everything as a zip" }).click();
    const kind = async (from, path) => (await from.get(path)).headers()["content-type"].split(";")[0];
    const stranger = await t.browser.newContext({ baseURL: server.url });
    t.contexts.push(stranger);
    found[name] = {
      verdict,
      zip: (await saved).suggestedFilename(),
      live: streams.every((s) => s === 200) && streams.length > 0,
      link: await page.getByRole("link", { name: "API" }).count(),
      api: await kind(context.request, "/api/profilers"),
      swagger: await kind(context.request, "/swagger/v1/swagger.json"),
      stranger: await kind(stranger.request, "/ui/api/profilers"),
    };
  }
  return found;
}

/** A server wants its token; a share link shows one session without it, until it is revoked. */
export async function token(t) {
  t.expected.push("401", "403", "404");
  const page = await t.page();
  await page.goto("/processes");
  await page.getByRole("heading", { name: "This server wants a token" }).waitFor();
  await page.getByText("docker logs NAME").waitFor();
  t.equal(await t.axe(page), [], "axe on the token page");
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Enter" }).click();
  await page.getByText("This token does not fit.").waitFor();
  await page.getByLabel("Token").fill(t.facts.token);
  await page.getByRole("button", { name: "Enter" }).click();
  await page.getByRole("heading", { name: "Patients" }).waitFor();
  // The printed link does the same, and its token does not stay in the address.
  const linked = await t.page();
  await linked.goto(t.facts.link.slice(t.facts.url.length));
  await linked.getByRole("heading", { name: "Patients" }).waitFor();
  t.check(!linked.url().includes("token="), `the token stays in ${linked.url()}`);

  // Who may only read is offered nothing else.
  const reader = await t.page();
  await reader.goto(`/profilers/${t.facts.pid}?token=${t.facts.readToken}`);
  await reader.getByText("Your token is for reading").waitFor();
  for (const name of ["Examine", "Dump or trace", "Logs"])
    t.equal(await reader.getByRole("button", { name }).count(), 0, `buttons called ${name}`);
  await reader.goto(`/stacks/${t.facts.pid}`);
  await reader.getByText("enter with the full token").waitFor();
  t.equal(await t.axe(reader), [], "axe for who may only read");

  await page.goto(`/sessions/${t.facts.session}`);
  await page.getByRole("button", { name: "Share link" }).click();
  await page.getByRole("button", { name: "Make a link" }).click();
  const link = await page.getByLabel("Share link").inputValue();
  t.equal(await t.axe(page), [], "axe on the share dialog");
  const guest = await t.page();
  await guest.goto(link.slice(t.facts.url.length));
  await guest.waitForSelector(VERDICT);
  for (const name of ["Run again", "Share link", "Delete this session"])
    t.equal(await guest.getByRole("button", { name }).count(), 0, `buttons called ${name}`);
  await guest.getByRole("link", { name: "Patients" }).first().click();
  await guest.getByRole("heading", { name: "This server wants a token" }).waitFor();
  await page.getByRole("button", { name: "Revoke" }).click();
  await page.waitForFunction(() => !document.querySelector(".shared"));
  const late = await t.page();
  await late.goto(link.slice(t.facts.url.length));
  t.equal(await late.locator(VERDICT).count(), 0, "verdicts behind a revoked link");
  return {};
}

/** Pictures of the main pages, for the documentation and for looking at them. */
export async function pictures(t) {
  const running = (
    await t.ask("/api/sessions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        profilerGuid: "exceptions",
        processId: t.facts.pid,
        parameters: [{ key: "duration", value: "60" }],
      }),
    })
  ).body.guid;
  const pages = {
    patients: "/processes",
    patient: `/profilers/${t.facts.pid}`,
    session: `/sessions/${t.facts.session}`,
    kept: `/sessions/${t.facts.kept}`,
    running: `/sessions/${running}`,
    history: "/sessions",
    compare: `/compare/${t.facts.sessions.join("/")}`,
    profilers: "/profilers",
    start: `/job/${t.facts.pid}/cpu-hotpaths`,
    stacks: `/stacks/${t.facts.still}`,
    cores: "/cores",
  };
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 400]) {
      const context = await t.context({ width, height: width === 400 ? 860 : 800, scheme });
      const opened = await Promise.all(
        Object.entries(pages).map(async ([name, path]) => {
          const page = await t.page({ context });
          await page.goto(path);
          await page.waitForFunction(
            () => document.querySelector("main h1") && !document.querySelector("[aria-busy=true]"),
          );
          return [name, page];
        }),
      );
      // Long enough for lines to be seen in the live charts.
      await opened[0][1].waitForTimeout(t.facts.linger ?? 15000);
      for (const [name, page] of opened) {
        await page.bringToFront();
        await page.waitForTimeout(2500);
        await page.screenshot({ path: join(t.facts.shots, `${name}-${width}-${scheme}.png`) });
      }
    }
  }
  await t.ask(`/api/sessions/${running}/cancel`, { method: "POST" });
  return {};
}
