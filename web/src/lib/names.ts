// A name as written in code, in three parts, by the rules of src/report/names.c.

export interface NameParts {
  space: string;
  member: string;
  rest: string;
}

/** Namespace and type up to the last dot, the member, and what follows it (parameters, a type). */
export function splitName(name: string): NameParts {
  let depth = 0,
    member = 0,
    end = 0;
  for (; end < name.length; end++) {
    const c = name[end]!;
    if (depth <= 0 && end && (c === " " || c === "(")) break;
    if (c === "<" || c === "[" || c === "(") depth++;
    else if (c === ">" || c === "]" || c === ")") depth--;
    // "Order..ctor" is the member ".ctor".
    else if (c === "." && depth <= 0 && end && name[end - 1] !== ".") member = end + 1;
  }
  // What the compiler of C adds ("finish_task_switch.isra.0") and a file with a line ("Cpu.cs:25") are no members.
  if (member >= end || /^\d|:\d+$/.test(name.slice(member, end))) member = 0;
  return { space: name.slice(0, member), member: name.slice(member, end), rest: name.slice(end) };
}

/** Short enough for a box of a flame graph: no parameters, no namespace. */
export function shortName(name: string): string {
  const { space, member } = splitName(name);
  const owner = space.slice(0, -1),
    dot = owner.lastIndexOf(".");
  return owner ? `${owner.slice(dot + 1)}.${member}` : member;
}
