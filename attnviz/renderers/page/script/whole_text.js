// A coloured text: describes the token under the pointer or reached by arrow keys.

const WHOLE_TEXT_HINT = "Point at a token, or go to it with the arrow keys, to see its number.";

function startWholeTexts() {
  for (const holder of document.querySelectorAll(".whole-text")) startWholeText(holder);
}

function startWholeText(holder) {
  const spans = [...holder.querySelectorAll("[title]")];
  const tokens = new Map(spans.map((button, place) => [place, { button }]));
  const text = { holder, tokens, places: [...tokens.keys()] };
  text.says = element("p", { class: "says" }, WHOLE_TEXT_HINT);
  holder.after(text.says);
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", "the text: arrow keys go from token to token");
  spans.forEach((span, place) => {
    Object.assign(span.dataset, { place, says: span.title });
    span.removeAttribute("title");
    span.tabIndex = place === 0 ? 0 : -1;
  });
  followWholeText(text);
}

function followWholeText(text) {
  const { holder, tokens } = text;
  holder.addEventListener("pointerover", (event) => sayOfToken(text, event.target, "off"));
  holder.addEventListener("focusin", ({ target }) => {
    moveTabStop(text, Number(target.dataset.place));
    sayOfToken(text, target, "polite");
  });
  holder.addEventListener("keydown", (event) => {
    const next = neighbour(text, Number(event.target.dataset.place), event.key);
    if (next === null) return;
    tokens.get(next).button.focus();
    event.preventDefault();
  });
}

/** What keys ask for is read out; a pointer moves all the time. */
function sayOfToken({ says }, token, live) {
  if (!token.dataset.says) return;
  says.setAttribute("aria-live", live);
  says.textContent = token.dataset.says;
}
