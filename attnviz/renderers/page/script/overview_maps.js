// The small maps of all heads: where they stand, and how they are drawn.

const LARGEST_MAP = 150; // pixels on a side
const ROOM_OF_ROWS = 560; // pixels, in which all rows should be seen of a page that scrolls,
const SMALLEST_OF_FEW = 32; // unless maps became smaller than this
const BELOW_MAPS = 44; // pixels of a window, for the line that names a head
const SMALLEST_PITCH = 10; // from one map to the next
const WORTH_PARTING = 1.15; // times as large maps are in one part more
const OFF_FILTER = "grayscale(1) opacity(0.65)"; // a head that is switched off, as in matrix.css
const OVERVIEW_NAME = 12; // pixels of letters
const ABOVE_MAPS = OVERVIEW_NAME + 8;
const overviewFont = `${OVERVIEW_NAME}px system-ui, sans-serif`;
const LETTER_FROM = 20; // pixels of a map that has room for a letter in its corner
const FRAMES = { chosen: 2.5, together: 2.5, flagged: 2 };
const SCROLL_BAR = 16;
const BETWEEN_PARTS = 12;
const NAMED_MAP = 118; // pixels, in which there is room for the name of one of them

const widestName = (names) => Math.max(0, ...names.map((name) => widthOf(name, overviewFont)));

/* Which maps there are: their rows and columns, and where in them a head is. */

const MOST_IN_A_MOMENT = 16; // heads, of which all moments are seen at once

/** Of many heads in layers, moment by moment, those of the chosen moment alone are seen. */
const LAYERED = /^(L\d+)(H\d+)$/;
const isOfOneMoment = attention.rowsAre === "moment"
  && attention.columns.length > MOST_IN_A_MOMENT
  && attention.columns.every((name) => LAYERED.test(name));

const isSeenInOverview = (head) =>
  !isOfOneMoment || heads[head].place[0] === heads[state.head].place[0];
const headsInOverview = () => choosable.filter(isSeenInOverview);

const mapGrid = isOfOneMoment ? gridOfMoment() : gridOfPlaces();

function gridOfMoment() {
  const names = attention.columns.map((name) => LAYERED.exec(name).slice(1));
  const [rows, columns] = [0, 1].map((side) => [...new Set(names.map((each) => each[side]))]);
  const placeOf = ({ place }) => {
    const [layer, head] = names[place[1]];
    return [rows.indexOf(layer), columns.indexOf(head)];
  };
  return { rows, columns, placeOf };
}

/** A mean of all heads, which alone is in its row and its column, stands above the first heads. */
function gridOfPlaces() {
  const { rows = [], columns = [] } = attention;
  const first = choosable.filter((head) => heads[head].place.includes(0));
  const skipped = Number(first.length === 1 && columns.length > 2);
  const placeOf = ({ place: [row, column] }) => [row, Math.max(0, column - skipped)];
  return { rows, columns: columns.slice(skipped), placeOf };
}

/** How large maps are in a room, and where the first one stands. */
function overviewLayout(wide) {
  const [rows, columns] = [mapGrid.rows.length, mapGrid.columns.length];
  if (columns === 1 && rows > 1) return lineLayout(wide, rows, NAMED_MAP);
  const least = Math.max(widestName(mapGrid.columns) + 8, SMALLEST_OF_FEW);
  const isLong = rows === 1 && wide / columns < SMALLEST_OF_FEW;
  return isLong ? lineLayout(wide - SCROLL_BAR, columns, least) : gridLayout(wide, rows, columns);
}

/** What is left of a window's first sight; of a narrow page, and of paper, there is no end. */
function roomOfMaps() {
  const left = innerHeight - overview.frame.getBoundingClientRect().top - scrollY - BELOW_MAPS;
  return narrowPage.matches || onPaper.printing || left < 0
    ? Infinity
    : Math.max(SMALLEST_MAP, left);
}

/** Layers below each other; in several parts, side by side, where maps are larger so. */
function gridLayout(room, rows, columns) {
  const beside = widestName(mapGrid.rows);
  const left = Math.min(beside, 0.35 * room) + (beside > 0 ? 8 : 0);
  const whole = room + BETWEEN_PARTS;
  const top = mapGrid.columns.some(Boolean) ? ABOVE_MAPS : 2;
  const endless = Math.max(ROOM_OF_ROWS, 1.1 * rows * SMALLEST_OF_FEW);
  const open = Math.min(roomOfMaps(), endless) - top - 2;
  const inParts = (parts) => {
    const across = (whole / parts - BETWEEN_PARTS - left) / columns;
    const inPart = Math.ceil(rows / parts);
    return { parts, inPart, across, fit: Math.min(across, open / inPart) };
  };
  const larger = (one, other) => (other.fit > WORTH_PARTING * one.fit ? other : one);
  const { parts, inPart, across, fit } = [1, 2, 3, 4].map(inParts).reduce(larger);
  const scrolling = Math.max(Math.min(across, SMALLEST_OF_FEW), SMALLEST_PITCH);
  const pitch = fit < SMALLEST_PITCH ? scrolling : fit;
  const gap = Math.min(Math.max(0.1 * pitch, 1), 8);
  const { wide, high } = sidesOfMaps(Math.min(pitch - gap, LARGEST_MAP));
  const step = Math.min(Math.max(across, SMALLEST_PITCH), wide + 2 * gap);
  const aside = left + columns * step + BETWEEN_PARTS; // from one part to the next
  const size = { wide: parts * aside - BETWEEN_PARTS, high: top + inPart * (high + gap) + 2 };
  return { left, top, across: step, down: high + gap, wide, high, size, inPart, columns, aside };
}

