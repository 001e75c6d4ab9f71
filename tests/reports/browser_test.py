#!/usr/bin/python3
"""Pages in a real browser: sorted, pointed at, zoomed and read back.

usage: browser_test.py WRITE_PAGES PLIMSOLL   the programs that make the pages
"""

import csv
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parent  # of the source: runfiles are links to it
sys.path[:0] = [str(ROOT), str(ROOT.parent / "support")]

import browser  # noqa: E402
import unittest_xml  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
PAGES = pathlib.Path(FOLDER.name)
PICTURES = pathlib.Path(os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", PAGES))

RUN = f"""
model: {{family: gpt2, layers: 2, width: 32, heads: 2, sequence: 32, vocab: 64}}
data: {{synthetic: true}}
train: {{steps: 40, micro_batch: 2, eval_every: 10, log_every: 0, threads: 1}}
memory: {{budget: 4MiB, calibrate: false}}
run: {{dir: {PAGES}/run, overwrite: true}}
"""


def make_pages(write_pages, plimsoll):
    (PAGES / "run.yaml").write_text(RUN)
    for command in (
        [write_pages, PAGES],
        [plimsoll, "train", PAGES / "run.yaml"],
        [plimsoll, "plan", PAGES / "run.yaml", "--html", PAGES / "plan.html"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class PageTest(unittest.TestCase):
    """Opens `page` for each case; afterwards it must have complained of nothing and asked for nothing
    but itself."""

    page = None
    window = {}

    @classmethod
    def setUpClass(cls):
        if browser.MISSING:
            return
        profile = tempfile.TemporaryDirectory()
        cls.addClassCleanup(profile.cleanup)
        cls.browser = browser.Browser(profile.name, **cls.window)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        if browser.MISSING:
            self.skipTest(browser.MISSING)
        if self.page:
            self.browser.open(PAGES / self.page)

    def tearDown(self):
        self.assertEqual(self.browser.problems(), [])
        urls = self.browser.requests()
        self.assertGreater(len(urls), 0)  # the page itself is one
        for url in urls:
            self.assertRegex(url, r"^(file|data|blob):")

    def canvas(self, title):
        return self.browser.find("canvas", self.browser.section(title))

    def chart(self, title, expression):
        """The value of a JavaScript expression of `chart`."""
        return self.browser.run(
            f"const chart = Chart.getChart(arguments[0]); return {expression}", self.canvas(title)
        )


class StudyPage(PageTest):
    page = "study.html"

    def names(self):
        rows = self.browser.find_all("tbody tr", self.browser.section("Variants"))
        return [self.browser.find("td", row).text.split("\n")[0] for row in rows]

    def test_sorts_the_table_by_a_column(self):
        table = self.browser.section("Variants")
        self.assertEqual(self.names()[0], "none")
        self.browser.button("step", table).click()
        by_time = ["bf16", "bf16, every 2", "bf16, block", '</script><b>bold</b> & "quoted"']
        by_time += ["none", "selective", "pytorch", "block"]
        self.assertEqual(self.names(), by_time + ["auto at 1GiB"])
        self.browser.button("step", table).click()
        # Rows without a value stay last.
        self.assertEqual(self.names(), by_time[::-1] + ["auto at 1GiB"])
        self.browser.button("variant", table).click()
        self.assertEqual(self.names(), sorted(self.names(), key=str.casefold))
        heads = self.browser.find_all("th", table)
        self.assertEqual(heads[0].get_attribute("aria-sort"), "ascending")
        self.assertEqual(heads[1].get_attribute("aria-sort"), "none")

    def test_shows_values_notes_and_marks(self):
        table = self.browser.section("Variants")
        row = {name: row for name, row in zip(self.names(), self.browser.find_all("tbody tr", table))}
        self.assertIn("cannot tell: 0.947 to 1.023", row["selective"].text)
        self.assertIn("the smallest plan needs 1.2 GiB", row["auto at 1GiB"].text)
        for value in ("131 ms", "2.54 GiB", "62.5k", "–"):
            self.assertIn(value, row["pytorch"].text)
        self.assertIn("33.2 %", row["none"].text)

    def test_filters_the_table(self):
        search = self.browser.find("input[type=search]", self.browser.section("Variants"))
        search.send_keys("BLOCK")
        self.assertEqual(self.names(), ["block", "bf16, block"])

    def test_shows_names_as_text(self):
        self.assertEqual(self.browser.find_all("b"), [])
        self.assertIn('</script><b>bold</b> & "quoted"', self.names())

    def test_points_of_the_front_say_what_they_are(self):
        canvas = self.canvas("Memory and speed")
        place = self.chart(
            "Memory and speed",
            "(({x, y}) => [x, y])(chart.getDatasetMeta(0).data[2])",
        )
        lines = self.browser.point(canvas, *place)
        self.assertEqual(lines[0], "block")
        self.assertIn("peak memory: 1.09 GiB", lines)
        self.assertIn("time of a step: 141 ms (137 ms to 147 ms)", lines)
        self.assertEqual(self.browser.point(canvas, place[0] + 100, place[1] - 40), [])

    def test_joins_the_points_that_nothing_beats(self):
        front = self.chart("Memory and speed", "chart.data.datasets.at(-1).data.map((p) => p.name)")
        self.assertEqual(front, ["bf16, block", "bf16, every 2", "bf16"])

    def test_takes_a_group_out(self):
        section = self.browser.section("Memory and speed")
        self.browser.button("bf16", section).click()
        self.assertFalse(self.chart("Memory and speed", "chart.isDatasetVisible(1)"))
        self.browser.button("bf16", section).click()
        self.assertTrue(self.chart("Memory and speed", "chart.isDatasetVisible(1)"))

    def test_bars_say_their_parts(self):
        title = "Memory at the peak, by role"
        place = self.chart(title, "(({x, y}) => [x - 5, y])(chart.getDatasetMeta(0).data[0])")
        lines = self.browser.point(self.canvas(title), *place)
        self.assertEqual(lines[0], "none: 2.09 GiB")
        self.assertIn("parameter: 200 MiB", lines)
        self.assertIn("activation: 1.50 GiB", lines)

    def test_budgets_stand_where_they_bind(self):
        section = self.browser.section("Memory and speed")
        drawing = Drawing(self.browser.saved(self.browser.button("SVG", section))[1])
        self.assertEqual([text for text in drawing.texts if "budget" in text], ["budget 2.00 GiB"])
        self.assertGreaterEqual(self.chart("Memory and speed", "chart.scales.x.max"), 2048 * 2**20)
        title = "Memory at the peak, by role"
        place = self.chart(title, "(({x, y}) => [x - 5, y])(chart.getDatasetMeta(0).data[1])")
        self.assertIn("budget: 1.86 GiB", self.browser.point(self.canvas(title), *place))
        marked = self.browser.run(
            "return [...document.querySelectorAll('figure canvas')].map("
            "(c) => Chart.getChart(c).config.plugins.some((p) => p.id === 'budget'))"
        )
        self.assertEqual(marked, [False, True] + [False] * 5)

    def test_every_variant_has_its_timeline(self):
        section = self.browser.section("Memory over a step")
        captions = [each.text for each in self.browser.find_all("figcaption", section)]
        self.assertEqual(captions[:2], ["none", "selective"])
        self.assertEqual(len(captions), 7)
        tops = self.browser.run(
            "return [...document.querySelectorAll('figure canvas')].map((c) => Chart.getChart(c).scales.y.max)"
        )
        self.assertEqual(len(set(tops)), 1)  # for comparison by eye

    def test_curves_zoom(self):
        canvas = self.canvas("Loss")
        ends = "[chart.scales.x.min, chart.scales.x.max]"
        whole = self.chart("Loss", ends)
        area = self.chart("Loss", "[chart.chartArea.left, chart.chartArea.right, chart.chartArea.top]")
        middle = area[2] + 100
        third = (area[1] - area[0]) / 3
        self.browser.drag(canvas, (area[0] + third, middle), (area[1] - third, middle))
        low, high = self.chart("Loss", ends)
        self.assertAlmostEqual(low, whole[1] / 3, delta=1)
        self.assertAlmostEqual(high, whole[1] * 2 / 3, delta=1)
        self.browser.double_click(canvas, area[0] + third, middle)
        self.assertEqual(self.chart("Loss", ends), whole)

    def test_seeds_are_a_band_and_equal_curves_are_one(self):
        section = self.browser.section("Loss")
        self.assertIn("Equal to the bit: none, block.", section.text)
        self.browser.button("equal: none, block", section)
        bands = "chart.data.datasets.filter((d) => d.band).map((d) => [d.of, d.fill, d.data.length])"
        self.assertEqual(self.chart("Loss", bands), [["selective", None, 60], ["selective", "-1", 60]])
        # The pointer reads the mean and the ends of its band.
        loss = self.browser.run(
            "return JSON.parse(document.getElementById('data').textContent)"
            ".views.find(({ type }) => type === 'lines').series[1].y[30]"
        )
        canvas = self.canvas("Loss")
        place = self.chart("Loss", "(({x, y}) => [x, y])(chart.getDatasetMeta(1).data[30])")
        (line,) = [line for line in self.browser.point(canvas, *place) if line.startswith("selective")]
        numbers = [float(number) for number in re.findall(r"[\d.]+", line)]
        for number, expected in zip(numbers, (loss, loss - 0.2, loss + 0.3), strict=True):
            self.assertAlmostEqual(number, expected, delta=1e-3)
        # A name takes its band with it.
        visible = "chart.data.datasets.filter((d, i) => d.of === 'selective' && chart.isDatasetVisible(i)).length"
        self.assertEqual(self.chart("Loss", visible), 3)
        self.browser.button("selective", section).click()
        self.assertEqual(self.chart("Loss", visible), 0)

    def test_prints_on_white(self):
        pdf = self.browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        self.assertGreater(len(pdf["data"]), 50_000)


class RunPage(PageTest):
    page = "run/report.html"

    def rows(self):
        lines = (PAGES / "run/metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def test_the_pointer_reads_the_losses(self):
        losses = {row["step"]: row["loss"] for row in self.rows() if "loss" in row}
        for step in (0, 17, 39):
            place = self.chart("Loss", f"(({{x, y}}) => [x, y])(chart.getDatasetMeta(0).data[{step}])")
            lines = self.browser.point(self.canvas("Loss"), *place)
            self.assertEqual(lines[0], f"step {step}")
            shown = float(re.match(r"training: (.*)", lines[1]).group(1))
            self.assertAlmostEqual(shown, losses[step], delta=1e-3)

    def test_smooths(self):
        section = self.browser.section("Loss")
        smooth = self.browser.find("input[type=checkbox]", section)
        shown = "chart.data.datasets.filter((_, i) => chart.isDatasetVisible(i)).map((d) => d.label)"
        self.assertEqual(self.chart("Loss", shown), ["training", "held out"])
        smooth.click()
        self.assertEqual(self.chart("Loss", shown), ["training", "held out", "training, smoothed"])
        values = [
            self.chart("Loss", f"chart.data.datasets[{i}].data.map((p) => p.y)") for i in (0, 2)
        ]
        self.assertAlmostEqual(values[0][0], values[1][0])
        restless = [sum(abs(b - a) for a, b in zip(v, v[1:])) for v in values]
        self.assertLess(restless[1], 0.7 * restless[0])
        smooth.click()
        self.assertEqual(self.chart("Loss", shown), ["training", "held out"])

    def test_shows_the_loss_on_a_logarithmic_axis(self):
        self.browser.find_all("input[type=checkbox]", self.browser.section("Loss"))[1].click()
        self.assertEqual(self.chart("Loss", "chart.scales.y.type"), "logarithmic")

    def test_the_memory_of_each_program(self):
        from selenium.webdriver.support.select import Select

        title = "Memory over a step"
        plan = json.loads((PAGES / "run/plan.json").read_text())
        select = Select(self.browser.find("select", self.browser.section(title)))
        names = [option.text for option in select.options]
        self.assertEqual(names, [program["name"] for program in plan["programs"]])
        for program in plan["programs"]:
            select.select_by_visible_text(program["name"])
            nodes = self.chart(title, "chart.scales.x.max") + 1
            self.assertEqual(nodes, program["nodes"])
            most = self.chart(
                title,
                "Math.max(...chart.data.datasets[0].data.map((_, i) => "
                "chart.data.datasets.reduce((sum, set) => sum + set.data[i].y, 0)))",
            )
            self.assertEqual(most, program["max_live_bytes"])

    def test_tells_what_ran(self):
        self.assertIn("40 of 40", self.browser.find(".tiles").text)
        facts = self.browser.section("The run").text
        self.assertIn("plimsoll", facts)
        self.assertIn("gpt2", facts)
        self.browser.find("summary").click()
        self.assertIn("micro_batch: 2", self.browser.find("pre").text)


class RunningPage(PageTest):
    """The page of a run that goes on."""

    def write(self, title, more):
        page = (PAGES / "run/report.html").read_text()
        begin = page.index('id="data">') + len('id="data">')
        end = page.index("</script>", begin)
        data = json.loads(page[begin:end]) | {"title": title} | more
        text = json.dumps(data).replace("<", "\\u003c")
        (PAGES / "running.html").write_text(page[:begin] + text + page[end:])

    def title(self):
        return self.browser.find("h1").text

    def test_reloads_as_its_reader_left_it_until_the_run_ends(self):
        self.write("one", {"reload_s": 1})
        self.browser.open(PAGES / "running.html")
        self.browser.find("input[type=checkbox]", self.browser.section("Loss")).click()
        self.browser.find("summary").click()
        self.browser.run("scrollTo(0, 700)")
        self.write("two", {"reload_s": 1})
        self.browser.wait(lambda: self.title() == "two")
        box = self.browser.find("input[type=checkbox]", self.browser.section("Loss"))
        self.assertTrue(box.is_selected())
        self.assertTrue(self.chart("Loss", "chart.data.datasets.some((d) => /smoothed/.test(d.label) && !d.off)"))
        self.assertIsNotNone(self.browser.find("details").get_attribute("open"))
        self.assertEqual(self.browser.run("return scrollY"), 700)

        # Not while the user is zoomed into a chart.
        self.browser.run("arguments[0].dataset.zoomed = ''", self.canvas("Loss"))
        self.write("three", {})
        self.browser.sleep(2.5)
        self.assertEqual(self.title(), "two")
        self.browser.run("delete arguments[0].dataset.zoomed", self.canvas("Loss"))
        self.browser.wait(lambda: self.title() == "three")
        self.assertEqual(self.browser.run("return scrollY"), 700)
        self.write("four", {})
        self.browser.sleep(2.5)
        self.assertEqual(self.title(), "three")


class PlanPage(PageTest):
    page = "plan.html"

    def setUp(self):
        super().setUp()
        data = self.browser.run("return JSON.parse(document.getElementById('data').textContent)")
        self.plan = data["views"][0]
        self.program = max(self.plan["programs"], key=lambda program: program["peak"]["bytes"])

    def shown(self):
        text = self.canvas("The arena").get_attribute("data-shown")
        return [int(number) for number in text.split()]

    def place(self, tensor):
        """The middle of the tensor's rectangle, in pixels of the canvas."""
        x0, x1, y0, y1 = self.shown()
        width, height = self.browser.run(
            "return [arguments[0].clientWidth - 72, arguments[0].clientHeight - 54]",
            self.canvas("The arena"),
        )
        node = (tensor["birth"] + tensor["death"] + 1) / 2
        middle = tensor["offset"] + tensor["bytes"] / 2
        return 62 + (node - x0) / (x1 - x0) * width, 20 + (1 - (middle - y0) / (y1 - y0)) * height

    def large(self):
        """Some tensors that are easily hit."""
        arena = self.plan["arena_bytes"]
        return [tensor for tensor in self.program["tensors"] if tensor["bytes"] > arena / 100]

    def test_the_pointer_names_tensors(self):
        self.assertGreater(len(self.large()), 5)
        for tensor in self.large():
            lines = self.browser.point(self.canvas("The arena"), *self.place(tensor))
            self.assertEqual(lines[0], tensor["name"])
            self.assertIn(f"({tensor['bytes']} bytes)", lines[1])
            self.assertIn(tensor["op"], " ".join(lines))

    def test_zooms_around_the_pointer_and_moves(self):
        canvas = self.canvas("The arena")
        # One in the middle, which stays visible.
        tensor = min(self.large(), key=lambda each: abs(self.place(each)[0] - 500))
        place = self.place(tensor)
        whole = self.shown()
        for _ in range(3):
            self.browser.wheel(canvas, *place, -400)
        x0, x1, y0, y1 = self.shown()
        self.assertLess(x1 - x0, (whole[1] - whole[0]) / 3)
        self.assertLess(y1 - y0, (whole[3] - whole[2]) / 3)
        self.assertEqual(self.browser.point(canvas, *place)[0], tensor["name"])
        self.browser.drag(canvas, place, (place[0] - 60, place[1] - 30))
        moved = self.shown()
        self.assertGreater(moved[0], x0)
        self.assertLess(moved[2], y0)
        self.assertEqual(self.browser.point(canvas, *self.place(tensor))[0], tensor["name"])
        self.browser.double_click(canvas, *place)
        self.assertEqual(self.shown(), whole)

    def test_finds_tensors_by_name(self):
        section = self.browser.section("The arena")
        self.browser.find("input[type=search]", section).send_keys("attn.qkv")
        tensors = self.program["tensors"] + self.plan["persistent"]
        count = sum("attn.qkv" in tensor["name"] for tensor in tensors)
        self.assertGreater(count, 2)
        self.assertEqual(self.browser.find("[role=status]", section).text, f"{count} found")

    def test_takes_a_role_out(self):
        tensor = next(tensor for tensor in self.large() if tensor["role"] == "activation")
        self.browser.button("activation", self.browser.section("The arena")).click()
        self.assertEqual(self.browser.point(self.canvas("The arena"), *self.place(tensor)), [])


# Records in `canvas.words` the boxes of the text drawn since the canvas was last cleared: [text,
# left, top, right, bottom].
RECORD_WORDS = """
const prototype = CanvasRenderingContext2D.prototype;
const { fillText, clearRect } = prototype;
prototype.clearRect = function (...box) {
  this.canvas.words = [];
  return clearRect.apply(this, box);
};
prototype.fillText = function (text, x, y) {
  const size = this.measureText(text);
  const [left, right] = [x - size.actualBoundingBoxLeft, x + size.actualBoundingBoxRight];
  const [top, bottom] = [y - size.actualBoundingBoxAscent, y + size.actualBoundingBoxDescent];
  const corners = [[left, top], [right, top], [left, bottom], [right, bottom]].map(([x, y]) =>
    this.getTransform().transformPoint(new DOMPoint(x, y)));
  const [xs, ys] = [corners.map(({ x }) => x), corners.map(({ y }) => y)];
  (this.canvas.words ??= []).push([text, Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)]);
  return fillText.call(this, text, x, y);
};
"""
WIDTHS = (360, 768, 1280)


def overlap(a, b):
    """Whether two boxes (left, top, right, bottom) share any area."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


class Words(PageTest):
    """Nothing that is written covers anything else that is, on phones, tablets and screens."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not browser.MISSING:
            cls.browser.driver.execute_cdp_cmd(
                "Page.addScriptToEvaluateOnNewDocument", {"source": RECORD_WORDS}
            )

    def on_every_page(self, check):
        for page in (*EveryPage.pages, "crowded.html"):
            for width in WIDTHS:
                with self.subTest(page=page, width=width):
                    self.browser.resize(width)
                    self.browser.open(PAGES / page)
                    self.browser.frame()
                    check(width)

    def test_words_of_charts_stand_apart(self):
        def check(_):
            canvases = self.browser.run(
                "return [...document.querySelectorAll('canvas')].map((c) => [c.ariaLabel, c.width, c.height, c.words])"
            )
            self.assertGreater(len(canvases), 0)
            for title, wide, high, words in canvases:
                for i, (text, *box) in enumerate(words):
                    inside = box[0] >= -1 and box[1] >= -1 and box[2] <= wide + 1 and box[3] <= high + 1
                    self.assertTrue(inside, f"{title}: {text!r} is cut off: {box} of {wide} x {high}")
                    for other, *other_box in words[:i]:
                        self.assertFalse(overlap(box, other_box), f"{title}: {text!r} on {other!r}")

        self.on_every_page(check)

    def test_words_of_the_page_stand_apart(self):
        """Titles and the buttons in their corners, and cells of tables."""

        def check(width):
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
            boxes = self.browser.run(
                """
                const kinds = "h2, figcaption, .save, .controls > *, .legend button, .tile .label, .tile .value, .view-facts th, .view-facts td";
                return [...document.querySelectorAll("section")].map((section) =>
                  [...section.querySelectorAll(kinds)].map((each) => {
                    const range = document.createRange();
                    range.selectNodeContents(each);
                    const { left, top, right, bottom } = range.getBoundingClientRect();
                    return [each.textContent, left, top, right, bottom];
                  }));
                """
            )
            for section in boxes:
                for i, (text, *box) in enumerate(section):
                    for other, *other_box in section[:i]:
                        self.assertFalse(overlap(box, other_box), f"{text!r} on {other!r}")

        self.on_every_page(check)


class Front(PageTest):
    """A front of thirteen points with long error bars."""

    page = "crowded.html"
    title = "Memory and speed"

    def test_names_all_points_beside_bars_and_one_another(self):
        for width in WIDTHS:
            with self.subTest(width):
                self.browser.resize(width)
                self.browser.open(PAGES / self.page)
                names, bars, size = self.chart(self.title, "[chart.names, chart.bars, [chart.width, chart.height]]")
                self.assertEqual(len(names), 13)
                self.assertGreater(len(bars), 12)
                for i, name in enumerate(names):
                    self.assertIsNotNone(name["box"], name["name"])
                    self.assertEqual(name["text"], name["name"])
                    left, top, right, bottom = name["box"]
                    self.assertTrue(0 <= left and 0 <= top and right <= size[0] and bottom <= size[1])
                    for other in names[:i]:
                        self.assertFalse(overlap(name["box"], other["box"]), (name, other))
                    for bar in bars:
                        self.assertFalse(overlap(name["box"], bar), (name, bar))
                self.browser.open(PAGES / self.page)  # after reloading, they are at the same places
                self.assertEqual(self.chart(self.title, "chart.names"), names)

    def axis(self, which):
        low, text = self.chart(self.title, f"[chart.scales.{which}.min, chart.scales.{which}.options.title.text]")
        return low, text if isinstance(text, str) else text[0]

    def test_an_axis_that_does_not_start_at_zero_says_so(self):
        self.assertEqual(self.axis("x"), (0, "peak memory"))
        self.assertEqual(self.axis("y"), (160, "time of a step (axis from 160 ms, not 0)"))
        for page in EveryPage.pages:
            self.browser.open(PAGES / page)
            for low, text, cut in self.browser.run(
                "return Object.values(Chart.instances).flatMap((chart) => Object.values(chart.scales)"
                ".filter((s) => s.type === 'linear' && s.axis === 'y').map((s) => [s.min, s.options.title.text, s.options.cut]))"
            ):
                self.assertEqual(bool(cut), low > 0)
                self.assertEqual("not 0" in (text or ""), low > 0)

    def test_energy_is_a_third_axis_where_there_is_some(self):
        from selenium.webdriver.support.select import Select

        select = Select(self.browser.find("select", self.browser.section(self.title)))
        points = "chart.data.datasets[0].data.map((p) => p.name)"
        radii = "chart.getDatasetMeta(0).data.map((p) => p.options.radius)"
        self.assertEqual(len(self.chart(self.title, points)), 13)
        sizes = self.chart(self.title, radii)
        self.assertEqual(max(sizes[1:]), 13)
        # Areas are proportional to the values: those of "all together" and "selective".
        self.assertAlmostEqual((sizes[12] / sizes[1]) ** 2, 233.7 / 167.3, places=3)
        select.select_by_value("up, in place of time of a step")
        self.assertNotIn("base", self.chart(self.title, points))  # which was not measured
        self.assertEqual(self.axis("y"), (0.003, "energy of a token (axis from 3 mJ, not 0)"))
        select.select_by_value("not shown")
        self.assertEqual(set(self.chart(self.title, radii)), {5, 7})
        self.browser.open(PAGES / "study.html")
        self.assertEqual(self.browser.find_all("select", self.browser.section(self.title)), [])


SVG = "{http://www.w3.org/2000/svg}"


class Drawing:
    """A saved chart: its words with their places, its discs, and what its axes say of places."""

    def __init__(self, data):
        self.root = ElementTree.fromstring(data)
        self.size = [float(value) for value in self.root.get("viewBox").split()[2:]]
        self.words = [
            (each.text, float(each.get("x")), float(each.get("y")), each.get("text-anchor"))
            for each in self.root.iter(f"{SVG}text")
        ]
        self.texts = [word[0] for word in self.words]
        self.paths = list(self.root.iter(f"{SVG}path"))

    def discs(self):
        """Middles of full circles."""
        found = []
        for path in self.paths:
            if path.get("fill") == "none":
                continue  # its edge
            circle = re.fullmatch(r"M(\S+) (\S+)A(\S+) \3 0 . 1 \S+ \S+A\S+ \S+ 0 . 1 \S+ \S+Z", path.get("d"))
            if circle:
                x, y, radius = map(float, circle.groups())
                found.append((x - radius, y))
        return found

    def axis(self, unit, up):
        """place -> value, by the axis's numbers with that unit."""
        ticks = []
        for text, x, y, anchor in self.words:
            number = re.fullmatch(rf"([\d.]+){unit}", text or "")
            if number and (anchor == "end") == up:
                ticks.append((y - 0.35 * 12 if up else x, float(number.group(1))))
        (p0, v0), (p1, v1) = min(ticks, key=lambda t: t[1]), max(ticks, key=lambda t: t[1])
        return lambda place: v0 + (place - p0) * (v1 - v0) / (p1 - p0)


class SavedCharts(PageTest):
    window = {"dark": True}

    def save(self, title, kind):
        section = self.browser.section(title)
        return self.browser.saved(self.browser.button(kind, section))

    def test_svg_has_title_axes_legend_and_values(self):
        self.browser.open(PAGES / "study.html")
        name, data = self.save("Memory and speed", "SVG")
        self.assertEqual(name, "techniques-one-at-a-time-gpt-2-memory-and-speed.svg")
        drawing = Drawing(data)
        for text in ("Memory and speed", "peak memory", "time of a step", "fp32", "bf16", "other"):
            self.assertIn(text, drawing.texts)
        self.assertEqual(drawing.paths[0].get("fill"), "#ffffff")  # whatever the page's colours are
        self.assertEqual(list(drawing.root.iter(f"{SVG}image")), [])
        rows = self.browser.run("return JSON.parse(document.getElementById('data').textContent).views[0].points")
        for row in rows:
            self.assertIn(row["name"].split(" ")[0], " ".join(drawing.texts))
        across, up = drawing.axis(" GiB", False), drawing.axis(" ms", True)
        found = [(across(x), up(y)) for x, y in drawing.discs()]
        expected = [(row["x"] / 2**30, row["y"]) for row in rows if not row.get("base")]
        self.assertEqual(len(found), len(expected))
        for point, (x, y) in zip(sorted(found), sorted(expected)):
            self.assertAlmostEqual(point[0], x, delta=0.01)
            self.assertAlmostEqual(point[1], y, delta=0.5)

    def test_svg_shows_what_the_chart_shows(self):
        self.browser.open(PAGES / "study.html")
        self.browser.button("bf16", self.browser.section("Memory and speed")).click()
        drawing = Drawing(self.save("Memory and speed", "SVG")[1])
        self.assertIn("fp32", drawing.texts)
        self.assertNotIn("bf16", drawing.texts)
        self.assertEqual(len(drawing.discs()), 3)

    def test_svg_of_curves(self):
        self.browser.open(PAGES / "run/report.html")
        drawing = Drawing(self.save("Loss", "SVG")[1])
        losses = [json.loads(line) for line in (PAGES / "run/metrics.jsonl").read_text().splitlines()]
        held_out = [(row["step"], row["eval_loss"]) for row in losses if "eval_loss" in row]
        across, up = drawing.axis("", False), drawing.axis("", True)
        found = [(across(x), up(y)) for x, y in drawing.discs()]
        self.assertEqual(len(found), len(held_out))
        for point, (step, loss) in zip(found, held_out):
            self.assertAlmostEqual(point[0], step, delta=0.3)
            self.assertAlmostEqual(point[1], loss, delta=0.02)
        color = self.chart("Loss", "chart.data.datasets[0].borderColor")
        (curve,) = [path for path in drawing.paths if path.get("stroke") == color]
        self.assertEqual(len(set(re.findall(r"[ML]([^ML]+)", curve.get("d")))), 40)

    def test_every_chart_can_be_saved(self):
        for page in EveryPage.pages:
            self.browser.open(PAGES / page)
            canvases = self.browser.find_all("canvas")
            buttons = [each for each in self.browser.find_all(".save button") if each.text == "SVG"]
            self.assertEqual(len(buttons), len(canvases))
            names = set()
            for button in buttons:
                with self.subTest(page=page, title=button.find_element("xpath", "../..").text[:40]):
                    name, data = self.browser.saved(button)
                    names.add(name)
                    drawing = Drawing(data)
                    self.assertGreater(len(drawing.paths), 5)
                    for text, x, y, _ in drawing.words:
                        inside = 0 <= x <= drawing.size[0] and 0 <= y <= drawing.size[1]
                        self.assertTrue(inside, f"{text!r} at {x}, {y} of {drawing.size}")
            self.assertEqual(len(names), len(buttons))

    def test_png_has_thrice_the_pixels(self):
        for page, title in (("study.html", "Memory and speed"), ("plan.html", "The arena")):
            self.browser.open(PAGES / page)
            width, height = Drawing(self.save(title, "SVG")[1]).size
            name, data = self.save(title, "PNG")
            self.assertTrue(name.endswith(".png"))
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">II", data[16:24]), (3 * width, 3 * height))
            self.assertGreater(len(data), 50_000)  # more than white


class CopiedTables(PageTest):
    page = "study.html"

    def copied(self, title, kind):
        self.browser.run(
            "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }"
        )
        self.browser.button(kind, self.browser.section(title)).click()
        return self.browser.run("return window.copied")

    def data(self):
        views = self.browser.run("return JSON.parse(document.getElementById('data').textContent).views")
        return views[1]["rows"]

    def test_copies_to_the_clipboard(self):
        from selenium.webdriver.common.keys import Keys

        self.browser.run("document.body.prepend(document.createElement('textarea'))")
        box = self.browser.find("textarea")
        expected = "program,plimsoll\nhardware,none\n"
        # Browsers that do not let pages from disk use it have an older interface.
        for before in ("", "Object.defineProperty(navigator, 'clipboard', {value: undefined})"):
            self.browser.run(before)
            self.browser.button("CSV", self.browser.section("Facts")).click()
            self.browser.frame()
            box.send_keys(Keys.CONTROL, "a")
            box.send_keys(Keys.CONTROL, "v")
            self.browser.frame()
            self.assertTrue(box.get_property("value").startswith(expected))
            self.browser.run("arguments[0].value = ''", box)
            self.browser.button("Markdown", self.browser.section("Facts")).click()

    def test_csv_has_every_digit(self):
        heads, *rows = csv.reader(io.StringIO(self.copied("Variants", "CSV"), newline=""))
        self.assertEqual(
            heads, ["variant", "step (ms)", "peak (bytes)", "tokens/s", "MFU (share)", "loss", "note"]
        )
        self.assertEqual(len(rows), len(self.data()))
        for row, expected in zip(rows, self.data()):
            self.assertEqual(row[0], expected["name"])
            for value, key in zip(row[1:], ("step_ms", "peak_bytes", "tokens_per_s", "mfu", "loss")):
                self.assertEqual(float(value) if value else None, expected.get(key))
        self.assertEqual(rows[1][6], "step: cannot tell: 0.947 to 1.023")
        self.assertEqual(rows[7][6], "memory.budget 1.0 GiB: the smallest plan needs 1.2 GiB")

    def test_csv_has_what_stands_beside_a_mean(self):
        self.browser.open(PAGES / "crowded.html")
        rows = list(csv.reader(io.StringIO(self.copied("Variants", "CSV"))))
        self.assertEqual(rows[0][2:], ["a token (J)", "loss", "loss deviation", "loss runs"])
        self.assertEqual(rows[1][2:], ["", "2.8125", "0.015625", "5"])
        self.assertIn("2.813 $\\pm$ 0.016 (5)", self.copied("Variants", "LaTeX"))

    def test_deviations_round_their_means(self):
        for mean, deviation, text in (
            (0.0096657, 0.0089, "0.010 ± 0.009"),
            (2.80581, 0.01234, "2.806 ± 0.012"),
            (2.80581, 0.0356, "2.81 ± 0.04"),
            (2.80581, 0.0097, "2.806 ± 0.010"),
            (12345.6, 1234.4, "12346 ± 1234"),
            (1.234e-7, 2.9e-8, "(1.23 ± 0.29)e-7"),
        ):
            shown = self.browser.run("return units.withDeviation(...arguments)", mean, deviation)
            self.assertEqual(shown, text)

    def test_columns_are_chosen(self):
        section = self.browser.section("Variants")
        boxes = self.browser.find_all(".choices input", section)
        self.assertEqual(len(boxes), 5)  # all but the first column
        self.assertFalse(boxes[0].is_displayed())
        self.browser.button("columns", section).click()
        for box in (boxes[1], boxes[3]):  # peak, MFU
            box.click()
        heads = [head.text for head in self.browser.find_all("th", section)]
        self.assertEqual(heads, ["variant", "step", "tokens/s", "loss"])
        rows = list(csv.reader(io.StringIO(self.copied("Variants", "CSV"), newline="")))
        self.assertEqual(rows[0], ["variant", "step (ms)", "tokens/s", "loss", "note"])
        latex = self.copied("Variants", "LaTeX")
        self.assertIn(r"\begin{tabular}{lrrr}", latex)
        self.assertEqual({len(row) for row in self.latex_rows(latex)}, {4, 2})
        boxes[1].click()
        heads = [head.text for head in self.browser.find_all("th", section)]
        self.assertEqual(heads, ["variant", "step", "peak", "tokens/s", "loss"])

    def test_csv_is_sorted_and_filtered_as_the_table_is(self):
        section = self.browser.section("Variants")
        self.browser.find("input[type=search]", section).send_keys("block")
        self.browser.button("step", section).click()
        rows = list(csv.reader(io.StringIO(self.copied("Variants", "CSV"))))
        self.assertEqual([row[0] for row in rows[1:]], ["bf16, block", "block"])

    def test_markdown_keeps_its_columns(self):
        lines = self.copied("Variants", "Markdown").splitlines()
        self.assertEqual(len(lines), 2 + len(self.data()))
        cells = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in lines]
        self.assertEqual({len(row) for row in cells}, {6})
        self.assertEqual(cells[0], ["variant", "step", "peak", "tokens/s", "MFU", "loss"])
        self.assertEqual(cells[1], ["---"] + 5 * ["---:"])
        unescaped = [re.sub(r"\\(.)", r"\1", row[0]) for row in cells[2:]]
        self.assertEqual(unescaped, [row["name"] for row in self.data()])
        self.assertEqual(cells[3][1], "122 ms (cannot tell: 0.947 to 1.023)")
        self.assertEqual(cells[9][1], "memory.budget 1.0 GiB: the smallest plan needs 1.2 GiB")
        facts = self.copied("Facts", "Markdown").splitlines()
        self.assertEqual(len(facts), 5)
        self.assertEqual(re.sub(r"\\(.)", r"\1", facts[4]), '| [odd] $5 & 50 % of #1_{x}^2 ~\\|<> | *a, "b" c |')

    def latex_rows(self, text):
        """The cells of a tabular, as LaTeX would set them."""
        kept = [line for line in text.splitlines() if line.endswith(r" \\")]
        return [
            [self.set_latex(cell) for cell in re.split(r"(?<!\\) & ", line[: -len(r" \\")])] for line in kept
        ]

    def set_latex(self, text):
        names = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<"}
        names |= {"textgreater": ">", "textbar": "|", "char34": '"'}
        made, i = "", 0
        while i < len(text):
            if command := re.compile(r"\\([a-z]+[0-9]*)\{\}").match(text, i):
                made += names[command.group(1)]
                i = command.end()
            elif escaped := re.compile(r"\\([{}$&#%_])").match(text, i):
                made += escaped.group(1)
                i = escaped.end()
            elif group := re.compile(r"\{([\[*])\}").match(text, i):
                made += group.group(1)
                i = group.end()
            elif multi := re.compile(r"\\multicolumn\{\d\}\{l\}\{(.*)\}").match(text, i):
                return made + self.set_latex(multi.group(1))
            else:
                self.assertNotIn(text[i], "\\{}$&#%_~^<>|\"", f"unescaped in {text}")
                made += text[i]
                i += 1
        return made.replace("--", "–")

    def test_latex_has_rules_and_escapes(self):
        text = self.copied("Variants", "LaTeX")
        lines = text.splitlines()
        self.assertEqual(lines[0], r"% \usepackage{booktabs}")
        self.assertEqual(lines[1], r"\begin{tabular}{lrrrrr}")
        self.assertEqual([line for line in lines if line.endswith("rule")], [r"\toprule", r"\midrule", r"\bottomrule"])
        self.assertEqual(lines[-1], r"\end{tabular}")
        heads, *rows = self.latex_rows(text)
        self.assertEqual(heads, ["variant", "step", "peak", "tokens/s", "MFU", "loss"])
        self.assertEqual([row[0] for row in rows], [row["name"] for row in self.data()])
        self.assertEqual({len(row) for row in rows}, {6, 2})
        self.assertIn(r"\multicolumn{5}{l}{memory.budget 1.0 GiB", text)
        self.assertEqual(rows[8][1:], ["131 ms", "2.54 GiB", "62.5k", "–", "–"])
        facts = self.latex_rows(self.copied("Facts", "LaTeX"))
        self.assertEqual(facts[2], [r"[odd] $5 & 50 % of #1_{x}^2 ~\|<>", '*a, "b" c'])


class EveryPage(PageTest):
    """Narrow and wide, light and dark. The pictures are for people: bazel keeps them as outputs."""

    window = {"width": 400, "height": 800, "dark": True}
    pages = ("study.html", "run/report.html", "plan.html")

    def test_fits_a_narrow_window_and_is_dark(self):
        for page in self.pages:
            with self.subTest(page):
                self.browser.open(PAGES / page)
                widths = "return [document.documentElement.scrollWidth, innerWidth]"
                needed, there = self.browser.run(widths)
                self.assertEqual(there, 400)
                self.assertLessEqual(needed, there)
                background = self.browser.run("return getComputedStyle(document.body).backgroundColor")
                self.assertEqual(background, "rgb(22, 24, 27)")
                self.browser.screenshot(PICTURES / f"{pathlib.Path(page).stem}-narrow.png")


class WidePages(PageTest):
    def test_is_light(self):
        for page in EveryPage.pages:
            with self.subTest(page):
                self.browser.open(PAGES / page)
                background = self.browser.run("return getComputedStyle(document.body).backgroundColor")
                self.assertEqual(background, "rgb(255, 255, 255)")
                self.browser.screenshot(PICTURES / f"{pathlib.Path(page).stem}-wide.png")


if __name__ == "__main__":
    make_pages(*sys.argv[1:3])
    unittest_xml.main()
