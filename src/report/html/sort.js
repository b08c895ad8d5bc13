"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const key = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort;
  };
  // Integers may have more digits than a double holds: nanoseconds since 1970 do.
  const compare = (a, b) => {
    if (/^-?\d+$/.test(a) && /^-?\d+$/.test(b)) {
      const x = BigInt(a), y = BigInt(b);
      return x < y ? -1 : x > y ? 1 : 0;
    }
    return a.localeCompare(b, "en", { numeric: true });
  };
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [key(row, at), row]);
      rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
      body.append(...rows.map((pair) => pair[1]));
    });
  });
}
// Paper has nothing to click on.
addEventListener("beforeprint", () => {
  for (const closed of document.querySelectorAll(".frame details:not([open])")) closed.open = true;
});
