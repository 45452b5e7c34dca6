// The cells of the matrix: a bitmap with a pixel for each, drawn as large as there is room for.

const SMOOTH_BELOW = 3; // pixels of the device: smaller cells are blended, larger ones keep their edges
const GAPS_FROM = 14; // pixels of a cell, between which and the next there is a line of paper
const SMALLEST_NUMBER = 9; // pixels of its letters

/** A pixel for each cell that is shown; none where a mask hides. */
function paintBitmap() {
  const { cells, rows, columns, head } = matrix;
  const image = new ImageData(columns.length, rows.length);
  const pixels = new Uint32Array(image.data.buffer);
  const pixel = pixelsOn(scaleNow(head));
  const blank = pixelOf(rgbOf(themeColors().paper));
  let next = 0;
  for (const row of rows) {
    for (const column of columns) {
      const weight = cells.weight(row, column);
      if (!Number.isNaN(weight)) {
        pixels[next] = Math.abs(weight) < state.least ? blank : pixel(weight);
      }
      next++;
    }
  }
  matrix.bitmap = new OffscreenCanvas(columns.length, rows.length);
  matrix.bitmap.getContext("2d").putImageData(image, 0, 0);
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
function drawBitmap(brush, { cell, whole }) {
  const smooth = Math.min(cell.wide, cell.high) * devicePixelRatio < SMOOTH_BELOW;
  const picture = smooth ? enlarged(matrix.bitmap, whole) : matrix.bitmap;
  brush.imageSmoothingEnabled = smooth;
  brush.imageSmoothingQuality = "high";
  brush.drawImage(picture, 0, 0, whole.wide, whole.high);
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
  brush.fillStyle = inks().paper;
  for (let place = 1; place < matrix.columns.length; place++) {
    brush.fillRect(place * cell.wide - 0.5, 0, 1, whole.high);
  }
  for (let place = 1; place < matrix.rows.length; place++) {
    brush.fillRect(0, place * cell.high - 0.5, whole.wide, 1);
  }
}

/** A line where something else begins on a side, as the model's own words do. */
function drawBorders(brush, { cell, whole }) {
  const { rows, columns, reads, read } = matrix;
  brush.fillStyle = inks().ink;
  const before = (side, places) => places.filter((place) => blockOf(side, place).first < side.border).length;
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
  Object.assign(brush, { font: `${size}px system-ui, sans-serif`, textAlign: "center", textBaseline: "middle" });
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
  const { largest, weights } = matrix.cells;
  const signed = weights.some((weight) => weight < 0);
  const longest = write(signed ? -largest : largest);
  const asked = Math.min(15, cell.high * 0.5);
  const wide = widthOf(longest, `100px system-ui, sans-serif`) / 100;
  return Math.min(asked, (cell.wide - 7) / Math.max(wide, 0.1));
}
