// The page that shows a snapshot, as text: it loads nothing, and nothing of the snapshot becomes markup.
#include "gpu/memory/snapshot_page.h"

namespace facula::gpu {

const char* const kSnapshotPageHead = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Facula: GPU memory</title>
<style>
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #22262b; --faint: #6a727c; --line: #d9dde2;
  --accent: #2462b8; --free: #e3e6ea; --pending: #d9a441; --alarm: #c8322b; --reserved: #22262b; --other: #b9c0c8; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181c; --card: #1d2126; --ink: #e4e7ea; --faint: #98a1ab; --line: #353b43;
    --accent: #7fb1f5; --free: #343a42; --pending: #b98a35; --alarm: #ff7a70; --reserved: #e4e7ea; --other: #59616b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
header, main { max-width: 1500px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 16px; }
h1 { font-size: 20px; margin: 0 0 8px; }
h2 { font-size: 16px; margin: 0; }
.bar { display: flex; flex-wrap: wrap; gap: 12px; align-items: center; margin: 8px 0; }
.figures { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0 0 8px; }
.figures div { min-width: 96px; }
.figures dt { color: var(--faint); font-size: 12px; }
.figures dd { margin: 0; font-size: 17px; font-variant-numeric: tabular-nums; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin: 14px 0; }
.status { color: var(--faint); }
input, select, button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 5px;
  padding: 4px 8px; }
input[type=search] { min-width: 300px; }
button { cursor: pointer; }
canvas { display: block; width: 100%; touch-action: none; }
.chart { position: relative; margin-top: 8px; }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: 12px; font-variant-numeric: tabular-nums; }
#selection { position: absolute; top: 0; bottom: 0; background: var(--accent); opacity: .2; pointer-events: none; }
#tip { position: fixed; z-index: 9; max-width: 640px; padding: 8px 10px; background: var(--card); border: 1px solid var(--faint);
  border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12.5px; pointer-events: none;
  box-shadow: 0 4px 16px rgba(0, 0, 0, .25); }
.legend span { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 5px 0 12px; vertical-align: -1px; }
#map { overflow-y: auto; max-height: 520px; }
table { border-collapse: collapse; width: 100%; margin-top: 8px; }
th, td { text-align: left; vertical-align: top; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; font-size: 12px; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 12px/1.4 ui-monospace, monospace; color: var(--faint);
  max-height: 8.6em; overflow-y: auto; }
.share { display: inline-block; height: 9px; border-radius: 2px; background: var(--accent); }
[hidden] { display: none !important; }
</style>
</head>
<body>
<header>
<h1>GPU memory</h1>
<div class="bar">
<label id="device-choice">Device <select id="device"></select></label>
<label>Search <input type="search" id="search" placeholder="op, file or function" autocomplete="off"></label>
<span class="status" id="search-status"></span>
</div>
<dl class="figures" id="figures"></dl>
</header>
<main>
<section>
<div class="bar"><h2>Timeline</h2><span class="status" id="timeline-status"></span>
<label>Axis <select id="axis"><option value="event">events</option><option value="time">time</option></select></label>
<button id="whole" hidden>Whole timeline</button></div>
<div class="chart" id="timeline-chart"><canvas id="timeline" height="380"></canvas><div id="selection" hidden></div></div>
<div class="axis"><span id="axis-start"></span><span>drag to look closer, double click for the whole; the line is reserved memory</span>
<span id="axis-end"></span></div>
</section>
<section>
<div class="bar"><h2>Segments</h2><span class="status" id="segments-status"></span>
<span class="legend status"><span style="background:var(--accent)"></span>allocated, by op<span style="background:var(--pending)"></span>
given back, still used by a stream<span style="background:var(--free)"></span>free</span></div>
<div class="chart" id="map"><canvas id="segments"></canvas></div>
</section>
<section>
<div class="bar"><h2>Who holds what</h2><span class="status" id="holders-status"></span></div>
<table><thead><tr><th class="number">bytes</th><th></th><th class="number">blocks</th><th class="number">largest</th><th>op</th>
<th>call site</th></tr></thead><tbody id="holders"></tbody></table>
</section>
</main>
<div id="tip" hidden></div>
<noscript>This page draws the snapshot that it holds with JavaScript; nothing is loaded from anywhere.</noscript>
<script type="application/json" id="snapshot">)page";

