// The viewer: the map, the panels, and what the reader can do with them. The address's fragment
// names a moment: #game=ID&side=2&time=4:05, each part optional.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const names = JSON.parse($("names").textContent);
  const games = JSON.parse($("data").textContent);
  const LOOPS_PER_SECOND = 22.4, SPEEDS = [1, 2, 4, 8, 16, 32];
  const canvas = $("map"), context = canvas.getContext("2d");
  const shown = { height_map: true, visibility_map: true, creep: true, player_relative: false,
    alerts: true, pathable: false, buildable: false, camera: true, units: true };
  let game = null, sides = [], current = null, step = 0, playing = null, hovered = -1, heat = "none", colors = {};

  const color = (name) => (colors[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  const element = (tag, text, className) => {
    const out = document.createElement(tag);
    if (text !== undefined) out.textContent = text;
    if (className) out.className = className;
    return out;
  };

  // --- the moment that is shown ---

  async function open(index, wanted = {}) {
    stop();
    game = games[index];
    $("episode").value = index;
    sides = await Promise.all(game.sides.map(unpacking.load));
    $("sides").replaceChildren(...(sides.length < 2 ? [] : sides.map((side, i) => {
      const button = element("button", `${i ? "away" : "home"}: ${label(side)}`);
      button.type = "button"; button.dataset.side = i + 1; button.onclick = () => turnTo(i);
      return button;
    })));
    const first = sides.findIndex((side) => side.decisions);
    turnTo(wanted.side === undefined ? Math.max(first, 0) : Math.min(Math.max(wanted.side, 0), sides.length - 1), wanted.loop ?? 0);
  }

  const label = (side) => side.player || `${side.race}${side.mmr ? " " + side.mmr : ""}`;

  // Shows a side at a game loop; by default at the loop of the side before.
  function turnTo(index, loop = current ? current.series.game_loop[step] : 0) {
    current = sides[index];
    for (const button of $("sides").children)
      button.setAttribute("aria-pressed", Number(button.dataset.side) === index + 1);
    $("scrub").max = current.steps - 1;
    fitCanvas();
    drawBuildOrder();
    drawCurves();
    seek(loop);
  }

  function seek(loop) {
    show(unpacking.lastUntil(current.series.game_loop, loop));
    remember();
  }

  function show(t) {
    step = Math.max(0, Math.min(current.steps - 1, t));
    hovered = -1;
    $("scrub").value = step;
    draw();
  }

  function remember() {
    const side = sides.indexOf(current) + 1, time = curves.clock(current.series.game_loop[step] / 1344);
    history.replaceState(null, "", `#game=${encodeURIComponent(game.id)}&side=${side}&time=${time}`);
  }

  // Opens the moment that the address names, or else the first game's beginning.
  function openAddress() {
    const parts = new URLSearchParams(location.hash.slice(1)), wanted = {};
    const index = games.findIndex((one) => one.id === parts.get("game"));
    const time = /^(?:(\d+):)?(\d+)$/.exec(parts.get("time") || "");
    if (time) wanted.loop = Math.round((Number(time[1] || 0) * 60 + Number(time[2])) * LOOPS_PER_SECOND);
    if (parts.get("loop")) wanted.loop = Number(parts.get("loop")) || 0;
    if (parts.get("side")) wanted.side = (Number(parts.get("side")) || 1) - 1;
    return open(Math.max(index, 0), wanted);
  }

  // --- the map ---

  // The map's picture is the playable area alone.
  function fitCanvas() {
    const [left, top, right, bottom] = current.crop;
    canvas.height = Math.round(canvas.width * (bottom - top) / (right - left));
  }

  const scale = () => canvas.width / (names.resolution * (current.crop[2] - current.crop[0]));
  const atX = (x) => (x - current.crop[0] * names.resolution) * scale();
  const atY = (y) => (y - current.crop[1] * names.resolution) * scale();

  function drawPlanes() {
    const size = current.planes.length ? current.planes[0].size : [128, 128];
    const [height, width] = size, image = new ImageData(width, height), read = {};
    for (const plane of current.planes)
      if (shown[plane.name]) read[plane.name] = unpacking.planeAt(plane, step);
    const relative = [[0, 0, 0], [40, 190, 100], [220, 180, 40], [150, 150, 150], [230, 70, 50]];
    for (let cell = 0; cell < width * height; cell++) {
      const grey = read.height_map ? 40 + read.height_map(cell) * 0.62 : 70;
      let red = grey, green = grey, blue = grey;
      if (read.pathable && !read.pathable(cell)) { red *= 0.55; green *= 0.55; blue *= 0.6; }
      if (read.buildable && read.buildable(cell)) { green += 26; }
      if (read.creep && read.creep(cell)) { red = red * 0.75 + 45; green *= 0.6; blue = blue * 0.75 + 60; }
      if (read.visibility_map) {
        const seen = read.visibility_map(cell), dim = seen === 2 ? 1 : seen === 1 ? 0.6 : 0.32;
        red *= dim; green *= dim; blue *= dim;
      }
      const owner = read.player_relative ? read.player_relative(cell) : 0;
      if (owner) [red, green, blue] = relative[owner] || relative[3];
      if (read.alerts && read.alerts(cell)) { red = 255; green = 60; blue = 160; }
      image.data.set([red, green, blue, 255], cell * 4);
    }
    paint(image);
  }

  // Paints an image of the whole map, cut to the playable area.
  function paint(image) {
    const buffer = document.createElement("canvas"), [left, top, right, bottom] = current.crop;
    buffer.width = image.width; buffer.height = image.height;
    buffer.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(buffer, left * image.width, top * image.height, (right - left) * image.width,
      (bottom - top) * image.height, 0, 0, canvas.width, canvas.height);
  }

  const SIDES = { 1: "--own", 2: "--ally", 3: "--neutral", 4: "--enemy" };

  function rowsOfStep(t = step) { return current.rows.subarray(current.starts[t], current.starts[t + 1]); }

  // Where the series of units have the unit of a row of step t.
  const unitAt = (t, row) => rowsOfStep(t).find((i) => current.series["unit/row"][i] === row);

  function position(i) {
    return [atX(current.series["unit/x"][i] + 0.5), atY(current.series["unit/y"][i] + 0.5),
      Math.max(3, (current.series["unit/radius"][i] || 0.6) * scale())];
  }

  function drawUnits() {
    const chosen = chosenRows(), target = targetRow();
    for (const i of rowsOfStep()) {
      const [x, y, radius] = position(i), row = current.series["unit/row"][i];
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.globalAlpha = current.series["unit/display_type"][i] === 2 ? 0.5 : 0.9;
      context.fillStyle = color(SIDES[current.series["unit/alliance"][i]] || "--neutral");
      context.fill();
      context.globalAlpha = 1;
      if (chosen.has(row) || i === hovered) {
        context.lineWidth = 2.5; context.strokeStyle = i === hovered ? color("--accent") : "#fff"; context.stroke();
      }
      if (row === target) {
        context.lineWidth = 3; context.strokeStyle = color("--camera");
        context.strokeRect(x - radius - 4, y - radius - 4, 2 * radius + 8, 2 * radius + 8);
      }
    }
  }

  const action = (name) => (current.series["action/" + name] || [])[step];
  const takes = (name) => (names.functions[action("function")] || { args: [] }).args.includes(name);

  function chosenRows() {
    const out = new Set(), tags = current.series["action/unit_tags"];
    if (!takes("unit_tags")) return out;
    for (let slot = 0; slot * current.steps < tags.length; slot++) {
      const row = tags[slot * current.steps + step];
      if (row < names.max_units) out.add(row);
    }
    return out;
  }
  const targetRow = () => (takes("target_unit_tag") ? action("target_unit_tag") : -1);
  const worldPoint = (world) => [world % names.resolution, Math.floor(world / names.resolution)];

  function drawOverlays() {
    if (shown.camera && current.series.camera) {
      const [x0, x1, y0, y1] = [0, 1, 2, 3].map((k) => current.series.camera[k * current.steps + step]);
      context.lineWidth = 2; context.strokeStyle = color("--camera");
      context.strokeRect(atX(x0), atY(y0), atX(x1 + 1) - atX(x0), atY(y1 + 1) - atY(y0));
    }
    if (takes("world")) {
      const [wx, wy] = worldPoint(action("world")), x = atX(wx + 0.5), y = atY(wy + 0.5);
      context.lineWidth = 2.5; context.strokeStyle = "#fff"; context.beginPath();
      context.moveTo(x - 9, y - 9); context.lineTo(x + 9, y + 9);
      context.moveTo(x + 9, y - 9); context.lineTo(x - 9, y + 9); context.stroke();
    }
  }

  // --- heat maps of the whole game, on a grid of 64 by 64 cells ---

  const CELLS = 64;
  const HEATS = {
    none: "none", places: "where own units stood", targets: "what commands targeted", losses: "where own units were lost",
  };

  function heatCells(kind) {
    const cells = new Float64Array(CELLS * CELLS), series = current.series;
    const add = (x, y) => {
      const column = Math.floor(x * CELLS / names.resolution), row = Math.floor(y * CELLS / names.resolution);
      if (column >= 0 && column < CELLS && row >= 0 && row < CELLS) cells[row * CELLS + column]++;
    };
    if (kind === "losses") for (const [, x, y] of current.losses) add(x, y);
    if (kind === "places")
      for (let i = 0; i < series["unit/x"].length; i++)
        if (series["unit/alliance"][i] === 1) add(series["unit/x"][i], series["unit/y"][i]);
    if (kind === "targets")
      for (let t = 0; t < current.steps; t++) {
        const known = names.functions[series["action/function"][t]];
        if (known && known.args.includes("world")) add(...worldPoint(series["action/world"][t]));
        if (known && known.args.includes("target_unit_tag")) {
          const i = unitAt(t, series["action/target_unit_tag"][t]);
          if (i !== undefined) add(series["unit/x"][i], series["unit/y"][i]);
        }
      }
    return cells;
  }

  function drawHeat() {
    if (heat === "none") return;
    const cells = heatCells(heat), top = Math.log1p(Math.max(...cells)) || 1;
    const size = names.resolution / CELLS;
    for (let cell = 0; cell < cells.length; cell++) {
      if (!cells[cell]) continue;
      const warmth = Math.log1p(cells[cell]) / top;
      context.fillStyle = `hsla(${55 - 55 * warmth}, 95%, ${70 - 20 * warmth}%, ${0.25 + 0.6 * warmth})`;
      const x = cell % CELLS * size, y = Math.floor(cell / CELLS) * size;
      context.fillRect(atX(x), atY(y), size * scale() + 0.5, size * scale() + 0.5);
    }
  }

  // --- the panels ---

  function list(target, pairs) {
    target.replaceChildren(...pairs.flatMap(([key, value]) => [element("dt", key), element("dd", value)]));
  }

  const functionName = (id) => (names.functions[id] || { name: "?" }).name;

  function drawPanels() {
    $("action-name").textContent = functionName(action("function"));
    const pairs = [["delay", action("delay") + " loops"]];
    if (takes("queued")) pairs.push(["queued", action("queued")]);
    if (takes("unit_tags")) pairs.push(["units", [...chosenRows()].map((row) => unitName(row)).join(", ")]);
    if (takes("target_unit_tag")) pairs.push(["target", unitName(targetRow())]);
    if (takes("world")) pairs.push(["world", worldPoint(action("world")).join(", ")]);
    if (action("repeat")) pairs.push(["repeat", action("repeat") + 1]);
    list($("action-values"), pairs);
    list($("player-values"), names.player.map((name, k) => [name, current.series.player[k * current.steps + step]]).slice(1));
    drawAgent();
    markBuildOrder();
    drawUnitPanel();
  }

  // What the agent considered at its latest step, the function that it took among it.
  function drawAgent() {
    const log = current.decisions;
    $("agent").hidden = !log || !log.loops.length;
    if ($("agent").hidden) return;
    const at = unpacking.lastUntil(log.loops, current.series.game_loop[step]), taken = log.functions[at];
    const choices = log.likely[at].map(([id, probability]) => [id, probability]);
    if (!choices.some(([id]) => id === taken)) choices.push([taken, null]);
    $("considered").replaceChildren(...choices.map(([id, probability]) => {
      const row = element("div", undefined, id === taken ? "choice taken" : "choice"), bar = element("i");
      bar.style.width = `${100 * (probability || 0)}%`;
      row.append(element("span", functionName(id) + (id === taken ? " (taken)" : "")), bar,
        element("b", probability === null ? "" : `${(100 * probability).toFixed(probability < 0.0995 ? 1 : 0)}%`));
      return row;
    }));
    const value = log.values[at], loop = log.loops[at];
    $("value-text").textContent = `Decided at ${curves.clock(loop / 1344)}, to act again ${log.delays[at]} loops later. ` +
      (value === null ? "It does not say which outcome it expects." : `Expected outcome: ${value.toFixed(2)}.`);
  }

  function drawBuildOrder() {
    $("build-order").replaceChildren(...current.build_order.map(([loop, supply, name, count]) => {
      const item = element("li");
      item.append(element("span", curves.clock(loop / 1344)), element("b", supply), element("span", name + (count > 1 ? ` x${count}` : "")));
      item.onclick = () => seek(loop);
      return item;
    }));
  }

  function markBuildOrder() {
    const loop = current.series.game_loop[step], items = $("build-order").children;
    let latest = null;
    current.build_order.forEach(([from], i) => {
      items[i].classList.toggle("done", from <= loop);
      items[i].classList.remove("now");
      if (from <= loop) latest = items[i];
    });
    if (!latest) return;
    latest.classList.add("now");
    const box = $("build-order");
    box.scrollTop = latest.offsetTop - box.offsetTop - box.clientHeight / 2;
  }

  const typeName = (id) => names.unit_types[id] || (id > names.num_unit_types ? names.effects[id - names.num_unit_types] || "effect" : id);

  function unitName(row) {
    const i = unitAt(step, row);
    return i === undefined ? `row ${row}` : typeName(current.series["unit/unit_type"][i]);
  }

  function drawUnitPanel() {
    if (hovered < 0) { list($("unit-values"), [["unit", "point at one on the map"]]); return; }
    const pairs = [["row", current.series["unit/row"][hovered]]];
    for (const name of names.columns) {
      const value = current.series["unit/" + name][hovered];
      let text = String(value);
      if (name === "unit_type") text += ` (${typeName(value)})`;
      if (name.startsWith("order_id") && value) text += ` (${functionName(value)})`;
      if (name.startsWith("buff_id") && value) text += ` (${names.buffs[value] || "?"})`;
      pairs.push([name, text]);
    }
    list($("unit-values"), pairs);
  }

  function drawCurves() {
    const order = [current, ...sides.filter((side) => side !== current)];
    curves.show($("curves"), order, order.map(label), names, seek);
  }

  function draw() {
    if (!current) return;
    drawPlanes();
    drawHeat();
    if (shown.units) drawUnits();
    drawOverlays();
    drawPanels();
    const loop = current.series.game_loop[step];
    $("step-text").textContent = `step ${step + 1}/${current.steps}  loop ${loop}  ${curves.clock(loop / 1344)}`;
    curves.moveTo(loop);
  }

  // --- what the reader does ---

  function stop() {
    if (playing) cancelAnimationFrame(playing.request);
    playing = null;
    $("play").textContent = "play";
  }

  // Plays by game time, so that both sides run at the same speed however often they act.
  function advance(time) {
    const last = current.series.game_loop[current.steps - 1];
    playing.loop += Math.min(time - playing.time, 250) / 1000 * LOOPS_PER_SECOND * Number($("speed").value);
    playing.time = time;
    const next = unpacking.lastUntil(current.series.game_loop, playing.loop);
    if (next !== step) show(next);
    if (playing.loop >= last) { stop(); remember(); return; }
    playing.request = requestAnimationFrame(advance);
  }

  $("play").onclick = () => {
    if (playing) { stop(); remember(); return; }
    if (step === current.steps - 1) show(0);
    $("play").textContent = "pause";
    playing = { loop: current.series.game_loop[step], time: performance.now() };
    playing.request = requestAnimationFrame(advance);
  };
  const jump = (t) => { show(t); if (playing) playing.loop = current.series.game_loop[step]; };
  $("scrub").oninput = () => jump(Number($("scrub").value));
  $("scrub").onchange = remember;

  canvas.addEventListener("mousemove", (event) => {
    if (!current) return;
    const box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
    const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio;
    let best = -1, distance = 14;
    for (const i of rowsOfStep()) {
      const [ux, uy, radius] = position(i), away = Math.hypot(ux - x, uy - y) - radius;
      if (away < distance) { distance = away; best = i; }
    }
    if (best !== hovered) { hovered = best; draw(); }
  });
  document.addEventListener("keydown", (event) => {
    if (["SELECT", "INPUT"].includes(event.target.tagName) || !current) return;
    if (event.key === "ArrowRight") { jump(step + 1); event.preventDefault(); }
    if (event.key === "ArrowLeft") { jump(step - 1); event.preventDefault(); }
    if (event.key === " " && event.target.tagName !== "BUTTON") { $("play").click(); event.preventDefault(); }
  });
  document.addEventListener("themechange", () => {
    colors = {};
    if (current) { drawCurves(); draw(); }
  });

  function addOptions(select, pairs, value) {
    for (const [key, text] of pairs) {
      const option = element("option", text);
      option.value = key;
      select.append(option);
    }
    select.value = value;
  }

  for (const layer of Object.keys(shown)) {
    const button = element("button", layer.replace("_", " "));
    button.type = "button"; button.dataset.layer = layer;
    button.setAttribute("aria-pressed", shown[layer]);
    button.onclick = () => { shown[layer] = !shown[layer]; button.setAttribute("aria-pressed", shown[layer]); draw(); };
    $("layers").append(button);
  }
  const KEY = [
    ["background:var(--own);border-radius:50%", "own unit"], ["background:var(--enemy);border-radius:50%", "enemy"],
    ["background:var(--ally);border-radius:50%", "ally"], ["background:var(--neutral);border-radius:50%", "neutral"],
    ["background:var(--enemy);border-radius:50%;opacity:.5", "remembered, not seen now"],
    ["border:2px solid var(--ink);border-radius:50%", "commanded"], ["border:2px solid var(--camera)", "target unit; camera"],
    ["", "target point", "\u00d7"], ["border:2px solid var(--accent);border-radius:50%", "under the pointer"],
    ["background:#999", "seen now"], ["background:#5c5c5c", "seen before"], ["background:#313131", "never seen"],
    ["background:#6f3c7c", "creep"], ["background:#ff3ca0", "alert"],
  ];
  $("key").append(...KEY.map(([style, text, mark]) => {
    const item = element("span"), swatch = element("i", mark || "");
    swatch.style.cssText = style;
    item.append(swatch, text);
    return item;
  }));
  const result = { 1: "win", 0: "draw", "-1": "loss" };
  addOptions($("episode"), games.map((one, i) => {
    const side = one.sides[0];
    return [i, one.title || `${side.race} v ${side.opponent_race}, ${side.map}, ${side.mmr ?? "unrated"}, ` +
      `${result[side.outcome]}, ${side.steps} steps`];
  }), 0);
  addOptions($("speed"), SPEEDS.map((speed) => [speed, `${speed}x`]), 8);
  addOptions($("heat"), Object.entries(HEATS), "none");
  $("episode").hidden = games.length < 2 && !games[0]?.title;
  $("episode").onchange = () => open(Number($("episode").value)).then(remember);
  $("heat").onchange = () => { heat = $("heat").value; draw(); };
  addEventListener("hashchange", openAddress);
  if (games.length) openAddress();
})();
