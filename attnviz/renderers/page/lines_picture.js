// The lines as a picture that can be taken away, or printed: an SVG of what is seen.

const PICTURE_TOP = 30; // pixels, for what stands above the columns
const FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** All rows, with the lines and numbers that are shown just now. */
function linesPicture() {
  const { layout, found, followed } = lineView;
  const { paper } = inks();
  const names = layout.heads.length > 1 ? layout.heads : [];
  const top = PICTURE_TOP + (names.length ? PICTURE_TOP : 0);
  const size = { width: layout.wide, height: layout.whole + top + 8 };
  const holder = drawn("g", { transform: `translate(0 ${top})` });
  holder.append(...drawnLines((followed ?? found).lines, layout), ...drawnStrips(), ...drawnWords());
  return drawn(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${size.width} ${size.height}`, ...size,
      "font-family": FONTS, "font-size": layout.size },
    drawn("title", {}, pictureTitle()),
    drawn("rect", { ...size, fill: paper }),
    ...drawnHeadings(top), ...drawnNames(names), holder,
  );
}

function pictureTitle() {
  const names = listedNames(lineView.layout.heads.map((head) => heads[head].name));
  return `${names}: ${lineView.says.textContent}`;
}

function drawnHeadings(top) {
  const { titles, layout } = lineView;
  const y = top - 12;
  const about = { y, fill: inks().faint, "font-size": 12 };
  return [
    drawn("text", { ...about, x: layout.columns.from, "text-anchor": "end" }, titles.query.textContent),
    drawn("text", { ...about, x: layout.columns.to }, titles.key.textContent),
  ];
}

/** Which colour is which head. */
function drawnNames(names) {
  const step = lineView.layout.wide / Math.max(names.length, 1);
  return names.flatMap((head, slot) => [
    drawn("rect", { x: slot * step + 2, y: 9, width: 12, height: 12, fill: colorOfHead(slot) }),
    drawn("text", { x: slot * step + 18, y: 20, "font-size": 12, fill: inks().ink }, heads[head].name),
  ]);
}

function drawnLines(found, layout) {
  const { from, to } = layout.columns;
  const bend = (to - from) * BEND;
  return Array.from(strokesOf(found, layout), (stroke) =>
    drawn("path", {
      d: `M${from} ${short(stroke.from)}C${from + bend} ${short(stroke.from)} ${to - bend} ${short(stroke.to)} ${to} ${short(stroke.to)}`,
      fill: "none",
      stroke: stroke.color,
      "stroke-width": short(stroke.width),
      "stroke-opacity": short(stroke.opacity),
      ...(stroke.dashed ? { "stroke-dasharray": "5 4" } : {}),
    }),
  );
}

const short = (number) => Number(number.toFixed(3));

function drawnStrips() {
  if (lineView.tables.length < 2 || !lineView.of) return [];
  return Array.from(stripCells(), ({ x, y, wide, high, color, opacity }) =>
    drawn("rect", { x, y, width: wide, height: high, fill: color, "fill-opacity": short(opacity) }),
  );
}

/** Names and numbers, cut as they are on the screen. */
function drawnWords() {
  const { words } = lineView;
  return ["query", "key"].flatMap((end) =>
    words[end].filter(({ button }) => isWritten(button)).flatMap((word) => drawnWord(end, word)),
  );
}

const isWritten = ({ classList }) => !classList.contains("left-out") || classList.contains("followed");

function drawnWord(end, word) {
  const { layout, sides } = lineView;
  const { columns, size } = layout;
  const font = `${size}px system-ui, sans-serif`;
  const [name, number] = [blockName(sides[end], word.place), numberName(sides[end], word.place)];
  const beside = name && number ? widthOf(number, font) + NUMBER_GAP : 0;
  const text = cutText(name || number, columns.names[end] - beside, font);
  const left = end === "query";
  const edge = left ? columns.from - columns.strip - BESIDE_LINES : columns.to + columns.strip + BESIDE_LINES;
  const y = heightOf(layout, end, word.place) + size * 0.35;
  const { ink, faint } = inks();
  const bold = word.button.classList.contains("followed") ? { "font-weight": 700 } : {};
  const start = left ? edge - widthOf(text, font) : edge + beside;
  const parts = [drawn("text", { x: start, y, fill: ink, ...bold, "unicode-bidi": "isolate" }, text)];
  if (beside) parts.push(drawn("text", { x: start - beside, y, fill: faint }, number));
  return [...parts, ...drawnAmounts(end, word, y)];
}

function drawnAmounts(end, { texts }, y) {
  const { columns, wide } = lineView.layout;
  const outer = end === "query" ? 0 : wide - columns.amounts * AMOUNT_WIDTH;
  return texts.filter(({ text }) => text).map(({ text }, slot) => {
    const x = outer + (slot + 1) * AMOUNT_WIDTH - 6;
    return drawn("text", { x, y, fill: inks().ink, "text-anchor": "end" }, text);
  });
}

/* On paper there is no scrolling: all rows are printed. */

function printLines(printing) {
  lineView.printed?.remove();
  lineView.printed = null;
  if (!printing || lineView.layout === null || !isSeen()) return;
  lineView.printed = element("div", { class: "lines-printed" }, linesPicture());
  lineView.section.append(lineView.printed);
}

addEventListener("beforeprint", () => printLines(true));
addEventListener("afterprint", () => printLines(false));
