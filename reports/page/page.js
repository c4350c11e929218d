
"use strict";
// Every text of the report comes out of the data below and goes into the page as text.
const data = JSON.parse(document.getElementById("data").textContent);
const [VERDICT, AREA, NAME, HOST, TARGET, TITLE, TENTHS, GROUP, PLACE, RUN, REASON] = data.columns.keys();
const text = (row, column) => data.strings[row[column]];
const form = document.getElementById("filter");
const body = document.querySelector("#results tbody");
const step = 200; // rows, or cases, that are made at a time
let order = [], made = 0, sort = -1, down = false;

function element(tag, content, name) {
  const e = document.createElement(tag);
  if (content !== undefined) e.textContent = content;
  if (name) e.className = name;
  return e;
}
function append(to, ...children) {
  to.append(...children);
  return to;
}

// Rows: those that the filters select, in the order of the column that was clicked.
function choose() {
  const wants = Array.from(form.querySelectorAll("select")).filter(s => s.value !== "");
  const part = form.querySelector("input").value.toLowerCase();
  const fits = row => wants.every(s => text(row, s.dataset.column) === s.value) &&
    (part === "" || (text(row, AREA) + "/" + text(row, NAME) + "\n" + text(row, TITLE)).toLowerCase().includes(part));
  order = data.rows.map((_, i) => i).filter(i => fits(data.rows[i]));
  if (sort >= 0) {
    const key = sort === TENTHS ? i => data.rows[i][TENTHS] : i => text(data.rows[i], sort);
    const keys = new Map(order.map(i => [i, key(i)]));
    order.sort((a, b) => { const x = keys.get(a), y = keys.get(b); return x < y ? -1 : x > y ? 1 : a - b; });
    if (down) order.reverse();
  }
  body.replaceChildren();
  made = 0;
  more();
  document.getElementById("shown").textContent = order.length === data.rows.length ? order.length : order.length + " of " + data.rows.length;
}
function more() {
  for (const i of order.slice(made, made + step)) body.append(line(i));
  made = Math.min(made + step, order.length);
  document.getElementById("more").hidden = made === order.length;
}
function line(i) {
  const row = data.rows[i], tr = element("tr"), open = element("a", text(row, VERDICT));
  tr.dataset.row = i;
  open.href = "#r" + (i + 1);
  const name = append(element("td", text(row, NAME)), element("span", text(row, TITLE), "title"));
  return append(tr, append(element("td", undefined, text(row, VERDICT)), open), element("td", text(row, AREA)), name,
    element("td", text(row, HOST)), element("td", text(row, TARGET)), element("td", (row[TENTHS] / 10).toFixed(1), "n"));
}