const char* const kSnapshotPageTail = R"page(</script>
<script>
'use strict';
const snapshot = JSON.parse(document.getElementById('snapshot').textContent);
const byId = id => document.getElementById(id);
const kRows = 300, kMaxSegments = 300, kRowHeight = 22;

// Texts. Everything goes into the page as text, never as markup.
function bytesText(bytes) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0, value = bytes;
  while (value >= 1024 && unit < 4) { value /= 1024; unit++; }
  return (unit ? value.toFixed(2) : value) + ' ' + units[unit];
}
function element(tag, text, className) {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (className) one.className = className;
  return one;
}
const stackTexts = snapshot.stacks.map(frames => frames.map(
  frame => frame.filename ? frame.filename + ':' + frame.line + ' ' + frame.name : frame.name).join('\n'));
const stackText = index => index === undefined ? '' : stackTexts[index];

function hashOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 2246822519);
  return (hash ^ hash >>> 13) >>> 0;
}
// A group is an op at a call site: it has a colour, and is found by the search.
const groups = [], groupNumbers = new Map();
function groupOf(op, stack) {
  const key = (stack === undefined ? '' : stack) + ' ' + (op || '');
  let number = groupNumbers.get(key);
  if (number === undefined) {
    number = groups.length;
    groupNumbers.set(key, number);
    // Calls of one op look alike.
    const hash = hashOf(op || ''), nuance = hashOf(key);
    groups.push({op: op || '(unknown)', stack: stackText(stack), hue: (hash % 360 + nuance % 21 + 350) % 360,
      tone: (nuance >>> 9) % 3, found: true});
  }
  return number;
}

// What is shown of one device.
let segments = [], allocations = [], events = [], reservedAt = null, allocatedAt = null, timeAt = null, figures = {};
let view = {from: 0, to: 1}, wanted = '';

function load(device) {
  segments = snapshot.segments.filter(one => one.device === device);
  events = snapshot.device_traces[device] || [];
  figures = {allocated: 0, active: 0, reserved: 0, blocks: 0};
  const live = new Map();
  for (const segment of segments) {
    figures.reserved += segment.total_size;
    figures.allocated += segment.allocated_size;
    figures.active += segment.active_size;
    for (const block of segment.blocks) {
      if (block.state === 'inactive') continue;
      block.group = groupOf(block.op, block.stack);
      if (block.state === 'active_allocated') { figures.blocks++; live.set(block.address, block); }
    }
  }
  // Allocations with the stretch of events in which they lived. Those without a beginning were there before the
  // history.
  const count = events.length, open = new Map();
  allocations = [];
  let reserved = 0;
  for (let i = 0; i < count; i++) {
    const event = events[i];
    if (event.action === 'alloc') {
      open.set(event.addr, allocations.length);
      allocations.push({address: event.addr, size: event.size, group: groupOf(event.op, event.stack), start: i, end: count, stream: event.stream});
    } else if (event.action === 'free_requested') {
      const number = open.get(event.addr);
      if (number !== undefined) { allocations[number].end = i; open.delete(event.addr); }
      else allocations.push({address: event.addr, size: event.size, group: groupOf(event.op, event.stack), start: -1, end: i, stream: event.stream});
    } else if (event.action === 'segment_alloc' || event.action === 'segment_map') reserved += event.size;
    else if (event.action === 'segment_free' || event.action === 'segment_unmap') reserved -= event.size;
  }
  for (const [address, block] of live)
    if (!open.has(address)) allocations.push({address, size: block.size, group: block.group, start: -1, end: count});
  allocations.sort((a, b) => a.start - b.start);
  // Curves after each event; place 0 is before the first.
  reservedAt = new Float64Array(count + 1);
  allocatedAt = new Float64Array(count + 1);
  timeAt = new Float64Array(count + 1);
  reservedAt[0] = figures.reserved - reserved;
  for (const one of allocations) {
    if (one.start < 0) allocatedAt[0] += one.size;
    else allocatedAt[one.start + 1] += one.size;
    if (one.end < count) allocatedAt[one.end + 1] -= one.size;
  }
  const first = count ? events[0].time_us : 0;
  for (let i = 0; i < count; i++) {
    const event = events[i], size = event.size || 0;
    const change = event.action === 'segment_alloc' || event.action === 'segment_map' ? size
      : event.action === 'segment_free' || event.action === 'segment_unmap' ? -size : 0;
    reservedAt[i + 1] = reservedAt[i] + change;
    allocatedAt[i + 1] += allocatedAt[i];
    timeAt[i + 1] = Math.max(timeAt[i], (event.time_us - first) / 1000);
  }
  figures.peak = allocatedAt.reduce((a, b) => Math.max(a, b), 0);
  figures.events = count;
  figures.ooms = events.reduce((n, event) => n + (event.action === 'oom'), 0);
  view = {from: 0, to: axisLength()};
  showFigures();
}

