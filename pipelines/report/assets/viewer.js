// Reads what pipelines/viewer.py writes, and draws it. No library, works from file://.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const names = JSON.parse($("names").textContent);
  const episodes = JSON.parse($("data").textContent);
  const KEYFRAME = 64;
  const canvas = $("map"), context = canvas.getContext("2d");
  const shown = { height_map: true, visibility_map: true, creep: true, player_relative: false,
    alerts: true, pathable: false, buildable: false, camera: true, units: true };
  let current = null, step = 0, timer = null, hovered = -1;

  document.addEventListener("themechange", draw);

  async function inflate(text) {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function unpackSeries(bytes, offset, planes, length) {
    const out = new Int32Array(length);
    let value = 0;
    for (let i = 0; i < length; i++) {
      let code = 0;
      for (let plane = planes - 1; plane >= 0; plane--)
        code = (code << 8) | bytes[offset + plane * length + i];
      const delta = (code >>> 1) ^ -(code & 1);
      value = (value + delta) | 0;
      out[i] = value;
    }
    return out;
  }

  async function load(index) {
    const episode = episodes[index];
    const bytes = await inflate(episode.data);
    const series = {};
    let at = 0;
    for (const column of episode.columns) {
      series[column.name] = unpackSeries(bytes, at, column.planes, column.length);
      at += column.planes * column.length;
    }
    // Rows of each step, in row order, so that row r of step t is found at once.
    const starts = new Int32Array(episode.steps + 1), steps = series["unit/step"];
    for (let i = 0; i < steps.length; i++) starts[steps[i] + 1]++;
    for (let t = 0; t < episode.steps; t++) starts[t + 1] += starts[t];
    const fill = starts.slice(), rows = new Int32Array(steps.length);
    for (let i = 0; i < steps.length; i++) rows[fill[steps[i]]++] = i;
    for (let t = 0; t < episode.steps; t++)
      rows.subarray(starts[t], starts[t + 1]).sort(
        (a, b) => series["unit/row"][a] - series["unit/row"][b]);
    const planes = episode.planes.map((plane) => {
      const cells = plane.size[0] * plane.size[1], size = Math.ceil(cells * plane.bits / 8);
      const frames = bytes.subarray(at, at + size * episode.steps);
      at += size * episode.steps;
      const keys = [], state = new Uint8Array(size);
      for (let t = 0; t < episode.steps; t++) {
        const frame = frames.subarray(t * size, (t + 1) * size);
        for (let i = 0; i < size; i++) state[i] ^= frame[i];
        if (t % KEYFRAME === 0) keys.push(state.slice());
      }
      return { ...plane, frames, keys, bytes: size };
    });
    current = { ...episode, series, starts, rows, planes };
    $("scrub").max = episode.steps - 1;
    show(0);
  }

  function planeAt(plane, t) {
    const key = Math.floor(t / KEYFRAME), state = plane.keys[key].slice();
    for (let u = key * KEYFRAME + 1; u <= t; u++) {
      const frame = plane.frames.subarray(u * plane.bytes, (u + 1) * plane.bytes);
      for (let i = 0; i < plane.bytes; i++) state[i] ^= frame[i];
    }
    const per = 8 / plane.bits, mask = (1 << plane.bits) - 1;
    return (cell) => (state[Math.floor(cell / per)] >> ((cell % per) * plane.bits)) & mask;
  }

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function drawPlanes() {
    const size = current.planes.length ? current.planes[0].size : [128, 128];
    const [height, width] = size, image = new ImageData(width, height);
    const read = {};
    for (const plane of current.planes)
      if (shown[plane.name]) read[plane.name] = planeAt(plane, step);
    const relative = [[0, 0, 0], [40, 190, 100], [220, 180, 40], [150, 150, 150], [230, 70, 50]];
    for (let cell = 0; cell < width * height; cell++) {
      let red, green, blue;
      const grey = read.height_map ? 40 + read.height_map(cell) * 0.62 : 70;
      red = grey; green = grey; blue = grey;
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
    const buffer = document.createElement("canvas");
    buffer.width = width; buffer.height = height;
    buffer.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(buffer, 0, 0, canvas.width, canvas.height);
  }

  const SIDES = { 1: "--own", 2: "--ally", 3: "--neutral", 4: "--enemy" };

  function rowsOfStep() { return current.rows.subarray(current.starts[step], current.starts[step + 1]); }

  function position(i) {
    const scale = canvas.width / names.resolution;
    return [(current.series["unit/x"][i] + 0.5) * scale, (current.series["unit/y"][i] + 0.5) * scale,
      Math.max(3, (current.series["unit/radius"][i] || 0.6) * scale)];
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

  function drawOverlays() {
    const scale = canvas.width / names.resolution;
    if (shown.camera && current.series.camera) {
      const [x0, x1, y0, y1] = [0, 1, 2, 3].map((k) => current.series.camera[k * current.steps + step]);
      context.lineWidth = 2; context.strokeStyle = color("--camera");
      context.strokeRect(x0 * scale, y0 * scale, (x1 - x0 + 1) * scale, (y1 - y0 + 1) * scale);
    }
    if (takes("world")) {
      const world = action("world"), x = (world % names.resolution + 0.5) * scale;
      const y = (Math.floor(world / names.resolution) + 0.5) * scale;
      context.lineWidth = 2.5; context.strokeStyle = "#fff"; context.beginPath();
      context.moveTo(x - 9, y - 9); context.lineTo(x + 9, y + 9);
      context.moveTo(x + 9, y - 9); context.lineTo(x - 9, y + 9); context.stroke();
    }
  }

  function list(target, pairs) {
    target.replaceChildren(...pairs.flatMap(([key, value]) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = key; text.textContent = value;
      return [term, text];
    }));
  }

  function drawPanels() {
    $("action-name").textContent = (names.functions[action("function")] || { name: "?" }).name;
    const pairs = [["delay", action("delay") + " loops"]];
    if (takes("queued")) pairs.push(["queued", action("queued")]);
    if (takes("unit_tags")) pairs.push(["units", [...chosenRows()].map((row) => unitName(row)).join(", ")]);
    if (takes("target_unit_tag")) pairs.push(["target", unitName(targetRow())]);
    if (takes("world"))
      pairs.push(["world", `${action("world") % names.resolution}, ${Math.floor(action("world") / names.resolution)}`]);
    if (action("repeat")) pairs.push(["repeat", action("repeat") + 1]);
    list($("action-values"), pairs);
    list($("player-values"), names.player.map((name, k) => [name, current.series.player[k * current.steps + step]]).slice(1));
    drawUnitPanel();
  }

  const typeName = (id) => names.unit_types[id] || (id > names.num_unit_types ? names.effects[id - names.num_unit_types] || "effect" : id);

  function unitName(row) {
    const i = rowsOfStep().find((k) => current.series["unit/row"][k] === row);
    return i === undefined ? `row ${row}` : typeName(current.series["unit/unit_type"][i]);
  }

  function drawUnitPanel() {
    if (hovered < 0) { list($("unit-values"), [["", "point at a unit on the map"]]); return; }
    const pairs = [["row", current.series["unit/row"][hovered]]];
    for (const name of names.columns) {
      const value = current.series["unit/" + name][hovered];
      let text = String(value);
      if (name === "unit_type") text += ` (${typeName(value)})`;
      if (name.startsWith("order_id") && value) text += ` (${(names.functions[value] || { name: "?" }).name})`;
      if (name.startsWith("buff_id") && value) text += ` (${names.buffs[value] || "?"})`;
      pairs.push([name, text]);
    }
    list($("unit-values"), pairs);
  }

  function draw() {
    if (!current) return;
    drawPlanes();
    if (shown.units) drawUnits();
    drawOverlays();
    drawPanels();
    const seconds = current.series.game_loop[step] / 22.4, minutes = Math.floor(seconds / 60);
    $("step-text").textContent = `step ${step + 1}/${current.steps}  loop ${current.series.game_loop[step]}  ` +
      `${minutes}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  }

  function show(t) {
    step = Math.max(0, Math.min(current.steps - 1, t));
    hovered = -1;
    $("scrub").value = step;
    draw();
  }

  canvas.addEventListener("mousemove", (event) => {
    if (!current) return;
    const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = -1, distance = 14;
    for (const i of rowsOfStep()) {
      const [ux, uy, radius] = position(i), away = Math.hypot(ux - x, uy - y) - radius;
      if (away < distance) { distance = away; best = i; }
    }
    if (best !== hovered) { hovered = best; draw(); }
  });

  $("scrub").oninput = () => show(Number($("scrub").value));
  $("play").onclick = () => {
    if (timer) { clearInterval(timer); timer = null; $("play").textContent = "play"; return; }
    $("play").textContent = "pause";
    timer = setInterval(() => { show(step + 1 >= current.steps ? 0 : step + 1); }, 80);
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT" || !current) return;
    if (event.key === "ArrowRight") { show(step + 1); event.preventDefault(); }
    if (event.key === "ArrowLeft") { show(step - 1); event.preventDefault(); }
  });
  for (const layer of Object.keys(shown)) {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = layer; button.dataset.layer = layer;
    button.setAttribute("aria-pressed", shown[layer]);
    button.onclick = () => { shown[layer] = !shown[layer]; button.setAttribute("aria-pressed", shown[layer]); draw(); };
    $("layers").append(button);
  }
  episodes.forEach((episode, index) => {
    const option = document.createElement("option"), result = { 1: "win", 0: "draw", "-1": "loss" };
    option.value = index;
    option.textContent = `${episode.race} v ${episode.opponent_race}, ${episode.map}, ` +
      `${episode.mmr ?? "unrated"}, ${result[episode.outcome]}, ${episode.steps} steps`;
    $("episode").append(option);
  });
  $("episode").onchange = () => load(Number($("episode").value));
  if (episodes.length) load(0);
})();
