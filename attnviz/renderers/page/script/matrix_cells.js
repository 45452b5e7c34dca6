// The cells of the matrix: a bitmap with a pixel for each, scaled to the room.

const SMOOTH_BELOW = 3; // pixels of the device: smaller cells are blended
const MOST_PIXELS = 2 ** 22; // of a map that is painted whole
const GAPS_FROM = 14; // pixels of a cell, between which and the next there is a line of paper
const SMALLEST_NUMBER = 9; // pixels of its letters

/** A pixel for each cell; of very many only those that are seen, or one for several. */
function paintBitmap() {
  matrix.bitmap = matrix.rows.length * matrix.columns.length > MOST_PIXELS ? null : wholeBitmap();
}

/** All cells; of very many some in one pixel. */
function wholeBitmap() {
  const { rows, columns } = matrix;
  const all = { rows: { first: 0, end: rows.length }, columns: { first: 0, end: columns.length } };
  return bitmapOf(all, Math.ceil(Math.sqrt((rows.length * columns.length) / MOST_PIXELS)));
}

/** What is seen of a map that is too large to be painted whole. */
function bitmapInSight({ cell, open }) {
  const { rows, columns, moved } = matrix;
  const seen = {
    rows: visiblePlaces(rows.length, moved.y, open.high, cell.high),
    columns: visiblePlaces(columns.length, moved.x, open.wide, cell.wide),
  };
  const pixels = Math.min(cell.wide, cell.high) * devicePixelRatio;
  return bitmapOf(seen, Math.max(1, Math.round(1 / pixels)));
}

/** A pixel for so many cells in a square; none where a mask hides all of them. */
function bitmapOf(seen, step) {
  const count = ({ first, end }) => Math.ceil((end - first) / step);
  const image = new ImageData(count(seen.columns), count(seen.rows));
  const pixels = new Uint32Array(image.data.buffer);
  const color = pixelsOn(scaleNow(matrix.head));
  const blank = pixelOf(rgbOf(themeColors().paper));
  const weight = step === 1 ? cellThere : (row, column) => meanThere(row, column, step);
  let next = 0;
  for (let row = seen.rows.first; row < seen.rows.end; row += step) {
    for (let column = seen.columns.first; column < seen.columns.end; column += step) {
      const found = weight(row, column);
      if (!Number.isNaN(found)) pixels[next] = Math.abs(found) < state.least ? blank : color(found);
      next++;
    }
  }
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return { canvas, seen, step };
}

const cellThere = (row, column) => matrix.cells.weight(matrix.rows[row], matrix.columns[column]);

/** What is shown of several cells, in the mean; NaN where all are hidden. */
function meanThere(row, column, step) {
  let [sum, count] = [0, 0];
  const [down, across] = [matrix.rows.length, matrix.columns.length];
  for (let y = row; y < Math.min(row + step, down); y++) {
    for (let x = column; x < Math.min(column + step, across); x++) {
      const weight = cellThere(y, x);
      if (Number.isNaN(weight)) continue;
      if (Math.abs(weight) >= state.least) sum += weight;
      count++;
    }
  }
  return sum / count;
}

const rgbOf = (color) => [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16));

function drawCells(brush, { layout, moved }) {
  const { left, top, open } = layout;
  clipped(brush, left, top, open.wide, open.high, () => {
    if (matrix.hides) {
      brush.fillStyle = hatched(brush, 1);
      brush.fillRect(left, top, open.wide, open.high);
    }
    brush.translate(left - moved.x, top - moved.y);
    drawBitmap(brush, layout);
    drawGaps(brush, layout);
    drawNumbers(brush, layout);
    drawBorders(brush, layout);
  });
  brush.strokeStyle = inks().faint;
  brush.lineWidth = 1 / devicePixelRatio;
  brush.strokeRect(left, top, open.wide, open.high);
}

