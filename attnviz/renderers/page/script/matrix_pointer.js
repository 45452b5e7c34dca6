// The pointer on the matrix: describes its cell; a click follows a row or a column.

function startMatrixPointer() {
  const { over, frame } = matrix;
  const onOver = (name, does) => over.addEventListener(name, onThis(does));
  onOver("pointermove", pointAtCell);
  onOver("pointerdown", (event) => {
    matrix.touched = event.pointerType === "touch";
    pointAtCell(event);
  });
  onOver("pointerleave", leaveMatrix);
  onOver("click", pinAt);
  const redraw = onThis(drawMatrix);
  frame.addEventListener("scroll", () => requestAnimationFrame(redraw));
}

/** What stands at a place of the canvas: a drawn row, a drawn column, or both; -1 is none. */
function placeAt(x, y) {
  const { left, top, cell, open, angle } = matrix.layout;
  const above = y < top;
  const leaning = above && angle === 45 ? top - y : 0;
  const [across, down] = [x - left - leaning, y - top];
  const inside = (at, room) => at >= 0 && at < room;
  const column = inside(across, open.wide) ? Math.floor((across + matrix.moved.x) / cell.wide) : -1;
  const row = inside(down, open.high) ? Math.floor((down + matrix.moved.y) / cell.high) : -1;
  const within = (place, places) => (place < places.length ? place : -1);
  return {
    row: above ? -1 : within(row, matrix.rows),
    column: x < left && !above ? -1 : within(column, matrix.columns),
  };
}

/** A token of those that a drawn row stands for, or the first of those of a column. */
const tokenOfRow = (row) =>
  row < 0 ? null : tokenOfPage(matrix.head, 0, matrix.cells.token(matrix.rows[row]));
function tokenOfColumn(column) {
  if (column < 0) return null;
  return tokenOfPage(matrix.head, 1, blockOf(matrix.read, matrix.columns[column]).first);
}

function pointAtCell({ offsetX, offsetY }) {
  const { row, column } = placeAt(offsetX, offsetY);
  matrix.within = true;
  matrix.line.setAttribute("aria-live", "off");
  matrix.over.classList.toggle("pinnable", row >= 0 || column >= 0);
  hoverAt(row, column);
}

function hoverAt(row, column) {
  const nowhere = row < 0 && column < 0;
  if (!nowhere) matrix.place = { row, column };
  change({ hover: nowhere ? null : { query: tokenOfRow(row), key: tokenOfColumn(column) } });
}

/** A finger leaves when it is lifted, and what it touched stays. */
function leaveMatrix({ pointerType }) {
  if (pointerType === "touch") return;
  matrix.within = false;
  change({ hover: null });
}

function pinAt({ offsetX, offsetY }) {
  const { row, column } = placeAt(offsetX, offsetY);
  if (row >= 0 && column >= 0 && hasVectors(matrix.head)) chooseCell(row, column);
  else if (row >= 0) pinRow(row, column);
  else if (column >= 0) pinColumn(column);
}

/** Follow a row, or let it go; where a finger shows other cells of the same row, it stays. */
function pinRow(row, column = -1) {
  const query = tokenOfRow(row);
  if (query === null) return;
  const again = !matrix.touched || matrix.pinnedAt === column;
  matrix.pinnedAt = column;
  change({ query: state.query === query && again ? null : query });
}

/** Show the arithmetic of a cell, and follow its row; or let both go. */
function chooseCell(row, column) {
  const cell = { query: tokenOfRow(row), key: tokenOfColumn(column) };
  change(same(state.cell, cell) ? { query: null, cell: null } : { query: cell.query, cell });
}

function pinColumn(column) {
  const key = tokenOfColumn(column);
  if (key === null) return;
  change({ key: state.key === key ? null : key });
}
