// Zoom of the matrix: by buttons, + and −, two fingers, or Ctrl and the wheel.

const ZOOM_STEP = 1.5;
const LARGEST_CELL = 44; // pixels, up to which one can zoom in: numbers stand in it
const WORTH_ZOOMING = 24; // pixels: where cells are as large, one sees all there is
const fingers = new Map();

function startZoom() {
  const button = (text, name, zoom) => {
    const made = element("button", { type: "button", "aria-label": name, title: name }, text);
    made.addEventListener("click", onThis(zoom));
    return made;
  };
  matrix.zooming.append(
    button("−", "smaller cells ( − )", () => zoomBy(1 / ZOOM_STEP)),
    button("+", "larger cells ( + )", () => zoomBy(ZOOM_STEP)),
    button("fit", "all cells ( 0 )", () => zoomBy(0)),
  );
  matrix.frame.addEventListener("wheel", onThis(zoomByWheel), { passive: false });
  matrix.over.addEventListener("pointerdown", onThis(fingerMoves));
  matrix.over.addEventListener("pointermove", onThis(fingerMoves));
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    matrix.over.addEventListener(name, ({ pointerId }) => fingers.delete(pointerId));
  }
}

/** How large cells may become, in times of what they are where all are shown. */
function largestZoom() {
  const { cell, zoom } = matrix.layout;
  const fitting = (cell.wide / zoom + cell.high / zoom) / 2;
  return fitting < WORTH_ZOOMING ? LARGEST_CELL / fitting : 1;
}

/** Larger or smaller cells; the one at a place of the canvas stays there. */
function zoomBy(times, at = middleOfMatrix()) {
  const zoom = Math.min(Math.max(matrix.zoom * times, 1), largestZoom());
  if (zoom === matrix.zoom) return;
  const { left, top, cell } = matrix.layout;
  const place = {
    column: (at.x - left + matrix.moved.x) / cell.wide,
    row: (at.y - top + matrix.moved.y) / cell.high,
  };
  matrix.zoom = zoom < 1.05 ? 1 : zoom;
  layMatrix();
  keepAt(place, at);
}

function keepAt({ column, row }, at) {
  const { left, top, cell } = matrix.layout;
  matrix.frame.scrollLeft = column * cell.wide - (at.x - left);
  matrix.frame.scrollTop = row * cell.high - (at.y - top);
  drawMatrix();
}

/** Where the cell is that one is on, or the followed row; else the middle of what is seen. */
function middleOfMatrix() {
  const { left, top, open } = matrix.layout;
  const here = hoveredCell() ?? { row: rowOfToken(state.query), column: columnOfToken(state.key) };
  return {
    x: here.column >= 0 ? columnMiddle(here.column) : left + open.wide / 2,
    y: here.row >= 0 ? rowMiddle(here.row) : top + open.high / 2,
  };
}

function zoomByKey(key) {
  if (!["+", "=", "-", "0"].includes(key)) return false;
  zoomBy({ "+": ZOOM_STEP, "=": ZOOM_STEP, "-": 1 / ZOOM_STEP, 0: 0 }[key]);
  return true;
}

/** A wheel alone scrolls; with Ctrl, as two fingers on a touchpad send it, it zooms. */
function zoomByWheel(event) {
  if (!event.ctrlKey || largestZoom() === 1) return;
  event.preventDefault();
  const { left, top } = matrix.frame.getBoundingClientRect();
  zoomBy(Math.exp(-event.deltaY / 200), { x: event.clientX - left, y: event.clientY - top });
}

/** Two fingers on a screen: as far as they move apart. */
function fingerMoves({ pointerType, pointerId, offsetX: x, offsetY: y }) {
  if (pointerType !== "touch") return;
  const before = apart();
  fingers.set(pointerId, { x, y });
  const now = apart();
  if (!before || !now || fingers.size !== 2) return;
  const [one, other] = fingers.values();
  zoomBy(now / before, { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 });
}

function apart() {
  const [one, other] = fingers.values();
  return other ? Math.hypot(one.x - other.x, one.y - other.y) : 0;
}
