// Which lines are drawn: those of the largest weights, of all chosen heads.

const BINS = 4096;
const MOST_LINES = 2000; // at once: of more nothing could be told apart

/** The lines between some places, the thinnest first; and how many there are that are not drawn. */
function linesBetween(tables, rows, columns) {
  const counts = { seen: 0, zero: 0, below: 0, strong: 0 };
  const bins = new Uint32Array(BINS + 1);
  const binOf = binsUpTo(Math.max(...tables.map(({ cells }) => cells.largest)));
  eachWeight(tables, rows, columns, (weight) => {
    const size = Math.abs(weight);
    counts.seen++;
    if (size === 0) counts.zero++;
    else if (size < state.least) counts.below++;
    else bins[binOf(size)]++;
  });
  counts.strong = counts.seen - counts.zero - counts.below;
  const lines = strongestLines(tables, rows, columns, [lowestBin(bins), binOf]);
  const least = lines.length > 0 ? Math.abs(lines[0].weight) : 0;
  return { lines, ...counts, least };
}

function eachWeight(tables, rows, columns, tell) {
  for (let slot = 0; slot < tables.length; slot++) {
    const { weights, columns: across } = tables[slot].cells;
    for (const row of rows) {
      for (const column of columns) {
        const weight = weights[row * across + column];
        if (weight === weight) tell(weight, slot, row, column); // what is hidden is not a number
      }
    }
  }
}

/** Of millions of weights the largest are found by counting how many are about how large. */
const binsUpTo = (largest) => (size) => Math.floor(Math.sqrt(size / largest) * BINS);

/** From this bin on, there are enough lines. */
function lowestBin(bins) {
  let [bin, found] = [BINS + 1, 0];
  while (bin > 0 && found < MOST_LINES) found += bins[--bin];
  return bin;
}

/** Those in the upper bins; of as large ones as the last, as many as there is room for. */
function strongestLines(tables, rows, columns, [lowest, binOf]) {
  const [above, last] = [[], []];
  eachWeight(tables, rows, columns, (weight, slot, query, key) => {
    const size = Math.abs(weight);
    if (size === 0 || size < state.least) return;
    const bin = binOf(size);
    if (bin > lowest) above.push({ slot, query, key, weight });
    else if (bin === lowest) last.push({ slot, query, key, weight });
  });
  const room = MOST_LINES - above.length;
  const strong = last.length > room ? last.sort(bySize).slice(last.length - room) : last;
  return [...strong, ...above].sort(bySize);
}

const bySize = (one, other) => Math.abs(one.weight) - Math.abs(other.weight);

/** The lines of tokens that are followed: all that one reads, and all who read the other. */
function linesOf({ query, key }, tables, rows, columns) {
  if (key === null) return linesBetween(tables, [query], columns);
  if (query === null) return linesBetween(tables, rows, [key]);
  const read = linesBetween(tables, [query], columns);
  const readers = linesBetween(tables, rows.filter((row) => row !== query), [key]);
  const both = { least: Math.min(...[read, readers].map(({ least }) => least).filter(Boolean)) };
  for (const name of ["seen", "zero", "below", "strong"]) both[name] = read[name] + readers[name];
  const lines = [...read.lines, ...readers.lines];
  return { ...both, lines: lines.sort(bySize) };
}

/** How many lines are drawn of how many, and what those that are not have in common. */
function saidOfLines({ lines, seen, zero, below, strong, least }) {
  const called = scaleOf(state.head).label === "weight" ? "weight" : "number";
  const weights = `${grouped(seen - zero)} ${called}${seen - zero === 1 ? "" : "s"}`;
  const more = zero > 0 ? `; ${grouped(zero)} more ${zero === 1 ? "is" : "are"} 0` : "";
  if (seen === 0) return "no weights are visible, so there are no lines.";
  if (seen === zero) return `all ${called}s are 0, so there are no lines.`;
  if (lines.length < strong) {
    const down = numberText(least, { digits: 3 });
    return `the ${grouped(lines.length)} largest of ${weights} have lines, down to ${down}.`;
  }
  if (below > 0) {
    return `${grouped(lines.length)} of ${weights} have lines: those of at least ${leastText()}.`;
  }
  const all = lines.length === 1 ? "the only weight has a line" : `all ${weights} have lines`;
  return `${all}${more}.`;
}

const grouped = (number) => number.toLocaleString("en");
