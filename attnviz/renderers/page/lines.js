// Lines: the words twice, and a line from each that reads to each that is read.

const lineView = {
  tables: [], // the cells of each head that is drawn
  sides: null, // the tokens that read, and those that are read
  places: { query: [], key: [] }, // which of them are shown
  found: null, // the lines of all of them
  followed: null, // the lines of those that are followed alone, if any are
  layout: null,
  whole: false, // whether all rows are on the screen, however close to each other
  stale: true, // whether what is drawn is not what is chosen, for nobody sees it
};

function startLines(section) {
  Object.assign(lineView, lineElements(), { section });
  const { legend, headings, frame, says, law } = lineView;
  section.append(legend, headings, frame, says, law);
  whenChanged(["head", "together", "special"], loadLines);
  whenChanged(["least", "log"], findLines);
  whenChanged(["theme"], () => lineView.found && paintLegendAndLines());
  whenChanged(["query", "key"], pressWords);
  whenChanged(["hover", "query", "key"], showFollowedLines);
  frame.addEventListener("scroll", paintLines);
  for (const end of ["query", "key"]) makeColumnChoosable(end);
  new ResizeObserver(layLines).observe(section);
  addEventListener("resize", layLines);
  loadLines();
}

function lineElements() {
  const [base, over] = [0, 1].map(() => element("canvas", { "aria-hidden": "true" }));
  const stuck = element("div", { class: "lines-stuck" }, base, over);
  const columns = { query: wordColumn("query"), key: wordColumn("key") };
  const stack = element("div", { class: "lines-stack" }, stuck, columns.query, columns.key);
  const fitting = element("button", { type: "button", hidden: true });
  fitting.addEventListener("click", () => {
    lineView.whole = !lineView.whole;
    layLines();
  });
  const titles = { query: element("span"), key: element("span") };
  return {
    base, over, stuck, columns, stack, fitting, titles,
    frame: element("div", { class: "lines-frame" }, stack),
    legend: element("div", { class: "lines-legend", role: "group", "aria-label": "heads" }),
    headings: element("p", { class: "lines-headings" }, titles.query, fitting, titles.key),
    says: element("p", { class: "lines-says" }),
    law: element("p", { class: "lines-law" }),
  };
}

const isSeen = () => lineView.section.clientWidth > 0;

/** The cells of all heads that are drawn; where others are chosen before they come, theirs. */
async function loadLines() {
  lineView.stale = true;
  if (!isSeen()) return;
  const drawn = headsTogether();
  const cells = await Promise.all(drawn.map(cellsOf));
  if (!same(drawn, headsTogether())) return;
  lineView.tables = drawn.map((head, slot) => ({ head, cells: cells[slot] }));
  lineView.sides = sidesOf(drawn[0], cells[0]);
  lineView.places = {
    query: shownPlaces(lineView.sides.query, cells[0].rows),
    key: shownPlaces(lineView.sides.key, cells[0].columns),
  };
  lineView.stale = false;
  showLegend(lineView.legend);
  nameColumns();
  buildWords();
  findLines();
}

/** Who reads on the left, who is read on the right. */
function nameColumns() {
  const { titles, sides, columns } = lineView;
  const self = readsItself(state.head);
  titles.query.textContent = self ? "query (reads)" : sides.query.title || "query (reads)";
  titles.key.textContent = self ? "key (is read)" : sides.key.title || "key (is read)";
  for (const end of ["query", "key"]) columns[end].setAttribute("aria-label", titles[end].textContent);
}

function findLines() {
  if (lineView.stale) return;
  const { tables, places } = lineView;
  lineView.found = linesBetween(tables, places.query, places.key);
  layLines();
}

/** Another size: everything is laid out anew. */
function layLines() {
  if (!isSeen()) return;
  if (lineView.stale) return void loadLines();
  lineView.layout = linesLayout(lineView);
  sizeLines(lineView.layout);
  placeWords();
  paintLines();
}

function sizeLines({ wide, whole, open, fits, columns }) {
  const { frame, stack, stuck, base, over, fitting, titles } = lineView;
  titles.query.style.minWidth = `${columns.from - columns.strip - BESIDE_LINES}px`;
  titles.key.style.minWidth = `${wide - columns.to - columns.strip - BESIDE_LINES}px`;
  frame.style.height = `${open}px`;
  stack.style.height = `${whole}px`;
  sized(stuck, wide, open);
  for (const canvas of [base, over]) {
    canvas.width = Math.round(wide * devicePixelRatio);
    canvas.height = Math.round(open * devicePixelRatio);
    sized(canvas, wide, open);
  }
  fitting.hidden = fits && !lineView.whole;
  fitting.textContent = lineView.whole ? "readable rows" : "all rows at once";
}

function paintLegendAndLines() {
  showLegend(lineView.legend);
  layLines();
}

/** The token of a state, or of what is under the pointer, if it is shown here. */
function placeOfToken(end, token) {
  if (token === null || token === undefined) return null;
  const place = Math.floor(token / lineView.sides[end].size);
  return lineView.layout.index[end].has(place) ? place : null;
}

/** Whose lines alone are drawn: those under the pointer, or else those that are followed. */
function followedPlaces() {
  for (const of of [state.hover, state]) {
    const query = placeOfToken("query", of?.query);
    const key = placeOfToken("key", of?.key);
    if (query !== null || key !== null) return { query, key };
  }
  return null;
}

/** With every move of a pointer: the lines and numbers of one token, everything else stays. */
function showFollowedLines() {
  if (lineView.stale || lineView.layout === null || !isSeen()) return;
  const { tables, places, base, says, law, found } = lineView;
  const of = followedPlaces();
  lineView.of = of;
  lineView.followed = of && linesOf(of, tables, places.query, places.key);
  base.style.visibility = of ? "hidden" : "";
  paintFollowedLines();
  markWords(of);
  const whose = of ? `${saidOfFollowed(of)}: ` : "";
  says.textContent = `${capital(`${whose}${saidOfLines(lineView.followed ?? found)}`)}${saidOfBorder()}`;
  law.textContent = saidOfStrokes(headsTogether());
}

function saidOfFollowed({ query, key }) {
  const { sides } = lineView;
  const names = [];
  if (query !== null) names.push(`what ${calledPlace(sides.query, query)} reads`);
  if (key !== null) names.push(`who reads ${calledPlace(sides.key, key)}`);
  return names.join(", and ");
}

function saidOfBorder() {
  const { query, key } = lineView.sides;
  const bordered = [query, key].some(({ border }) => border !== null && border !== undefined);
  return bordered ? " Below the dashed rule: what the model wrote itself." : "";
}
