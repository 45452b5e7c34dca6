// What is looked at. It stands in the page's address, so that a link opens what was seen.

const state = {
  view: "matrix", // the one that is large
  head: attention.first ?? 0,
  query: attention.query ?? null, // the token that is followed, if one is
  key: null, // the token of whom all readers are shown, if one is
  hover: null, // {query, key} under the pointer, or where the arrows are
  least: 0, // weights below it are not drawn
  log: attention.log ?? false,
  special: true, // whether special tokens are shown
  together: [], // other heads whose lines are drawn, too
  theme: data.look.theme, // "" is the system's
};

const IN_ADDRESS = ["view", "head", "query", "key", "least", "log", "special", "together", "theme"];
const startingState = { ...state };
const listeners = [];
let changedNames = new Set();

/** Call a function, once a frame at most, after any of some names has changed. */
function whenChanged(names, draw) {
  listeners.push({ names, draw });
}

/** Change what is looked at; whoever shows it hears of it before the next frame. */
function change(changes) {
  const changed = Object.keys(changes).filter((name) => !same(state[name], changes[name]));
  if (changed.length === 0) return;
  Object.assign(state, changes);
  if (changedNames.size === 0) requestAnimationFrame(tellListeners);
  changed.forEach((name) => changedNames.add(name));
}

function tellListeners() {
  const changed = changedNames;
  changedNames = new Set();
  for (const { names, draw } of listeners) {
    if (names.some((name) => changed.has(name))) draw(state);
  }
  if (IN_ADDRESS.some((name) => changed.has(name))) writeAddress();
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function writeAddress() {
  const parts = new URLSearchParams();
  for (const name of IN_ADDRESS) {
    if (!same(state[name], startingState[name])) parts.set(name, written(name));
  }
  history.replaceState(null, "", `#${parts}`);
}

const written = (name) => (name === "head" ? heads[state.head].name : JSON.stringify(state[name]));

/** What an address says is taken only as far as it makes sense here. */
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const head = heads.findIndex(({ name }) => name === parts.get("head"));
  if (head >= 0) state.head = head;
  const query = Number(parts.get("query") ?? NaN);
  if (Number.isInteger(query) && query < readers(state.head).labels.length) state.query = query;
}