/** Maps one after another, line by line, with their names above. */
function lineLayout(room, count, least) {
  const inLine = Math.min(Math.max(1, Math.floor(room / least)), count);
  const pitch = room / inLine;
  const { wide, high } = sidesOfMaps(Math.min(pitch - 8, LARGEST_MAP));
  const [across, down] = [Math.min(pitch, wide + 14), high + ABOVE_MAPS];
  const size = { wide: inLine * across, high: Math.ceil(count / inLine) * down + 2 };
  return { left: 1, top: ABOVE_MAPS, across, down, wide, high, size, inLine };
}

function sidesOfMaps(most) {
  const [wide, shape] = [crispSide(most, overview.maps[0].columns), shapeOfMaps()];
  return { wide, high: shape === 1 ? wide : crispSide(wide * shape, overview.maps[0].rows) };
}

/** Of a map of tokens that read others: how high, of what it is wide. */
function shapeOfMaps() {
  const shapes = overview.maps.map(({ rows, columns }) => rows / columns);
  return Math.min(Math.max(...shapes, 0.4), 1.5);
}

/** A whole number of pixels for each cell, where that takes little away. */
function crispSide(side, cells) {
  const pixels = side * devicePixelRatio;
  const whole = Math.floor(pixels / cells) * cells;
  return (whole > 0.8 * pixels ? whole : Math.floor(pixels)) / devicePixelRatio;
}

/** The row and column in which its map is seen, counted over all parts. */
function placeOfMap(head) {
  const [row, column] = mapGrid.placeOf(heads[head]);
  if (overview.layout === null) return [row, column];
  const { inLine, inPart, columns } = overview.layout;
  if (inLine) return [Math.floor((row + column) / inLine), (row + column) % inLine];
  return [row % inPart, Math.floor(row / inPart) * columns + column];
}

function boxOfHead(head) {
  const [row, column] = placeOfMap(head);
  const { left, top, across, down, wide, high, columns = Infinity, aside = 0 } = overview.layout;
  const part = Math.floor(column / columns);
  const x = left + part * aside + (column - (part && part * columns)) * across;
  return { x, y: top + row * down, wide, high };
}

/** Other colours, or another size: all maps are painted, and kept for the next frames. */
function drawOverview() {
  if (overview.layout === null) return;
  overview.painted = new OffscreenCanvas(overview.map.width, overview.map.height);
  const brush = freshBrush(overview.painted);
  for (const head of headsInOverview()) drawSmallMap(brush, head);
  drawOverviewNames(brush);
  frameHeads();
  showOverviewColors();
}

/** The maps as they are, with frames around some. */
function frameHeads() {
  sayHead();
  if (overview.layout === null) return;
  const brush = freshBrush(overview.map);
  const { wide, high } = overview.layout.size;
  brush.drawImage(overview.painted, 0, 0, wide, high);
  drawFrames(brush);
}

function showOverviewColors() {
  const scale = overviewScale(state.head);
  const hides = overview.maps.some(({ hidden }) => hidden.includes(1));
  showColorBar(overview.bar, scale, { notes: [hides && "grey is hidden", smallNote()] });
}

/** Bent, so that small weights can be told apart beside large ones. */
function overviewScale(head) {
  const scale = thumbnailScaleOf(head);
  return state.log && scale.kind !== "diverging" ? byLogarithm(scale) : byRoot(scale);
}

/** What one cell of a small map stands for, where that is several tokens. */
function smallNote() {
  const { rows, columns } = overview.maps[state.head];
  const tall = readers(state.head).labels.length / rows;
  const wide = readTokens(state.head).labels.length / columns;
  if (tall <= 1 && wide <= 1) return "";
  return `a cell is about ${Math.round(tall)} × ${Math.round(wide)} tokens`;
}

