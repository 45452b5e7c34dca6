// The small maps of all heads: where they stand, and how they are drawn.

const LARGEST_MAP = 150; // pixels on a side
const ROOM_OF_ROWS = 560; // pixels, in which all rows should be seen,
const SMALLEST_OF_FEW = 32; // unless maps became smaller than this
const SMALLEST_PITCH = 10; // from one map to the next
const OFF_FILTER = "grayscale(1) opacity(0.65)"; // a head that is switched off, as in matrix.css
const OVERVIEW_NAME = 12; // pixels of letters
const overviewFont = `${OVERVIEW_NAME}px system-ui, sans-serif`;
const LETTER_FROM = 20; // pixels of a map that has room for a letter in its corner
const FRAMES = { chosen: 2.5, together: 2.5, flagged: 2 };

/** Of one head in each way there are no columns: maps stand side by side, their names above. */
const areInLines = () => attention.columns.length === 1 && attention.rows.length > 1;
const NAMED_MAP = 118; // pixels, in which there is room for the name of one of them

/** How large maps are in a room, and where the first one stands. */
function overviewLayout(room) {
  if (areInLines()) return lineLayout(room);
  const [rows, columns] = [attention.rows.length, attention.columns.length];
  const beside = Math.max(0, ...attention.rows.map((name) => widthOf(name, overviewFont)));
  const left = Math.min(beside, 0.35 * room) + (beside > 0 ? 8 : 0);
  const pitch = Math.max((room - left) / columns, SMALLEST_PITCH);
  const gap = Math.min(Math.max(0.1 * pitch, 1), 8);
  const most = Math.min(LARGEST_MAP, Math.max(ROOM_OF_ROWS / rows, SMALLEST_OF_FEW));
  const { wide, high } = sidesOfMaps(Math.min(pitch - gap, most));
  const top = attention.columns.some(Boolean) ? OVERVIEW_NAME + 8 : 2;
  const across = Math.min(pitch, wide + 2 * gap);
  const size = { wide: left + columns * across, high: top + rows * (high + gap) + 2 };
  return { left, top, across, down: high + gap, wide, high, size };
}

function lineLayout(room) {
  const count = attention.rows.length;
  const inLine = Math.min(Math.max(1, Math.floor(room / NAMED_MAP)), count);
  const [pitch, top] = [room / inLine, OVERVIEW_NAME + 8];
  const { wide, high } = sidesOfMaps(Math.min(pitch - 8, LARGEST_MAP));
  const [across, down] = [Math.min(pitch, wide + 14), high + top];
  const size = { wide: inLine * across, high: Math.ceil(count / inLine) * down + 2 };
  return { left: 1, top, across, down, wide, high, size, inLine };
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

/** The row and column in which its map is seen. */
function placeOfMap(head) {
  const { place } = heads[head];
  const inLine = overview.layout?.inLine;
  return inLine ? [Math.floor(place[0] / inLine), place[0] % inLine] : place;
}

function boxOfHead(head) {
  const [row, column] = placeOfMap(head);
  const { left, top, across, down, wide, high } = overview.layout;
  return { x: left + column * across, y: top + row * down, wide, high };
}

/** Other colours, or another size: all maps are painted, and kept for the next frames. */
function drawOverview() {
  if (overview.layout === null) return;
  overview.painted = new OffscreenCanvas(overview.map.width, overview.map.height);
  const brush = freshBrush(overview.painted);
  for (const head of choosable) drawSmallMap(brush, head);
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
  if (overview.layout.inLine) return drawNamesAbove(brush);
  const { left, top, across, down, wide, high } = overview.layout;
  Object.assign(brush, { font: overviewFont, fillStyle: inks().ink, textBaseline: "middle" });
  const widest = Math.max(...attention.columns.map((name) => widthOf(name, overviewFont)));
  const step = everyNth(across, widest + 4);
  brush.textAlign = "center";
  attention.columns.forEach((name, place) => {
    if (place % step === 0) brush.fillText(name, left + place * across + wide / 2, top - 9);
  });
  brush.textAlign = "right";
  const stepDown = everyNth(down, OVERVIEW_NAME + 2);
  attention.rows.forEach((name, place) => {
    const cut = cutText(name, left - 8, overviewFont);
    if (place % stepDown === 0) brush.fillText(cut, left - 8, top + place * down + high / 2);
  });
}

function drawNamesAbove(brush) {
  const { across } = overview.layout;
  Object.assign(brush, { font: overviewFont, fillStyle: inks().ink });
  Object.assign(brush, { textBaseline: "middle", textAlign: "left" });
  for (const head of choosable) {
    const { x, y } = boxOfHead(head);
    brush.fillText(cutText(heads[head].name, across - 6, overviewFont), x, y - 9);
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
  const { x, y, wide, high } = boxOfHead(head);
  brush.strokeStyle = color;
  brush.lineWidth = Math.min(line, wide / 6);
  brush.strokeRect(x, y, wide, high);
}

/** The letter of what is told of a head; of several things, of the first. */
function drawLetter(brush, { head }, place) {
  const { x, y, wide } = boxOfHead(head);
  const first = attention.flags.findIndex((flag) => flag.head === head);
  if (wide < LETTER_FROM || place !== first) return;
  const side = Math.min(Math.max(wide * 0.34, 11), 20);
  brush.fillStyle = flagColor();
  brush.fillRect(x + wide - side, y, side, side);
  brush.fillStyle = inks().paper;
  brush.font = `700 ${side - 3}px system-ui, sans-serif`;
  Object.assign(brush, { textAlign: "center", textBaseline: "middle" });
  brush.fillText(letterOf(place), x + wide - side / 2, y + side / 2 + 0.5);
}
