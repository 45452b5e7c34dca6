// The numbers of a head as a table, for screen readers and for reading digits.

const MOST_IN_A_TABLE = 400; // cells of a head that are all written; of a larger one a row is

function startTable(section) {
  const details = element("details", {}, element("summary", {}, "Numbers as a table"));
  const holder = element("div", { class: "frame" });
  details.append(holder);
  section.append(details);
  const show = async () => details.open && showTable(holder, state.head, state.query);
  details.addEventListener("toggle", show);
  whenChanged(["head", "query", "special"], show);
}

async function showTable(holder, head, query) {
  const cells = await cellsOf(head);
  if (head !== state.head || query !== state.query) return;
  const whole = cells.tall === 1 && cells.wide === 1;
  if (query !== null) return holder.replaceChildren(tableOfRow(head, cells, query));
  const small = whole && cells.rows * cells.columns <= MOST_IN_A_TABLE;
  holder.replaceChildren(small ? tableOfHead(head, cells) : element("p", {}, HOW_TO_SEE_A_ROW));
}

const HOW_TO_SEE_A_ROW = "Follow a token to see what it reads.";

/** The tokens of a side that are shown: all, or those of the text alone. */
const shownOf = (side) =>
  [...side.labels.keys()].filter((place) => state.special || !isSpecial(side, place));

/** What one token reads, a row for each token that is read. */
function tableOfRow(head, cells, query) {
  const numbers = cells.row(query);
  const [side, read] = [readers(head), readTokens(head)];
  const title = `What ${calledToken(side, query)} reads in ${heads[head].name}`;
  if (numbers === null) return element("p", {}, `${title}: ${missingRow(side, query)}`);
  const scores = cells.hasScores ? ["score"] : [];
  const columns = ["number", read.counts, scaleOf(head).label, ...scores];
  const seen = shownOf(read).filter((key) => !Number.isNaN(numbers[key]));
  const rows = seen.map((key) => rowOfTable(head, cells, query, key));
  const hidden = numbers.filter(Number.isNaN).length;
  const are = hidden === 1 ? "is" : "are";
  const note = hidden ? ` (${hidden.toLocaleString("en")} more ${are} hidden by the mask)` : "";
  return tableOf(title + note, columns, rows);
}

function rowOfTable(head, cells, query, key) {
  const [read, found] = [readTokens(head), cells.at(query, key)];
  const row = [element("td", {}, tokenNumber(read, key)), rowHeading(read.labels[key])];
  row.push(element("td", {}, knownText(found.weight, found.error, heads[head])));
  if (cells.hasScores) row.push(element("td", {}, scoreText(found)));
  return element("tr", {}, ...row);
}

const rowHeading = (text) => element("th", { scope: "row" }, text);
const inFour = (number, share) => numberText(number, { digits: 4, share });
const scoreText = (found) => (found.score === null ? "" : knownScore(found, 4));
const calledToken = (side, place) => calledPlace({ ...side, size: 1 }, place);

/** Who reads whom: a row for each token that reads, a column for each that is read. */
function tableOfHead(head, cells) {
  const [side, read] = [readers(head), readTokens(head)];
  const { share } = heads[head];
  const rows = shownOf(side).map((query) =>
    element(
      "tr",
      {},
      rowHeading(tokenName(side, query)),
      ...shownOf(read).map((key) => element("td", {}, inFour(cells.weight(query, key), share))),
    ));
  const columns = ["", ...shownOf(read).map((key) => tokenName(read, key))];
  const title = `${capital(scaleOf(head).label)} in ${heads[head].name}`;
  return tableOf(`${title}: rows attend to columns`, columns, rows);
}

function tableOf(title, columns, rows) {
  const names = columns.map((name) =>
    name ? element("th", { scope: "col" }, name) : element("td", {}));
  return element(
    "table",
    {},
    element("caption", {}, title),
    element("thead", {}, element("tr", {}, ...names)),
    element("tbody", {}, ...rows),
  );
}
