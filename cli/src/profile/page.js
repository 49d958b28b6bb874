// Sorts a table by the column whose title is clicked; a second click reverses the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => title.addEventListener("click", () => {
    const descending = title.getAttribute("aria-sort") !== "descending";
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    title.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const key = (row) => row.cells[column].dataset.key;
    const order = (a, b) => column === 0 ? key(a).localeCompare(key(b)) : key(a) - key(b);
    const rows = [...table.tBodies[0].rows].sort(order);
    table.tBodies[0].append(...(descending ? rows.reverse() : rows));
  }));
}
