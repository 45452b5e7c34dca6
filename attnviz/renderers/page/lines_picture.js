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
  const [name, number] = [blockName(sides[end], place), numberName(sides[end], place)];
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
  const outer = end === "query" ? 0 : layout.wide - layout.columns.amounts * AMOUNT_WIDTH;
  return tables.slice(0, layout.columns.amounts).map((table, slot) => {
    const x = outer + (slot + 1) * AMOUNT_WIDTH - 6;
    const { text } = amountTexts(table, slot, end, followed)(place);
    const about = { x, y: lineOf(end, place), fill: inks().ink, "text-anchor": "end" };
    return drawn("text", about, text);
  });
}

/* On paper there is no scrolling: all rows are printed. */

function printLines(printing) {
  lineView.printed?.remove();
  lineView.printed = null;
  if (!printing || lineView.layout === null || !lineView.seen) return;
  lineView.printed = element("div", { class: "lines-printed" }, linesPicture());
  lineView.section.append(lineView.printed);
}

addEventListener("beforeprint", () => printLines(true));
addEventListener("afterprint", () => printLines(false));