function showFigures() {
  const list = byId('figures');
  list.replaceChildren();
  const add = (id, name, value, text) => {
    const box = element('div');
    const figure = element('dd', text);
    figure.id = id;
    figure.dataset.value = value;
    box.append(element('dt', name), figure);
    list.append(box);
  };
  add('allocated', 'allocated', figures.allocated, bytesText(figures.allocated));
  add('reserved', 'reserved', figures.reserved, bytesText(figures.reserved));
  add('unused', 'reserved, unused', figures.reserved - figures.active, bytesText(figures.reserved - figures.active));
  add('pending', 'waiting for streams', figures.active - figures.allocated, bytesText(figures.active - figures.allocated));
  add('blocks', 'blocks', figures.blocks, String(figures.blocks));
  add('peak', 'peak of the timeline', figures.peak, bytesText(figures.peak));
  add('events', 'events', figures.events, String(figures.events));
  if (figures.ooms) add('ooms', 'out of memory', figures.ooms, String(figures.ooms));
}

// Colours.
let dark = false;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function pixel(text) {  // "#rrggbb" as a pixel of ImageData
  const n = parseInt(text.slice(1), 16);
  return (255 << 24 | (n & 255) << 16 | (n >> 8 & 255) << 8 | n >> 16) >>> 0;
}
function colourOf(group) {
  const {hue, tone, found} = groups[group];
  if (!found) return pixel(css('--free'));
  const saturation = .46, light = (dark ? .45 : .6) + (tone - 1) * .06, a = saturation * Math.min(light, 1 - light);
  const channel = n => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return (255 << 24 | channel(4) << 16 | channel(8) << 8 | channel(0)) >>> 0;
}
function shade(colour) {
  const part = shift => Math.round((colour >>> shift & 255) * .82) << shift;
  return (255 << 24 | part(16) | part(8) | part(0)) >>> 0;
}

// The timeline: one column of pixels at a time, and for each pixel the allocation that it shows. What is less than half
// a pixel high is drawn together, so that the work does not grow with the number of events.
const axis = () => byId('axis').value;
const axisLength = () => axis() === 'time' ? Math.max(timeAt[timeAt.length - 1], .001) : Math.max(events.length, 1);
function placeAt(position) {  // how many events have happened at a position of the axis
  if (axis() === 'event') return Math.min(Math.floor(position), events.length);
  let low = 0, high = events.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (timeAt[middle] <= position) low = middle; else high = middle - 1;
  }
  return low;
}
let timelineIds = null, timelineWidth = 0, timelineTop = 1, smallBytes = null, smallCounts = null;
const kTimelineHeight = 380, kNobody = -1, kSmall = -2;

