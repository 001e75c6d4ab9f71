"""A headless Chromium that opens pages from disk, for tests: it clicks, points and reads values back.

Needs what `./setup.sh --reports` installs.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import time

MISSING = (
    "Chromium and Selenium are not installed: ./setup.sh --reports"
    if importlib.util.find_spec("selenium") is None or not shutil.which("chromedriver")
    else ""
)


class Browser:
    """One window. `profile` is a folder for what Chromium writes."""

    def __init__(self, profile, width=1280, height=900, dark=False):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        for argument in (
            "--headless=new",
            "--no-sandbox",  # there may be no other user to run as
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--force-device-scale-factor=1",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        os.environ["HOME"] = str(profile)  # Chromium needs a writable one
        self.driver = webdriver.Chrome(
            service=Service(shutil.which("chromedriver")), options=options
        )
        # The window's size includes its frame; this is the page's.
        self.resize(width, height)
        self.downloads = pathlib.Path(profile, "downloads")
        self.driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior",
            {"behavior": "allow", "downloadPath": str(self.downloads)},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def close(self):
        self.driver.quit()

    def resize(self, width, height=900):
        """Of the page; for what is opened from now on."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def open(self, path):
        """Opens a page afresh; what was asked for and complained of before is forgotten."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(pathlib.Path(path).resolve().as_uri())
        assert self.run("return document.documentElement.dataset.drawn") == "yes"

    def sleep(self, seconds):
        time.sleep(seconds)

    def wait(self, condition):
        """Until it holds; between two pages nothing may be found."""
        from selenium.webdriver.support.ui import WebDriverWait
        from selenium.common.exceptions import WebDriverException

        WebDriverWait(self.driver, 60, 0.1, [WebDriverException]).until(lambda _: condition())

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector, within=None):
        from selenium.webdriver.common.by import By

        return (within or self.driver).find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector, within=None):
        from selenium.webdriver.common.by import By

        return (within or self.driver).find_elements(By.CSS_SELECTOR, selector)

    def section(self, title):
        """The section of the page with that heading."""
        for section in self.find_all("section"):
            headings = self.find_all("h2", section)
            if headings and headings[0].text == title:
                return section
        raise AssertionError(f"no section {title!r}")

    def button(self, text, within):
        for button in self.find_all("button", within):
            if button.text == text:
                return button
        raise AssertionError(f"no button {text!r}")

    def saved(self, button):
        """The one file that the page saves at a click on the button: (name, bytes)."""
        shutil.rmtree(self.downloads, ignore_errors=True)
        self.run("arguments[0].click()", button)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            files = list(self.downloads.glob("*"))  # unfinished ones have another name
            if files and not any(file.suffix == ".crdownload" for file in files):
                (file,) = files
                return file.name, file.read_bytes()
            time.sleep(0.05)
        raise AssertionError("nothing was saved")

    def _mouse(self, kind, canvas, x, y, **more):
        """An event of the mouse at a place of the canvas, as the system would send it."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
        left, top = self.run(
            "const box = arguments[0].getBoundingClientRect(); return [box.left, box.top]", canvas
        )
        self.driver.execute_cdp_cmd(
            "Input.dispatchMouseEvent", {"type": kind, "x": left + x, "y": top + y, **more}
        )
        self.frame()

    def frame(self):
        """Waits until more than a frame has been drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def point(self, canvas, x, y):
        """Moves the mouse there and returns the tooltip's lines; none when there is no tooltip."""
        self._mouse("mouseMoved", canvas, x - 1, y)
        self._mouse("mouseMoved", canvas, x, y)
        return self.tooltip()

    def tooltip(self):
        return self.run(
            "const box = document.getElementById('tooltip');"
            "return !box || box.hidden ? [] : [...box.children].map((line) => line.textContent)"
        )

    def drag(self, canvas, start, end):
        button = {"button": "left", "buttons": 1, "clickCount": 1}
        self._mouse("mousePressed", canvas, *start, **button)
        self._mouse("mouseMoved", canvas, *end, button="left", buttons=1)
        self._mouse("mouseReleased", canvas, *end, **button)

    def double_click(self, canvas, x, y):
        for count in (1, 2):
            button = {"button": "left", "buttons": 1, "clickCount": count}
            self._mouse("mousePressed", canvas, x, y, **button)
            self._mouse("mouseReleased", canvas, x, y, **button)

    def wheel(self, canvas, x, y, turned, **more):
        self._mouse("mouseWheel", canvas, x, y, deltaX=0, deltaY=turned, **more)

    def problems(self):
        """What the page complained of since the last call: console messages of any kind."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Every address that was asked for since the last call."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def screenshot(self, path, height=None):
        """Of the whole page."""
        self.resize(
            self.run("return innerWidth"),
            height or self.run("return document.documentElement.scrollHeight"),
        )
        self.driver.save_screenshot(str(path))
