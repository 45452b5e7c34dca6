// Marks on the matrix: the cell under the pointer, the pinned row and column.

function drawMarks() {
  if (matrix.layout === null) return;
  const brush = freshBrush(matrix.over);
  const [row, column] = [rowOfToken(state.query), columnOfToken(state.key)];
  const hovered = hoveredCell();
  const { left, top, open } = matrix.layout;
  clipped(brush, left - 2, top - 2, open.wide + 4, open.high + 4, () => {
    if (hovered) drawCross(brush, hovered);
    if (row >= 0) drawPin(brush, rowBox(row));
    if (column >= 0) drawPin(brush, columnBox(column));
    if (hovered) drawCellFrame(brush, hovered);
    if (state.cell) drawCellFrame(brush, drawnCell(state.cell), inks().accent);
  });
  drawMarkedNames(brush, { row, column }, hovered);
  showReading(hovered, { row, column });
}

/** Where a token's row is drawn, if it is. */
const rowOfToken = (token) =>
  token === null ? -1 : placeIn(matrix.rows, matrix.reads, tokenHere(0, token));
const columnOfToken = (token) =>
  token === null ? -1 : placeIn(matrix.columns, matrix.read, tokenHere(1, token));

const tokenHere = (side, token) => tokenInHead(matrix.head, side, token);
const placeIn = (places, side, token) => places.indexOf(Math.floor(token / side.size));

/** The drawn row and column under the pointer; a part that is nowhere is -1. */
function hoveredCell() {
  if (state.hover === null) return null;
  const { row, column } = drawnCell(state.hover);
  return row < 0 && column < 0 ? null : { row, column };
}

const drawnCell = ({ query = null, key = null }) =>
  ({ row: rowOfToken(query), column: columnOfToken(key) });

const rowBox = (row) => ({
  x: matrix.layout.left,
  y: matrix.layout.top + row * matrix.layout.cell.high - matrix.moved.y,
  wide: matrix.layout.open.wide,
  high: matrix.layout.cell.high,
});
const columnBox = (column) => ({
  x: matrix.layout.left + column * matrix.layout.cell.wide - matrix.moved.x,
  y: matrix.layout.top,
  wide: matrix.layout.cell.wide,
  high: matrix.layout.open.high,
});

/** The row and the column of a cell, along which the eye finds their names. */
function drawCross(brush, { row, column }) {
  brush.strokeStyle = inks().ink;
  brush.lineWidth = 1;
  brush.globalAlpha = Math.min(matrix.layout.cell.wide, matrix.layout.cell.high) < 5 ? 0.35 : 1;
  for (const box of [row >= 0 && rowBox(row), column >= 0 && columnBox(column)]) {
    if (box) brush.strokeRect(box.x - 0.5, box.y - 0.5, box.wide + 1, box.high + 1);
  }
  brush.globalAlpha = 1;
}

/** A pinned row or column has a frame; of a thin one it stands around it. */
function drawPin(brush, box) {
  brush.lineWidth = 2;
  brush.strokeStyle = inks().accent;
  const [x, y] = [Math.max(box.x, matrix.layout.left), Math.max(box.y, matrix.layout.top - 1)];
  brush.strokeRect(x - 1, y - 1, box.wide + 2, box.high + 2);
}

/** The cell itself: dark on a light line, so that it stands out from any colour. */
function drawCellFrame(brush, { row, column }, line = inks().ink) {
  if (row < 0 || column < 0) return;
  const { x, wide } = columnBox(column);
  const { y, high } = rowBox(row);
  const { paper } = inks();
  for (const [color, away, thick] of [[paper, 0.5, 4], [line, 0.5, 2]]) {
    brush.strokeStyle = color;
    brush.lineWidth = thick;
    brush.strokeRect(x - away, y - away, wide + 2 * away, high + 2 * away);
  }
}