function drawTimeline() {
  const canvas = byId('timeline'), width = Math.max(200, Math.floor(canvas.clientWidth)), height = kTimelineHeight;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d'), image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer), ids = new Int32Array(width * height).fill(kNobody);
  const columns = new Int32Array(width);
  for (let x = 0; x < width; x++) columns[x] = placeAt(view.from + (view.to - view.from) * (x + 1) / width);
  let top = 1;
  for (let i = placeAt(view.from); i <= columns[width - 1]; i++) top = Math.max(top, allocatedAt[i], reservedAt[i]);
  top *= 1.04;
  const scale = height / top, least = .5 / scale;
  smallBytes = new Float64Array(width);
  smallCounts = new Int32Array(width);
  const colours = groups.map((_, number) => colourOf(number)), shades = colours.map(shade), other = pixel(css('--other'));

  // Large ones are kept in the order in which they began; small ones are only counted.
  const large = [];
  const smallChange = new Float64Array(events.length + 2), smallCountChange = new Int32Array(events.length + 2);
  for (let i = 0; i < allocations.length; i++) {
    const one = allocations[i];
    if (one.size >= least) { large.push(i); continue; }
    smallChange[one.start + 1] += one.size;
    smallCountChange[one.start + 1]++;
    smallChange[one.end + 1] -= one.size;
    smallCountChange[one.end + 1]--;
  }
  let live = [], next = 0, small = 0, smallCount = 0, done = -1;
  for (let x = 0; x < width; x++) {
    const place = columns[x];
    while (next < large.length && allocations[large[next]].start < place) live.push(large[next++]);
    if (x === 0 || place !== columns[x - 1]) live = live.filter(i => allocations[i].end >= place);
    for (; done < place; done++) { small += smallChange[done + 1]; smallCount += smallCountChange[done + 1]; }
    smallBytes[x] = small;
    smallCounts[x] = smallCount;
    let bytes = small, bottom = Math.round(small * scale);
    for (let y = 0; y < bottom; y++) {
      const at = (height - 1 - y) * width + x;
      pixels[at] = other;
      ids[at] = kSmall;
    }
    for (const i of live) {
      const one = allocations[i];
      bytes += one.size;
      const end = Math.min(height, Math.round(bytes * scale));
      const colour = colours[one.group], edge = end - bottom > 3 ? shades[one.group] : colour;
      for (let y = bottom; y < end; y++) {
        const at = (height - 1 - y) * width + x;
        pixels[at] = y === end - 1 ? edge : colour;
        ids[at] = i;
      }
      bottom = Math.max(bottom, end);
    }
  }
  context.putImageData(image, 0, 0);
  context.strokeStyle = css('--reserved');
  context.lineWidth = 1.5;
  context.beginPath();
  for (let x = 0; x < width; x++) {
    const y = height - reservedAt[columns[x]] * scale;
    if (x) context.lineTo(x, y); else context.moveTo(x, y);
  }
  context.stroke();
  context.fillStyle = css('--faint');
  context.font = '12px system-ui, sans-serif';
  context.fillText(bytesText(top), 4, 13);
  context.fillText(bytesText(top / 2), 4, height / 2);
  context.fillStyle = css('--alarm');
  let last = -9;
  for (let x = 0, i = placeAt(view.from); x < width; x++)
    for (; i < columns[x]; i++)
      if (events[i].action === 'oom' && x - last > 2) { context.fillRect(x, 0, 2, height); last = x; }
  timelineIds = ids;
  timelineWidth = width;
  timelineTop = top;
  const from = placeAt(view.from), to = columns[width - 1];
  const status = byId('timeline-status');
  status.textContent = events.length
    ? allocations.length + ' allocations in ' + events.length + ' events' + (large.length < allocations.length
      ? ', ' + large.length + ' drawn one by one' : '')
    : 'no history was recorded: what is allocated now';
  status.dataset.allocations = allocations.length;
  status.dataset.drawn = large.length;
  byId('axis-start').textContent = axisText(view.from, from);
  byId('axis-end').textContent = axisText(view.to, to);
  byId('whole').hidden = view.from === 0 && view.to === axisLength();
}
const axisText = (position, place) => axis() === 'time' ? position.toFixed(2) + ' ms'
  : 'event ' + place + ' (' + timeAt[place].toFixed(2) + ' ms)';

