// Makes elements from texts of strangers: as text, never read as HTML.

/** What a table has under a text from outside: not what every object has, as "constructor". */
const lookUp = (table, text) => (Object.hasOwn(table, text) ? table[text] : undefined);

/** An element with attributes and children; a child that is no node is text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** The same for drawings. */
function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
