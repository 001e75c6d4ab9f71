#!/usr/bin/python3
"""Pages in a real browser: sorted, pointed at, zoomed and read back.

usage: browser_test.py WRITE_PAGES PLIMSOLL   the programs that make the pages
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

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
            self.assertRegex(url, r"^(file|data):")

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
        # What has no value stays behind.
        self.assertEqual(self.names(), by_time[::-1] + ["auto at 1GiB"])
        self.browser.button("variant", table).click()
        self.assertEqual(self.names(), sorted(self.names(), key=str.casefold))
        heads = self.browser.find_all("th", table)
        self.assertEqual(heads[0].get_attribute("aria-sort"), "ascending")
        self.assertEqual(heads[1].get_attribute("aria-sort"), "none")

    def test_shows_values_notes_and_marks(self):
        table = self.browser.section("Variants")
        row = {name: row for name, row in zip(self.names(), self.browser.find_all("tbody tr", table))}
        self.assertIn("no difference", row["selective"].text)
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
        front = self.chart(
            "Memory and speed",
            "[chart.scales.x.max, chart.config.plugins.map((p) => p.id)]",
        )
        self.assertGreaterEqual(front[0], 2048 * 2**20)
        self.assertIn("line0", front[1])
        self.assertNotIn("line1", front[1])
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
        self.assertEqual(len(set(tops)), 1)  # to be compared by eye

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

        # Not while a part of a chart is looked at.
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
        # One in the middle, which stays in sight.
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
