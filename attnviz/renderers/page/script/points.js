// Heads as points, placed by any two measures; examples of the chosen one.

const cloud = data.points;
const POINTS_BOX = { left: 52, top: 30, right: 628, bottom: 400, width: 640, height: 448 };
const POINT_RADIUS = 5;
const ARROWS_ALONG = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", -1],
  ArrowDown: ["y", 1] };
const pointCircles = new Map();

function startPoints() {
  control("points").hidden = false;
  for (const name of ["across", "up"]) startAxisChooser(name);
  const names = cloud.points.map(({ name }, point) => element("option", { value: point }, name));
  control("point").append(...names);
  control("point").addEventListener("change", () =>
    change({ point: Number(control("point").value) }));
  control("cloud").addEventListener("keydown", movePoint);
  readAddress();
  shownIn(["across", "up"], drawPoints);
  shownIn(["point", "across", "up"], showPoint);
}

function startAxisChooser(name) {
  const list = control(name);
  list.append(...cloud.axes.map((axis, place) => element("option", { value: place }, axis.name)));
  list.addEventListener("change", () => change({ [name]: Number(list.value) }));
}

/** From 0 to 1 for shares; else from 0 to a little more than the largest number. */
function axisReach(axis) {
  if (cloud.axes[axis].is_share) return 1;
  const numbers = cloud.points.map(({ values }) => values[axis] ?? 0);
  return roundReach(Math.max(...numbers)) || 1;
}

/** The next of 1, 2 or 5 times a power of ten. */
function roundReach(largest) {
  const power = 10 ** Math.floor(Math.log10(largest || 1));
  return [1, 2, 5, 10].map((factor) => factor * power).find((reach) => reach >= largest);
}

const acrossOf = (value) =>
  POINTS_BOX.left + (value / axisReach(state.across)) * (POINTS_BOX.right - POINTS_BOX.left);
const upOf = (value) =>
  POINTS_BOX.bottom - (value / axisReach(state.up)) * (POINTS_BOX.bottom - POINTS_BOX.top);

function drawPoints() {
  const { across, up } = state;
  control("across").value = across;
  control("up").value = up;
  control("axes-note").textContent = [across, up]
    .map((axis) => `${cloud.axes[axis].name}: ${cloud.axes[axis].about}`).join(" · ");
  pointCircles.clear();
  const placed = cloud.points.map(circleOf).filter(Boolean);
  const { width, height } = POINTS_BOX;
  const drawing = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `${cloud.points.length} heads as points; arrow keys go from one to the next` });
  drawing.append(...pointAxes(), ...placed);
  control("cloud").replaceChildren(pointLegend(), drawing);
}

/** Rules, numbers and titles of both axes. */
function pointAxes() {
  const { left, right, bottom, height } = POINTS_BOX;
  const shares = [0, 0.25, 0.5, 0.75, 1];
  const rules = shares.flatMap((share) => {
    const [x, y] = [acrossOf(share * axisReach(state.across)), upOf(share * axisReach(state.up))];
    const texts = [state.across, state.up].map((axis) => String(share * axisReach(axis)));
    return [
      drawn("path", { d: `M${left} ${y}H${right}`, class: "rule" }),
      drawn("text", { x: left - 8, y: y + 4, class: "left" }, texts[1]),
      drawn("text", { x, y: bottom + 20, class: "below" }, texts[0]),
    ];
  });
  const [below, above] = [state.across, state.up].map((axis) => cloud.axes[axis].name);
  return [
    ...rules,
    drawn("text", { x: (left + right) / 2, y: height - 8, class: "below" }, `${below} →`),
    drawn("text", { x: left, y: 14 }, `↑ ${above}`),
  ];
}

function pointLegend() {
  const items = cloud.kinds.map((kind) => element("li", {}, swatchOf(kind), kind));
  return element("ul", { class: "legend" }, ...items);
}

function swatchOf(kind) {
  const circle = drawn("circle", { cx: 6, cy: 6, r: POINT_RADIUS, class: pointColor(kind) });
  return drawn("svg", { viewBox: "0 0 12 12", class: "dot", "aria-hidden": "true" }, circle);
}

/** The last kind is none: its points are not filled. */
const pointColor = (kind) => {
  const number = cloud.kinds.indexOf(kind);
  const hollow = number === cloud.kinds.length - 1;
  return hollow ? "point hollow" : `point line-${number % data.look.colors.light.series.length}`;
};

