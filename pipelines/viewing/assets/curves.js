// Curves of a game over its minutes: supply, army, bank, workers, and the agents' values.
"use strict";
const curves = (() => {
  const POINTS = 400, LOOPS_PER_MINUTE = 1344;
  let charts = [], now = 0;
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The player's number `column` at each minute of the grid.
  function sampled(side, column, minutes) {
    const loops = side.series.game_loop, player = side.series.player;
    return minutes.map((minute) => {
      const loop = minute * LOOPS_PER_MINUTE;
      if (loop > loops[loops.length - 1]) return null;
      return player[column * side.steps + unpacking.lastUntil(loops, loop)];
    });
  }

  function values(side, minutes) {
    const log = side.decisions;
    return minutes.map((minute) => {
      const loop = minute * LOOPS_PER_MINUTE;
      if (loop < log.loops[0] || loop > log.loops[log.loops.length - 1]) return null;
      return log.values[unpacking.lastUntil(log.loops, loop)];
    });
  }

  function plots(sides, labels, names, minutes) {
    const column = (name) => names.player.indexOf(name), colors = ["--own", "--enemy"];
    const each = (name, dash, suffix) => sides.map((side, i) => ({
      label: labels[i] + (suffix || ""), stroke: colors[i], dash, data: sampled(side, column(name), minutes),
    }));
    const out = [
      { title: "Supply used (dashed: the cap)", series: [...each("food_used"), ...each("food_cap", [4, 4], " cap")] },
      { title: "Army supply", series: each("food_army") },
      { title: "Bank: minerals (dashed: gas)", series: [...each("minerals"), ...each("vespene", [4, 4], " gas")] },
      { title: "Workers", series: each("food_workers") },
    ];
    const judged = sides.map((side, i) => [side, i]).filter(
      ([side]) => side.decisions && side.decisions.values.some((value) => value !== null));
    if (judged.length)
      out.push({ title: "Outcome expected: 1 a win, -1 a loss", range: (_, low, high) => [Math.min(low, -1), Math.max(high, 1)],
        series: judged.map(([side, i]) => ({ label: labels[i], stroke: colors[i], data: values(side, minutes) })) });
    return out;
  }

  const clock = (minutes) => {
    const seconds = Math.round(minutes * 60);
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };

  // Below the curves are their numbers at the pointer, or else at the moment that the map shows.
  function drawLegend(plot) {
    if (plot.cursor.left >= 0) return;
    const points = plot.data[0].length - 1, last = plot.data[0][points] || 1;
    plot.setLegend({ idx: Math.min(points, Math.round(now / last * points)) });
  }

  // A vertical line at the moment that the map shows.
  const cursorLine = { hooks: { ready: drawLegend, setCursor: drawLegend, draw: (plot) => {
    const x = plot.valToPos(now, "x", true), context = plot.ctx;
    context.save();
    context.strokeStyle = color("--accent"); context.lineWidth = 1.5 * devicePixelRatio; context.setLineDash([]);
    context.beginPath();
    context.moveTo(x, plot.bbox.top); context.lineTo(x, plot.bbox.top + plot.bbox.height);
    context.stroke(); context.restore();
  } } };

  function draw(target, plot, minutes, seek) {
    const card = document.createElement("div"), title = document.createElement("h3"), place = document.createElement("div");
    card.className = "card"; title.textContent = plot.title;
    card.append(title, place); target.append(card);
    const axis = { stroke: color("--soft"), grid: { stroke: color("--edge"), width: 1 }, ticks: { stroke: color("--edge"), width: 1 } };
    const chart = new uPlot({
      width: Math.max(place.clientWidth, 200), height: 190,
      scales: { x: { time: false }, y: { range: plot.range || ((_, low, high) => [0, Math.max(high * 1.05, 1)]) } },
      cursor: { sync: { key: "game" }, y: false, drag: { x: false, y: false } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 52 }],
      series: [{ label: "time", value: (_, x) => (x === null ? "" : clock(x)) },
        ...plot.series.map((one) => ({ label: one.label, stroke: color(one.stroke), dash: one.dash, width: 1.6, points: { show: false } }))],
      plugins: [cursorLine],
    }, [minutes, ...plot.series.map((one) => one.data)], place);
    chart.over.addEventListener("click", () => seek(chart.posToVal(chart.cursor.left, "x") * LOOPS_PER_MINUTE));
    charts.push({ chart, place });
  }

  // Draws all curves of the sides into `target`; `seek` is called with a game loop on a click.
  function show(target, sides, labels, names, seek) {
    for (const { chart } of charts) chart.destroy();
    charts = [];
    target.replaceChildren();
    const last = Math.max(...sides.map((side) => side.series.game_loop[side.steps - 1])) / LOOPS_PER_MINUTE;
    const minutes = Array.from({ length: POINTS + 1 }, (_, i) => last * i / POINTS);
    for (const plot of plots(sides, labels, names, minutes)) draw(target, plot, minutes, seek);
    fit();  // the first charts had the whole width
  }

  function fit() {
    for (const { chart, place } of charts)
      chart.setSize({ width: Math.max(place.clientWidth, 200), height: 190 });
  }

  function moveTo(loop) {
    now = loop / LOOPS_PER_MINUTE;
    for (const { chart } of charts) chart.redraw(false);
    for (const { chart } of charts) drawLegend(chart);
  }

  addEventListener("resize", fit);
  return { show, moveTo, clock };
})();