/** Large cells keep their edges; small ones are blended, by what each covers. */
function drawBitmap(brush, layout) {
  const { canvas, seen, step } = matrix.bitmap ?? bitmapInSight(layout);
  const { wide, high } = layout.cell;
  const size = { wide: canvas.width * step * wide, high: canvas.height * step * high };
  const smooth = Math.min(wide, high) * step * devicePixelRatio < SMOOTH_BELOW;
  brush.imageSmoothingEnabled = smooth;
  brush.imageSmoothingQuality = "high";
  const [x, y] = [seen.columns.first * wide, seen.rows.first * high];
  brush.drawImage(smooth ? enlarged(canvas, size) : canvas, x, y, size.wide, size.high);
}

function enlarged(bitmap, whole) {
  const pixels = Math.max(whole.wide / bitmap.width, whole.high / bitmap.height) * devicePixelRatio;
  const times = pixels <= 1 ? 1 : Math.ceil(2 * pixels);
  if (times === 1) return bitmap;
  const large = new OffscreenCanvas(bitmap.width * times, bitmap.height * times);
  const brush = large.getContext("2d");
  brush.imageSmoothingEnabled = false;
  brush.drawImage(bitmap, 0, 0, large.width, large.height);
  return large;
}

/** Lines of paper between large cells. */
function drawGaps(brush, { cell, whole }) {
  if (Math.min(cell.wide, cell.high) < GAPS_FROM) return;
  const { rows, columns, moved, layout } = matrix;
  const across = visiblePlaces(columns.length, moved.x, layout.open.wide, cell.wide);
  const down = visiblePlaces(rows.length, moved.y, layout.open.high, cell.high);
  brush.fillStyle = inks().paper;
  for (let place = Math.max(across.first, 1); place < across.end; place++) {
    brush.fillRect(place * cell.wide - 0.5, 0, 1, whole.high);
  }
  for (let place = Math.max(down.first, 1); place < down.end; place++) {
    brush.fillRect(0, place * cell.high - 0.5, whole.wide, 1);
  }
}

/** A line where something else begins on a side, as the model's own words do. */
function drawBorders(brush, { cell, whole }) {
  const { rows, columns, reads, read } = matrix;
  brush.fillStyle = inks().ink;
  const before = (side, places) =>
    places.filter((place) => blockOf(side, place).first < side.border).length;
  if (reads.border !== null) {
    brush.fillRect(0, before(reads, rows) * cell.high - 1, whole.wide, 2);
  }
  if (read.border !== null) {
    brush.fillRect(before(read, columns) * cell.wide - 1, 0, 2, whole.high);
  }
}

/** The numbers, where cells are large enough for all of them. */
function drawNumbers(brush, layout) {
  const { rows, columns, moved } = matrix;
  const { cell, open } = layout;
  if (cell.high < SMALLEST_NUMBER + 4 || cell.wide < 2 * SMALLEST_NUMBER) return;
  const write = cellWriter(matrix.cells.largest, heads[matrix.head].share);
  const size = numberSize(cell, write);
  if (size < SMALLEST_NUMBER) return;
  brush.font = `${size}px system-ui, sans-serif`;
  Object.assign(brush, { textAlign: "center", textBaseline: "middle" });
  const down = visiblePlaces(rows.length, moved.y, open.high, cell.high);
  const across = visiblePlaces(columns.length, moved.x, open.wide, cell.wide);
  const color = colorsOn(scaleNow(matrix.head));
  for (let row = down.first; row < down.end; row++) {
    for (let column = across.first; column < across.end; column++) {
      drawNumber(brush, cell, { row, column }, write, color);
    }
  }
}

function drawNumber(brush, cell, { row, column }, write, color) {
  const weight = matrix.cells.weight(matrix.rows[row], matrix.columns[column]);
  if (Number.isNaN(weight) || Math.abs(weight) < state.least) return;
  brush.fillStyle = inkOn(color(weight));
  brush.fillText(write(weight), (column + 0.5) * cell.wide, (row + 0.5) * cell.high + 0.5);
}

/** As large as leaves the longest of them in its cell. */
function numberSize(cell, write) {
  const { largest } = matrix.cells;
  const longest = write(scaleOf(matrix.head).kind === "diverging" ? -largest : largest);
  const asked = Math.min(15, cell.high * 0.5);
  const wide = widthOf(longest, `100px system-ui, sans-serif`) / 100;
  return Math.min(asked, (cell.wide - 7) / Math.max(wide, 0.1));
}