// What is known of one result, and of the group of those that say the same.
function about(i) {
  const row = data.rows[i], box = element("div", undefined, "about");
  box.append(element("p", text(row, AREA) + "/" + text(row, NAME) + " on " + text(row, TARGET) + ", host " + text(row, HOST)));
  if (text(row, PLACE)) box.append(append(element("p"), element("code", text(row, PLACE))));
  if (text(row, RUN)) box.append(element("pre", text(row, RUN), "run"));
  if (row[GROUP] < 0 && text(row, REASON)) box.append(element("p", text(row, REASON), "reason"));
  return box;
}
function words(want, got, tag) { // of two lists that have something in common, what the other lacks is marked
  const parts = want.split(", "), other = new Set(got.split(", ")), span = element("span");
  const alike = parts.some(part => other.has(part));
  parts.forEach((part, i) => {
    if (i > 0) span.append(", ");
    span.append(!alike || other.has(part) ? part : element(tag, part));
  });
  return append(element("td"), span);
}
function findings(group) {
  const table = element("table", undefined, "findings"), rows = element("tbody"), head = element("tr");
  for (const name of ["where", "what", "expected", "seen"]) head.append(element("th", name));
  for (const f of group.findings) {
    rows.append(append(element("tr"), element("td", f.where), element("td", f.what), words(f.want, f.got, "del"), words(f.got, f.want, "ins")));
  }
  return append(table, append(element("thead"), head), rows);
}
function fold(name, content) {
  return append(element("details", undefined, "value"), element("summary", name), element("pre", content));
}
function fill(box, group) {
  const first = data.rows[group.rows[0]];
  box.append(element("p", text(first, TITLE)));
  if (group.reason) box.append(element("p", group.reason, "reason"));
  if (group.evidence) box.append(element("pre", group.evidence));
  if (group.findings.length > 0) box.append(findings(group));
  for (const next of group.next) box.append(element("pre", next, "next"));
  for (const v of group.values) {
    const content = data.values[v.digest];
    box.append(content === undefined ? element("p", v.name + ": left out, the report would be too large", "stations") : fold(v.name, content));
  }
  const list = element("ul", undefined, "same");
  for (const i of group.rows) {
    const item = append(element("li"), about(i));
    item.id = "r" + (i + 1);
    if (data.stations[i]) item.append(element("p", "Digests of the stations: " + data.stations[i], "stations"));
    list.append(item);
  }
  box.append(list);
}
function whole(box) { // makes what a folded case has in it
  if (box.children.length > 1) return;
  const inner = element("div");
  fill(inner, data.groups[box.dataset.group]);
  box.append(inner);
}
function cases(section) {
  const mine = data.groups.map((g, i) => [g, i]).filter(([g]) => g.verdict === section.dataset.verdict);
  const button = section.querySelector("button");
  let done = 0;
  const add = () => {
    for (const [g, i] of mine.slice(done, done + step)) {
      const box = element("details", undefined, "case"), head = element("summary"), first = data.rows[g.rows[0]];
      box.dataset.group = i;
      append(head, element("span", g.verdict, "verdict " + g.verdict), " ", element("b", g.scenario), " on " + g.targets);
      if (g.rows.length > 1) append(head, " ", element("span", g.rows.length + " results", "count"));
      if (text(first, PLACE)) append(head, " ", element("code", text(first, PLACE)));
      box.append(head);
      box.addEventListener("toggle", () => { if (box.open) whole(box); });
      button.before(box);
      if (done === 0 && i < mine[0][1] + data.open) { whole(box); box.open = true; }
    }
    done = Math.min(done + step, mine.length);
    button.hidden = done === mine.length;
  };
  button.addEventListener("click", add);
  section.addEventListener("all", () => { while (done < mine.length) add(); });
  add();
}

// The part of the address after "#" is a result, "r12", or filters: "verdict=fail&name=mig".
function follow() {
  const hash = decodeURIComponent(location.hash.slice(1)), result = /^r(\d+)$/.exec(hash);
  if (!result) {
    if (!hash.includes("=")) return;
    for (const field of form.elements) field.value = new URLSearchParams(hash).get(field.name) || "";
    choose();
    return;
  }
  const i = result[1] - 1, row = data.rows[i];
  if (!row) return;
  if (row[GROUP] >= 0) {
    const find = () => document.querySelector('details[data-group="' + row[GROUP] + '"]');
    if (!find()) for (const s of document.querySelectorAll("section[data-verdict]")) s.dispatchEvent(new Event("all"));
    whole(find());
    find().open = true;
    document.getElementById("r" + (i + 1)).scrollIntoView();
    return;
  }
  while (order.includes(i) && made < order.length && order.indexOf(i) >= made) more();
  const at = body.querySelector('tr[data-row="' + i + '"]');
  if (!at) return;
  if (!at.nextSibling || !at.nextSibling.classList.contains("opened")) {
    const td = append(element("td"), about(i));
    td.colSpan = 6;
    at.after(append(element("tr", undefined, "opened"), td));
  }
  at.scrollIntoView();
}

for (const th of document.querySelectorAll("#results thead th")) {
  th.addEventListener("click", () => {
    const by = Number(th.dataset.column);
    down = sort === by && !down;
    sort = by;
    for (const other of th.parentNode.children) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    choose();
  });
}
form.addEventListener("input", choose);
form.addEventListener("submit", e => e.preventDefault());
window.addEventListener("hashchange", follow);
document.getElementById("more").addEventListener("click", more);
new IntersectionObserver(seen => { if (seen.some(s => s.isIntersecting) && made > 0) more(); }, { rootMargin: "600px" }).observe(document.getElementById("more"));
document.querySelectorAll("section[data-verdict]").forEach(cases);
form.hidden = false;
choose();
follow();
document.body.dataset.ready = "yes";
