// The matrix of one head: a cell for each query and key, drawn on a canvas.

const BELOW_MATRIX = 92; // pixels, for the line that says what a cell says, and the colours
const READABLE_ROW = 22; // in which numbers can be read

const matrices = []; // all that a page has

/** A matrix of its own; `headOf` says which head it shows just now. */
const freshMatrix = (headOf = () => state.head) => ({
  headOf,
  head: 0, // whose picture stands; another may be on its way
  cells: null,
  rows: [], // which rows of cells are shown,
  columns: [], // and which columns
  leftOut: [], // those that are not
  zoom: 1,
  moved: { x: 0, y: 0 }, // how far a zoomed picture is scrolled
  layout: null,
});

let matrix = freshMatrix(); // the one that functions work on just now

/** A function that works on one matrix, whenever it is called. */
function onMatrix(one, does) {
  return (...given) => {
    const other = matrix;
    matrix = one;
    try {
      return does(...given);
    } finally {
      matrix = other;
    }
  };
}

const onThis = (does) => onMatrix(matrix, does);

function startMatrix(section) {
  Object.assign(matrix, matrixElements());
  matrices.push(matrix);
  const around = element("div", { class: "matrix-around" }, matrix.frame, matrix.tip);
  section.append(matrix.title, around, matrix.line, matrix.bar);
  section.classList.add("matrix");
  whenChanged(["head"], onThis(loadMatrix));
  whenChanged(["special"], onThis(chooseCells));
  whenChanged(["theme", "log", "least"], onThis(paintMatrix));
  whenChanged(["hover", "query", "key", "cell"], onThis(drawMarks));
  startMatrixPointer();
  startMatrixKeys();
  startZoom();
  new ResizeObserver(onThis(layMatrix)).observe(section);
  loadMatrix();
}

