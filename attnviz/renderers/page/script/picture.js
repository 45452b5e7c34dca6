// The matrix as an SVG of its own, with labels, title and colour bar.

const MOST_DRAWN_CELLS = 4000; // of more cells a bitmap is smaller, and looks the same
const PICTURE_ROOM = { wide: 760, high: 720 };
const PICTURE_EDGE = 24;
const NARROWEST_PICTURE = 480;
const TITLE_SIZE = 19;
const SMALL_SIZE = 12;
const SMALL_LINE = 20; // from one line of small print to the next
const TITLE_FONT = `650 ${TITLE_SIZE}px system-ui, sans-serif`;
const SMALL_FONT = `${SMALL_SIZE}px system-ui, sans-serif`;
const PICTURE_FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** What is shown now: which tokens, which weights, in which colours; two heads side by side. */
async function matrixPictures() {
  const shown = shownHeads();
  await Promise.all(shown.map(cellsOf));
  const drawings = shown.map((head) =>
    onMatrix(matrices.find(({ headOf }) => headOf() === head), matrixPicture)());
  return drawings.length === 1 ? drawings[0] : besideEachOther(drawings);
}

function besideEachOther(drawings) {
  const sizes = drawings.map((each) => Number(each.getAttribute("width")));
  const size = {
    width: sizes.reduce((sum, wide) => sum + wide),
    height: Math.max(...drawings.map((each) => Number(each.getAttribute("height")))),
  };
  const viewBox = `0 0 ${size.width} ${size.height}`;
  const page = drawn("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, viewBox, role: "img" });
  drawings.forEach((each, place) =>
    each.setAttribute("x", sizes.slice(0, place).reduce((sum, wide) => sum + wide, 0)));
  page.append(drawn("rect", { width: size.width, height: size.height, fill: inks().paper }));
  page.append(...drawings);
  return page;
}

function matrixPicture() {
  const layout = layoutOfPicture();
  const room = roomOfPicture(layout.size);
  const below = [colorBarShape(), ...smallLines(saidBesideBar(), room)];
  return framedPicture(matrix.head, mapShapes(layout), layout.size, below);
}

function layoutOfPicture() {
  const counts = { rows: matrix.rows.length, columns: matrix.columns.length };
  const names = { ...longestNames(matrix), cut: LONGEST_NAME };
  return matrixLayout(PICTURE_ROOM, counts, names, 1);
}

function mapShapes(layout) {
  const map = drawn("g", {}, ...cellShapes(layout), ...borderShapes(layout), frameShape(layout));
  return [map, ...rowNameShapes(layout), ...columnNameShapes(layout)];
}

/** The matrix alone, for paper: what surrounds it stands in the page. */
function matrixOnPaper() {
  const layout = layoutOfPicture();
  const { wide, high } = layout.size;
  const look = { "font-family": PICTURE_FONT, "font-size": NAME_SIZE, fill: inks().ink };
  const size = { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, class: "on-paper" };
  return drawn("svg", { ...size, ...look }, ...mapShapes(layout));
}

/** A drawing with the title of the page above it and, below, lines of small print. */
function framedPicture(head, body, size, below) {
  const { paper, ink } = inks();
  const room = roomOfPicture(size);
  const titles = linesOfWords(pictureHeading(head), room, TITLE_FONT);
  const lines = [...below, ...smallLines(settingsOfPage(), room)];
  const top = PICTURE_EDGE + titles.length * TITLE_SIZE * 1.3 + 10;
  const wide = Math.ceil(room + 2 * PICTURE_EDGE);
  const high = Math.ceil(top + size.high + lines.length * SMALL_LINE + PICTURE_EDGE);
  const picture = drawn("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    width: wide,
    height: high,
    viewBox: `0 0 ${wide} ${high}`,
    "font-family": PICTURE_FONT,
    "font-size": NAME_SIZE,
    fill: ink,
    role: "img",
  });
  picture.append(
    drawn("title", {}, pictureHeading(head)),
    drawn("rect", { width: wide, height: high, fill: paper }),
    ...titles.map((text, line) => titleShape(text, line)),
    drawn("g", { transform: `translate(${PICTURE_EDGE} ${top})` }, ...body),
    ...lines.map((line, place) =>
      moved(line, PICTURE_EDGE, top + size.high + 20 + place * SMALL_LINE)),
  );
  return picture;
}

function moved(shape, x, y) {
  shape.setAttribute("transform", `translate(${x} ${y})`);
  return shape;
}

const roomOfPicture = ({ wide }) => Math.max(wide, NARROWEST_PICTURE);

/** The head, and what was done; the title of a page may speak of all heads. */
const pictureHeading = (head) => `${heads[head].name} · ${data.about}`;

/** Words in as many lines as they need. */
function linesOfWords(text, room, font) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (widthOf(longer, font) <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter(Boolean).map((line) => cutText(line, room, font));
}

