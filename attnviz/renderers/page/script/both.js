// A head on two sentences side by side, with the same token followed.

/** The heads that are large: of two sentences the same head on either, unless one has all room. */
function shownHeads() {
  if (!arePaired || state.view === "matrix") return [state.head];
  return state.view === "lines" ? [lineHead()] : heads[state.head].pair;
}

const SENTENCES = ["first", "second"];

/** Whose lines are drawn where a head is chosen: its own on one sentence, or the difference. */
function lineHead(head = state.head) {
  const which = SENTENCES.indexOf(state.lines);
  return which < 0 ? head : heads[head].pair?.[which] ?? head;
}

const namesOfHeads = (those) => those.map((head) => heads[head].name).join(" and ");

/** The token of one sentence that a token of the page is in a head; of each pair it has one. */
function tokenInHead(head, side, token) {
  const { paired } = heads[head];
  return paired === null || token === null ? token : paired[side][token];
}

/** Which token of the page it is; none where a token of one sentence has none in the other. */
function tokenOfPage(head, side, token) {
  const { paired } = heads[head];
  const place = paired === null ? token : paired[side].indexOf(token);
  return place < 0 ? null : place;
}

function startBoth(section) {
  if (!arePaired) return section.remove();
  control("explorer").classList.add("pairs");
  for (const which of [0, 1]) {
    const part = element("div");
    section.append(part);
    onMatrix(freshMatrix(() => heads[state.head].pair[which]), startMatrix)(part);
  }
}
