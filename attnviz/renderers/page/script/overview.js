// All heads as small maps, layers in rows; a click opens one.

const overview = {
  maps: null, // every head in few cells
  layout: null,
  hovered: null, // the head under the pointer, or the one that has the focus
};

function startOverview(section) {
  if (choosable.length < 2) return (section.hidden = true);
  Object.assign(overview, overviewElements());
  section.classList.add("overview");
  section.append(overview.title, overview.frame, overview.line, overview.flags, overview.bar);
  overview.frame.append(overview.map, overview.grid);
  placeCells();
  startOverviewPointer();
  overview.grid.addEventListener("keydown", moveInOverview);
  whenChanged(["theme", "log"], drawOverview);
  whenChanged(["head", "together"], chooseInOverview);
  whenChanged(["computed"], loadOverview);
  chooseInOverview();
  new ResizeObserver(layOverview).observe(section);
  loadOverview();
}

function overviewElements() {
  const rows = [...rowsOfHeads().values()].map((row) => element("div", { role: "row" }, ...row));
  return {
    title: element("p", { class: "matrix-title" }, nameOfAll(), aboutOverview()),
    frame: element("div", { class: "overview-frame" }),
    map: element("canvas", { "aria-hidden": "true" }),
    grid: element("div", { role: "grid", "aria-label": "all heads: Enter opens one" }, ...rows),
    line: element("p", { class: "overview-line", "aria-hidden": "true" }),
    flags: element("ul", { class: "flags" }, ...attention.flags.map(flagElement)),
    bar: newColorBar(),
  };
}

/** `All heads`; where rows are no layers, `All ways`, or `All heads, moment by moment`. */
function nameOfAll() {
  const { columns, rowsAre, columnsAre } = attention;
  const all = rowsAre === "layer" || columns.length > 1 ? columnsAre : rowsAre;
  const isAll = all === rowsAre || rowsAre === "layer" || isOfOneMoment;
  const along = isAll ? "" : `, ${rowsAre} by ${rowsAre}`;
  return element("strong", {}, `All ${all}s${along}`);
}

const aboutOverview = () =>
  element("span", { class: "matrix-about" }, "each map: rows attend to columns");

/** The cells of the grid, by the row that they stand in. */
function rowsOfHeads() {
  const rows = new Map();
  const inOrder = [...choosable].sort(
    (one, other) =>
      heads[one].place[0] - heads[other].place[0] || heads[one].place[1] - heads[other].place[1],
  );
  for (const head of inOrder) {
    const [row] = heads[head].place;
    rows.set(row, [...(rows.get(row) ?? []), headCell(head)]);
  }
  return rows;
}

function headCell(head) {
  const said = saidOfHead(head);
  return element("div", { role: "gridcell", tabindex: -1, "data-head": head, "aria-label": said });
}

/** Its name, and what it does more than any other. */
function saidOfHead(head) {
  const does = attention.flags.filter((flag) => flag.head === head);
  return [calledHead(head), ...does.map(({ kind, number }) => `${kind} ${number}`)].join(", ");
}

const letterOf = (place) => String.fromCharCode(97 + (place % 26));

/** `a previous token L0H2 1.0`: what a letter at a map means, which opens it, too. */
function flagElement({ head, kind, number }, place) {
  const letter = element("span", { class: "flag-letter" }, letterOf(place));
  const name = element("strong", {}, heads[head].name);
  const button = element("button", { type: "button" }, letter, ` ${kind} `, name, ` ${number}`);
  button.addEventListener("click", () => change({ head }));
  return element("li", {}, button);
}

async function loadOverview() {
  overview.maps = await thumbnails();
  layOverview();
}

/** Another size: maps, and what can be clicked, have another place. */
function layOverview() {
  const wide = overview.maps === null ? 0 : overview.line.clientWidth;
  if (wide === 0) return;
  overview.layout = overviewLayout(wide);
  const { size } = overview.layout;
  sizeCanvas(overview.map, size);
  sized(overview.grid, size.wide, size.high);
  const most = roomOfMaps();
  overview.frame.style.maxHeight = most < Infinity ? `${most}px` : "";
  placeCells();
  drawOverview();
}

