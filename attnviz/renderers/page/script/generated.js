// A button for each token that a model generated: shows what was read before it.

const generated = attention.generated ?? []; // the row before each, its name and its probability

/** A line of buttons, in the order in which the model wrote; nothing where it wrote nothing. */
function generatedLine() {
  if (generated.length === 0) return "";
  const buttons = generated.map(({ row, name, chance }) => {
    const share = chance ? element("span", { class: "chance" }, chance) : "";
    const button = element("button", { type: "button" }, name, share);
    button.addEventListener("click", () => showReadBefore(row));
    return { button, row };
  });
  const press = () => {
    for (const { button, row } of buttons) {
      const isShown = sentenceView.asks === "query" && state.query === row;
      button.setAttribute("aria-pressed", isShown);
    }
  };
  whenChanged(["query", "key"], press);
  press();
  const about = { class: "generated", role: "group", "aria-label": "tokens that the model wrote" };
  const heading = element("span", {}, "What it read before it wrote");
  return element("div", about, heading, ...buttons.map(({ button }) => button));
}

/** What the token before a generated one reads: it is the last that the model had. */
function showReadBefore(row) {
  sentenceView.asks = "query";
  change({ query: row, key: null });
}

/** `; next, the model wrote "Paris" (63 %)`, of a token before a generated one. */
function saidOfNext(head, end, place) {
  const side = end === "query" ? readers(head) : null;
  const next = side && generated.find(({ row }) => row === place);
  if (!next) return "";
  return `; next, the model wrote "${next.name}"${next.chance ? ` (${next.chance})` : ""}`;
}
