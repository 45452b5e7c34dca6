// Builds elements from the markup that tags.py writes; nothing is read as HTML.

const TAG = /<(\/?)([a-z][a-z0-9]*)((?: [\w-]+(?:="[^"]*")?)*)>|[^<]+/g;
const ATTRIBUTE = / ([\w-]+)(?:="([^"]*)")?/g;
const SPELLED = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };
const PLAIN = new Set(
  "caption div h2 p path pre rect s section span svg table tbody td text th thead tr".split(" "));

const unspelled = (text) => text.replace(/&(amp|lt|gt|quot|#x27);/g, (each) => SPELLED[each]);

/** The elements that some markup stands for; what is in a drawing is drawn. */
function elementsOf(markup) {
  const top = document.createDocumentFragment();
  let within = top;
  for (const [text, end, name, given] of markup.matchAll(TAG)) {
    if (name === undefined) within.append(unspelled(text));
    else if (end) within = within.parentNode;
    else {
      if (!PLAIN.has(name)) throw new Error(`${name} stands in no step`);
      const make = name === "svg" || within.namespaceURI?.endsWith("svg") ? drawn : element;
      const made = make(name, attributesOf(given));
      within.append(made);
      within = made;
    }
  }
  return [...top.childNodes];
}

/** None that runs, loads or styles anything. */
function attributesOf(given) {
  const all = [...given.matchAll(ATTRIBUTE)];
  const harmless = all.filter(([, name]) => !/^(on|style$|src|href$)/.test(name));
  return Object.fromEntries(harmless.map(([, name, value = ""]) => [name, unspelled(value)]));
}