function drawSmallMap(brush, head) {
  const box = boxOfHead(head);
  const bitmap = smallBitmap(overview.maps[head], overviewScale(head));
  const pixels = (box.wide / bitmap.width) * devicePixelRatio;
  const smooth = pixels < 4 && !Number.isInteger(pixels);
  brush.imageSmoothingEnabled = smooth;
  brush.imageSmoothingQuality = "high";
  brush.filter = heads[head].off ? OFF_FILTER : "none";
  brush.drawImage(smooth ? enlarged(bitmap, box) : bitmap, box.x, box.y, box.wide, box.high);
  brush.filter = "none";
  brush.strokeStyle = inks().faint;
  brush.lineWidth = 0.5;
  if (box.wide >= 16) brush.strokeRect(box.x, box.y, box.wide, box.high);
  if (heads[head].off) strikeThrough(brush, box);
}

/** A line from corner to corner: this head is switched off. */
function strikeThrough(brush, { x, y, wide, high }) {
  brush.lineWidth = 1.5;
  brush.beginPath();
  brush.moveTo(x, y + high);
  brush.lineTo(x + wide, y);
  brush.stroke();
}

function smallBitmap({ rows, columns, values }, scale) {
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const pixel = pixelsOn(scale);
  const hidden = pixelOf(rgbOf(themeColors().hidden));
  values.forEach((value, place) => (pixels[place] = Number.isNaN(value) ? hidden : pixel(value)));
  const bitmap = new OffscreenCanvas(columns, rows);
  bitmap.getContext("2d").putImageData(image, 0, 0);
  return bitmap;
}

/** Layers on the left, heads above; every so many, where there is no room for all. */
function drawOverviewNames(brush) {
  Object.assign(brush, { font: overviewFont, fillStyle: inks().ink, textBaseline: "middle" });
  if (overview.layout.inLine) return drawNamesAbove(brush);
  const { left, top, across, down, wide, high, inPart, columns, aside } = overview.layout;
  const step = everyNth(across, widestName(mapGrid.columns) + 4);
  const stepDown = everyNth(down, OVERVIEW_NAME + 2);
  mapGrid.rows.forEach((name, row) => {
    const [start, place] = [Math.floor(row / inPart) * aside + left, row % inPart];
    const cut = cutText(name, left - 8, overviewFont);
    brush.textAlign = "right";
    if (place % stepDown === 0) brush.fillText(cut, start - 8, top + place * down + high / 2);
    brush.textAlign = "center";
    if (place > 0) return;
    mapGrid.columns.forEach((each, column) => {
      const middle = start + column * across + wide / 2;
      if (column % step === 0) brush.fillText(each, middle, top - 9);
    });
  });
}

function drawNamesAbove(brush) {
  const { across } = overview.layout;
  brush.textAlign = "left";
  for (const head of headsInOverview()) {
    const { x, y } = boxOfHead(head);
    const [, column] = mapGrid.placeOf(heads[head]);
    const shown = mapGrid.columns.length > 1 ? mapGrid.columns[column] : heads[head].name;
    brush.fillText(cutText(shown, across - 6, overviewFont), x, y - 9);
  }
}

/** Heads of which something is told, those that are drawn together, and the chosen one. */
function drawFrames(brush) {
  attention.flags.forEach(({ head }) => frameHead(brush, head, flagColor(), FRAMES.flagged));
  attention.flags.forEach((flag, place) => drawLetter(brush, flag, place));
  headsTogether().slice(1).forEach((head, slot) =>
    frameHead(brush, head, colorOfHead(slot + 1), FRAMES.together));
  frameHead(brush, state.head, inks().paper, 2 * FRAMES.chosen);
  frameHead(brush, state.head, inks().ink, FRAMES.chosen);
}

const flagColor = () => (forcedColors.matches ? "CanvasText" : themeColors().series[0]);

function frameHead(brush, head, color, line) {
  if (!isSeenInOverview(head)) return;
  const { x, y, wide, high } = boxOfHead(head);
  brush.strokeStyle = color;
  brush.lineWidth = Math.min(line, wide / 6);
  brush.strokeRect(x, y, wide, high);
}

/** The letter of what is told of a head; of several things, of the first. */
function drawLetter(brush, { head }, place) {
  const { x, y, wide } = boxOfHead(head);
  const first = attention.flags.findIndex((flag) => flag.head === head);
  if (wide < LETTER_FROM || place !== first || !isSeenInOverview(head)) return;
  const side = Math.min(Math.max(wide * 0.34, 11), 20);
  brush.fillStyle = flagColor();
  brush.fillRect(x + wide - side, y, side, side);
  brush.fillStyle = inks().paper;
  brush.font = `700 ${side - 3}px system-ui, sans-serif`;
  Object.assign(brush, { textAlign: "center", textBaseline: "middle" });
  brush.fillText(letterOf(place), x + wide - side / 2, y + side / 2 + 0.5);
}
