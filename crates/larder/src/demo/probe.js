// Says where this page came from. What the page says of itself: how long the origin worked on it. What the browser
// measured: how long we waited. Who waited less than the work takes has a copy from memory; who waited longer for a page
// that was made before it was asked for has a copy that Larder kept, after it had asked the origin.
(() => {
  const banner = document.getElementById("banner");
  const navigation = performance.getEntriesByType("navigation")[0];
  if (!banner || !navigation || !navigation.responseStart) return;
  const work = Number(banner.dataset.renderMs);
  const waited = navigation.responseStart - navigation.requestStart;
  const ms = (time) => (time < 10 ? time.toFixed(1) : Math.round(time).toString()) + "\u202fms";
  const quick = waited < work / 2;
  const asked = performance.timeOrigin + navigation.requestStart;
  const kept = !quick && asked - Number(banner.dataset.renderedAt) > 1000;
  const memory = quick || kept;
  const verdict = document.getElementById("verdict");
  banner.classList.add(memory ? "memory" : "origin");
  const where = quick ? "From memory in " : kept ? "Kept copy, the origin had nothing better, in " : "From the origin in ";
  verdict.textContent = where + ms(waited);
  if (quick && work > 0) {
    const times = document.createElement("span");
    times.className = "times";
    times.textContent = Math.max(2, Math.round(work / Math.max(waited, 0.5))) + "× faster";
    verdict.append(" ", times);
  }
  if (banner.dataset.again !== "true") return;
  fetch(location.href, { method: "HEAD", credentials: "same-origin" }).then((response) => {
    const list = document.getElementById("headers");
    for (const name of ["X-Cache", "Age", "Cache-Status"]) {
      const value = response.headers.get(name);
      if (value === null) continue;
      const term = document.createElement("dt");
      const description = document.createElement("dd");
      term.textContent = name;
      description.textContent = name === "Age" ? value + " s" : value;
      list.append(term, description);
    }
    if (!list.children.length) return;
    const again = document.createElement("p");
    again.className = "detail";
    again.textContent = "asked again just now:";
    list.before(again);
    list.hidden = false;
  }).catch(() => {});
})();
