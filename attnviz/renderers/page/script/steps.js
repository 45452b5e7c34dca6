// The steps of the followed token, or those of the page's first one.

const walk = { parts: [], of: {}, made: new Map() };

async function startSteps() {
  const [holder] = document.getElementsByClassName("walk");
  const lacks = element("p", { class: "lacks", role: "status" });
  Object.assign(walk, { holder, lacks, opening: [...holder.children], title: document.title });
  holder.before(lacks);
  const bytes = await inflated("steps");
  Object.assign(walk, JSON.parse(new TextDecoder().decode(bytes)));
  shownIn(["query"], showSteps);
}

/** The steps of the token that is followed; where the page has them not, it says whose they are. */
function showSteps() {
  const { query } = state;
  const found = query === null ? null : lookUp(walk.of, String(query));
  const missing = query !== null && found === undefined;
  walk.lacks.textContent = missing ? missingSteps(query) : "";
  walk.lacks.hidden = !missing;
  if (missing) return;
  putSteps(found ? found.parts.map(stepOf) : walk.opening);
  titlePage(found && query !== startingState.query ? found.title : walk.title);
}

const missingSteps = (query) => {
  const side = readers(state.head);
  const wanted = `--query ${tokenNumber(side, query)}`;
  const whose = calledToken(side, query);
  return `These are not the steps of ${whose}: a page made with ${wanted} has them.`;
};

/** Each is made once; a step that is the same for both tokens stays as it is. */
function stepOf(part) {
  if (!walk.made.has(part)) walk.made.set(part, elementsOf(walk.parts[part])[0]);
  return walk.made.get(part);
}

function putSteps(steps) {
  const there = [...walk.holder.children];
  if (there.length !== steps.length) walk.holder.replaceChildren(...steps);
  else there.forEach((each, place) => each !== steps[place] && each.replaceWith(steps[place]));
  letFramesScroll(walk.holder);
  linkHeads(walk.holder);
}
