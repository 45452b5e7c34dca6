// The numbers of a head as CSV, as exact as the page has them.

const FORMULA = /^(?:[=@＝＋－＠].|[+-](?![\d.,]*$))/su; // what a spreadsheet would compute
const HEAD_COLUMNS = ["layer", "head", "name"];
const CELL_COLUMNS = ["query number", "query", "key number", "key"];
const LINES_OF_A_SHEET = 2 ** 20; // that a spreadsheet takes; of a larger head those of a row

/** The numbers of a head and its name; of a mean its name alone. */
function headCells(name) {
  const [, layer, number] = /L(\d+)(?: \w+ )?H(\d+)$/u.exec(name) ?? [];
  return [layer ?? "", number ?? "", name];
}

/** A line for each cell of each head; of one with too many of them, or whose cells are blocks, for
 *  each token that the followed one reads, if the page has its row. */
async function csvOf(those, query) {
  const label = scaleOf(those[0]).label;
  const header = [...HEAD_COLUMNS, ...CELL_COLUMNS, label, "score", "visible"];
  const lines = await Promise.all(
    those.map((head) => linesOfHead(head, tokenInHead(head, 0, query))));
  return new Blob([quotedLine(header), ...lines.flat()], { type: FILES.CSV });
}

async function linesOfHead(head, query) {
  const cells = await cellsOf(head);
  const finer = cells.tall * cells.wide > 1 && query !== null && cells.row(query) !== null;
  const whole = cells.rows * cells.columns < LINES_OF_A_SHEET && !finer;
  if (!whole) return [linesOfToken(head, cells, query)];
  return Array.from({ length: cells.rows }, (_, row) => linesOfRow(head, cells, row));
}

/** Why there are none to take, if there are none. */
async function missingNumbers(those, token) {
  const missing = await Promise.all(
    those.map((head) => missingOfHead(head, tokenInHead(head, 0, token))));
  return missing.find(Boolean) ?? "";
}

async function missingOfHead(head, query) {
  const cells = await cellsOf(head);
  if (cells.rows * cells.columns < LINES_OF_A_SHEET) return "";
  const count = (cells.rows * cells.columns).toLocaleString("en");
  if (query === null) return `${count} numbers are too many for a table: follow a token first.`;
  return cells.row(query) === null ? capital(missingRow(readers(head), query)) : "";
}

function linesOfRow(head, cells, row) {
  const [reads, read] = [
    { ...readers(head), size: cells.tall },
    { ...readTokens(head), size: cells.wide },
  ];
  const start = [...headCells(heads[head].name), ...namesOfPlace(reads, row)];
  const lines = Array.from({ length: cells.columns }, (_, column) => {
    const numbers = [cells.weight(row, column), cells.score(row, column)].map(exactNumber);
    return [...start, ...namesOfPlace(read, column), ...numbers, !cells.hides(row, column)];
  });
  return lines.map(quotedLine).join("");
}

/** The same of one token, number by number, also where cells stand for several of them. */
function linesOfToken(head, cells, query) {
  const [reads, read] = [{ ...readers(head), size: 1 }, { ...readTokens(head), size: 1 }];
  const start = [...headCells(heads[head].name), ...namesOfPlace(reads, query)];
  const lines = Array.from(read.labels, (_, key) => {
    const found = cells.at(query, key);
    const numbers = [found.weight, knownScoreOf(found)].map(exactNumber);
    return [...start, ...namesOfPlace(read, key), ...numbers, !found.hidden];
  });
  return lines.map(quotedLine).join("");
}

const namesOfPlace = (side, place) => [numberName(side, place), blockName(side, place)];
const exactNumber = (number) => (Number.isNaN(number) ? "" : number);
const quotedLine = (values) => `${values.map(quoted).join(",")}\n`;

function quoted(value) {
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
