'use strict';
// Filters, order, columns and opened rows. All of them stand in the fragment of the address, so that a link keeps them.

const form = document.getElementById('controls');
const proxies = JSON.parse(document.getElementById('proxies').textContent);
const state = { sort: {}, open: new Set(), board: '' };
const FIELDS = ['q', 'family', 'data', 'ms'];
const defaults = [...form.elements].filter((e) => e.name === 'column' && e.checked).map((e) => e.value).join();

// ---- order ----

function key(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.v ?? cell.textContent.trim();
  return value === '' || value === 'nan' ? null : value;
}

/** Order two cells: numbers by size, texts by alphabet, and what is empty last in both directions. */
function compare(a, b, up) {
  if (a === null || b === null) return (a === null) - (b === null);
  const numbers = !Number.isNaN(Number(a)) && !Number.isNaN(Number(b));
  const order = numbers ? Number(a) - Number(b) : a.localeCompare(b, 'en');
  return up ? order : -order;
}

/** Sort a table. Its items are the rows of its only body, or bodies that hold a row and what it opens to. */
function sort(table, th, up) {
  const column = th.cellIndex;
  const parted = table.classList.contains('main');
  const items = parted ? [...table.tBodies] : [...table.tBodies[0].rows];
  const keyed = items.map((item) => [key(parted ? item.rows[0] : item, column), item]);
  keyed.sort(([a], [b]) => compare(a, b, up));
  (parted ? table : table.tBodies[0]).append(...keyed.map(([, item]) => item));
  for (const other of table.querySelectorAll('th[aria-sort]')) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
}

function heading(table, name) {
  return [...table.tHead.rows[0].cells].find((th) => th.dataset.key === name);
}

/** Whether the first click on a column brings its least values to the top. */
function risesFirst(table, th) {
  if (['rank', 'mean', 'ms', 'regret', 'proxy', 'ties'].includes(th.dataset.key)) return true;
  const first = [...table.querySelectorAll('tbody tr:first-child')].map((row) => key(row, th.cellIndex));
  return first.some((value) => value !== null && Number.isNaN(Number(value)));
}

for (const table of document.querySelectorAll('table.sortable')) {
  table.tHead.addEventListener('click', (event) => {
    const th = event.target.closest('th');
    if (!th || !event.target.closest('button')) return;
    const now = th.getAttribute('aria-sort');
    const up = now ? now === 'descending' : risesFirst(table, th);
    sort(table, th, up);
    if (th.dataset.key) state.sort[table.id.slice(2)] = `${th.dataset.key}:${up ? 'up' : 'down'}`;
    write();
  });
}

// ---- filters and columns ----

const chosen = (name) => form.elements[name].value;

function kept(name, of) {
  if (of.baseline) return true;
  const images = { none: 0, noise: 0, images: 1, labels: 2 }[of.data];
  if (!name.toLowerCase().includes(chosen('q').trim().toLowerCase())) return false;
  if (chosen('family') && of.family !== chosen('family')) return false;
  if (chosen('data') && !(images <= (chosen('data') === 'noise' ? 0 : 1))) return false;
  if (chosen('ms') && !(of.ms !== null && of.ms <= Number(chosen('ms')))) return false;
  return !form.elements.complete?.checked || of.complete;
}

function columns() {
  return [...form.querySelectorAll('[name=column]')].filter((box) => box.checked).map((box) => box.value).join();
}

/** A table that fits has no scroll bar of its own: its head then stays below the controls. */
function fit() {
  const bar = getComputedStyle(form).position === 'sticky' ? form.offsetHeight : 0;
  document.documentElement.style.setProperty('--bar', `${bar}px`);
  for (const table of document.querySelectorAll('table.main')) {
    table.parentElement.classList.toggle('wide', table.offsetWidth > table.parentElement.clientWidth);
  }
}

/** Show what the controls ask for. One style sheet hides proxies, so that no table is touched. */
function filter() {
  const names = Object.keys(proxies);
  const hidden = names.filter((name) => !kept(name, proxies[name]));
  const rule = (selectors) => (selectors.length ? `${selectors.join()}{display:none}` : '');
  document.getElementById('hidden-proxies').textContent = rule(
    hidden.map((name) => `tbody[data-p="${CSS.escape(name)}"]`));
  const boxes = [...form.querySelectorAll('[name=column]')].filter((box) => !box.checked);
  document.getElementById('hidden-columns').textContent = rule(boxes.map((box) => `.c-${box.value}`));
  const active = FIELDS.some((name) => chosen(name)) || form.elements.complete?.checked;
  fit();
  document.getElementById('shown').textContent = `${names.length - hidden.length} of ${names.length} shown`;
  form.querySelector('[type=reset]').hidden = !active;
  form.classList.toggle('active', Boolean(active));
}