/** A point where its numbers put it; null where one of them is not known. */
function circleOf(point, place) {
  const [x, y] = [point.values[state.across], point.values[state.up]];
  if (x === null || y === null) return null;
  const circle = drawn("circle", { cx: acrossOf(x).toFixed(1), cy: upOf(y).toFixed(1),
    r: POINT_RADIUS, class: pointColor(point.kind), role: "button", "aria-label": pointText(place),
    tabindex: place === state.point ? 0 : -1 });
  circle.append(drawn("title", {}, pointText(place)));
  circle.addEventListener("click", () => change({ point: place }));
  pointCircles.set(place, circle);
  return circle;
}

const pointText = (place) => {
  const { name, kind } = cloud.points[place];
  return [name, kind, axisText(place, state.across), axisText(place, state.up)].join(", ");
};

/** A number of a point, with the ends of its interval: "previous token .93 (.91 to .95)". */
function axisText(place, axis) {
  const { values, lows, highs } = cloud.points[place];
  const share = cloud.axes[axis].is_share;
  const written = (value) => share && value < 0.005 ? ".00" : numberText(value, { share });
  const { name } = cloud.axes[axis];
  if (values[axis] === null) return `${name} not known`;
  const ends = [lows[axis], highs[axis]];
  const interval = ends.includes(null) ? "" : ` (${ends.map(written).join(" to ")})`;
  return `${name} ${written(values[axis])}${interval}`;
}

/** Arrow keys go to the next point in their direction; Enter and the space bar choose it. */
function movePoint(event) {
  const from = [...pointCircles].find(([, circle]) => circle === document.activeElement);
  if (from === undefined) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    return change({ point: from[0] });
  }
  const isEnd = ["Home", "End"].includes(event.key);
  if (!isEnd && !Object.hasOwn(ARROWS_ALONG, event.key)) return;
  event.preventDefault();
  const [side, sign] = ARROWS_ALONG[event.key] ?? ["x", 1];
  const placeOf = (circle) => Number(circle.getAttribute(`c${side}`)) * sign;
  const order = [...pointCircles].sort(([one, first], [other, second]) =>
    placeOf(first) - placeOf(second) || one - other);
  if (isEnd) return order.at(event.key === "Home" ? 0 : -1)[1].focus();
  const next = order[order.findIndex(([place]) => place === from[0]) + 1];
  if (next) next[1].focus();
}

function showPoint() {
  const point = cloud.points[state.point];
  control("point").value = state.point;
  for (const [place, circle] of pointCircles) {
    const isChosen = place === state.point;
    circle.setAttribute("tabindex", isChosen ? 0 : -1);
    circle.setAttribute("aria-pressed", isChosen);
    circle.setAttribute("r", isChosen ? POINT_RADIUS * 1.8 : POINT_RADIUS);
  }
  if (!pointCircles.has(state.point)) [...pointCircles.values()][0]?.setAttribute("tabindex", 0);
  const numbers = [state.across, state.up].map((axis) => axisText(state.point, axis)).join(" · ");
  const sentences = [...point.summary, numbers].map((text) => element("p", {}, text));
  control("examples").replaceChildren(
    element("h2", {}, point.name), ...sentences, ...exampleGroups(point));
}

/** The examples under headings: those with the most first. */
function exampleGroups(point) {
  const groups = new Map();
  for (const example of point.examples) {
    groups.set(example.group, [...(groups.get(example.group) ?? []), example]);
  }
  return [...groups].flatMap(([group, examples]) => [
    element("h3", {}, group), element("ul", {}, ...examples.map(exampleItem)),
  ]);
}

/** A line with its pair of tokens: the one that attends in a frame, the other one in colour. */
function exampleItem({ title, line, query, key, weight }) {
  const { labels, spaced } = cloud.lines[line];
  const words = labels.flatMap((label, place) => {
    const isKey = place === key;
    const word = place === query
      ? element("mark", { class: isKey ? "attended" : null }, label)
      : element(isKey ? "strong" : "span", { class: isKey ? "attended" : null }, label);
    return [spaced[place] && place ? " " : "", word];
  });
  const pair = `${labels[query]} → ${labels[key]} ${weight}`;
  return element("li", {}, element("p", { class: "caption" }, `${title} · ${pair}`),
    element("p", { class: "example" }, ...words));
}
