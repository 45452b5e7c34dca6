// Which lines are drawn: of the heads together, those of the largest weights.

const MOST_LINES = 2000; // at once: of more nothing could be told apart

/** The lines between some places, the thinnest first; and how many there are that are not drawn. */
function linesBetween(tables, rows, columns) {
  const counts = { seen: 0, zero: 0, below: 0 };
  const sizes = [];
  eachWeight(tables, rows, columns, (weight) => {
    counts.seen++;
    if (weight === 0) counts.zero++;
    else if (Math.abs(weight) < state.least) counts.below++;
    else sizes.push(Math.abs(weight));
  });
  const bound = sizes.length > MOST_LINES ? sizeOfStrongest(sizes, MOST_LINES) : 0;
  const lines = linesFrom(tables, rows, columns, bound);
  const least = lines.length > 0 ? Math.abs(lines[0].weight) : 0;
  return { lines, ...counts, strong: sizes.length, least };
}

function eachWeight(tables, rows, columns, tell) {
  for (let slot = 0; slot < tables.length; slot++) {
    const { cells } = tables[slot];
    for (const row of rows) {
      for (const column of columns) {
        const weight = cells.weight(row, column);
        if (!Number.isNaN(weight)) tell(weight, slot, row, column);
      }
    }
  }
}

/** The least of so many that are the largest. */
const sizeOfStrongest = (sizes, most) => Float64Array.from(sizes).sort()[sizes.length - most];

/** All above a bound; of those that are as large, as many as there is room for. */
function linesFrom(tables, rows, columns, bound) {
  const [above, equal] = [[], []];
  eachWeight(tables, rows, columns, (weight, slot, query, key) => {
    const size = Math.abs(weight);
    if (size === 0 || size < state.least || size < bound) return;
    (size > bound ? above : equal).push({ slot, query, key, weight });
  });
  above.sort((one, other) => Math.abs(one.weight) - Math.abs(other.weight));
  return [...equal.slice(0, MOST_LINES - above.length), ...above];
}

/** The lines of tokens that are followed: all that one reads, and all who read the other. */
function linesOf({ query, key }, tables, rows, columns) {
  if (key === null) return linesBetween(tables, [query], columns);
  if (query === null) return linesBetween(tables, rows, [key]);
  const read = linesBetween(tables, [query], columns);
  const readers = linesBetween(tables, rows.filter((row) => row !== query), [key]);
  const both = { least: Math.min(...[read, readers].map(({ least }) => least).filter(Boolean)) };
  for (const name of ["seen", "zero", "below", "strong"]) both[name] = read[name] + readers[name];
  const lines = [...read.lines, ...readers.lines];
  lines.sort((one, other) => Math.abs(one.weight) - Math.abs(other.weight));
  return { ...both, lines };
}

/** How many lines are drawn of how many, and what those that are not have in common. */
function saidOfLines({ lines, seen, zero, below, strong, least }) {
  const weights = `${grouped(seen - zero)} ${seen - zero === 1 ? "weight" : "weights"}`;
  const more = zero > 0 ? `; ${grouped(zero)} more are 0` : "";
  if (seen === 0) return "nothing is read, so there are no lines.";
  if (seen === zero) return "all weights are 0, so there are no lines.";
  if (lines.length < strong) {
    const down = numberText(least, { digits: 3 });
    return `the ${grouped(lines.length)} largest of ${weights} have lines, down to ${down}.`;
  }
  if (below > 0) {
    const bound = numberText(state.least, { digits: 3 });
    return `${grouped(lines.length)} of ${weights} have lines: those of ${bound} and more.`;
  }
  return `all ${weights} have lines${more}.`;
}

const grouped = (number) => number.toLocaleString("en");
