// A report as src/report/json.c writes it. Flat on purpose: trees and flame graphs are preorder lists with depths.

export type Kind = "text" | "code" | "count" | "bytes" | "ns" | "ratio" | "rate" | "number" | "time";
export type Health = "ok" | "info" | "warn" | "bad";
export type FrameKind = "code" | "framework" | "gc" | "jit" | "native" | "kernel" | "other";

export interface Piece {
  kind: "text" | "strong" | "code";
  text: string;
}
export type Bare = number | string | null;
/** null = not measured; an object when the cell is of another kind than its column. */
export type Cell = Bare | { kind: Kind; value: Bare };

export interface Fact {
  label: string;
  kind: Kind;
  value: Bare;
  context: string | null;
}
/** area: the rows are parts of one whole, children of their parent, and can be drawn as areas. signed: a difference, of
    which the reader must see the direction. */
export interface Column {
  name: string;
  kind: Kind;
  bar: boolean;
  main: boolean;
  area?: boolean;
  signed?: boolean;
}
export interface Line {
  kind: "text" | "code";
  text: string;
  right?: string;
}
export interface Row {
  depth?: number;
  cells: Cell[];
  lines?: Line[];
  linesCut?: number;
}

/** Rows as areas: [row or -1 (smaller ones) or -2 (what no row has), parent's box or -1, number, x, y, width, height]. */
export interface Areas {
  column: number;
  whole: number;
  boxes: [number, number, number, number, number, number, number][];
}
export interface TableBlock {
  block: "table" | "tree";
  title: string;
  columns: Column[];
  rows: Row[];
  rest?: Cell[];
  rowsCut: number;
  areas?: Areas;
}
export interface ChartLine {
  name: string | null;
  merged: number;
  points: [number, number][];
}
export interface ChartBar {
  x: number;
  length: number;
  y: number;
  label?: string;
}
export interface ChartBlock {
  block: "chart";
  title: string;
  kind: Kind;
  windowNs: number;
  lines: ChartLine[];
  bars: ChartBar[];
  barsCut: number;
}
export interface HistogramBlock {
  block: "histogram";
  title: string;
  kind: Kind;
  buckets: [number, number, number][];
}
/** nodes: [frame, depth, self], node 0 is the root above all; of a comparison also its total before, and by how much it
    is more or less: -3 to 3. */
export interface FlameBlock {
  block: "flame";
  title: string;
  kind: Kind;
  frames: [string, FrameKind][];
  compared?: boolean;
  nodes: [number, number, number, number?, number?][];
  cut: number;
}
export interface NoteBlock {
  block: "note";
  health: Health;
  text: Piece[];
}
/** Sentences beside the verdict, or of which it consists. severity: 0 to 100, 75 and more is serious. */
export interface FindingsBlock {
  block: "findings";
  title: string;
  brief: boolean;
  /** firstSeenUnixNs: when an earlier diagnosis of the same process first saw it. */
  findings: {
    finding: string;
    severity: number;
    confidence: string | null;
    firstSeenUnixNs?: number;
    text: Piece[];
  }[];
}
/** What another profiler found in the same examination; its blocks follow. */
export interface SectionBlock {
  block: "section";
  title: string;
  profiler: string | null;
  finding: string | null;
  health: Health;
  text: Piece[];
}
export type Block = TableBlock | ChartBlock | HistogramBlock | FlameBlock | NoteBlock | FindingsBlock | SectionBlock;

export interface ReportFacts {
  profiler: string | null;
  title: string | null;
  process: string | null;
  targetId: number;
  runtime: string | null;
  container: string | null;
  pod?: string | null;
  host: string | null;
  when: string | null;
  whenUnixNs: number;
  windowNs: number;
  session: string | null;
  version: string | null;
  partial: string | null;
  /** The same as a sentence; reports of older programs have none. */
  partialText?: string;
}
export interface Verdict {
  health: Health;
  finding: string;
  plain: string;
  text: Piece[];
}
export interface Parameter {
  name: string;
  value: string;
  default: boolean;
}

export interface ReportDocument {
  format: string;
  formatVersion: number;
  facts: ReportFacts;
  verdict?: Verdict;
  /** What the user notices of it. */
  effect?: Piece[];
  next: Piece[];
  /** The id of the profiler that the next step is to run. */
  nextProfiler?: string;
  figures: Fact[];
  blocks: Block[];
  how: Fact[];
  parameters: Parameter[];
  cutStrings: number;
  cutItems: number;
}

export function cellKind(cell: Cell, column: Kind): Kind {
  return cell !== null && typeof cell === "object" ? cell.kind : column;
}

export function cellValue(cell: Cell): Bare {
  return cell !== null && typeof cell === "object" ? cell.value : cell;
}

/** For sorting and bars; NaN when it is text or was not measured. */
export function cellNumber(cell: Cell): number {
  const v = cellValue(cell);
  return typeof v === "number" ? v : NaN;
}

export function isTextKind(kind: Kind): boolean {
  return kind === "text" || kind === "code";
}