/** Every cell of the grid lies on its map. */
function placeCells() {
  overview.cells ??= [...overview.grid.querySelectorAll("[role=gridcell]")];
  if (overview.layout === null) return;
  for (const cell of overview.cells) {
    const head = Number(cell.dataset.head);
    cell.hidden = !isSeenInOverview(head);
    const { x, y, wide, high } = boxOfHead(head);
    Object.assign(cell.style, { left: `${x}px`, top: `${y}px` });
    sized(cell, wide, high);
  }
}

const cellOf = (head) => overview.cells.find((cell) => Number(cell.dataset.head) === head);

/** The chosen head, and those that are drawn with it, have frames; Tab comes to the chosen one. */
function chooseInOverview() {
  for (const cell of overview.cells) {
    const head = Number(cell.dataset.head);
    cell.setAttribute("aria-selected", String(head === state.head));
    cell.tabIndex = head === state.head ? 0 : -1;
  }
  if (isOfOneMoment) return layOverview();
  frameHeads();
  if (overview.layout !== null) showOverviewColors();
}

function sayHead() {
  const head = overview.hovered;
  overview.line.textContent =
    head === null ? `Showing ${calledHead(state.head)}` : saidOfHead(head);
}

const calledHead = (head) => heads[head].name + (heads[head].off ? " (off)" : "");

/* The pointer: its head is named; a click opens it, with Shift or Ctrl draws its lines, too. */

function startOverviewPointer() {
  const on = (name, does) => {
    overview.grid.addEventListener(name, (event) => {
      const cell = event.target.closest("[role=gridcell]");
      does(cell ? Number(cell.dataset.head) : null, event);
    });
  };
  const say = (head) => {
    overview.hovered = head;
    sayHead();
  };
  on("pointerover", say);
  on("pointerleave", () => say(null));
  on("focusin", say);
  on("focusout", () => say(null));
  on("click", openHead);
}

function openHead(head, { shiftKey, ctrlKey, metaKey }) {
  if (head === null) return;
  const another = shiftKey || ctrlKey || metaKey;
  if (!another) change({ head, ...viewOfOpened() });
  else if (canStandTogether(head)) toggleHead(head);
}

/* Keys: arrows move from head to head, Enter opens one. */

function moveInOverview(event) {
  const from = Number(event.target.closest("[role=gridcell]")?.dataset.head ?? state.head);
  const move = lookUp(OVERVIEW_MOVES, event.key);
  if (event.key === "Enter" || event.key === " ") openHead(from, event);
  else if (move) focusHead(move(from, event.ctrlKey));
  else return;
  event.preventDefault();
}

const OVERVIEW_MOVES = {
  ArrowLeft: (head) => nextHead(head, 0, -1),
  ArrowRight: (head) => nextHead(head, 0, 1),
  ArrowUp: (head) => nextHead(head, -1, 0),
  ArrowDown: (head) => nextHead(head, 1, 0),
  Home: (head, all) => (all ? headAtEnd(() => true, -1) : headAtEnd(inRowOf(head), -1)),
  End: (head, all) => (all ? headAtEnd(() => true, 1) : headAtEnd(inRowOf(head), 1)),
};

const inRowOf = (head) => (other) => placeOfMap(other)[0] === placeOfMap(head)[0];

/** The nearest one in a direction; or itself, where there is none. */
function nextHead(head, down, across) {
  const [row, column] = placeOfMap(head);
  const away = (other) => {
    const [otherRow, otherColumn] = placeOfMap(other);
    const [below, beside] = [otherRow - row, otherColumn - column];
    const along = below * down + beside * across;
    return along > 0 ? along + 100 * Math.abs(down ? beside : below) : Infinity;
  };
  const nearest = headsInOverview().reduce((one, other) => (away(other) < away(one) ? other : one));
  return away(nearest) < Infinity ? nearest : head;
}

/** The first, or the last, of some heads. */
function headAtEnd(among, end) {
  const places = headsInOverview().filter(among);
  const at = (head) => placeOfMap(head)[0] * 1e4 + placeOfMap(head)[1];
  return places.reduce((one, other) => ((at(other) - at(one)) * end > 0 ? other : one));
}

function focusHead(head) {
  for (const cell of overview.cells) cell.tabIndex = -1;
  const cell = cellOf(head);
  cell.tabIndex = 0;
  cell.focus();
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
}
