"""Times loading, querying and comparing the catalog; also with synthetic evidence of many SDKs.

    python benchmarks/catalog.py                              # the catalog alone, in a temporary SQLite file
    python benchmarks/catalog.py --rows 10000000 --sdks 100   # and evidence; --db for PostgreSQL

The evidence is made up: sweeps over every op of the catalog on HTP (eight SoCs) and CPU, with real type rows and
op configs of the usual length.  It goes into an empty database only, which is removed again if it is a file.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from opdb.catalog import migrate, schema
from opdb.catalog.query import Filters, stream
from opdb.catalog.query.diff import diff, side
from opdb.catalog.store import Store
from opdb.core.settings import specs_folder

SOCS = ("SM8350", "SM8450", "SM8550", "SM8650", "SM8750", "SM8850", "SA8295", "SM7675")
PLACES = [("CPU", ""), *(("HTP", soc) for soc in SOCS)]
LOG = "[ ERROR ] Op specific validation failed: Value 5 of rank of input 0 is larger than the maximum 4"
CODE, RULE = "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE", "Synthetic.C1"
COLUMNS = [
    "probe_run_id",
    "position",
    "op",
    "type_row",
    "backend",
    "soc",
    "sdk",
    "config",
    "validates",
    "finalizes",
    "executes",
    "code",
    "code_name",
    "log",
    "seconds",
    "detail",
    "ours",
    "rules",
    "reasons",
]
ROUNDS = 20


def timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def report(name: str, seconds: list[float], more: str = "") -> None:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    print(
        f"{name:52} p50 {statistics.median(ordered) * 1e3:9.1f} ms  p95 {p95 * 1e3:9.1f} ms  {more}",
        flush=True,
    )


def count(store: Store, question: str, filters: Filters | None = None, where: str | None = None) -> int:
    return sum(1 for _ in stream(store, question, filters, where))


def catalog(store: Store, rounds: int) -> None:
    print(f"sync of all specs {timed(lambda: store.sync(specs_folder())):.1f} s; {size(store)}")
    report("sync again, nothing changed", [timed(lambda: store.sync(specs_folder())) for _ in range(5)])
    report("load the catalog", [timed(store.load_catalog) for _ in range(rounds)])
    for question in ("ops", "params", "types", "rules", "torch", "support", "coverage"):
        n = count(store, question)
        report(
            f"query {question}",
            [timed(lambda q=question: count(store, q)) for _ in range(rounds)],
            f"{n} rows",
        )  # type: ignore[misc]
    a, b = side("HTP:SM8450"), side("HTP:SM8750")
    report("diff HTP:SM8450 HTP:SM8750", [timed(lambda: diff(store, a, b)) for _ in range(rounds)])


def size(store: Store) -> str:
    """The size of the database, and of its largest tables and indexes if the database reports them."""
    with store.reading() as connection:
        if store.database.sqlite:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            number = int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        else:
            number = int(
                connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
            )
    return f"database {number / 1e6:,.1f} MB"


# -- evidence


def fill(store: Store, rows: int, sdks: int, seed: int) -> list[str]:
    """Fills in sweeps over each op, place and SDK, in proportion; returns the SDKs."""
    versions = [f"3.{i}" for i in range(sdks)]
    with store.reading() as connection:
        types: dict[tuple[str, str], list[str]] = {}
        for r in connection.exec_driver_sql("SELECT op, backend, type_row FROM v_types"):
            types.setdefault((r[0], r[1]), []).append(r[2])
    places = [(op, b, soc) for (op, b) in types for backend, soc in PLACES if backend == b]
    each = max(1, rows // (len(places) * sdks))
    print(f"{len(versions)} SDKs x {len(places)} (op, backend, SoC) x {each} configs")
    indexes = [i for i in schema.probe_result.indexes if i.name is not None]
    with store.database.writing() as connection:
        for index in indexes:
            index.drop(connection)
        _runs(connection, versions, places)
    chance, made = random.Random(seed), 0.0
    of_place = _of_places(places, types, each)
    for i, sdk in enumerate(versions):
        with store.database.writing() as connection:
            add = _copy if connection.dialect.name == "postgresql" else _insert
            made += timed(lambda: add(connection, _results(sdk, i * len(places), places, of_place, chance)))  # noqa: B023
    with store.database.writing() as connection:
        built = timed(lambda: [index.create(connection) for index in indexes])
    total = len(versions) * len(places) * each
    print(f"{total:,} rows in {made:.0f} s, indexes in {built:.0f} s; {size(store)}")
    with store.database.writing() as connection:
        print(f"statistics in {timed(lambda: connection.exec_driver_sql('ANALYZE')):.0f} s", flush=True)
    return versions


def _runs(connection: Connection, versions: list[str], places: list[tuple[str, str, str]]) -> None:
    libraries, runs = [], []
    for i, sdk in enumerate(versions):
        for j, backend in enumerate(("CPU", "HTP")):
            libraries.append({"id": 1000 + 2 * i + j, "package": "synthetic", "version": sdk, "build_id": "b",
                              "sha256": "s", "backend": backend, "sdk": sdk, "emulated": True})  # fmt: skip
        for k, (op, backend, soc) in enumerate(places):
            n = i * len(places) + k + 1
            runs.append({"id": n, "uid": f"run{n}", "library_id": 1000 + 2 * i + (backend == "HTP"),
                         "started": f"2026-01-01T{i:05}", "opdb_version": "0", "catalog_hash": "h", "op": op, "soc": soc,
                         "seed": 1, "command": "", "note": ""})  # fmt: skip
    connection.execute(insert(schema.library), libraries)
    connection.execute(insert(schema.probe_run), runs)


Fixed = tuple[int, str, str, bool]  # position, type row, config, True if it is valid


def _of_places(
    places: list[tuple[str, str, str]], types: dict[tuple[str, str], list[str]], each: int
) -> dict[tuple[str, str], list[Fixed]]:
    """The configs of each op and backend, judged for every SDK and SoC."""
    made = {}
    configs = [_config(i) for i in range(each)]
    for op, backend in {(op, backend) for op, backend, _ in places}:
        rows = types[op, backend]
        made[op, backend] = [
            (i, "" if i % 3 else rows[i // 3 % len(rows)], configs[i].replace("@", op), i % 3 == 0)
            for i in range(each)
        ]
    return made


def _results(
    sdk: str,
    run: int,
    places: list[tuple[str, str, str]],
    of_place: dict[tuple[str, str], list[Fixed]],
    chance: random.Random,
) -> Iterator[tuple[Any, ...]]:
    """The answers of one SDK in the order of COLUMNS; one in a thousand is a crash, or differs from our verdict."""
    for op, backend, soc in places:
        run += 1
        for i, type_row, config, good in of_place[op, backend]:
            luck = chance.random()
            ours = "accept" if good is (luck < 0.999) else "reject"
            if good:
                yield (run, i, op, type_row, backend, soc, sdk, config, "yes", "unknown" if i % 30 else "yes", "unknown",
                       0, "", "", 1e-4, "", ours, "", "")  # fmt: skip
            else:
                yield (run, i, op, "", backend, soc, sdk, config, "crashed" if luck < 0.001 else "no", "unknown",
                       "unknown", 3110, CODE, LOG, 1e-4, "", ours, RULE, "")  # fmt: skip


def _config(i: int) -> str:
    shape = [1, 2 + i % 7, 16, 16 + i]
    slots = [{"name": n, "dtype": "UFIXED_POINT_8", "shape": shape, "quant": {"encoding": "SCALE_OFFSET", "scale": 0.1, "offset": 0}}
             for n in ("in", "out")]  # fmt: skip
    return json.dumps(
        {"op": "@", "inputs": slots[:1], "params": {}, "outputs": slots[1:]}, separators=(",", ":")
    )


def _insert(connection: Connection, rows: Iterator[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(COLUMNS))
    raw: Any = connection.connection.dbapi_connection
    raw.executemany(f"INSERT INTO probe_result ({', '.join(COLUMNS)}) VALUES ({marks})", rows)


def _copy(connection: Connection, rows: Iterator[tuple[Any, ...]]) -> None:
    raw: Any = connection.connection.dbapi_connection
    with raw.cursor() as cursor, cursor.copy(f"COPY probe_result ({', '.join(COLUMNS)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def questions(store: Store, versions: list[str], rounds: int) -> None:
    """Times five typical questions, each time about another op or SDK."""
    chance = random.Random(1)
    with store.reading() as connection:
        ops = list(connection.exec_driver_sql("SELECT DISTINCT op FROM v_types ORDER BY op").scalars())
    two = f"{versions[0]} {versions[-1]}"

    def one_op() -> int:
        return count(store, "support", Filters(op=chance.choice(ops), backend="HTP", soc="SM8650"))

    def one_target() -> int:
        return count(store, "support", Filters(backend="HTP", soc="SM8650", sdk=chance.choice(versions)))

    def disagreements() -> int:
        return count(
            store, "runs", Filters(op=chance.choice(ops), sdk=chance.choice(versions), disagree=True)
        )

    def agreement() -> int:
        return count(store, "agreement", Filters(op=chance.choice(ops)))

    def uplift() -> int:
        return len(
            diff(
                store,
                side(versions[0], "HTP", "SM8650"),
                side(versions[-1], "HTP", "SM8650"),
                chance.choice(ops),
            )
        )

    for name, ask in {
        "support of one op on one SoC, every SDK": one_op,
        "support of every op on one SoC and SDK": one_target,
        "disagreements of one op on one SDK": disagreements,
        "agreement of one op, every SoC and SDK": agreement,
        f"diff of one op, {two}": uplift,
    }.items():
        report(name, *measured(ask, rounds))


def measured(ask: Callable[[], int], rounds: int) -> tuple[list[float], str]:
    found: list[int] = []
    times = [timed(lambda: found.append(ask())) for _ in range(rounds)]
    return times, f"{min(found)} to {max(found)} rows"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=0, help="rows of evidence; 0: none")
    parser.add_argument("--sdks", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--db", help="an empty database, e.g. $OPDB_TEST_POSTGRES_URL; else a temporary SQLite file"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = chosen.db or str(Path(folder) / "opdb.db")
        migrate.upgrade(url)
        store = Store(url)
        print(store.name)
        catalog(store, chosen.rounds)
        if chosen.rows:
            questions(store, fill(store, chosen.rows, chosen.sdks, chosen.seed), chosen.rounds)


if __name__ == "__main__":
    main()
