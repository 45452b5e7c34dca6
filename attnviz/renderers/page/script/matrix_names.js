// The names of tokens beside and above the matrix, cut where they are long.

const NAME_SIZE = 13; // of letters, in pixels
const NAME_FONT = `${NAME_SIZE}px system-ui, sans-serif`;
const ruler = new OffscreenCanvas(1, 1).getContext("2d");
const measuredWidths = new Map();

function widthOf(text, font = NAME_FONT) {
  const key = `${font} ${text}`;
  if (!measuredWidths.has(key)) {
    ruler.font = font;
    measuredWidths.set(key, ruler.measureText(text).width);
  }
  return measuredWidths.get(key);
}

/** As much of a text as there is room for, with … for what is missing. */
function cutText(text, room, font = NAME_FONT) {
  if (widthOf(text, font) <= room) return text;
  const letters = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
  let [fits, open] = [0, letters.length];
  while (open - fits > 1) {
    const middle = (fits + open) >> 1;
    const short = widthOf(`${letters.slice(0, middle).join("")}…`, font) <= room;
    [fits, open] = short ? [middle, open] : [fits, middle];
  }
  return `${letters.slice(0, fits).join("")}…`;
}

/** How long the longest names are, of rows with their numbers. */
function longestNames({ reads, read, rows, columns }) {
  const row = Math.max(0, ...rows.map((place) => rowNameWidth(reads, place)));
  const column = Math.max(0, ...columns.map((place) => widthOf(columnName(read, place))));
  return { row, column };
}

const NUMBER_GAP = 5;
const columnName = (side, place) => blockName(side, place) || numberName(side, place);

function rowNameWidth(side, place) {
  const [name, number] = [blockName(side, place), numberName(side, place)];
  return widthOf(name) + (name && number ? NUMBER_GAP : 0) + widthOf(number);
}

/** Names left of the rows that can be seen: every so many, where there is no room for all. */
function drawRowNames(brush, { layout, rows, reads, moved }) {
  const step = everyNth(layout.cell.high, NAME_LINE);
  const seen = visiblePlaces(rows.length, moved.y, layout.open.high, layout.cell.high);
  for (let place = seen.first; place < seen.end; place++) {
    if (place % step === 0) drawRowName(brush, layout, reads, rows[place], rowMiddle(place));
  }
}

const rowMiddle = (place) =>
  matrix.layout.top + (place + 0.5) * matrix.layout.cell.high - matrix.moved.y;
const columnMiddle = (place) =>
  matrix.layout.left + (place + 0.5) * matrix.layout.cell.wide - matrix.moved.x;

function visiblePlaces(count, from, length, pitch) {
  return {
    first: Math.max(0, Math.floor(from / pitch)),
    end: Math.min(count, Math.ceil((from + length) / pitch)),
  };
}

/** A name that ends at the cells, its number before it where there is room. */
function drawRowName(brush, layout, side, place, y, { color = null } = {}) {
  const { ink, faint } = inks();
  const room = layout.left - BESIDE_MAP - 2;
  const [word, number] = [blockName(side, place), numberName(side, place)];
  const beside = word && number ? widthOf(number) + NUMBER_GAP : 0;
  const name = cutText(word || number, Math.max(room - beside, 30));
  Object.assign(brush, { textAlign: "right", textBaseline: "middle", font: NAME_FONT });
  brush.fillStyle = color ?? (isFaint(side, place) ? faint : ink);
  brush.fillText(name, layout.left - BESIDE_MAP, y);
  if (!word) return;
  const before = layout.left - BESIDE_MAP - widthOf(name) - NUMBER_GAP;
  brush.font = NAME_FONT;
  if (before - widthOf(number) >= -1) {
    brush.fillStyle = color ?? faint;
    brush.fillText(number, before, y);
  }
}

/** Names above the columns that can be seen. */
function drawColumnNames(brush, { layout, columns, read, moved }) {
  const needed = layout.angle === 45 ? NAME_LINE / TURNED : NAME_LINE;
  const step = layout.angle === 0 ? 1 : everyNth(layout.cell.wide, needed);
  const seen = visiblePlaces(columns.length, moved.x, layout.open.wide, layout.cell.wide);
  for (let place = seen.first; place < seen.end; place++) {
    if (place % step === 0) {
      drawColumnName(brush, layout, read, columns[place], columnMiddle(place));
    }
  }
}

function drawColumnName(brush, layout, side, place, x, { color = null } = {}) {
  const { ink, faint } = inks();
  const name = cutText(columnName(side, place), layout.longest + 1);
  const upright = layout.angle === 0;
  brush.save();
  brush.translate(x, layout.top - (upright ? 5 : BESIDE_MAP - 1));
  brush.rotate((-layout.angle * Math.PI) / 180);
  brush.font = NAME_FONT;
  brush.textAlign = upright ? "center" : "left";
  brush.textBaseline = upright ? "alphabetic" : "middle";
  brush.fillStyle = color ?? (isFaint(side, place) ? faint : ink);
  brush.fillText(name, 0, 0);
  brush.restore();
}
