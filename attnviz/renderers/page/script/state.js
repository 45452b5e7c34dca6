// The state of the page: what is chosen; it is also in the page's address.

const state = {
  view: arePaired ? "both" : "matrix", // the one that is large
  head: attention.first ?? 0,
  query: attention.query ?? null, // the token that is followed, if one is
  key: null, // the token of whom all readers are shown, if one is
  hover: null, // {query, key} under the pointer, or where the arrows are
  cell: null, // {query, key} whose arithmetic is shown, if one is
  least: 0, // weights below it are not drawn
  log: attention.log ?? false,
  special: true, // whether special tokens are shown
  lines: arePaired ? "first" : "difference", // whose lines are drawn, of two sentences
  together: [], // other heads whose lines are drawn, too
  across: data.points?.first_axes[0] ?? 0, // by which measures points are placed,
  up: data.points?.first_axes[1] ?? 0,
  point: 0, // and the one whose examples are shown
  theme: data.look.theme, // "" is the system's
  keys: true, // whether single keys do something: whoever dictates may type them unawares
  ...(isLive ? startingChoices() : {}), // the text and the settings of a page that computes
};

const VIEWS = ["matrix", "lines", "sentence"];
if (arePaired) VIEWS.push("both");
if (choosable.length > 1) VIEWS.push("overview");
const startingState = { ...state };
const listeners = [];
let changedNames = new Set();

/** Call a function, once a frame at most, after any of some names has changed. */
function whenChanged(names, draw) {
  listeners.push({ names, draw });
}

/** Change what is looked at; whoever shows it hears of it before the next frame. */
function change(changes) {
  const whole = "head" in changes ? { ...withinHead(changes.head), ...changes } : changes;
  const changed = Object.keys(whole).filter((name) => !same(state[name], whole[name]));
  if (changed.length === 0) return;
  Object.assign(state, whole);
  if (changedNames.size === 0) requestAnimationFrame(tellListeners);
  changed.forEach((name) => changedNames.add(name));
  if (!isLive || !changed.some((name) => LIVE_NAMES.includes(name))) return;
  computeLive();
  changedNames.add("head").add("computed"); // all heads are others
}

/** What another head has no place for: it may be of a shorter sentence. */
function withinHead(head) {
  const [high, wide] = [readers(head).labels.length, readTokens(head).labels.length];
  return {
    query: state.query < high ? state.query : null,
    key: state.key < wide ? state.key : null,
    hover: null,
    cell: state.cell && state.cell.query < high && state.cell.key < wide ? state.cell : null,
  };
}

