#!/usr/bin/env python3
"""Counts test cases in a Bazel build event file.

usage: summarize_tests.py EVENTS BAZEL_EXIT_CODE

Names what failed, what did not build and what was skipped, then prints the line
"N passed, N failed" (", N skipped" when there are some). Counted are the results of this run
only, cached ones included: each testResult event names the XML it wrote. Exit code 0 only if
something passed and nothing failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree

NO_TESTS_FOUND = 4  # Bazel's exit codes; the count of zero already shows it
TESTS_FAILED = 3


def read_events(path):
    """Yields the events; a run that was killed may leave the last line cut."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


def cases(result):
    """Yields (verdict, name, detail) for each test case of one testResult event."""
    status = result.get("status", "NO_STATUS")
    ok = status in ("PASSED", "FLAKY")
    files = {f.get("name"): f.get("uri", "") for f in result.get("testActionOutput", [])}
    seen_failure = False
    try:
        path = urllib.parse.unquote(urllib.parse.urlparse(files["test.xml"]).path)
        tree = xml.etree.ElementTree.parse(path)
    except (KeyError, OSError, xml.etree.ElementTree.ParseError):
        yield ("passed" if ok else "failed"), "", "" if ok else status
        return
    for case in tree.iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            seen_failure = True
            yield "failed", name, "" if status == "FAILED" else status
        elif skipped is not None or case.get("status") == "notrun":
            lines = (skipped.get("message", "") if skipped is not None else "disabled").split("\n")
            yield "skipped", name, " ".join(lines[1:] or lines).strip()
        else:
            yield "passed", name, ""
    if not ok and not seen_failure:  # for example a leak found after the last case, or a time-out
        yield "failed", "", status


def main():
    events_path, bazel_exit = sys.argv[1], int(sys.argv[2])
    results = {}  # (label, run, shard) -> testResult of the last attempt
    not_built = []
    for event in read_events(events_path):
        key = event.get("id", {})
        if "testResult" in key and "testResult" in event:
            test = key["testResult"]
            results[test["label"], test.get("run", 1), test.get("shard", 0)] = event["testResult"]
        elif "targetCompleted" in key and not event.get("completed", {}).get("success"):
            not_built.append(key["targetCompleted"]["label"])

    count = {"passed": 0, "failed": 0, "skipped": 0}
    notes = {"failed": [], "skipped": []}
    for (label, _, _), result in sorted(results.items()):
        for verdict, name, detail in cases(result):
            count[verdict] += 1
            if verdict in notes:
                text = f"{label} {name}".strip()
                notes[verdict].append(f"{text}: {detail}" if detail else text)
    # A test that was not built has no result; if it has a result, only its companion target failed.
    tested = {label for label, _, _ in results}
    for label in sorted(set(not_built) - tested):
        count["failed"] += 1
        notes["failed"].append(f"{label}: not built")
    if count["failed"] == 0 and bazel_exit not in (0, NO_TESTS_FOUND, TESTS_FAILED):
        count["failed"] += 1
        notes["failed"].append(f"the build itself: bazel ended with code {bazel_exit}, see above")

    for line in notes["skipped"]:
        print(f"SKIPPED {line}")
    for line in notes["failed"]:
        print(f"FAILED {line}")
    if count["passed"] + count["failed"] == 0:
        print("no test ran")
    summary = f"{count['passed']} passed, {count['failed']} failed"
    print(summary + (f", {count['skipped']} skipped" if count["skipped"] else ""))
    return 0 if bazel_exit == 0 and count["failed"] == 0 and count["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
