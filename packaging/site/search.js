// Lists the sections that have every word of the search, those with a word in their
// heading first.
const input = document.getElementById("search");
const found = document.getElementById("found");
const most = 20;

function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  found.hidden = words.length === 0;
  if (found.hidden) return;
  const hits = [];
  for (const s of sections) {
    const title = (s.p + " " + s.t).toLowerCase();
    const text = title + " " + s.x.toLowerCase();
    if (!words.every((w) => text.includes(w))) continue;
    hits.push({ s, rank: words.filter((w) => title.includes(w)).length });
  }
  hits.sort((a, b) => b.rank - a.rank);
  for (const { s } of hits.slice(0, most)) {
    const link = document.createElement("a");
    link.href = document.body.dataset.up + s.a;
    link.textContent = s.t === s.p ? s.t : s.p + ": " + s.t;
    const at = Math.max(0, s.x.toLowerCase().indexOf(words[0]) - 60);
    const excerpt = document.createElement("p");
    excerpt.textContent = (at > 0 ? "…" : "") + s.x.slice(at, at + 160);
    const item = document.createElement("li");
    item.append(link, excerpt);
    found.append(item);
  }
  if (hits.length === 0) found.append(Object.assign(document.createElement("li"), { textContent: "Nothing has all these words." }));
}

input.addEventListener("input", search);
