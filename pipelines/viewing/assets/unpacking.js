// Reads what pipelines/viewing/packing.py writes. No library, works from file://.
"use strict";
const unpacking = (() => {
  const KEYFRAME = 64;

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

  // Rows of each step, in row order, so that row r of step t is found at once.
  function rowsByStep(series, count) {
    const starts = new Int32Array(count + 1), steps = series["unit/step"];
    for (let i = 0; i < steps.length; i++) starts[steps[i] + 1]++;
    for (let t = 0; t < count; t++) starts[t + 1] += starts[t];
    const fill = starts.slice(), rows = new Int32Array(steps.length);
    for (let i = 0; i < steps.length; i++) rows[fill[steps[i]]++] = i;
    for (let t = 0; t < count; t++)
      rows.subarray(starts[t], starts[t + 1]).sort((a, b) => series["unit/row"][a] - series["unit/row"][b]);
    return { starts, rows };
  }

  async function load(episode) {
    const bytes = await inflate(episode.data), series = {};
    let at = 0;
    for (const column of episode.columns) {
      series[column.name] = unpackSeries(bytes, at, column.planes, column.length);
      at += column.planes * column.length;
    }
    const planes = episode.planes.map((plane) => {
      const size = Math.ceil(plane.size[0] * plane.size[1] * plane.bits / 8);
      const frames = bytes.subarray(at, at + size * plane.frames);
      at += size * plane.frames;
      const keys = [], state = new Uint8Array(size);
      for (let t = 0; t < plane.frames; t++) {
        for (let i = 0; i < size; i++) state[i] ^= frames[t * size + i];
        if (t % KEYFRAME === 0) keys.push(state.slice());
      }
      return { ...plane, frames, keys, bytes: size, steps: series["plane/" + plane.name] };
    });
    return { ...episode, series, planes, ...rowsByStep(series, episode.steps) };
  }

  // The index of the last entry that is not after `value`; 0 if all are.
  function lastUntil(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= value) low = middle + 1; else high = middle;
    }
    return Math.max(low - 1, 0);
  }

  // Returns a function from a cell's index to the plane's value at a step.
  function planeAt(plane, step) {
    const frame = lastUntil(plane.steps, step), key = Math.floor(frame / KEYFRAME);
    const state = plane.keys[key].slice();
    for (let u = key * KEYFRAME + 1; u <= frame; u++)
      for (let i = 0; i < plane.bytes; i++) state[i] ^= plane.frames[u * plane.bytes + i];
    const per = 8 / plane.bits, mask = (1 << plane.bits) - 1;
    return (cell) => (state[Math.floor(cell / per)] >> ((cell % per) * plane.bits)) & mask;
  }

  return { load, planeAt, lastUntil };
})();