// The segments: a row each, the largest first.
let segmentBoxes = [];
function drawSegments() {
  const canvas = byId('segments'), width = Math.max(200, Math.floor(canvas.clientWidth));
  const shown = segments.slice().sort((a, b) => b.total_size - a.total_size).slice(0, kMaxSegments);
  canvas.width = width;
  canvas.height = Math.max(1, shown.length * kRowHeight);
  canvas.style.height = canvas.height + 'px';
  const context = canvas.getContext('2d'), label = Math.min(330, width * .4), room = width - label - 4;
  const largest = shown.length ? shown[0].total_size : 1;
  const free = css('--free'), pending = css('--pending'), ink = css('--faint');
  const text = colour => 'rgb(' + (colour & 255) + ',' + (colour >>> 8 & 255) + ',' + (colour >>> 16 & 255) + ')';
  const colours = groups.map((_, number) => text(colourOf(number)));
  segmentBoxes = [];
  context.font = '12px system-ui, sans-serif';
  shown.forEach((segment, row) => {
    const top = row * kRowHeight, scale = Math.max(24, room * segment.total_size / largest) / segment.total_size;
    context.fillStyle = ink;
    const pool = segment.segment_pool_id[1] ? ', graph pool ' + segment.segment_pool_id[1] : '';
    context.fillText(segment.segment_type + (segment.is_expandable ? ', grows' : '') + ', stream ' + segment.stream.toString(16) + pool +
      ': ' + bytesText(segment.total_size) + ', ' + Math.round(100 * segment.allocated_size / segment.total_size) + ' % used',
      0, top + 14, label - 8);
    const boxes = [];
    let lastPixel = -1;
    for (const block of segment.blocks) {
      const from = label + (block.address - segment.address) * scale, to = from + block.size * scale;
      // Of blocks that share a pixel the first that is in use is seen.
      const start = Math.floor(from), end = Math.max(start + 1, Math.floor(to));
      boxes.push({from, to, block});
      const inactive = block.state === 'inactive';
      if (end - 1 <= lastPixel && inactive) continue;
      context.fillStyle = inactive ? free : block.state === 'active_pending_free' ? pending : colours[block.group];
      context.fillRect(Math.max(start, inactive ? lastPixel + 1 : start), top + 2, end - start - (end - start > 4 ? 1 : 0), kRowHeight - 5);
      if (!inactive) lastPixel = end - 1;
    }
    segmentBoxes.push({segment, boxes});
  });
  const blocks = segments.reduce((n, one) => n + one.blocks.length, 0);
  const status = byId('segments-status');
  status.textContent = segments.length + ' segments with ' + blocks + ' blocks' +
    (segments.length > shown.length ? ', the largest ' + shown.length + ' are shown' : '');
  status.dataset.segments = segments.length;
  status.dataset.blocks = blocks;
}

// Who holds what.
function drawHolders() {
  const holders = new Map();
  for (const segment of segments)
    for (const block of segment.blocks) {
      if (block.state === 'inactive' || !groups[block.group].found) continue;
      const one = holders.get(block.group) || {group: block.group, bytes: 0, blocks: 0, largest: 0};
      one.bytes += block.size;
      one.blocks++;
      one.largest = Math.max(one.largest, block.size);
      holders.set(block.group, one);
    }
  const ranked = [...holders.values()].sort((a, b) => b.bytes - a.bytes);
  const total = ranked.reduce((n, one) => n + one.bytes, 0);
  const body = byId('holders');
  body.replaceChildren(...ranked.slice(0, kRows).map(one => {
    const row = element('tr'), bar = element('td'), share = element('span', '', 'share');
    share.style.width = Math.max(1, Math.round(120 * one.bytes / ranked[0].bytes)) + 'px';
    bar.append(share);
    const where = element('td');
    if (groups[one.group].stack) where.append(element('pre', groups[one.group].stack));
    row.append(element('td', bytesText(one.bytes), 'number'), bar, element('td', String(one.blocks), 'number'),
      element('td', bytesText(one.largest), 'number'), element('td', groups[one.group].op), where);
    row.dataset.bytes = one.bytes;
    return row;
  }));
  const status = byId('holders-status');
  status.textContent = ranked.length + ' holders of ' + bytesText(total) +
    (ranked.length > kRows ? ', the largest ' + kRows + ' are listed' : '');
  status.dataset.bytes = total;
  status.dataset.holders = ranked.length;
}

// The search: greys out in the drawings what it does not find, and leaves only the rest in the table.
function search(text) {
  wanted = text.trim().toLowerCase();
  let found = 0;
  for (const group of groups) {
    group.found = !wanted || group.op.toLowerCase().includes(wanted) || group.stack.toLowerCase().includes(wanted);
    found += group.found;
  }
  byId('search-status').textContent = wanted ? found + ' of ' + groups.length + ' ops and call sites' : '';
}

