// The top keys of a token and the top queries that read it: as numbers and in words.

const OTHER_END = { query: "key", key: "query" };
const NAMED_MOST = 3; // tokens, in a sentence on what is read most
const ALIKE = 1e-6; // numbers that differ by a smaller part of them are the same, but for rounding

/** The tokens at both ends of a head: those that read, and those that are read. */
function sidesOf(head, cells) {
  return {
    query: { ...readers(head), size: cells.tall ?? 1 },
    key: { ...readTokens(head), size: cells.wide ?? 1 },
  };
}

/** What the cells of a row hold, or those of a column; NaN where a mask hides. */
function amountsOf(cells, end, place) {
  const ofQuery = end === "query";
  const amounts = new Array(ofQuery ? cells.columns : cells.rows);
  for (let other = 0; other < amounts.length; other++) {
    amounts[other] = ofQuery ? cells.weight(place, other) : cells.weight(other, place);
  }
  return amounts;
}

/** The places of a sentence that are shown: special tokens can be left out. */
function shownPlaces(side, count) {
  const places = Array.from({ length: count }, (_, place) => place);
  const shown = places.filter((place) => state.special || !isFaint(side, place));
  return shown.length > 0 ? shown : places;
}

/** The first place that is shown behind a border, where there is one. */
function firstBehind({ border, size }, places) {
  return border === null ? undefined : places.find((place) => place * size >= border);
}

/** What a token reads, or who reads it: token by token where the page has that, else in blocks. */
function readingOf(head, cells, end, token) {
  const sides = sidesOf(head, cells);
  const row = end === "query" && cells.tall * cells.wide > 1 ? cells.row(token) : null;
  if (row) {
    const tokens = { query: { ...sides.query, size: 1 }, key: { ...sides.key, size: 1 } };
    const scale = scaleNow(head, rowScaleOf(head));
    return withErrors({ head, end, cells, sides: tokens, place: token, amounts: row, scale });
  }
  const place = Math.floor(token / sides[end].size);
  const amounts = amountsOf(cells, end, place);
  const missing = end === "query" && sides.query.size > 1 && state.query === token;
  const lacks = missing ? missingRow(readers(head), token) : "";
  return withErrors({ head, end, cells, sides, place, amounts, lacks, scale: scaleNow(head) });
}

/** The same with how far each amount may be from what it stands for. */
function withErrors(reading) {
  const { cells, end, place, sides } = reading;
  const others = sides[OTHER_END[end]];
  const inBlocks = sides.query.size * sides.key.size > 1;
  const error = inBlocks ? cells.errorOf : (row, column) => cells.at(row, column).error;
  const errorOf = (other) => (end === "query" ? error(place, other) : error(other, place));
  return { ...reading, others, errorOf };
}

/** The most first; those that cannot be told apart stand together. */
function rankedGroups({ amounts, errorOf }, places) {
  const seen = places.filter((place) => !Number.isNaN(amounts[place]));
  const order = seen.sort((one, other) => amounts[other] - amounts[one]);
  const groups = [];
  const areAlike = (one, other) =>
    amounts[one] - amounts[other] <=
    ALIKE * Math.abs(amounts[one]) + errorOf(one) + errorOf(other);
  for (const place of order) {
    const first = groups.at(-1)?.[0];
    if (first !== undefined && areAlike(first, place)) groups.at(-1).push(place);
    else groups.push([place]);
  }
  return groups;
}

/** `L4H7: it (12) reads animal (3) most: .41, then street (7) .12 and it (12) .08` */
function saidOfMost(reading) {
  const { head, end, sides, others, place, amounts } = reading;
  const places = shownPlaces(others, amounts.length);
  const groups = rankedGroups(reading, places);
  const seen = groups.flat().length;
  const about = { ...reading, verbs: verbsOf(sides[end], place) };
  about.name = calledPlace(sides[end], place);
  about.leftOut = amounts.length > places.length && amounts.some((each) => !Number.isNaN(each));
  const said = seen === 0 ? saidOfNone(about) : saidOfSome(about, groups, seen);
  const named = `${heads.length > 1 ? `${heads[head].name}: ` : ""}${said}`;
  return [named, reading.lacks].filter(Boolean).join("; ");
}

/** What one token does, and what several do. */
function verbsOf(side, place) {
  return side.size > 1 && blockName(side, place) === ""
    ? { reads: "read", sees: "see", is: "are", it: "they", them: "them", self: "themselves" }
    : { reads: "reads", sees: "sees", is: "is", it: "it", them: "it", self: "itself" };
}

function saidOfNone({ name, end, leftOut, verbs: { reads, is } }) {
  if (end === "query") {
    if (leftOut) return `${name} ${reads} only special tokens, which are left out`;
    return `${name} ${reads} nothing: every key is masked`;
  }
  if (leftOut) return `${name} ${is} read only by special tokens, which are left out`;
  return `no token reads ${name}, which ${is} masked for all`;
}

function saidOfSome(about, groups, seen) {
  const largest = about.amounts[groups[0][0]];
  const signed = scaleOf(about.head).kind === "diverging";
  if (largest === 0 && (groups.length === 1 || !signed)) return saidOfZeros(about);
  if (groups.length === 1 && signed) return `${saidBySign(about)}: ${saidOfAll(about, groups[0])}`;
  if (groups.length === 1) return saidOfOneGroup(about, groups[0], seen);
  if (signed) return saidOfSigned(about, groups);
  const { name, end, verbs } = about;
  const [first, ...then] = countedGroups(about, groups);
  const start =
    end === "query"
      ? `${name} ${verbs.reads} ${first.names} most${saidMeasure(about)}: ${first.number}`
      : `${name} ${verbs.is} read most${saidMeasure(about)} by ${first.names}: ${first.number}`;
  return `${start}${saidThen(then, end === "query" ? "" : "by ")}${saidLeftOut(about)}`;
}

