
"use strict";
const form = document.getElementById("filter");
const rows = Array.from(document.querySelectorAll("#results tbody tr"));
function show() {
  const wants = Array.from(form.querySelectorAll("select")).filter(s => s.value !== "");
  const part = form.querySelector("input").value.toLowerCase();
  let n = 0;
  for (const row of rows) {
    const text = i => row.cells[i].textContent;
    row.hidden = !wants.every(s => text(s.dataset.column) === s.value) || !(text(1) + "/" + text(2)).toLowerCase().includes(part);
    n += row.hidden ? 0 : 1;
  }
  document.getElementById("shown").textContent = n === rows.length ? n : n + " of " + rows.length;
}
function open() {
  const at = document.getElementById(location.hash.slice(1));
  const box = at && at.closest("details");
  if (!box) return;
  box.open = true;
  box.scrollIntoView();
}
form.addEventListener("input", show);
form.addEventListener("submit", e => e.preventDefault());
window.addEventListener("hashchange", open);
form.hidden = false;
show();
open();
