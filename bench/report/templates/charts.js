'use strict';
// Charts, drawn when a reader opens what they belong to. Colours are classes of the style sheet.

const charts = (() => {
  const SVG = 'http://www.w3.org/2000/svg';

  function make(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  const text = (x, y, said, more = {}) => make('text', { x, y, ...more }, said);
  const titled = (mark, said) => {
    mark.append(make('title', {}, said));
    return mark;
  };
  const short = (value, digits = 3) =>
    value === null ? 'none' : Number(value) === 0 ? '0' : Number(value).toFixed(digits).replace(/^(-?)0\./, '$1.');
  const plain = (value) => String(Number(Number(value).toPrecision(3)));
  const plain4 = (value) => String(Number(Number(value).toPrecision(4)));

  const boards = new WeakMap();
  /** Return the numbers of the board that an element belongs to. */
  function data(element) {
    const board = element.closest('.board');
    if (!boards.has(board)) boards.set(board, JSON.parse(board.querySelector('.chart-data').textContent));
    return boards.get(board);
  }

  /** Return an empty drawing with an axis at the left and one below. */
  function frame(width, height, { x, y, xs, ys, label, axis }) {
    const edge = { left: 44, right: 12, top: 24, bottom: 38 };
    const at = (value, [low, high], from, to) => from + ((value - low) / (high - low || 1)) * (to - from);
    const px = (value) => at(value, x, edge.left, width - edge.right);
    const py = (value) => at(value, y, height - edge.bottom, edge.top);
    const svg = make('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label });
    for (const [value, said] of ys) {
      svg.append(make('path', { d: `M${edge.left} ${py(value)}H${width - edge.right}`, class: 'grid' }));
      svg.append(text(edge.left - 5, py(value) + 3.5, said, { 'text-anchor': 'end' }));
    }
    for (const [value, said] of xs) {
      const anchor = px(value) > width - 30 ? 'end' : px(value) < edge.left + 8 ? 'start' : 'middle';
      svg.append(text(px(value), height - edge.bottom + 14, said, { 'text-anchor': anchor }));
    }
    svg.append(text(4, 12, axis));
    const name = (said) => svg.append(text((edge.left + width) / 2, height - 5, said, { 'text-anchor': 'middle' }));
    return { svg, px, py, name, edge };
  }

  /** Return the width of a chart that fills what holds it, so that its words have one size everywhere. */
  const room = (figure) => Math.min(860, Math.max(300, figure.parentElement.clientWidth || window.innerWidth - 60));

  /** Return about five round numbers from low to high. */
  function round(low, high) {
    const rough = (high - low || 1) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) found.push(Number(v.toPrecision(6)));
    return found;
  }

  // ---- an opened row ----

  function scatter(figure, all, proxy) {
    const count = proxy.ranks.length;
    const sorted = [...all.accuracy].sort((a, b) => a - b);
    const low = sorted[Math.floor(0.04 * (count - 1))];
    const high = sorted[count - 1];
    const pad = 0.04 * (high - low || 1);
    const quarter = (share) => 1 + share * (count - 1);
    const { svg, px, py, name } = frame(400, 250, {
      x: [1, count], y: [low - pad, high + pad],
      xs: proxy.ticks.map((tick, i) => [quarter(i / (proxy.ticks.length - 1)), plain(tick)]),
      ys: round(low, high).map((v) => [v, plain(v)]),
      label: `score of ${proxy.label} against accuracy`, axis: 'accuracy, %',
    });
    const top = Math.max(1, Math.ceil(count / 10));
    svg.append(titled(make('path', { d: `M${px(count - top + 0.5)} ${py(low - pad)}V${py(high + pad)}`, class: 'cut' }),
      'to the right: the 10 % with the highest scores'));
    proxy.ranks.forEach((rank, i) => {
      if (rank === null) return;
      const clipped = all.accuracy[i] < low;
      const y = clipped ? py(low - pad) : py(all.accuracy[i]);
      svg.append(titled(make('circle', { cx: px(count + 1 - rank).toFixed(1), cy: y.toFixed(1), r: 2.6,
        class: `dot${i < top ? ' top' : ''}${clipped ? ' low' : ''}` }),
      `${all.networks[i]}\naccuracy ${all.accuracy[i]}, score ranks ${rank} of ${count}`));
    });
    name('score, spaced by rank; the best is at the right');
    figure.prepend(svg);
    figure.querySelector('figcaption').textContent =
      `Accuracy of ${count === all.of ? 'every network' : `${count} of ${all.of} networks`} over the score of ` +
      `${proxy.label}. Coloured: the 10 % most accurate. Right of the line: the 10 % with the highest scores. ` +
      'The 4 % with the lowest accuracies stand on the lower edge.';
  }

  function top(figure, all, proxy) {
    const params = all.proxies.find((other) => other.label.split(' ')[0] === 'params');
    const lines = [
      ['line mine', proxy.top[0], `${proxy.label}, top by accuracy`],
      ['line mine dashed', proxy.top[1], `${proxy.label}, top by score`],
      ...(params && params !== proxy ? [['line base', params.top[0], 'params, top by accuracy']] : []),
    ];
    const values = lines.flatMap(([, line]) => line).filter((v) => v !== null);
    const low = Math.min(0, ...values);
    const high = Math.max(0.2, ...values);
    const { svg, px, py, name } = frame(400, 250, {
      x: [Math.log10(all.cuts[0]), 0], y: [low, high],
      xs: [0.01, 0.03, 0.1, 0.3, 1].map((v) => [Math.log10(v), `${Math.round(100 * v)} %`]),
      ys: round(low, high).map((v) => [v, short(v, 1)]),
      label: `Kendall's tau of ${proxy.label} in the top of the ranking`, axis: "Kendall's τ",
    });
    lines.forEach(([kind, line], i) => {
      const points = line.map((v, k) => [v, all.cuts[k]]).filter(([v]) => v !== null)
        .map(([v, cut]) => `${px(Math.log10(cut)).toFixed(1)} ${py(v).toFixed(1)}`);
      if (points.length) svg.append(make('path', { d: `M${points.join('L')}`, class: kind }));
      svg.append(make('path', { d: `M52 ${32 + 14 * i}h18`, class: kind }), text(75, 35.5 + 14 * i, lines[i][2]));
    });
    name('share of the networks');
    figure.prepend(svg);
    figure.querySelector('figcaption').textContent =
      "Kendall's τ among the best networks alone, from all down to few. No line where they are fewer than ten.";
  }

  // ---- a board ----

  /**
   * Draw cost against quality, and the front of the points that no cheaper point beats.
   * A point has `label`, `ms`, `quality` and `said`; `way` is 1 where more quality is better, or -1.
   */
  function costs(figure, given, { way, from, to, axis, digits }) {
    const points = given.filter((p) => p.quality !== null && p.ms !== null && p.label !== 'random');
    if (!points.length) return;
    const least = Math.min(...points.filter((p) => p.ms > 0).map((p) => p.ms), 1000);
    const cost = (p) => Math.log10(Math.max(p.ms, least));
    const front = [];
    for (const p of [...points].sort((a, b) => a.ms - b.ms || way * (b.quality - a.quality))) {
      if (!front.length || way * (p.quality - front[front.length - 1].quality) > 0) front.push(p);
    }
    const ends = [Math.min(from, ...points.map((p) => p.quality)), Math.max(to, ...points.map((p) => p.quality))];
    const pad = 0.05 * (ends[1] - ends[0]);
    const span = [ends[0] - pad, ends[1] + pad];
    const [left, right] = [Math.min(...points.map(cost)) - 0.1, Math.max(...points.map(cost)) + 0.25];
    const powers = [];
    for (let k = Math.ceil(left); k <= right; k += 1) powers.push([k, `${10 ** k} ms`]);
    const width = room(figure);
    const { svg, px, py, name } = frame(width, 340, {
      x: [left, right], y: way > 0 ? span : span.reverse(), xs: powers, axis,
      ys: round(...ends).map((v) => [v, short(v, digits)]),
      label: `cost against ${axis}; the front is ${front.map((p) => p.label).join(', ')}`,
    });
    const steps = front.map((p, i) => (i ? `H${px(cost(p))}V${py(p.quality)}` : `M${px(cost(p))} ${py(p.quality)}`));
    svg.append(make('path', { d: `${steps.join('')}H${px(right)}`, class: 'front' }));
    const isBase = (p) => ['params', 'macs'].includes(p.label);
    for (const p of points) {
      const kind = isBase(p) ? 'point base' : front.includes(p) ? 'point best' : 'point';
      svg.append(titled(make('circle', { cx: px(cost(p)).toFixed(1), cy: py(p.quality).toFixed(1), r: 4.2, class: kind }),
        `${p.label}: ${p.said}, ${plain(p.ms)} ms`));
    }
    const placed = [];
    for (const p of new Set([...front].reverse().concat(points.filter(isBase)))) {
      const long = 6.4 * p.label.length;
      const fits = px(cost(p)) + 8 + long < width;
      const spot = [-6, 14, -18, 26].map((dy) => {
        const x = fits ? px(cost(p)) + 7 : px(cost(p)) - 7 - long;
        return { x, y: py(p.quality) + dy, to: x + long };
      }).find((s) => s.y > 10 && !placed.some((o) => s.x < o.to && o.x < s.to && Math.abs(s.y - o.y) < 12));
      if (spot) {
        placed.push(spot);
        svg.append(text(spot.x, spot.y, p.label, { class: 'name' }));
      }
    }
    name('milliseconds per network');
    figure.prepend(svg);
  }

  function pareto(figure, all) {
    const points = all.proxies.map((p) => ({ label: p.label, ms: p.ms, quality: p.tau, said: `τ ${short(p.tau)}` }));
    costs(figure, points, { way: 1, from: 0, to: 0.2, axis: "Kendall's τ", digits: 1 });
  }

  function overview(figure) {
    const points = Object.entries(JSON.parse(document.getElementById('proxies').textContent)).map(([label, p]) => ({
      label, ms: p.ms, quality: p.rank, said: `mean rank ${p.rank}, lowest τ ${short(p.lowest)}`,
    }));
    costs(figure, points, { way: -1, from: 1, to: 2, axis: 'mean rank', digits: 0 });
  }

  // ---- searches and programs ----

  /** Draw what every method has reached after so many trainings, with bands; one line can be looked at alone. */
  function search(figure) {
    const all = JSON.parse(figure.parentElement.querySelector('.search-data').textContent);
    const rows = [...figure.parentElement.querySelectorAll('tr[data-line]')];
    const most = Math.max(...all.methods.map((m) => m.steps[m.steps.length - 1]));
    // The first networks of a search say nothing about its end, and would flatten it.
    const low = Math.min(...all.methods.map((m) => m.curve[Math.floor(m.curve.length / 2)][0]));
    const pad = 0.06 * (all.optimum - low || 1);
    const ticks = [1, 3, 10, 30, 100, 300, 1000, 3000, 10000].filter((v) => v <= most);
    const width = room(figure);
    const { svg, px, py, name, edge } = frame(width, 360, {
      x: [0, Math.log10(Math.max(most, 2))], y: [low - pad, all.optimum + pad], axis: 'test accuracy, %',
      xs: ticks.map((v) => [Math.log10(v), String(v)]), ys: round(low, all.optimum).map((v) => [v, plain4(v)]),
      label: `test accuracy against trainings; the table below has the ends of all ${all.methods.length} lines`,
    });
    const id = `clip-${[...document.querySelectorAll('[data-draw=search]')].indexOf(figure)}`;
    const inner = make('g', { 'clip-path': `url(#${id})` });
    const inside = { x: edge.left, y: edge.top, width, height: 360 - edge.top - edge.bottom };
    svg.append(make('clipPath', { id }, make('rect', inside)), inner);
    inner.append(make('path', { d: `M${edge.left} ${py(all.optimum)}H${width - edge.right}`, class: 'optimum' }));
    const at = (m, k, part) => `${px(Math.log10(m.steps[k])).toFixed(1)} ${py(m.curve[k][part]).toFixed(1)}`;
    const groups = all.methods.map((m, i) => {
      const places = m.steps.map((_, k) => k);
      const group = make('g', { class: `k${i % 10}` });
      if (m.curve[0][1] !== null) {
        const band = [...places.map((k) => at(m, k, 1)), ...places.reverse().map((k) => at(m, k, 2))];
        group.append(make('path', { d: `M${band.join('L')}Z`, class: 'band' }));
      }
      const line = `M${m.steps.map((_, k) => at(m, k, 0)).join('L')}`;
      const said = `${m.name}: ${plain4(m.curve[m.curve.length - 1][0])} after ${m.steps[m.steps.length - 1]} trainings`;
      group.append(make('path', { d: line, class: `curve${i >= 10 ? ' dashed' : ''}` }),
        titled(make('path', { d: line, class: 'reach' }), said));
      inner.append(group);
      return group;
    });
    const alone = (i) => groups.forEach((g, k) => g.classList.toggle('faint', i !== null && i !== k));
    groups.forEach((group, i) => {
      group.addEventListener('pointerenter', () => alone(i));
      group.addEventListener('pointerleave', () => alone(null));
    });
    for (const row of rows) {
      row.addEventListener('pointerenter', () => alone(Number(row.dataset.line)));
      row.addEventListener('pointerleave', () => alone(null));
    }
    name('trained networks');
    figure.prepend(svg);
  }

  /** Draw a program with its root on top and every leaf in a column of its own. */
  function tree(figure) {
    const root = JSON.parse(figure.querySelector('script').textContent);
    const marks = [];
    const lines = [];
    const [level, gap] = [46, 16];
    let right = 4;
    let deepest = 0;
    function visit([name, ...below], depth) {
      deepest = Math.max(deepest, depth);
      const wide = 7 * name.length + 16;
      let x;
      if (below.length) {
        const start = right;
        const xs = below.map((node) => visit(node, depth + 1));
        x = Math.max((xs[0] + xs[xs.length - 1]) / 2, start + wide / 2);
        right = Math.max(right, x + wide / 2 + gap);
        for (const to of xs) lines.push(`M${x} ${depth * level + 26}L${to} ${(depth + 1) * level + 4}`);
      } else {
        x = right + wide / 2;
        right += wide + gap;
      }
      marks.push(make('g', { class: below.length ? 'node' : 'node leaf' },
        make('rect', { x: x - wide / 2, y: depth * level + 3, width: wide, height: 24, rx: 6 }),
        text(x, depth * level + 19, name, { 'text-anchor': 'middle', class: 'name' })));
      return x;
    }
    visit(root, 0);
    const [width, height] = [right, deepest * level + 32];
    figure.prepend(make('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
      'aria-label': figure.querySelector('code').textContent }, make('path', { d: lines.join(''), class: 'grid' }), ...marks));
  }

  // ---- heat maps ----

  function grid(figure, all, cells, look) {
    const used = [...new Set(cells.flatMap(([a, b]) => [a, b]))].sort((a, b) => a - b);
    const place = new Map(used.map((at, i) => [at, i]));
    const name = (i) => all.proxies[used[i]].label;
    const count = used.length;
    const side = Math.max(7, Math.min(20, Math.floor(520 / count)));
    const font = Math.min(11, side);
    const left = 8 + 0.56 * font * Math.max(...used.map((at) => all.proxies[at].label.length));
    const size = side * count;
    const svg = make('svg', { viewBox: `0 0 ${left + size + 2} ${size + 2}`, width: left + size + 2, height: size + 2,
      'aria-hidden': 'true' });
    used.forEach((at, i) => svg.append(
      text(left - 4, (i + 0.8) * side, name(i), { 'text-anchor': 'end', 'font-size': font })));
    const found = new Map();
    for (const cell of cells) {
      const [a, b] = [place.get(cell[0]), place.get(cell[1])];
      for (const [row, column, flip] of [[a, b, 1], [b, a, -1]]) {
        const { value, said } = look(cell, flip, name(row), name(column));
        found.set(row * count + column, said);
        if (!value) continue;
        svg.append(make('rect', { x: left + column * side, y: row * side, width: side - 0.5, height: side - 0.5,
          class: value < 0 ? 'neg' : 'pos', 'fill-opacity': Math.min(1, Math.abs(value)).toFixed(2) }));
      }
    }
    const ring = make('rect', { width: side, height: side, class: 'ring', visibility: 'hidden' });
    const outline = make('rect', { x: left, y: 0, width: size, height: size, class: 'outline' });
    svg.append(outline, ring);
    const box = document.createElement('div');
    box.className = 'map scroll';
    box.tabIndex = 0;
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', 'heat map: arrow keys go from cell to cell');
    const output = document.createElement('output');
    output.textContent = 'Point at a cell.';
    box.append(svg);
    figure.prepend(box, output);
    let now = [0, 1];
    function show(row, column) {
      if (row < 0 || column < 0 || row >= count || column >= count) return;
      now = [row, column];
      ring.setAttribute('x', left + column * side);
      ring.setAttribute('y', row * side);
      ring.setAttribute('visibility', 'visible');
      output.textContent = found.get(row * count + column) ?? (row === column ? name(row) : 'not compared');
    }
    svg.addEventListener('pointermove', (event) => {
      const at = svg.getBoundingClientRect();
      const scale = (left + size + 2) / at.width;
      const [x, y] = [(event.clientX - at.left) * scale - left, (event.clientY - at.top) * scale];
      show(Math.floor(y / side), Math.floor(x / side));
    });
    box.addEventListener('keydown', (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      show(now[0] + step[0], now[1] + step[1]);
    });
  }

  const differences = (cell, flip, row, column) => {
    const [, , difference, low, high, p, n] = cell;
    const ends = low === null ? '' : ` [${[flip * low, flip * high].sort((a, b) => a - b).map((v) => short(v)).join(' ')}]`;
    return {
      value: p !== null && p < 0.05 ? 1.6 * flip * difference : 0,
      said: `${row} less ${column}: ${short(flip * difference)}${ends}, ` +
        `${p === null ? 'no p-value' : `p ${p < 0.001 ? 'below .001' : short(p)}`}, ${n} networks`,
    };
  };
  const agreement = ([, , rho, tau, n], flip, row, column) => ({
    value: rho, said: `${row} and ${column}: ρ ${short(rho)}, τ ${short(tau)}, ${n} networks`,
  });

  const drawn = new WeakSet();
  /** Draw a figure once. */
  function once(figure, draw) {
    if (drawn.has(figure)) return;
    drawn.add(figure);
    draw(figure, data(figure));
  }
  return {
    row(detail, label) {
      const proxy = data(detail).proxies.find((p) => p.label === label);
      once(detail.querySelector('[data-draw=scatter]'), (figure, all) => scatter(figure, all, proxy));
      once(detail.querySelector('[data-draw=top]'), (figure, all) => top(figure, all, proxy));
    },
    /** Draw what stands outside of boards. */
    page() {
      for (const [name, drawing] of Object.entries({ costs: overview, search, tree })) {
        for (const figure of document.querySelectorAll(`[data-draw=${name}]`)) drawing(figure);
      }
    },
    board(board) {
      once(board.querySelector('[data-draw=pareto]'), pareto);
    },
    maps(maps) {
      const at = Number(maps.dataset.map);
      for (const [name, look] of [['differences', differences], ['agreement', agreement]]) {
        once(maps.querySelector(`[data-draw=${name}]`), (figure, all) => grid(figure, all, all.maps[at][name], look));
      }
    },
  };
})();
