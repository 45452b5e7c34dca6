// Finds a token by its word or its number in a long text.

function startQueryChooser() {
  const field = control("query");
  field.addEventListener("change", () => followTyped(field));
  field.addEventListener("input", () => {
    const chosen = [...control("tokens").options].some(({ value }) => value === field.value);
    if (chosen) followTyped(field);
    if (field.value === "") change({ query: null });
  });
  let listed = null;
  shownIn(["head", "query"], () => {
    const side = readers(state.head);
    if (side !== listed) listTokens(side);
    listed = side;
    field.value = state.query === null ? "" : tokenName(side, state.query);
    field.removeAttribute("aria-invalid");
  });
}

/** Number and word, as they stand beside each other elsewhere: `12 it`. */
const tokenName = (side, place) => [tokenNumber(side, place), side.labels[place]].join(" ").trim();

function listTokens(side) {
  const names = side.labels.map((_, place) => tokenName(side, place));
  control("tokens").replaceChildren(...names.map((value) => element("option", { value })));
}

/** What is typed again goes on to the next token of that name. */
function followTyped(field) {
  const side = readers(state.head);
  if (state.query !== null && field.value === tokenName(side, state.query)) return;
  const found = tokensTyped(side, field.value.trim());
  field.toggleAttribute("aria-invalid", found.length === 0 && field.value !== "");
  if (found.length > 0) return change({ query: nextOf(found, state.query) });
  if (field.value) say(`There is no token “${field.value}”.`);
}

/** By number and word, by number, by the word, or else by how it begins. */
function tokensTyped(side, text) {
  const plain = text.toLowerCase();
  const ways = [
    (place) => tokenName(side, place) === text,
    (place) => tokenNumber(side, place) === text,
    (place) => side.labels[place] === text,
    (place) => side.labels[place].toLowerCase() === plain,
    (place) => side.labels[place].toLowerCase().startsWith(plain),
  ];
  const places = [...side.labels.keys()];
  const found = ways.map((way) => places.filter(way)).find((each) => each.length > 0);
  return text && found ? found : [];
}

const nextOf = (places, after) => places.find((place) => place > (after ?? -1)) ?? places[0];