form.addEventListener('input', (event) => {
  if (event.target.id === 'jump') {
    go(event.target.value);
  } else {
    filter();
  }
  write();
});
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', (event) => {
  event.preventDefault();
  for (const name of FIELDS) form.elements[name].value = '';
  if (form.elements.complete) form.elements.complete.checked = false;
  filter();
  write();
  form.elements.q.focus();
});

// ---- rows and boards that open ----

function open(body, opened) {
  const [row, detail] = body.rows;
  row.querySelector('.opener').setAttribute('aria-expanded', String(opened));
  detail.hidden = !opened;
  const card = detail.querySelector('.card');
  if (opened && !card.hasChildNodes()) {
    card.append(document.getElementById(`card-${card.dataset.card}`).content.cloneNode(true));
    charts.row(detail, body.dataset.label);
  }
  const name = `${body.closest('.board').dataset.board}.${body.dataset.label}`;
  if (opened) state.open.add(name); else state.open.delete(name);
}

for (const board of document.querySelectorAll('.board')) {
  board.querySelector('table.main').addEventListener('click', (event) => {
    const opener = event.target.closest('.opener');
    if (!opener) return;
    open(opener.closest('tbody'), opener.getAttribute('aria-expanded') === 'false');
    write();
  });
  board.addEventListener('toggle', () => {
    fit();
    if (board.open) charts.board(board);
  });
  for (const maps of board.querySelectorAll('.maps')) {
    maps.addEventListener('toggle', () => {
      if (maps.open) charts.maps(maps);
    });
  }
  if (board.open) charts.board(board);
}

document.addEventListener('click', (event) => {
  const link = event.target.closest('a.to');
  if (!link) return;
  event.preventDefault();
  go(new URLSearchParams(link.hash.slice(1)).get('board'));
  write();
});

/** Open a board and show it; the overview if the name is empty. */
function go(name) {
  state.board = name;
  if (form.elements.jump) form.elements.jump.value = name;
  const board = document.getElementById(name ? `board-${name}` : 'overview');
  if (!board) return;
  if (name) board.open = true;
  board.scrollIntoView();
}

// ---- the fragment ----

function write() {
  const said = new URLSearchParams();
  if (state.board) said.set('board', state.board);
  for (const name of FIELDS) if (chosen(name)) said.set(name, chosen(name));
  if (form.elements.complete?.checked) said.set('complete', '1');
  if (columns() !== defaults) said.set('columns', columns());
  for (const [table, order] of Object.entries(state.sort)) said.append('sort', `${table}:${order}`);
  for (const row of state.open) said.append('open', row);
  history.replaceState(null, '', `#${said}`);
}

function read() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const name of FIELDS) form.elements[name].value = said.get(name) ?? '';
  if (form.elements.complete) form.elements.complete.checked = said.has('complete');
  const wanted = (said.get('columns') ?? defaults).split(',');
  for (const box of form.querySelectorAll('[name=column]')) box.checked = wanted.includes(box.value);
  filter();
  for (const text of said.getAll('sort')) {
    const [name, column, way] = text.split(':');
    const table = document.getElementById(`t-${name}`);
    const th = table && heading(table, column);
    if (th) sort(table, th, way === 'up');
    if (th) state.sort[name] = `${column}:${way}`;
  }
  const opened = new Set(said.getAll('open'));
  for (const body of document.querySelectorAll('.board tbody[data-label]')) {
    const name = `${body.closest('.board').dataset.board}.${body.dataset.label}`;
    if (opened.has(name) !== state.open.has(name)) open(body, opened.has(name));
    if (opened.has(name)) body.closest('.board').open = true;
  }
  if (said.get('board')) go(said.get('board'));
}

addEventListener('resize', fit);
addEventListener('hashchange', () => {
  if (location.hash === '' || location.hash.includes('=')) read();
});
charts.page();
read();
