#!/usr/bin/env python3
"""The page of a memory snapshot in a real browser: headless Chromium loads it, and what it shows is compared with what the
allocator said. `snapshot_page_test.py PROGRAM`, where PROGRAM is built from snapshot_sample.cpp. Exits with 77 where there is no browser."""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)
PROGRAM = None


class Page:
    """A page of the sample program, and what the browser makes of it."""

    def __init__(self, folder, name, steps, entries):
        self.path = pathlib.Path(folder) / f"{name}.html"
        done = subprocess.run([PROGRAM, self.path, str(steps), str(entries)], check=True, capture_output=True, text=True, timeout=120)
        self.expected = json.loads(done.stdout)
        self.text = self.path.read_text()
        self.snapshot = json.loads(re.search(r'<script type="application/json" id="snapshot">(.*?)</script>', self.text, re.S).group(1))

    def browse(self, script="", flags=()):
        """The page's elements after `script` ran in it, as text."""
        path = self.path
        if script:
            path = self.path.with_name("with_script.html")
            path.write_text(self.text.replace("</body>", f"<script>{script}</script></body>"))
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
                 "--window-size=1200,1400", "--virtual-time-budget=4000", *flags, "--dump-dom", path.as_uri()],
                capture_output=True, text=True, timeout=180)
        return done.stdout

    def ask(self, script, flags=()):
        """What `script` puts into `answer`, once timers have run."""
        dom = self.browse(f"""
            const answer = {{}};
            addEventListener('error', event => answer.error = event.message);
            function point(id, x, y, type = 'pointermove') {{
              const box = byId(id).getBoundingClientRect();
              byId(id).dispatchEvent(new PointerEvent(type, {{clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true}}));
              return byId('tip').hidden ? '' : byId('tip').textContent;
            }}
            timeline.setPointerCapture = () => {{}};
            {script}
            setTimeout(() => {{
              const out = document.createElement('pre');
              out.id = 'answer';
              out.textContent = JSON.stringify(answer);
              document.body.append(out);
            }}, 1000);""", flags)
        found = re.search(r'<pre id="answer">(.*?)</pre>', dom, re.S)
        assert found, f"no answer from the page: {dom[-2000:]}"
        return json.loads(html.unescape(found.group(1)))


def figure(dom, name):
    return int(re.search(rf'id="{name}" data-value="(\d+)"', dom).group(1))


class SnapshotPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page = Page(cls.folder.name, "page", 3000, 100000)
        cls.dom = cls.page.browse()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def blocks(self):
        return [block for segment in self.page.snapshot["segments"] if segment["device"] == 0 for block in segment["blocks"]]

    def test_json_adds_up(self):
        segments = [one for one in self.page.snapshot["segments"] if one["device"] == 0]
        expected = self.page.expected
        for field, name in (("total_size", "reserved"), ("allocated_size", "allocated"), ("active_size", "active"), ("requested_size", "requested")):
            self.assertEqual(sum(one[field] for one in segments), expected[name], field)
        for segment in segments:
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at)
                at += block["size"]
            self.assertEqual(at, segment["address"] + segment["total_size"])
        self.assertEqual(sum(block["state"] == "active_allocated" for block in self.blocks()), expected["blocks"])
        self.assertEqual(sum(block["state"] != "inactive" for block in self.blocks()), expected["active_blocks"])
        live = {}
        for event in self.page.snapshot["device_traces"][0]:
            if event["action"] == "alloc":
                self.assertNotIn(event["addr"], live)
                live[event["addr"]] = event["size"]
            elif event["action"] == "free_requested":
                self.assertEqual(live.pop(event["addr"]), event["size"])
        self.assertEqual(sum(live.values()), expected["allocated"])

    def test_shows_the_totals(self):
        dom = self.dom
        expected = self.page.expected
        self.assertIn('data-ready="yes"', dom)
        self.assertEqual(figure(dom, "allocated"), expected["allocated"])
        self.assertEqual(figure(dom, "reserved"), expected["reserved"])
        self.assertEqual(figure(dom, "unused"), expected["reserved"] - expected["active"])
        self.assertEqual(figure(dom, "blocks"), expected["blocks"])
        self.assertEqual(figure(dom, "peak"), expected["peak"])
        self.assertEqual(figure(dom, "events"), len(self.page.snapshot["device_traces"][0]))
        self.assertEqual(figure(dom, "ooms"), 1)
        self.assertEqual(int(re.search(r'id="holders-status" data-bytes="(\d+)"', dom).group(1)), expected["active"])
        rows = [int(n) for n in re.findall(r'<tr data-bytes="(\d+)">', dom)]
        self.assertEqual(sum(rows), expected["active"])
        self.assertEqual(rows, sorted(rows, reverse=True))
        allocs = sum(event["action"] == "alloc" for event in self.page.snapshot["device_traces"][0])
        self.assertEqual(int(re.search(r'data-allocations="(\d+)"', dom).group(1)), allocs)

    def test_texts_stay_texts(self):
        dom = self.dom
        self.assertIn("<title>Facula: GPU memory</title>", dom)
        self.assertNotIn("<img", dom)
        self.assertEqual(dom.count("<script"), 2)
        self.assertIn("&lt;/script&gt;&lt;img src=x", dom)
        self.assertNotRegex(self.page.text, r"(src|href)\s*=\s*[\"']?\s*(https?:)?//")

    def test_pointing_tells_who(self):
        answer = self.page.ask("""
            answer.empty = point('timeline', timeline.clientWidth / 2, 2);
            answer.seen = [];
            for (let y = 379; y > 0; y -= 6) answer.seen.push(point('timeline', timeline.clientWidth - 40, y));
            answer.map = [];
            for (let x = 340; x < map.clientWidth - 10; x += 40) answer.map.push(point('segments', x, 8));
            answer.painted = new Set(new Uint32Array(timeline.getContext('2d').getImageData(0, 0, timeline.width, 380).data.buffer)).size;
        """)
        self.assertNotIn("error", answer)
        self.assertRegex(answer["empty"], r"^allocated [\d.]+ \w+, reserved [\d.]+ \w+, event \d+")
        told = "\n".join(answer["seen"])
        for text in ("small allocations: ", "MiB at 0x", "still held", "matmul", "train.py:", "model.py:7 forward", "</script>"):
            self.assertIn(text, told)
        told = "\n".join(answer["map"])
        for text in (" allocated at 0x", ", asked for ", "train.py:"):
            self.assertIn(text, told)
        self.assertGreater(answer["painted"], 20)

    def test_search_zoom_axis_and_device(self):
        answer = self.page.ask("""
            answer.whole = byId('axis-end').textContent;
            point('timeline', 100, 50, 'pointerdown'); point('timeline', 300, 50); point('timeline', 300, 50, 'pointerup');
            answer.zoomed = [byId('axis-start').textContent, byId('axis-end').textContent, byId('whole').hidden];
            timeline.dispatchEvent(new MouseEvent('dblclick'));
            answer.back = [byId('axis-end').textContent, byId('whole').hidden];
            byId('axis').value = 'time'; byId('axis').dispatchEvent(new Event('change'));
            answer.time = byId('axis-end').textContent;
            byId('axis').value = 'event'; byId('axis').dispatchEvent(new Event('change'));
            byId('search').value = ' MatMul '; byId('search').dispatchEvent(new Event('input'));
            setTimeout(() => {
              answer.found = Number(byId('holders-status').dataset.bytes);
              answer.ops = [...new Set([...document.querySelectorAll('#holders tr')].map(row => row.children[4].textContent))];
              byId('search').value = 'step'; byId('search').dispatchEvent(new Event('input'));
            }, 300);
            setTimeout(() => {
              answer.stacks = Number(byId('holders-status').dataset.bytes);
              byId('search').value = ''; byId('search').dispatchEvent(new Event('input'));
              byId('device').value = '1'; byId('device').dispatchEvent(new Event('change'));
            }, 600);
            setTimeout(() => { answer.other = Number(byId('allocated').dataset.value); }, 900);
        """)
        self.assertNotIn("error", answer)
        count = len(self.page.snapshot["device_traces"][0])
        self.assertTrue(answer["whole"].startswith(f"event {count} "))
        start, end, hidden = answer["zoomed"]
        self.assertFalse(hidden)
        self.assertTrue(0 < int(start.split()[1]) < int(end.split()[1]) < count)
        self.assertEqual(answer["back"], [answer["whole"], True])
        self.assertRegex(answer["time"], r"^[\d.]+ ms$")
        held = sum(block["size"] for block in self.blocks() if block.get("op") == "matmul" and block["state"] != "inactive")
        self.assertEqual(answer["found"], held)
        self.assertEqual(answer["ops"], ["matmul"])
        self.assertEqual(answer["stacks"], self.page.expected["active"])
        self.assertEqual(answer["other"], 5 << 20)

    def test_light_and_dark(self):
        script = "answer.page = getComputedStyle(document.body).backgroundColor; answer.dark = dark;"
        light = self.page.ask(script, ["--blink-settings=preferredColorScheme=1"])
        night = self.page.ask(script, ["--blink-settings=preferredColorScheme=0"])
        self.assertEqual((light["dark"], night["dark"]), (False, True))
        self.assertNotEqual(light["page"], night["page"])

    def test_many_events_do_not_freeze_it(self):
        page = Page(self.folder.name, "many", 80000, 100000)
        answer = page.ask("""
            const start = performance.now();
            load(0); drawAll();
            answer.ms = performance.now() - start;
            answer.allocated = Number(byId('allocated').dataset.value);
            answer.last = allocatedAt[events.length];
            answer.events = events.length;
            answer.drawn = Number(byId('timeline-status').dataset.drawn);
        """)
        self.assertEqual(answer["events"], 100000)
        self.assertEqual(answer["allocated"], page.expected["allocated"])
        self.assertEqual(answer["last"], page.expected["allocated"])
        self.assertLess(answer["ms"], 10000)

    def test_without_history(self):
        page = Page(self.folder.name, "plain", 500, 0)
        dom = page.browse()
        self.assertIn("no history was recorded", dom)
        self.assertEqual(figure(dom, "allocated"), page.expected["allocated"])
        self.assertEqual(figure(dom, "peak"), page.expected["allocated"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: snapshot_page_test.py PROGRAM (built from snapshot_sample.cpp)")
    PROGRAM = sys.argv.pop(1)
    if not BROWSER:
        print("skipped: no Chromium is installed (Debian: apt-get install chromium)")
        sys.exit(77)
    unittest.main(verbosity=2)
