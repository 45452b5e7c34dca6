// The view of lines: the words twice, and a line from each query to each key.

const lineView = {
  loaded: null, // the cells of all heads that are to be drawn
  tables: [], // the cells of each head that is drawn
  sides: null, // the tokens that read, and those that are read
  places: { query: [], key: [] }, // which of them are shown
  borders: { query: undefined, key: undefined }, // before which places there is a rule
  words: { query: [], key: [] },
  shown: { query: [], key: [] }, // those that are in the page,
  stops: { query: 0, key: 0 }, // and the one to which Tab leads
  found: null, // the lines of all of them
  of: null, // the places that are followed, if any are,
  followed: null, // and their lines
  layout: null,
  whole: false, // whether all rows are on the screen, however close to each other
  seen: false, // whether they are the view that is large
  pictured: false, // or a picture of them is wanted all the same
  wide: 0, // how much room there is
  scrolled: 0,
  stale: true, // whether what is drawn is not what is chosen, for nobody sees it
};

function startLines(section) {
  Object.assign(lineView, lineElements(), { section });
  const { legend, headings, frame, says, law } = lineView;
  section.append(legend, headings, frame, says, law);
  whenChanged(["head", "lines", "together", "special"], loadLines);
  whenChanged(["least", "log"], findLines);
  whenChanged(["theme"], paintLegendAndLines);
  whenChanged(["query", "key"], () => {
    pressWords();
    scrollToFollowed();
  });
  whenChanged(["hover", "query", "key"], showFollowedLines);
  frame.addEventListener("scroll", () => {
    lineView.scrolled = frame.scrollTop;
    paintLines();
  });
  for (const end of ["query", "key"]) makeColumnChoosable(end);
  new ResizeObserver(fitLines).observe(section);
  addEventListener("resize", fitLines);
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

const areWanted = () => lineView.seen || lineView.pictured;

/** The cells of all heads that are drawn; where others are chosen before they come, theirs. */
async function loadLines() {
  lineView.stale = true;
  const drawn = headsOfLines();
  const cells = await Promise.all(drawn.map(cellsOf));
  if (!same(drawn, headsOfLines())) return;
  lineView.loaded = { drawn, cells };
  if (areWanted()) showLines();
}

function showLines() {
  takeCells(lineView.loaded);
  showLegend(lineView.legend);
  nameColumns();
  buildWords();
  findLines();
}

function takeCells({ drawn, cells }) {
  const sides = sidesOf(drawn[0], cells[0]);
  lineView.tables = drawn.map((head, slot) => ({ head, cells: cells[slot] }));
  lineView.sides = sides;
  lineView.places = {
    query: shownPlaces(sides.query, cells[0].rows),
    key: shownPlaces(sides.key, cells[0].columns),
  };
  for (const end of ["query", "key"]) {
    lineView.borders[end] = firstBehind(sides[end], lineView.places[end]);
  }
  lineView.stale = false;
}

/** Who reads on the left, who is read on the right. */
function nameColumns() {
  const { titles, sides, columns } = lineView;
  const self = readsItself(lineHead());
  titles.query.textContent = self ? "query (reads)" : sides.query.title || "query (reads)";
  titles.key.textContent = self ? "key (is read)" : sides.key.title || "key (is read)";
  for (const end of ["query", "key"]) {
    columns[end].setAttribute("aria-label", titles[end].textContent);
  }
}

/** Which lines there are; where nobody sees them they are looked for when somebody does. */
function findLines() {
  lineView.stale ||= !areWanted();
  if (lineView.stale) return;
  const { tables, places } = lineView;
  lineView.found = linesBetween(tables, places.query, places.key);
  layLines();
}

/** Another size of the page. */
function fitLines() {
  lineView.seen = lineView.section.clientWidth > 0;
  if (!lineView.seen) return;
  lineView.wide = lineView.section.clientWidth;
  if (lineView.stale) loadLines();
  else layLines();
}

/** Everything is laid out anew. */
function layLines() {
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
  lineView.stale ||= !areWanted();
  if (lineView.stale) return;
  showLegend(lineView.legend);
  layLines();
}

/** The token of a state, or of what is under the pointer, if it is shown here. */
function placeOfToken(end, token) {
  if (token === null || token === undefined) return null;
  const here = tokenInHead(lineHead(), end === "query" ? 0 : 1, token);
  const place = Math.floor(here / lineView.sides[end].size);
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
  if (lineView.stale || lineView.layout === null || !areWanted()) return;
  const { tables, places, base, says, law, found, layout } = lineView;
  const of = followedPlaces();
  lineView.of = of;
  lineView.followed = of && linesOf(of, tables, places.query, places.key);
  lineView.strokes = of ? followedStrokes(lineView.followed.lines) : layout.strokes;
  base.style.visibility = of ? "hidden" : "";
  paintFollowedLines();
  markWords();
  const whose = of ? `${saidOfFollowed(of)}: ` : "";
  const said = `${whose}${saidOfLines(lineView.followed ?? found)}${saidOfBorder()}`;
  says.textContent = capital(said);
  law.textContent = saidOfStrokes(layout, lineView.strokes);
}

/** A word that is followed is in sight, wherever it was chosen. */
function scrollToFollowed() {
  if (lineView.stale || lineView.layout === null || !areWanted()) return;
  const { frame, layout } = lineView;
  for (const end of ["key", "query"]) {
    const place = placeOfToken(end, state[end]);
    if (place === null) continue;
    const height = heightOf(layout, end, place);
    const within = height - frame.scrollTop;
    const seen = within > layout.pitch && within < layout.open - layout.pitch;
    if (!seen) frame.scrollTop = height - layout.open / 2;
  }
}

function followedStrokes(followed) {
  const { heads: drawn, pitch } = lineView.layout;
  return strokesOn(drawn[0], pitch, drawn.length, followed);
}

function saidOfFollowed({ query, key }) {
  const { sides } = lineView;
  const names = [];
  if (query !== null) names.push(saidOfRowOf(sides.query, query));
  if (key !== null) names.push(`which tokens read ${calledPlace(sides.key, key)}`);
  return names.join(", and ");
}

function saidOfRowOf(side, place) {
  return `what ${calledPlace(side, place)} ${verbsOf(side, place).reads}`;
}

function saidOfBorder() {
  const bordered = Object.values(lineView.borders).some((place) => place !== undefined);
  return bordered ? " Below the dashed rule: tokens generated by the model." : "";
}