/** Names that are always there: of what is pinned, and of what the pointer is on. */
function drawMarkedNames(brush, pinned, hovered) {
  const { accent, ink } = inks();
  if (pinned.row >= 0) markRow(brush, pinned.row, accent);
  if (pinned.column >= 0) markColumn(brush, pinned.column, accent);
  if (hovered?.row >= 0) markRow(brush, hovered.row, hovered.row === pinned.row ? accent : ink);
  if (hovered?.column >= 0) {
    markColumn(brush, hovered.column, hovered.column === pinned.column ? accent : ink);
  }
}

/** A name in the colour of paper, on a patch that covers those beside it. */
function markRow(brush, row, color) {
  const { layout, rows, reads } = matrix;
  const y = rowMiddle(row);
  if (y < layout.top || y > layout.top + layout.open.high) return;
  brush.fillStyle = inks().paper;
  brush.fillRect(0, y - NAME_LINE / 2, layout.left - 3, NAME_LINE);
  const wide = Math.min(rowNameWidth(reads, rows[row]) + 10, layout.left - 3);
  brush.fillStyle = color;
  brush.fillRect(layout.left - 3 - wide, y - NAME_LINE / 2, wide, NAME_LINE);
  drawRowName(brush, layout, reads, rows[row], y, { color: inks().paper });
}

/** The same over a column, turned as its name is. */
function markColumn(brush, column, color) {
  const { layout, columns, read } = matrix;
  const x = columnMiddle(column);
  if (x < layout.left || x > layout.left + layout.open.wide) return;
  const long = widthOf(cutText(columnName(read, columns[column]), layout.longest + 1));
  const upright = layout.angle === 0;
  brush.save();
  brush.translate(x, layout.top - (upright ? NAME_LINE / 2 + 1 : BESIDE_MAP - 1));
  brush.rotate((-layout.angle * Math.PI) / 180);
  brush.fillStyle = color;
  brush.fillRect(upright ? -long / 2 - 4 : -4, -NAME_LINE / 2, long + 8, NAME_LINE);
  brush.restore();
  drawColumnName(brush, layout, read, columns[column], x, { color: inks().paper });
}

/** What the cell says: beside it, and in the line below the matrix. */
function showReading(hovered, pinned) {
  const said = hovered ? saidOfHovered(hovered) : saidOfNowhere(pinned);
  matrix.line.textContent = said.join(": ");
  showTip(hovered, said);
}

function saidOfHovered({ row, column }) {
  const [query, key] = [matrix.rows[row], matrix.columns[column]];
  if (column < 0) return [joined(saidOfRow(matrix, query), saidOfLeftOut(matrix, query))];
  if (row < 0) return [saidOfColumn(matrix, key)];
  const [who, what] = saidOfCell(matrix, query, key);
  return [who, joined(what, saidOfLeftOut(matrix, query))];
}

/** What is pinned; or how to begin. */
function saidOfNowhere({ row, column }) {
  if (row < 0 && column < 0) return [howToBegin()];
  const left = row < 0 ? "" : saidOfLeftOut(matrix, matrix.rows[row]);
  return [joined(saidOfPins(matrix, { row, column }), left)];
}

const howToBegin = () =>
  "Point at a cell, or use the arrow keys; click to " +
  (hasVectors(matrix.head) ? "see its arithmetic" : "follow its row");
const joined = (...parts) => parts.filter(Boolean).join("; ");

/** Beside the cell, on the side where there is more room; only where this is where one is. */
function showTip(hovered, said) {
  const { tip, layout, line } = matrix;
  tip.hidden = !(hovered && matrix.within && hovered.row >= 0 && hovered.column >= 0);
  if (tip.hidden) return;
  const [across, down] = [columnBox(hovered.column), rowBox(hovered.row)];
  tip.replaceChildren(...said.map((words) => element("span", {}, words)));
  const right = across.x + across.wide / 2 > line.clientWidth / 2;
  const below = down.y < layout.size.high / 2;
  const x = right ? across.x - 10 : across.x + across.wide + 10;
  const y = below ? down.y + down.high + 10 : down.y - 10;
  tip.style.transform =
    `translate(${x}px, ${y}px) translate(${right ? "-100%" : "0"}, ${below ? "0" : "-100%"})`;
}
