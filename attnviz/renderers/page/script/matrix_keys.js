// The matrix by keyboard: arrows move the cell, Enter follows its row, Esc stops.

const LEAP = 10; // rows

const MOVES = {
  ArrowLeft: ({ row, column }) => ({ row, column: column - 1 }),
  ArrowRight: ({ row, column }) => ({ row, column: column + 1 }),
  ArrowUp: ({ row, column }) => ({ row: row - 1, column }),
  ArrowDown: ({ row, column }) => ({ row: row + 1, column }),
  Home: ({ row }) => ({ row, column: 0 }),
  End: ({ row }) => ({ row, column: Infinity }),
  PageUp: ({ row, column }) => ({ row: row - LEAP, column }),
  PageDown: ({ row, column }) => ({ row: row + LEAP, column }),
};

function startMatrixKeys() {
  const onFrame = (name, does) => matrix.frame.addEventListener(name, onThis(does));
  onFrame("keydown", (event) => {
    if (event.altKey || event.metaKey || matrix.layout === null) return;
    if (keyPressed(event)) event.preventDefault();
  });
  onFrame("blur", () => {
    matrix.within = false;
    drawMarks();
  });
}

/** Whether a key means something here. */
function keyPressed({ key, ctrlKey, shiftKey }) {
  if (lookUp(MOVES, key)) moveCell(key, ctrlKey);
  else if (key === "Enter" || key === " ") pinHere(shiftKey);
  else if (key === "Escape") return letGo();
  else return !ctrlKey && zoomByKey(key);
  return true;
}

/** From where one is, or was; to begin with from the row that is followed. */
function moveCell(key, ctrlKey) {
  const from = hoveredCell() ?? matrix.place;
  const here = from ? { row: Math.max(from.row, 0), column: Math.max(from.column, 0) } : null;
  const wanted = here ? MOVES[key](here) : startingCell();
  if (ctrlKey && key === "Home") wanted.row = 0;
  if (ctrlKey && key === "End") wanted.row = Infinity;
  goTo(wanted);
}

const startingCell = () => ({ row: Math.max(rowOfToken(state.query), 0), column: 0 });

function goTo({ row, column }) {
  const within = (place, places) => Math.min(Math.max(place, 0), places.length - 1);
  const cell = { row: within(row, matrix.rows), column: within(column, matrix.columns) };
  matrix.within = true;
  matrix.line.setAttribute("aria-live", "polite");
  scrollToCell(cell);
  hoverAt(cell.row, cell.column);
  if (state.cell) change({ cell: state.hover });
}

/** As far as a zoomed picture has to be moved to show a cell. */
function scrollToCell({ row, column }) {
  const { cell, open } = matrix.layout;
  const near = (from, place, size, room) =>
    Math.min(Math.max(from, (place + 1) * size - room), place * size);
  matrix.frame.scrollLeft = near(matrix.frame.scrollLeft, column, cell.wide, open.wide);
  matrix.frame.scrollTop = near(matrix.frame.scrollTop, row, cell.high, open.high);
}

function pinHere(column) {
  const here = hoveredCell();
  matrix.touched = false;
  if (here && column && here.column >= 0) pinColumn(here.column);
  else if (here && here.row >= 0) pinRow(here.row);
}

/** The arithmetic goes first, then what is pinned, then the cell; where nothing is left to go, the
 *  key is not ours. */
function letGo() {
  if (state.cell !== null) return closeArithmetic();
  if (state.query === null && state.key === null && state.hover === null) return false;
  const pinned = state.query !== null || state.key !== null;
  change(pinned ? { query: null, key: null } : { hover: null });
  return true;
}
