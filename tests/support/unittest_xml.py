"""unittest for Bazel: writes the XML from which tools/test.sh counts cases, skipped ones included."""

import os
import sys
import unittest
import xml.etree.ElementTree as ElementTree


class _Result(unittest.TextTestResult):
    """Remembers each case's verdict."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases = []  # (name, element of the XML or None, text)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append((test.id(), None, ""))

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.cases.append((test.id(), "failure", self.failures[-1][1]))

    def addError(self, test, error):  # also for a whole class
        super().addError(test, error)
        self.cases.append((test.id(), "error", self.errors[-1][1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases.append((test.id(), "skipped", reason))


def main(module="__main__"):
    """Runs the cases of a module and ends the process."""
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    runner = unittest.TextTestRunner(resultclass=_Result, verbosity=2)
    result = runner.run(suite)
    root = ElementTree.Element("testsuites")
    for name, verdict, text in result.cases:
        classname, _, case = name.rpartition(".")
        element = ElementTree.SubElement(
            root, "testcase", name=case, classname=classname.replace("__main__.", "")
        )
        if verdict:
            ElementTree.SubElement(element, verdict, message=text)
    if "XML_OUTPUT_FILE" in os.environ:
        ElementTree.ElementTree(root).write(os.environ["XML_OUTPUT_FILE"])
    sys.exit(0 if result.wasSuccessful() and result.cases else 1)