// Pointing at things.
const tip = byId('tip');
function showTip(event, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = Math.max(4, event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + 'px';
}
const groupText = number => groups[number].op + (groups[number].stack ? '\n' + groups[number].stack : '');
function timelineTip(x, y) {
  if (!timelineIds || x < 0 || y < 0 || x >= timelineWidth || y >= kTimelineHeight) return '';
  const place = placeAt(view.from + (view.to - view.from) * (x + 1) / timelineWidth);
  const total = 'allocated ' + bytesText(allocatedAt[place]) + ', reserved ' + bytesText(reservedAt[place]) + ', ' + axisText(timeAt[place], place);
  const id = timelineIds[y * timelineWidth + x];
  if (id === kNobody) return total;
  if (id === kSmall) return smallCounts[x] + ' small allocations: ' + bytesText(smallBytes[x]) + '\n' + total;
  const one = allocations[id];
  const life = (one.start < 0 ? 'from before the history' : 'from event ' + one.start) +
    (one.end >= events.length ? ', still held' : ' to event ' + one.end);
  return bytesText(one.size) + ' at 0x' + one.address.toString(16) + ', ' + life + '\n' + groupText(one.group) + '\n' + total;
}
function segmentTip(x, y) {
  const row = segmentBoxes[Math.floor(y / kRowHeight)];
  if (!row) return '';
  const under = row.boxes.filter(box => x >= box.from - .5 && x < Math.max(box.to, box.from + 1));
  const box = under.find(one => one.block.state !== 'inactive') || under[0];
  if (!box) return '';
  const states = {active_allocated: 'allocated', active_pending_free: 'given back, still used by a stream', inactive: 'free'};
  const block = box.block;
  return bytesText(block.size) + ' ' + states[block.state] + ' at 0x' + block.address.toString(16) +
    (block.state === 'inactive' ? '' : ', asked for ' + bytesText(block.requested_size) + '\n' + groupText(block.group));
}
function inside(event, canvas) {
  const box = canvas.getBoundingClientRect();
  return [Math.floor((event.clientX - box.left) * canvas.width / box.width), Math.floor((event.clientY - box.top) * canvas.height / box.height)];
}

let dragFrom = null;
const timeline = byId('timeline'), selection = byId('selection');
timeline.addEventListener('pointerdown', event => {
  dragFrom = inside(event, timeline)[0];
  timeline.setPointerCapture(event.pointerId);
});
timeline.addEventListener('pointermove', event => {
  const [x, y] = inside(event, timeline);
  showTip(event, timelineTip(x, y));
  selection.hidden = dragFrom === null || Math.abs(x - dragFrom) < 4;
  if (selection.hidden) return;
  selection.style.left = 100 * Math.min(x, dragFrom) / timelineWidth + '%';
  selection.style.width = 100 * Math.abs(x - dragFrom) / timelineWidth + '%';
});
timeline.addEventListener('pointerup', event => {
  const x = inside(event, timeline)[0], from = dragFrom;
  dragFrom = null;
  selection.hidden = true;
  if (from === null || Math.abs(x - from) < 4) return;
  const step = (view.to - view.from) / timelineWidth, start = view.from;
  const low = Math.max(0, Math.min(x, from)), high = Math.min(timelineWidth, Math.max(x, from));
  if ((high - low) * step < 1e-6) return;
  view = {from: start + low * step, to: start + high * step};
  drawTimeline();
});
timeline.addEventListener('pointercancel', () => { dragFrom = null; selection.hidden = true; });
timeline.addEventListener('pointerleave', event => showTip(event, ''));
const showWhole = () => { view = {from: 0, to: axisLength()}; drawTimeline(); };
timeline.addEventListener('dblclick', showWhole);
byId('whole').addEventListener('click', showWhole);
byId('axis').addEventListener('change', showWhole);
const map = byId('segments');
map.addEventListener('pointermove', event => showTip(event, segmentTip(...inside(event, map))));
map.addEventListener('pointerleave', event => showTip(event, ''));

function drawAll() {
  drawTimeline();
  drawSegments();
  drawHolders();
}
let searchTimer = 0;
byId('search').addEventListener('input', () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => { search(byId('search').value); drawAll(); }, 120);
});
const darkQuery = matchMedia('(prefers-color-scheme: dark)');
darkQuery.addEventListener('change', () => { dark = darkQuery.matches; drawAll(); });
let resizeTimer = 0;
addEventListener('resize', () => { clearTimeout(resizeTimer); resizeTimer = setTimeout(drawAll, 120); });

const devices = [...new Set(snapshot.segments.map(one => one.device).concat(
  snapshot.device_traces.map((trace, number) => trace.length ? number : -1).filter(number => number >= 0)))].sort((a, b) => a - b);
if (!devices.length) devices.push(0);
for (const device of devices) {
  const option = element('option', 'cuda:' + device);
  option.value = device;
  byId('device').append(option);
}
byId('device-choice').hidden = devices.length < 2;
byId('device').addEventListener('change', () => { load(Number(byId('device').value)); search(wanted); drawAll(); });
dark = darkQuery.matches;
load(devices[0]);
drawAll();
document.documentElement.dataset.ready = 'yes';
</script>
</body>
</html>
)page";

}  // namespace facula::gpu