const saidMeasure = ({ head }) => {
  const { label } = scaleOf(head);
  return label === "weight" ? "" : ` by ${label}`;
};
const saidLeftOut = ({ leftOut }) => (leftOut ? " (special tokens are left out)" : "");

function saidThen(then, by) {
  const parts = then.map(({ names, number }) => `${by}${names} ${number}`);
  return parts.length ? `, then ${parts.join(" and ")}` : "";
}

function saidOfZeros(about) {
  const { head, name, end, leftOut, verbs } = about;
  if (scaleOf(head).kind === "diverging") {
    return `${saidBySign(about)}: all${leftOut ? " that are shown" : ""} are 0`;
  }
  const all = scaleOf(head).label === "weight" ? ": all weights are 0" : ": all numbers are 0";
  const why = leftOut ? saidLeftOut(about) : all;
  const what = leftOut ? "nothing of what is shown" : "nothing";
  if (end === "query") return `${name} ${verbs.reads} ${what}${why}`;
  return `no token${leftOut ? " that is shown" : ""} reads ${name}${why}`;
}

/** One that sees, or is seen by, one alone; or all of them alike. */
function saidOfOneGroup(about, group, seen) {
  const { name, end, verbs } = about;
  const number = numberOfGroup(about, group);
  const measure = saidMeasure(about);
  const left = saidLeftOut(about);
  if (seen === 1) {
    const other = calledOther(about, group[0]);
    const verb = end === "query" ? verbs.sees : `${verbs.is} seen`;
    const which = `${verb} only ${end === "query" ? "" : "by "}${other}`;
    return `${name} ${which}${measure}: ${number}${left}`;
  }
  const alike = group.every((at) => about.errorOf(at) === 0) ? "equally" : "about equally";
  const all = `all ${seen} ${about.others.size > 1 ? "blocks" : "tokens"} that`;
  if (end === "query") {
    const seeing = `${all} ${verbs.it} ${verbs.sees}`;
    return `${name} ${verbs.reads} ${seeing} ${alike}${measure}: ${number}${left}`;
  }
  return `${all} see ${name} read ${verbs.them} ${alike}${measure}: ${number}${left}`;
}

/** `all 4 tokens .25 each`, of numbers that are all the same; or the one there is. */
function saidOfAll(about, group) {
  const number = numberOfGroup(about, group);
  const names = group.length > 1 ? `all ${group.length} tokens` : calledOther(about, group[0]);
  return `${names} ${number}${saidLeftOut(about)}`;
}

/** Of numbers with a sign it is not said that somebody reads: below 0 he may read less. */
function saidBySign({ name, end, head, verbs }) {
  const whose = end === "query" ? `what ${name} ${verbs.reads}` : `which tokens read ${name}`;
  return `${whose}, by ${scaleOf(head).label}`;
}

/** Of numbers with a sign: the largest, and the smallest. */
function saidOfSigned(about, groups) {
  const [first, ...then] = countedGroups(about, groups);
  const all = then.length + 1 === groups.length;
  const [least] = countedGroups(about, [groups.at(-1)]);
  const last = all ? "" : `; least ${least.names} ${least.number}`;
  const most = `most ${first.names} ${first.number}${saidThen(then, "")}`;
  return `${saidBySign(about)}: ${most}${last}${saidLeftOut(about)}`;
}

/** The first few tokens, by name as long as there are not too many. */
function countedGroups(about, groups) {
  const told = [];
  let left = NAMED_MOST;
  for (const group of groups) {
    if (left <= 0 || (told.length > 0 && isNothingBeside(about, group[0]))) break;
    told.push(group);
    left -= group.length;
  }
  const digits = digitsApart(about, told);
  return told.map((group) => ({
    names: namesOfGroup(about, group),
    number: numberOfGroup(about, group, digits),
  }));
}

/** Whether it is 0, or would be .00 beside a number that is not. */
function isNothingBeside({ amounts, head }, place) {
  const isSmall = Math.abs(amounts[place]) < 0.005 && largestOf(amounts) >= 0.01;
  return amounts[place] === 0 || (heads[head].share && isSmall);
}

/** As many digits as tell one from the next, if a few can. */
function digitsApart({ head, amounts }, groups) {
  const { share } = heads[head];
  const texts = (digits) => groups.map(([at]) => numberText(amounts[at], { share, digits }));
  const apart = (digits) => new Set(texts(digits)).size === groups.length;
  return [2, 3, 4].find(apart) ?? 2;
}

function namesOfGroup(about, group) {
  if (group.length > NAMED_MOST) {
    return `${group.length} ${about.others.size > 1 ? "blocks" : "tokens"}`;
  }
  return listedNames(group.map((place) => calledOther(about, place)));
}

/** `.25`; of several `.25 each`, or `about .25 each` where not all of them are known to be so. */
function numberOfGroup({ head, amounts, errorOf }, group, digits = 2) {
  const { share } = heads[head];
  const ends = [group[0], group.at(-1)];
  const [first, last] = ends.map((at) => numberText(amounts[at], { share, digits }));
  const known = ends.every((at) => isKnown(amounts[at], errorOf(at), digits));
  return `${known && first === last ? "" : "about "}${first}${group.length > 1 ? " each" : ""}`;
}

function calledOther({ head, place, others, verbs }, other) {
  if (!readsItself(head) || other !== place) return calledPlace(others, other);
  return verbs.self;
}

function listedNames(names) {
  return names.length === 1 ? names[0] : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

