// Copies pictures, numbers and links; saves files where there is no clipboard.

/** What can be taken: for a kind of picture, or of text, what it is called and how it is made. */
const TAKEN = [
  { name: "Matrix", of: () => shownHeads(), kinds: kindsOfPicture(() => matrixPictures()) },
  { name: "Lines", of: () => [lineHead()], kinds: kindsOfPicture(linesAsPicture) },
  { name: "Numbers", of: () => shownHeads(), kinds: { CSV: () => numbersOfHeads() } },
];

const numbersOfHeads = () => csvOf(shownHeads(), state.query);

function kindsOfPicture(draw) {
  return { PNG: () => pngOf(draw()), SVG: () => svgOf(draw()) };
}

/** The lines are laid out only while somebody sees them. */
function linesAsPicture() {
  const section = document.getElementById("lines");
  return section.clientWidth ? linesPicture() : laidOut(section, loadLines, linesPicture);
}

const FILES = { PNG: "image/png", SVG: "image/svg+xml", CSV: "text/csv" };

function startCopying(menu) {
  const rows = TAKEN.flatMap(({ name, of, kinds }) =>
    Object.entries(kinds).map(([kind, make]) => rowOfCopying({ name, of, kind, make })));
  menu.append(element("div", { class: "panel" }, ...rows, ...linkToCopy(), ...whatIsTaken()));
  addCommandButton();
}

/** Of two sentences: of which of them, or of the difference. */
function whatIsTaken() {
  if (!arePaired) return [];
  const line = element("p", { class: "taken" });
  shownIn(["head", "view", "lines"], () => {
    line.textContent = `${namesOfHeads(shownHeads())}; lines: ${namesOfHeads([lineHead()])}`;
  });
  return [line];
}

function rowOfCopying(row) {
  const what = `${row.name} as ${row.kind}`;
  const copy = actionButton("Copy", `copy: ${what}`, () => copied(row));
  const save = actionButton("Save", `save: ${what}`, () => saved(row));
  return element("p", {}, element("span", {}, what), copy, save);
}

function actionButton(text, label, act) {
  const button = element("button", { type: "button", "aria-label": label }, text);
  button.addEventListener("click", act);
  return button;
}

/** A frame in a notebook has no address that anybody could open. */
function linkToCopy() {
  if (!HAS_ADDRESS) return [];
  const copy = actionButton("Copy", "copy: link to this view", copyLink);
  return [element("p", {}, element("span", {}, "Link to this view"), copy)];
}

async function copyLink() {
  const link = location.href.split("#")[0] + address();
  const refused = `Copying is not allowed here. The link is ${link}`;
  say((await tookText(link)) ? "The link is copied." : refused);
}

/** Below the command that made the page. */
function addCommandButton() {
  const command = document.querySelector("#made pre");
  command?.after(actionButton("Copy", "copy: command", async () => {
    const took = await tookText(command.textContent);
    say(took ? "The command is copied." : "Copying is not allowed here: select the command.");
  }));
}

async function copied({ name, of, kind, make }) {
  const missing = kind === "CSV" && (await missingNumbers(of(), state.query));
  if (missing) return say(missing);
  const names = namesOfHeads(of());
  const made = make();
  const took = kind === "PNG" ? await tookPicture(made) : await tookText(await (await made).text());
  if (took) return say(`${name} of ${names}: copied as ${kind}.`);
  await saved({ name, of, kind, make: () => made }, "Copying is not allowed here: ");
}

async function saved({ name, of, kind, make }, before = "") {
  const missing = kind === "CSV" && (await missingNumbers(of(), state.query));
  if (missing) return say(missing);
  const file = `${fileName(name, of())}.${kind.toLowerCase()}`;
  saveFile(file, await make());
  say(`${before}saved as ${file}.`);
}

/** `attention-L4H7-matrix`: in letters and digits that every disk takes. */
function fileName(name, those) {
  const head = namesOfHeads(those).replace(/[^\p{L}\p{N}.]+/gu, "-").slice(0, 80);
  return `attention-${head}-${name.toLowerCase()}`;
}

function saveFile(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Whether the clipboard took it: many frames may not use one, and some browsers have none. */
async function tookText(text) {
  return clipboardTook(() => navigator.clipboard.writeText(text));
}

/** The picture may still be on its way: that it was asked for by a click holds until it comes. */
async function tookPicture(blob) {
  return clipboardTook(() =>
    navigator.clipboard.write([new ClipboardItem({ "image/png": Promise.resolve(blob) })]));
}

async function clipboardTook(write) {
  try {
    if (await isClipboardClosed()) return false;
    await write();
    return true;
  } catch {
    return false;
  }
}

/** Known before it is tried, where a browser tells: trying would be a complaint on the console. */
async function isClipboardClosed() {
  try {
    return (await navigator.permissions.query({ name: "clipboard-write" })).state === "denied";
  } catch {
    return false;
  }
}

/* What files hold. */

async function svgOf(picture) {
  const drawing = await picture;
  const text = new XMLSerializer().serializeToString(drawing);
  return new Blob([text], { type: FILES.SVG });
}

const PIXELS_OF_ONE = 2;
const LONGEST_SIDE = 2 ** 15 - 1; // pixels that most browsers can draw; where it is fewer, half

/** The same drawing in pixels, twice as many as it is large; some notebooks allow no `blob:`. */
async function pngOf(picture) {
  const drawing = await picture;
  const [wide, high] = ["width", "height"].map((side) => Number(drawing.getAttribute(side)));
  const image = new Image();
  image.src = `data:${FILES.SVG},${encodeURIComponent(await (await svgOf(drawing)).text())}`;
  await image.decode();
  const most = Math.min(PIXELS_OF_ONE, LONGEST_SIDE / Math.max(wide, high));
  const sizes = [most, most / 2, most / 4].map((density) => [wide * density, high * density]);
  return (await pixelsOfImage(image, sizes[0])) ?? (await pixelsOfImage(image, sizes[1])) ??
    pixelsOfImage(image, sizes[2]);
}

/** Nothing, where a browser has no canvas that is so large. */
function pixelsOfImage(image, [wide, high]) {
  const canvas = element("canvas", { width: Math.floor(wide), height: Math.floor(high) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, FILES.PNG));
}
