// Both: a head on the first sentence and on the second, side by side, with the same token followed.

function startBoth(section) {
  if (!arePaired) return section.remove();
  control("explorer").classList.add("pairs");
  for (const which of [0, 1]) {
    const part = element("div");
    section.append(part);
    onMatrix(freshMatrix(() => heads[state.head].pair[which]), startMatrix)(part);
  }
}