function matrixElements() {
  const id = `matrix-line${matrices.length || ""}`;
  // For those who do not see it: keys are its own, and the line below it says what they do.
  const asApplication = { role: "application", "aria-describedby": id };
  const [map, over] = [0, 1].map(() => element("canvas", { "aria-hidden": "true" }));
  const tip = element("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const stuck = element("div", { class: "matrix-stuck" }, map, over);
  const spacer = element("div", { class: "matrix-spacer" }, stuck);
  return {
    map, over, tip, stuck, spacer,
    frame: element("div", { class: "matrix-frame", tabindex: 0, ...asApplication }, spacer),
    zooming: element("span", { class: "zoom", role: "group", "aria-label": "zoom" }),
    name: element("strong"),
    about: element("span", { class: "matrix-about" }),
    line: element("p", { class: "matrix-line", id }),
    bar: newColorBar(),
    get title() {
      return element("p", { class: "matrix-title" }, this.name, this.about, this.zooming);
    },
  };
}

/** The cells of the chosen head; where another one is chosen before they come, its cells. */
async function loadMatrix() {
  const [one, head] = [matrix, matrix.headOf()];
  const cells = await cellsOf(head);
  if (head === one.headOf()) onMatrix(one, takeMatrix)(head, cells);
}

function takeMatrix(head, cells) {
  const [reads, read] = [readers(head), readTokens(head)];
  matrix.reads = { ...reads, size: cells.tall ?? 1 };
  matrix.read = { ...read, size: cells.wide ?? 1 };
  Object.assign(matrix, { head, cells });
  chooseCells();
  if (matrix.within && matrix.place) hoverAt(matrix.place.row, matrix.place.column);
}

/** Which rows and columns are shown: all, or those of tokens that no tokenizer added. */
function chooseCells() {
  if (matrix.cells === null) return;
  const kept = (side, count) => {
    const places = [...Array(count).keys()];
    const shown = places.filter((place) => state.special || !isFaint(side, place));
    return shown.length > 0 ? shown : places;
  };
  const { cells, reads, read } = matrix;
  matrix.rows = kept(reads, cells.rows);
  matrix.columns = kept(read, cells.columns);
  matrix.leftOut = others(matrix.columns, cells.columns);
  matrix.hides = cells.isMasked;
  paintMatrix();
}

function others(places, count) {
  const there = new Set(places);
  return [...Array(count).keys()].filter((place) => !there.has(place));
}

/** Other colours, or other cells: the picture is made anew. */
function paintMatrix() {
  if (matrix.cells === null) return;
  paintBitmap();
  layMatrix();
  showMatrixWords();
}

/** Another size, or another zoom: the picture is laid out anew. */
function layMatrix() {
  const wide = matrix.line.clientWidth;
  if (matrix.cells === null || wide === 0) return;
  const counts = { rows: matrix.rows.length, columns: matrix.columns.length };
  const room = { wide, high: roomDown(counts.rows) };
  const names = { ...longestNames(matrix), cut: Math.min(LONGEST_NAME, 0.3 * wide) };
  matrix.layout = matrixLayout(room, counts, names, matrix.zoom);
  sizeMatrix(matrix.layout);
  matrix.zooming.hidden = largestZoom() === 1;
  matrix.frame.classList.toggle("zoomable", largestZoom() > 1);
  drawMatrix();
}

/** What is left of the window's first sight where that is enough; else almost all of a window. */
function roomDown(rows) {
  const left = innerHeight - (matrix.frame.getBoundingClientRect().top + scrollY) - BELOW_MATRIX;
  const wanted = rows * READABLE_ROW + LONGEST_NAME / 2;
  return Math.max(SMALLEST_MAP, left, Math.min(innerHeight - 2 * BELOW_MATRIX, wanted));
}

function sizeMatrix({ left, top, whole, size }) {
  const bars = matrix.zoom === 1 ? 0 : matrix.frame.offsetWidth - matrix.frame.clientWidth;
  matrix.frame.classList.toggle("zoomed", matrix.zoom !== 1);
  sized(matrix.frame, size.wide + bars, size.high + bars);
  sized(matrix.stuck, size.wide, size.high);
  const [wide, high] = [left + whole.wide, top + whole.high];
  sized(matrix.spacer, Math.max(size.wide, wide), Math.max(size.high, high));
  for (const canvas of [matrix.map, matrix.over]) sizeCanvas(canvas, size);
}

/** As many pixels as the device has; a canvas that keeps its size keeps what is drawn on it. */
function sizeCanvas(canvas, { wide, high }) {
  const [pixelsWide, pixelsHigh] = [wide, high].map((side) => Math.round(side * devicePixelRatio));
  if (canvas.width !== pixelsWide) canvas.width = pixelsWide;
  if (canvas.height !== pixelsHigh) canvas.height = pixelsHigh;
  sized(canvas, wide, high);
}

function sized(node, wide, high) {
  node.style.width = `${wide}px`;
  node.style.height = `${high}px`;
}

/** Everything but what the pointer is on; then that, too. */
function drawMatrix() {
  if (matrix.layout === null) return;
  matrix.moved = { x: matrix.frame.scrollLeft, y: matrix.frame.scrollTop };
  const brush = freshBrush(matrix.map);
  drawCells(brush, matrix);
  drawRowsAndColumns(brush);
  drawMarks();
  if (performance.getEntriesByName("first picture").length === 0) performance.mark("first picture");
}

/** Names stand beside cells that are seen, and half a line beyond them. */
function drawRowsAndColumns(brush) {
  const { layout } = matrix;
  const { left, top, open, size } = layout;
  const [half, high] = [NAME_LINE / 2, open.high + NAME_LINE];
  clipped(brush, 0, top - half, size.wide, high, () => drawRowNames(brush, matrix));
  clipped(brush, left - half, 0, size.wide, top, () => drawColumnNames(brush, matrix));
}

/** An empty canvas, of which sizes are those of the page. */
function freshBrush(canvas) {
  const brush = canvas.getContext("2d");
  brush.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  brush.clearRect(0, 0, canvas.width, canvas.height);
  return brush;
}

function clipped(brush, x, y, wide, high, draw) {
  brush.save();
  brush.beginPath();
  brush.rect(x, y, wide, high);
  brush.clip();
  draw();
  brush.restore();
}

/** What is shown, said around it: the name of the head, what colours mean, what is left out. */
function showMatrixWords() {
  const { head, cells, rows, columns, reads, read } = matrix;
  const { label } = scaleOf(head);
  matrix.name.textContent = calledHead(head);
  matrix.name.classList.toggle("struck", heads[head].off);
  matrix.map.classList.toggle("off", heads[head].off);
  matrix.about.textContent = noteOf(head);
  const self = readsItself(head); // then it is one side, with one title
  const down = `${rows.length} rows: ${self ? "query (reads)" : reads.title || reads.counts}`;
  const across = `${columns.length} columns: ${self ? "key (is read)" : read.title || read.counts}`;
  matrix.frame.setAttribute("aria-label", `${label} of ${heads[head].name}, ${down}, ${across}`);
  const notes = [pooledNote(cells), leastNote(), leftOutNote()].filter(Boolean);
  showColorBar(matrix.bar, scaleNow(head), { hides: matrix.hides, notes });
}

const leastNote = () => (state.least > 0 ? `blank: below ${leastText()}` : "");

function pooledNote({ tall = 1, wide = 1 }) {
  if (tall === 1 && wide === 1) return "";
  const [queries, keys] = [counted(tall, "query", "queries"), counted(wide, "key", "keys")];
  return `one cell = mean of ${queries}, sum of ${keys}`;
}

const counted = (number, one, several) => `${number} ${number === 1 ? one : several}`;

const leftOutNote = () => (matrix.leftOut.length > 0 ? "special tokens left out" : "");
