"""Writes rows to a Parquet file in batches, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.files import written_atomically

_BATCH = 20_000  # rows; an op config and its log are a few KB


def write_parquet(
    path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], types: Mapping[str, str]
) -> int:
    """Writes the rows and returns their number; ``types`` are text, integer, number, or boolean.

    Raises MissingExtra without pyarrow, OpdbError if the file cannot be written; then nothing has changed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtra("pyarrow, which writes Parquet,", "parquet") from None
    kinds = {"text": pyarrow.string(), "integer": pyarrow.int64(), "number": pyarrow.float64(),
             "boolean": pyarrow.bool_()}  # fmt: skip
    schema = pyarrow.schema([(c, kinds[types.get(c, "text")]) for c in columns])
    left, count = iter(rows), 0
    with written_atomically(path) as name:
        try:
            with parquet.ParquetWriter(name, schema, compression="zstd") as writer:
                while batch := list(islice(left, _BATCH)):
                    made = {c: [row[c] for row in batch] for c in columns}
                    writer.write_table(pyarrow.Table.from_pydict(made, schema=schema))
                    count += len(batch)
        except OSError as error:
            raise OpdbError(f"{path}: cannot write: {error.strerror or error}") from None
    return count