function tellListeners() {
  const changed = changedNames;
  changedNames = new Set();
  for (const { names, draw } of listeners) {
    if (names.some((name) => changed.has(name))) draw(state);
  }
  if (IN_ADDRESS.some((name) => changed.has(name))) writeAddressSoon();
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/* The address: how each thing is written in it, and read. What makes no sense here is undefined. */

const NOTHING = "none";
const switched = {
  write: (value) => (value ? "on" : "off"),
  read: (text) => lookUp({ on: true, off: false }, text),
};
const oneOf = (texts) => ({
  write: (value) => value,
  read: (text) => (texts.includes(text) ? text : undefined),
});
const tokenOf = (sideOf) => ({
  write: (place) => (place === null ? NOTHING : tokenNumber(sideOf(state.head), place)),
  read: (text, found) => (text === NOTHING ? null : placeOfNumber(sideIn(found, sideOf), text)),
});
const sideIn = ({ text, head }, sideOf) => (isLive ? sideOfText(text) : sideOf(head));
const pairOfTokens = {
  write: (cell) => (cell === null ? NOTHING : [
    tokenNumber(readers(state.head), cell.query), tokenNumber(readTokens(state.head), cell.key),
  ].join("-")),
  read: (text, found) => (text === NOTHING ? null : cellOfNumbers(found, ...text.split("-"))),
};
const placeNamed = (things) => ({
  write: (place) => things[place].name,
  read: (text) => [...things.keys()].find((place) => things[place].name === text),
});
const ADDRESS = {
  ...(isLive ? liveAddress() : {}),
  view: oneOf(VIEWS),
  head: { write: headName, read: headNamed },
  query: tokenOf(readers),
  key: tokenOf(readTokens),
  cell: pairOfTokens,
  least: { write: String, read: shareOf },
  log: switched,
  special: switched,
  keys: switched,
  lines: oneOf(["first", "second", "difference"].slice(arePaired ? 0 : 2)),
  theme: { write: (value) => value || "system", read: themeNamed },
  across: placeNamed(data.points?.axes ?? []),
  up: placeNamed(data.points?.axes ?? []),
  point: placeNamed(data.points?.points ?? []),
};
const SEVERAL = "together"; // the one name that may stand in an address again and again
const IN_ADDRESS = [...Object.keys(ADDRESS), SEVERAL];

/** A head by its name; by its place where another has the same name. */
function headName(head) {
  const { name } = heads[head];
  return choosable.find((each) => heads[each].name === name) === head ? name : String(head);
}

function headNamed(text) {
  const named = choosable.find((head) => heads[head].name === text);
  return named ?? choosable.find((head) => String(head) === text);
}

/** A token by the number that stands beside it. */
const tokenNumber = (side, place) => side.numbers[place] || String(place + 1);

function placeOfNumber(side, text) {
  const place = side.labels.findIndex((_, each) => tokenNumber(side, each) === text);
  return place < 0 ? undefined : place;
}

function cellOfNumbers(found, first, second = "") {
  const query = placeOfNumber(sideIn(found, readers), first);
  const key = placeOfNumber(sideIn(found, readTokens), second);
  const isThere = query !== undefined && key !== undefined && canShowArithmetic();
  return isThere ? { query, key } : undefined;
}

function shareOf(text) {
  const number = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(number) && number >= 0 ? number : undefined;
}

function themeNamed(text) {
  return lookUp({ system: "", light: "light", dark: "dark" }, text);
}

/** All that differs from how the page opens. */
function address() {
  const parts = new URLSearchParams();
  for (const [name, { write }] of Object.entries(ADDRESS)) {
    const isOfText = name === "query" && isLive && state.text !== startingState.text;
    if (isOfText || !same(state[name], startingState[name])) parts.set(name, write(state[name]));
  }
  for (const head of state[SEVERAL]) parts.append(SEVERAL, headName(head));
  return String(parts) && `#${parts}`;
}

/** What an address says, as far as it makes sense here; all else is as the page opens. */
function addressed(hash) {
  const [parts, found] = [new URLSearchParams(hash.slice(1)), { ...startingState }];
  for (const name of Object.keys(ADDRESS).filter((each) => parts.has(each))) {
    const value = ADDRESS[name].read(parts.get(name), found);
    if (value !== undefined) found[name] = value;
  }
  if (isLive) Object.assign(found, placesWithin(found, parts.has("query")));
  const several = parts.getAll(SEVERAL).map(headNamed).filter((head) => head !== undefined);
  found[SEVERAL] = [...new Set(several)];
  return found;
}

const PAUSE = 200; // milliseconds: browsers refuse an address that changes all the time
let waiting = null;

function writeAddressSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(writeAddress, PAUSE);
}

function writeAddress() {
  try {
    history.replaceState(null, "", address() || location.pathname + location.search);
  } catch (error) {
    if (error.name !== "SecurityError") throw error; // a frame may have no address of its own
  }
}

/** A link to a place of the page says nothing of what is looked at. */
const isPlace = (hash) => hash !== "" && document.getElementById(hash.slice(1)) !== null;

/** As the page opens, and whenever somebody changes its address, or goes back to one. */
function readAddress() {
  Object.assign(state, addressed(location.hash));
  if (isLive) computeLive();
  addEventListener("hashchange", ({ newURL }) => {
    const { hash } = new URL(newURL); // location may have been written since, by writeAddress
    if (!isPlace(hash)) change(addressed(hash));
  });
}
