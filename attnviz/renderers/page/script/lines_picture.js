// The lines as an SVG to copy, save or print.

const LINES_TOP = 26; // pixels, for what stands above the columns
const SWATCH = 11;
const SIZE_OF_AMOUNTS = 0.85; // of that of words

/** All rows, with the lines and numbers that are shown just now; or would be, if they were. */
async function linesPicture() {
  if (!lineView.seen) await loadLines();
  return withLinesLaid(() => framedPicture(lineHead(), drawnRows(), sizeOfPicture(), drawnNotes()));
}

/** Something that is drawn of the lines, which are laid out for it where nobody sees them. */
function withLinesLaid(draw) {
  if (lineView.seen) return draw();
  Object.assign(lineView, { pictured: true, wide: PICTURE_ROOM.wide });
  showLines();
  const drawing = draw();
  Object.assign(lineView, { pictured: false, stale: true });
  return drawing;
}

function drawnRows() {
  const { layout, found, followed } = lineView;
  const above = heightAbove();
  const rows = drawn("g", { transform: `translate(0 ${above})`, "font-size": layout.size });
  const lines = drawnLines((followed ?? found).lines, layout);
  rows.append(...lines, ...drawnStrips(), ...drawnWords());
  return [...drawnNames(namesOfColors()), ...drawnHeadings(above), rows];
}

const namesOfColors = () => (lineView.layout.heads.length > 1 ? lineView.layout.heads : []);
const heightAbove = () => LINES_TOP * (namesOfColors().length > 0 ? 2 : 1);

function sizeOfPicture() {
  const { wide, whole } = lineView.layout;
  return { wide, high: whole + heightAbove() };
}

/** What is drawn, and what widths mean. */
function drawnNotes() {
  const { says, law } = lineView;
  const room = roomOfPicture(sizeOfPicture());
  return [says, law].flatMap(({ textContent }) => smallLines([textContent], room));
}

function drawnHeadings(above) {
  const { titles } = lineView;
  const about = { y: above - 12, ...smallPrint() };
  const left = { ...about, x: edgeOf("query"), "text-anchor": "end" };
  return [
    drawn("text", left, titles.query.textContent),
    drawn("text", { ...about, x: edgeOf("key") }, titles.key.textContent),
  ];
}

/** Which colour is which head. */
function drawnNames(names) {
  const step = lineView.layout.wide / Math.max(names.length, 1);
  return names.flatMap((head, slot) => {
    const [x, name] = [slot * step, { y: SWATCH + 1, "font-size": SMALL_SIZE }];
    return [
      drawn("rect", { x, y: 2, width: SWATCH, height: SWATCH, fill: colorOfHead(slot) }),
      drawn("text", { x: x + SWATCH + 5, ...name }, heads[head].name),
    ];
  });
}

function drawnLines(found, layout) {
  const { from, to } = layout.columns;
  const bend = (to - from) * BEND;
  return Array.from(strokesOf(found, layout, lineView.strokes), (stroke) =>
    drawn("path", {
      d: curve([from, stroke.from, from + bend, stroke.from, to - bend, stroke.to, to, stroke.to]),
      fill: "none",
      stroke: stroke.color,
      "stroke-width": short(stroke.width),
      "stroke-opacity": short(stroke.opacity),
      ...(stroke.dashed ? { "stroke-dasharray": "5 4" } : {}),
    }),
  );
}

const curve = (places) => {
  const [x, y, ...bend] = places.map(short);
  return `M${x} ${y}C${bend.join(" ")}`;
};
const short = (number) => Number(number.toFixed(3));

function drawnStrips() {
  if (lineView.tables.length < 2 || !lineView.of) return [];
  return Array.from(stripCells(), ({ x, y, wide, high, color, opacity }) =>
    drawn("rect", { x, y, width: wide, height: high, fill: color, "fill-opacity": short(opacity) }),
  );
}

/** Names and numbers, cut as they are on the screen. */
function drawnWords() {
  const { words, layout, of } = lineView;
  return ["query", "key"].flatMap((end) => {
    const written = words[end].filter(
      ({ index, place }) => index % layout.nth === 0 || place === of?.[end],
    );
    return written.flatMap(({ place }) => [...drawnWord(end, place), ...drawnAmounts(end, place)]);
  });
}

function drawnWord(end, place) {
  const { layout, sides, of } = lineView;
  const { columns, size } = layout;
  const font = `${size}px system-ui, sans-serif`;
  const name = blockName(sides[end], place);
  const number = columns.narrow && name ? "" : numberName(sides[end], place);
  const beside = name && number ? widthOf(number, font) + NUMBER_GAP : 0;
  const text = cutText(name || number, columns.names[end] - beside, font);
  const start = end === "query" ? edgeOf(end) - widthOf(text, font) : edgeOf(end) + beside;
  const y = lineOf(end, place);
  const about = { x: start, y, fill: inks().ink, "unicode-bidi": "isolate" };
  if (place === of?.[end]) about["font-weight"] = 700;
  const parts = [drawn("text", about, text)];
  if (beside) parts.push(drawn("text", { x: start - beside, y, fill: inks().faint }, number));
  return parts;
}

/** Where names end, on the left, or begin. */
function edgeOf(end) {
  const { from, to, strip } = lineView.layout.columns;
  return end === "query" ? from - strip - BESIDE_LINES : to + strip + BESIDE_LINES;
}

const lineOf = (end, place) => heightOf(lineView.layout, end, place) + lineView.layout.size * 0.35;

function drawnAmounts(end, place) {
  const { of, tables, layout } = lineView;
  const followed = of?.[OTHER_END[end]] ?? null;
  if (followed === null) return [];
  const outer = end === "query" ? 0 : layout.wide - layout.columns.amounts * layout.columns.amount;
  return tables.slice(0, layout.columns.amounts).flatMap((table, slot) => {
    const x = outer + (slot + 1) * layout.columns.amount - 4;
    const { text, color } = amountTexts(table, slot, end, followed)(place);
    return drawnAmount(text, color, { x, y: lineOf(end, place) });
  });
}

/** A number, with a line below it in the colour of its head where there are several. */
function drawnAmount(text, color, { x, y }) {
  const size = lineView.layout.size * SIZE_OF_AMOUNTS;
  const look = { fill: inks().ink, "font-size": size, "text-anchor": "end" };
  const number = drawn("text", { x, y, ...look }, text);
  if (!color) return [number];
  const wide = widthOf(text, `${size}px system-ui, sans-serif`);
  return [drawn("rect", { x: x - wide, y: y + 3, width: wide, height: 2, fill: color }), number];
}

/* On paper there is no scrolling: all rows are printed. */

function linesOnPaper() {
  const { wide, high } = sizeOfPicture();
  const look = { "font-family": PICTURE_FONT, "font-size": NAME_SIZE, fill: inks().ink };
  const size = { width: wide, height: high, viewBox: `0 0 ${wide} ${high}` };
  return drawn("svg", { ...size, ...look, class: "on-paper lines-printed" }, ...drawnRows());
}

function printLines() {
  if (lineView.loaded === null || !same(lineView.loaded.drawn, headsOfLines())) return;
  lineView.stale = false;
  const { frame } = lineView;
  frame.after(withLinesLaid(linesOnPaper));
}

function forgetPrintedLines() {
  lineView.section.querySelector(".lines-printed")?.remove();
}

if (heads.length > 0) {
  addEventListener("beforeprint", printLines);
  addEventListener("afterprint", forgetPrintedLines);
}
