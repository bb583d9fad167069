for (const th of document.querySelectorAll('table:not(.matrix) thead th')) th.onclick = () => {
  const body = th.closest('table').tBodies[0], column = th.cellIndex, key = r => r.cells[column].dataset.v;
  const up = th.dataset.up = th.dataset.up === '1' ? '0' : '1';
  const rows = [...body.rows].sort((a, b) => isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b))
    : key(a) - key(b));
  body.append(...(up === '1' ? rows.reverse() : rows));
};
