#!/usr/bin/env python3
"""What tools/to_jsonl.py makes of tables. Parquet is read where pyarrow is installed."""
import contextlib
import gzip
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path[:0] = [str(pathlib.Path(folder).resolve()) for folder in ("tests/support", "tools")]
import to_jsonl as tool  # noqa: E402
import unittest_xml  # noqa: E402

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None

CHATS = [{"messages": [{"role": "user", "content": "Grüße?"}, {"role": "assistant", "content": "Ahoi!"}], "n": 1},
         {"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": None}], "n": None}]


class ToJsonl(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, *arguments):
        """The exit code, and what is printed."""
        out, error = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", ["to_jsonl.py", *map(str, arguments)]):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                try:
                    tool.main()
                except SystemExit as end:
                    return end.code, error.getvalue()
        return 0, out.getvalue()

    def refused(self, *arguments):
        code, text = self.run_tool(*arguments)
        self.assertEqual(code, 2)
        self.assertEqual(text.count("\n"), 1, text)
        return text

    def lines(self, path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def test_rows_of_csv_become_lines(self):
        table = self.put("a.csv", 'prompt,completion\n"two, and\ntwo",4\n\nGrüße,"say ""ahoi"""\n')
        out = self.folder / "a.jsonl"
        self.assertEqual(self.run_tool(table, out), (0, f"{out}: 2 lines of 1 file\n"))
        self.assertEqual(self.lines(out), [{"prompt": "two, and\ntwo", "completion": "4"},
                                           {"prompt": "Grüße", "completion": 'say "ahoi"'}])
        packed = self.folder / "packed.csv.gz"
        packed.write_bytes(gzip.compress(table.read_bytes()))
        self.assertEqual(self.run_tool(packed, self.folder / "packed.jsonl")[0], 0)
        self.assertEqual(self.lines(self.folder / "packed.jsonl"), self.lines(out))
        packed.write_bytes(packed.read_bytes()[:-9])
        self.assertIn("packed.csv.gz: after line", self.refused(packed, out, "--overwrite"))
        tabs = self.put("b.tsv", "q\ta\nx\ty\n")
        self.assertIn("--overwrite", self.refused(tabs, out))
        self.assertEqual(self.run_tool(tabs, out, "--columns", "prompt=q,completion=a", "--overwrite")[0], 0)
        self.assertEqual(self.lines(out), [{"prompt": "x", "completion": "y"}])

    def test_mistakes_leave_nothing(self):
        out = self.folder / "out.jsonl"
        for text, reason in [("a,b\n1,2\n1\n", ":3: has 1 value,"), ("", "is empty"), ("a,a\n1,2\n", "'a'"),
                             ("a,b\n", "no rows"), ('a,b\n1,"2\n', "after line"), ("c\n1\n", "no column 'a'")]:
            with self.subTest(text):
                table = self.put("bad.csv", text)
                self.assertIn(reason, self.refused(table, out, *(["--columns", "a"] if text == "c\n1\n" else [])))
                self.assertEqual([path.name for path in self.folder.iterdir()], ["bad.csv"])
        table.write_bytes(b"a,b\n1,\xff\xfe\n")
        self.assertIn("UTF-8", self.refused(table, out))
        self.assertIn("no such file", self.refused(self.folder / "none.csv", out))
        self.assertIn("neither", self.refused(self.put("x.txt", "x"), out))
        self.assertIn(".jsonl", self.refused(table, self.folder / "out.txt"))
        self.assertIn("No such file", self.refused(self.put("good.csv", "a\n1\n"), self.folder / "none" / "out.jsonl"))

    def test_pyarrow_is_asked_for(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.assertIn("pip install pyarrow", self.refused(self.put("a.parquet", "PAR1"), self.folder / "a.jsonl"))

    def test_values_that_json_lacks_are_refused(self):
        for value in (b"\x89PNG", float("nan"), {"bytes": b"x"}):
            with self.assertRaisesRegex(tool.Mistake, "a.parquet:1: image.*--columns"):
                tool.plain(value, "a.parquet:1: image")

    def test_splits_are_known_by_their_files(self):
        for name, split in [("data/train-00000-of-00002.parquet", "train"), ("default/test/0000.parquet", "test"),
                            ("train_sft-00000-of-00003-a3ecf92756993583.parquet", "train_sft"), ("all.parquet", "all")]:
            self.assertEqual(tool.split_of(pathlib.Path(name)), split)
        for name in ("data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet", "data/test.parquet"):
            self.put(name, "")
        out = self.folder / "out.jsonl"
        self.assertIn("test, train; name one with --split", self.refused(self.folder, out))
        self.assertIn("there are test, train", self.refused(self.folder, out, "--split", "val"))
        self.assertEqual([file.name for file in tool.files_in(self.folder, "train")],
                         ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"])

    @unittest.skipUnless(pyarrow, "no pyarrow")
    def test_parquet_keeps_chats(self):
        for number, chat in enumerate(CHATS):
            parquet.write_table(pyarrow.Table.from_pylist([chat]), self.folder / f"train-0000{number}-of-00002.parquet")
        out = self.folder / "chats.jsonl"
        self.assertEqual(self.run_tool(self.folder, out)[0], 0)
        self.assertEqual(self.lines(out), CHATS)
        cut = self.folder / "cut.parquet"
        cut.write_bytes((self.folder / "train-00000-of-00002.parquet").read_bytes()[:-10])
        self.assertIn("cannot be read", self.refused(cut, self.folder / "cut.jsonl"))


if __name__ == "__main__":
    unittest_xml.main()
