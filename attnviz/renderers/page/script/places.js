// Links within the page where its address is not its own, as in a notebook's frame.

const HAS_ADDRESS = /^(https?|file):$/.test(location.protocol);

/** There a link would open what is around the frame, inside of it. */
function startPlaces() {
  if (!HAS_ADDRESS) addEventListener("click", goWithin);
}

function goWithin(event) {
  const link = event.target.closest?.("a[href^='#']");
  if (!link || event.defaultPrevented) return;
  event.preventDefault();
  const place = document.getElementById(link.getAttribute("href").slice(1));
  place.tabIndex = -1; // so that Tab goes on from there
  place.focus();
  place.scrollIntoView();
}
