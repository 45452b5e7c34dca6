// Unpacks the script of the page, which its policy names as well, and runs it.

async function runProgram() {
  const block = document.getElementById("program");
  if (block === null) return; // a page that was saved after it ran
  if (!("DecompressionStream" in window)) return tellOldBrowser();
  const bytes = Uint8Array.from(atob(block.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  block.replaceWith(script);
}

function tellOldBrowser() {
  const trouble = document.getElementById("trouble");
  trouble.hidden = false;
  trouble.textContent =
    "This browser cannot unpack this page: it has no DecompressionStream, which browsers have " +
    "had since 2023. What is below works without.";
}

runProgram();
