// Drives the pages in Chromium for tests/e2e/test_web.py: browse.mjs '{"facts": {..}, "wanted": {SCENARIO: {more facts}}}'.
// Prints as JSON what each scenario found, or its error; what a page writes to its console as an error is one too.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import * as scenarios from "./scenarios.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** What a scenario works with; its pages watch their own console. */
class Tester {
  constructor(browser, facts) {
    Object.assign(this, { browser, facts, complaints: [], expected: [], contexts: [] });
  }

  async context({ width = 1280, height = 800, scheme = "light" } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height },
      colorScheme: scheme,
      baseURL: this.facts.url,
      reducedMotion: "reduce",
      acceptDownloads: true,
    });
    context.setDefaultTimeout(this.facts.seconds * 1000);
    if (this.facts.login) await context.request.get(this.facts.login);
    this.contexts.push(context);
    return context;
  }

  async close() {
    for (const context of this.contexts) await context.close();
  }

  async page(options = {}) {
    const page = await (options.context ?? (await this.context(options))).newPage();
    page.on("pageerror", (e) => this.complaints.push(`${page.url()}: ${e.message}`));
    page.on(
      "console",
      (m) =>
        m.type() === "error" &&
        !this.expected.some((x) => m.text().includes(x)) &&
        this.complaints.push(`${page.url()}: ${m.text()}`),
    );
    // Nothing is ever asked from anywhere else.
    page.on(
      "request",
      (r) =>
        r.url().startsWith(this.facts.url) ||
        r.url().startsWith("data:") ||
        r.url().startsWith("blob:") ||
        this.complaints.push(`asks ${r.url()}`),
    );
    return page;
  }

  /** What axe finds wrong, in one line each. */
  async axe(page) {
    // By the debugger, since the page's own policy lets no other script in.
    await page.evaluate(AXE);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return found.violations.map(
      (v) =>
        `${new URL(page.url()).pathname}: ${v.id}: ${v.nodes
          .map((n) => `${n.target.join(" ")} ${n.failureSummary?.split("\n")[1] ?? ""}`)
          .slice(0, 3)
          .join("; ")}`,
    );
  }

  async sideways(page) {
    return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  }

  check(truth, message) {
    if (!truth) throw new Error(message);
  }

  equal(have, want, what) {
    if (JSON.stringify(have) !== JSON.stringify(want))
      throw new Error(`${what}: ${JSON.stringify(have)}, not ${JSON.stringify(want)}`);
  }

  async ask(path, init) {
    const headers = { ...init?.headers, Authorization: `Bearer ${this.facts.token}` };
    const answer = await fetch(this.facts.url + path, { ...init, headers });
    return { status: answer.status, body: await answer.json().catch(() => null) };
  }
}

/** A few at a time: most of them mostly wait. */
async function inTurns(names, work, atOnce = 3) {
  const left = [...names];
  const next = async () => {
    for (let name = left.shift(); name; name = left.shift()) await work(name);
  };
  await Promise.all(Array.from({ length: atOnce }, next));
}

const { facts, wanted } = JSON.parse(process.argv[2]),
  results = {};
const byName = new Map(Object.entries(scenarios));
const profile = mkdtempSync(join(tmpdir(), "drdotnet-browser-"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [...ARGS, `--crash-dumps-dir=${profile}`],
});
try {
  await inTurns(Object.keys(wanted), async (name) => {
    const tester = new Tester(browser, { seconds: 90, ...facts, ...wanted[name] }),
      started = Date.now();
    try {
      const found = (await byName.get(name)(tester)) ?? {};
      if (tester.complaints.length) throw new Error(`the pages complain:\n${tester.complaints.join("\n")}`);
      results[name] = { found };
    } catch (e) {
      results[name] = { error: String(e.stack ?? e) };
    } finally {
      results[name].seconds = (Date.now() - started) / 1000;
      await tester.close();
    }
  });
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
console.log(JSON.stringify(results));
