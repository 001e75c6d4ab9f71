#!/usr/bin/env python3
"""Turns tables into *.jsonl, an object a line, which Plimsoll reads as examples.

    tools/to_jsonl.py data.parquet chats.jsonl
    tools/to_jsonl.py answers.csv answers.jsonl              columns are named by the first row; also *.tsv, with .gz or .xz
    tools/to_jsonl.py FOLDER chats.jsonl [--split train]     a data set with *.parquet files, as the hub has it
    tools/to_jsonl.py … --columns messages                   these columns alone; NEW=OLD gives one another name

Several files and folders may be named before the output. Rows keep their order, files go by name. The output appears
when it is complete.
Parquet needs: pip install pyarrow.
"""

import argparse
import contextlib
import csv
import datetime
import decimal
import gzip
import json
import lzma
import os
import pathlib
import re
import sys
import tempfile

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PACKED = {".gz": gzip.open, ".xz": lzma.open}


class Mistake(Exception):
    """What the user has to correct, as a line."""


def parquet_rows(path):
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Mistake(f"{path}: Parquet is read by the Python package pyarrow; install it: pip install pyarrow") from None
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (ArrowException, OSError) as error:
        raise Mistake(f"{path}: row {number + 1}: cannot be read: {str(error).splitlines()[0]}") from None


def csv_rows(path, delimiter):
    csv.field_size_limit(1 << 30)
    number = 1
    try:
        opening = PACKED.get(path.suffix.lower(), open)
        with opening(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = next(reader, None)
            if not names:
                raise Mistake(f"{path}: is empty; the first row names the columns")
            double = next((name for name in names if names.count(name) > 1), None)
            if double is not None:
                raise Mistake(f"{path}:1: two columns are called '{double}'; rename one")
            for values in reader:
                number = reader.line_num
                if not values:
                    continue
                if len(values) != len(names):
                    found = f"{len(values)} value{'' if len(values) == 1 else 's'}"
                    raise Mistake(f"{path}:{number}: has {found}, and there are {len(names)} columns")
                yield number, dict(zip(names, values))
    except UnicodeDecodeError:
        raise Mistake(f"{path}: is no UTF-8 after line {number}; convert it (iconv -f ENCODING -t UTF-8)") from None
    except (csv.Error, EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise Mistake(f"{path}: after line {number}: {error}") from None


def plain(value, place):
    """The value as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise Mistake(f"{place}: is {value}, which JSON has no number for; leave the column out with --columns")
        return value
    if isinstance(value, dict):
        return {str(key): plain(one, place) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, place) for one in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise Mistake(f"{place}: holds {type(value).__name__} (pictures or sound?), which is no text; leave the column out with "
                  "--columns")


def split_of(file):
    """The hub's name of the split that a file belongs to, such as "train" of data/train-00000-of-00002.parquet."""
    name = re.sub(r"[-_.]\d+(-of-\d+)?(-[0-9a-f]{8,})?$", "", file.stem)
    return file.parent.name if re.fullmatch(r"\d+", name) or name == "" else name


def files_in(folder, split):
    files = sorted(folder.rglob("*.parquet"))
    if not files:
        raise Mistake(f"{folder}: holds no *.parquet; name the files")
    splits = sorted({split_of(file) for file in files})
    if split is None and len(splits) > 1:
        raise Mistake(f"{folder}: has {', '.join(splits)}; name one with --split")
    chosen = [file for file in files if split in (None, split_of(file))]
    if not chosen:
        raise Mistake(f"{folder}: --split {split}: there are {', '.join(splits)}")
    return chosen


def sources(inputs, split):
    for path in inputs:
        if path.is_dir():
            yield from files_in(path, split)
        elif not path.exists():
            raise Mistake(f"{path}: no such file")
        elif kind_of(path) == ".parquet" or kind_of(path) in DELIMITERS:
            yield path
        else:
            raise Mistake(f"{path}: is neither *.parquet, *.csv nor *.tsv")


def kind_of(path):
    """The end of its name, but for that of compression."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


def rows_of(path):
    delimiter = DELIMITERS.get(kind_of(path))
    return csv_rows(path, delimiter) if delimiter else parquet_rows(path)


def chosen(row, columns, place):
    if columns is None:
        return row
    for old in columns.values():
        if old not in row:
            raise Mistake(f"{place}: there is no column '{old}'; there are {', '.join(row)}")
    return {new: row[old] for new, old in columns.items()}


def write(files, columns, out):
    count = 0
    for path in files:
        for number, row in rows_of(path):
            place = f"{path}:{number}"
            line = {key: plain(value, f"{place}: {key}") for key, value in chosen(row, columns, place).items()}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


@contextlib.contextmanager
def appearing(target):
    """A file that is at `target` once all of it is written, and leaves nothing if that fails."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        os.chmod(name, 0o666 & ~os.umask(os.umask(0)))
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def convert(arguments):
    target = arguments.target
    if target.suffix.lower() not in (".jsonl", ".ndjson"):
        raise Mistake(f"{target}: the output, which is named last, is to end in .jsonl")
    if target.exists() and not arguments.overwrite:
        raise Mistake(f"{target}: is there already; name another file, or give --overwrite")
    columns = None
    if arguments.columns:
        names = [column.partition("=") for column in arguments.columns.split(",")]
        columns = {new: old if equals else new for new, equals, old in names}
    files = list(sources(arguments.source, arguments.split))
    with appearing(target) as out:
        count = write(files, columns, out)
        if count == 0:
            raise Mistake(f"{arguments.source[0]}: has no rows")
    print(f"{target}: {count} line{'' if count == 1 else 's'} of {len(files)} file{'' if len(files) == 1 else 's'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path, nargs="+", help="*.parquet, *.csv, *.tsv, or folders of *.parquet")
    parser.add_argument("target", type=pathlib.Path, help="a *.jsonl")
    parser.add_argument("--split", help="of a folder, such as train")
    parser.add_argument("--columns", help="A,B: these alone; NEW=OLD gives one another name")
    parser.add_argument("--overwrite", action="store_true", help="replace the output")
    try:
        convert(parser.parse_args())
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print(f"{error.filename or ''}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
