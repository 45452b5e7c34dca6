// Colours of numbers, in either theme, straight or by logarithm.

/** Whether the page is dark just now. */
function isDark() {
  if (state.theme) return state.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const themeColors = () => data.look.colors[isDark() ? "dark" : "light"];

/** A function from a number to [red, green, blue]. */
function colorScale(largest) {
  const { sequential } = themeColors();
  return (number) => sequential[Math.round((number / largest) * (sequential.length - 1))];
}