function titleShape(text, line) {
  const y = PICTURE_EDGE + TITLE_SIZE * (0.8 + 1.3 * line);
  const look = { "font-size": TITLE_SIZE, "font-weight": 650 };
  return drawn("text", { x: PICTURE_EDGE, y, ...look }, text);
}

/** What the numbers depend on, and what of them is random. */
function settingsOfPage() {
  const said = ["settings", "caveat"].map((name) => document.getElementById(name)?.textContent);
  return said.filter(Boolean);
}

/** Small print: parts in a row, in as many lines as they need. */
const smallLines = (parts, room) =>
  linesOfWords(parts.join(" · "), room, SMALL_FONT).map((line) =>
    drawn("text", smallPrint(), line));

const smallPrint = () => ({ "font-size": SMALL_SIZE, fill: inks().faint });

/** Each cell a rectangle; very many of them one bitmap. */
function cellShapes(layout) {
  const { left, top, whole } = layout;
  const below = matrix.hides ? hiddenShapes(layout) : [];
  if (matrix.rows.length * matrix.columns.length > MOST_DRAWN_CELLS) {
    const place = { x: left, y: top, width: whole.wide, height: whole.high };
    const look = { preserveAspectRatio: "none", "image-rendering": "pixelated" };
    return [...below, drawn("image", { ...place, ...look, href: bitmapAddress() })];
  }
  const pen = penOfCells(layout.cell);
  const columns = [...matrix.columns.keys()];
  return [
    ...below,
    ...matrix.rows.flatMap((_, row) =>
      columns.flatMap((column) => cellShape(layout, row, column, pen))),
  ];
}

/** How cells are coloured, and how their numbers are written, where there is room for them. */
function penOfCells(cell) {
  const write = cellWriter(matrix.cells.largest, heads[matrix.head].share);
  const size = numberSize(cell, write);
  const color = colorsOn(scaleNow(matrix.head));
  return { color, write: size < SMALLEST_NUMBER ? null : write, size };
}

/** What a mask hides is grey with lines across, in a picture, too. */
function hiddenShapes({ left, top, whole }) {
  const { hidden, hatch } = themeColors();
  const lines = drawn("path", { d: "M-1 7L7 -1M2 10L10 2M-4 4L4 -4", stroke: hatch });
  const tile = { width: 6, height: 6 };
  const paper = drawn("rect", { ...tile, fill: hidden });
  const look = { id: "hidden", ...tile, patternUnits: "userSpaceOnUse" };
  const pattern = drawn("pattern", look, paper, lines);
  const place = { x: left, y: top, width: whole.wide, height: whole.high };
  return [drawn("defs", {}, pattern), drawn("rect", { ...place, fill: "url(#hidden)" })];
}

function bitmapAddress() {
  const whole = wholeBitmap().canvas;
  const canvas = element("canvas", { width: whole.width, height: whole.height });
  canvas.getContext("2d").drawImage(whole, 0, 0);
  return canvas.toDataURL();
}

/** A cell, and its number where there is room for numbers. */
function cellShape({ left, top, cell }, row, column, { color, write, size }) {
  const weight = matrix.cells.weight(matrix.rows[row], matrix.columns[column]);
  if (Number.isNaN(weight)) return [];
  const blank = Math.abs(weight) < state.least;
  const gap = Math.min(cell.wide, cell.high) < GAPS_FROM ? 0 : 1;
  const [x, y] = [left + column * cell.wide, top + row * cell.high];
  const place = { x, y, width: cell.wide - gap, height: cell.high - gap };
  const shape = drawn("rect", { ...place, fill: blank ? inks().paper : hexColor(color(weight)) });
  if (write === null || blank) return [shape];
  const middle = { x: x + cell.wide / 2, y: y + cell.high / 2 + size * 0.35 };
  const look = { "font-size": size, "text-anchor": "middle", fill: inkOn(color(weight)) };
  return [shape, drawn("text", { ...middle, ...look }, write(weight))];
}

const hexColor = (color) => `#${color.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

/** A line where something else begins on a side. */
function borderShapes({ left, top, cell, whole }) {
  const before = (side, places) =>
    places.filter((place) => blockOf(side, place).first < side.border).length;
  const { rows, columns, reads, read } = matrix;
  const down = top + before(reads, rows) * cell.high;
  const across = left + before(read, columns) * cell.wide;
  const lines = [
    ...(reads.border === null ? [] : [`M${left} ${down}h${whole.wide}`]),
    ...(read.border === null ? [] : [`M${across} ${top}v${whole.high}`]),
  ];
  return lines.map((d) => drawn("path", { d, stroke: inks().ink, "stroke-width": 2 }));
}

function frameShape({ left, top, whole }) {
  const place = { x: left, y: top, width: whole.wide, height: whole.high };
  return drawn("rect", { ...place, fill: "none", stroke: inks().faint, "stroke-width": 0.5 });
}
