"""Profiles on the vendor's libraries: reported events, their nodes, and export formats."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.cli.options import Format
from opdb.cli.output import print_rows
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.runtime.qnn import profile_report as report
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.libraries import find
from opdb.runtime.qnn.native import ffi, lib
from opdb.runtime.qnn.profile import NODE, Event, Profile, ProfiledCall, check_level, node_of

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]
LEVELS = [("CPU", "basic"), ("CPU", "detailed"), ("HTP", "basic"), ("HTP", "detailed"), ("HTP", "linting")]
SOC = {"CPU": None, "HTP": "SM8650"}
X = np.random.default_rng(0).normal(size=(24, 128)).astype(np.float32)
Collect = Callable[[str, str], Profile]


def model(names: tuple[str, str] = ("norm", "linear")) -> QnnGraph:
    """LayerNorm([128]), then Linear(128, 32), on (24, 128); the ops come from the torch nodes ln and fc."""
    rng = np.random.default_rng(1)

    def static(name: str, *shape: int) -> GraphTensor:
        return GraphTensor(name, "f32", shape, "STATIC", rng.normal(size=shape).astype(np.float32))

    tensors = [
        GraphTensor("x", "f32", X.shape, "APP_WRITE"),
        static("gamma", 128),
        static("beta", 128),
        GraphTensor("normed", "f32", X.shape),
        static("weight", 32, 128),
        static("bias", 32),
        GraphTensor("y", "f32", (24, 32), "APP_READ"),
    ]
    params = (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", (1,), (1,)))
    norm = GraphOp(names[0], "LayerNorm", ("x", "gamma", "beta"), params, ("normed",), origin="ln")
    linear = GraphOp(names[1], "FullyConnected", ("normed", "weight", "bias"), (), ("y",), origin="fc")
    return QnnGraph("model", {t.name: t for t in tensors}, [norm, linear])


@pytest.fixture(scope="module")
def collected(libraries: object) -> Collect:
    """A profile with one finalization, two executions, one release; closed, like its backend."""
    kept: dict[tuple[str, str], Profile] = {}

    def collect(name: str, level: str) -> Profile:
        if (name, level) not in kept:
            with Backend.open(name, SOC[name]) as backend:
                profile = kept[name, level] = backend.create_profile(level)
                context = backend.create_context()
                graph = context.add_graph(model(), profile=profile)
                start = time.perf_counter()
                graph.execute({"x": X}, profile=profile)
                graph.bind({"x": X}, profile=profile).run()
                walls[name, level] = (time.perf_counter() - start) * 1e6
                context.close(profile=profile)
            assert profile.closed
        return kept[name, level]

    return collect


#: Duration of the two executions by this machine's clock, in us.
walls: dict[tuple[str, str], float] = {}


def depth(events: tuple[Event, ...]) -> int:
    return 1 + max((depth(e.events) for e in events), default=0) if events else 0


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_each_level_has_its_tree_of_events(name: str, level: str, collected: Collect) -> None:
    profile = collected(name, level)
    assert [(c.stage, c.graph, c.run) for c in profile.calls] == [
        ("finalize", "model", 0),
        ("execute", "model", 0),
        ("execute", "model", 1),
        ("free", "", 0),
    ]
    expected = {"basic": 1, "detailed": 2, "linting": 4}[level]
    assert depth(profile.events("execute")) == expected
    assert depth(profile.events("finalize")) == (2 if level == "detailed" else 1)
    assert depth(profile.events("free")) == 1
    assert len(profile.events()) == sum(len(c.events) for c in profile.calls)
    every = [e for top in profile.events() for e in top.walk()]
    assert {e.unit for e in every} <= {"us", "cycles", "count"}
    assert all(e.timestamp is None for e in every)
    steps = [e for c in profile.calls if c.stage == "finalize" and c.split for e in c.split.events]
    if name == "HTP" and level == "detailed":
        assert len(steps) == 8
        assert "VTCM Allocation" in {e.name for e in steps}
        assert sum(e.value for e in steps) <= profile.events("finalize")[0].value


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_times_are_consistent_with_each_other_and_the_clock(
    name: str, level: str, collected: Collect
) -> None:
    profile = collected(name, level)
    runs = [c for c in profile.calls if c.stage == "execute"]
    totals = [c.total for c in runs if c.total]
    assert len(totals) == 2
    assert {t.unit for t in totals} == {"us"}
    assert 0 < sum(t.value for t in totals) <= walls[name, level]
    for call in runs:
        if name == "HTP":
            assert call.accelerator and call.total
            assert 0 < call.accelerator.value <= call.total.value
        if level == "basic":
            assert call.split is None
            continue
        assert call.split
        nodes = [e for e in call.split.events if e.type == NODE]
        assert [e.node for e in nodes if e.node] == ["norm", "linear"]
        sum_ = sum(e.value for e in nodes)
        if name == "CPU":
            assert call.split is call.total
            assert 0 < sum_ <= call.split.value + len(nodes)  # each is rounded
        elif level == "detailed":
            assert call.split.type == 3003
            assert sum_ == call.split.value
        else:
            waits = sum(below.value for e in nodes for below in e.events if below.type == 5001)
            assert sum_ + waits == call.split.value


def test_linting_reports_the_waits_of_each_node(collected: Collect) -> None:
    for call in collected("HTP", "linting").calls:
        if call.stage != "execute":
            continue
        assert call.split
        assert call.split.type_name == "QNN_HTP_PROFILE_EVENTTYPE_GRAPH_EXECUTE_CRITICAL_ACCEL_TIME_CYCLE"
        assert call.split.type == 6001
        assert len(call.split.events) >= 4  # input, two nodes, output, nodes of HTP's own
        for node in call.split.events:
            assert [e.type for e in node.events] == [5001, 5002, 5003, 5004]
            assert {below.type for e in node.events for below in e.events} <= {5005, 5006}


@pytest.mark.parametrize("name", ["CPU", "HTP"])
def test_a_library_keeps_only_the_last_call(name: str) -> None:
    with Backend.open(name, SOC[name]) as backend:
        profile = backend.create_profile("basic")
        graph = backend.prepare(model(), profile=profile)
        for _ in range(2):
            graph.execute({"x": X}, profile=profile)
        ids, n = ffi.new("const QnnProfile_EventId_t **"), ffi.new("uint32_t *")
        backend.session.call("read", "profileGetEvents", profile, ids, n)
        assert n[0] == len(profile.calls[-1].events) < len(profile.events())
        for i in ffi.unpack(ids[0], n[0]):
            plain, extended = ffi.new("QnnProfile_EventData_t *"), ffi.new("QnnProfile_ExtendedEventData_t *")
            code, _ = backend.session.ask("profileGetEventData", i, plain)
            assert code == (12002 if name == "CPU" else 0)
            backend.session.call("read", "profileGetExtendedEventData", i, extended)
            if code == 0:
                assert plain.value == extended.u.v1.u.value.u.uint64Value
        profile.clear()
        assert profile.calls == ()
        graph.execute({"x": X}, profile=profile)
        assert [c.run for c in profile.calls] == [0]


@pytest.mark.parametrize("name", ["CPU", "HTP"])
def test_any_node_name_is_recovered_from_events(name: str) -> None:
    names = ("_a.b/c:1 (x)", "q:OpId_9 (cycles)")
    with Backend.open(name, SOC[name]) as backend:
        profile = backend.create_profile("detailed")
        backend.prepare(model(names)).execute({"x": X}, profile=profile)
    rows = [t for t in report.node_times(profile) if t.op]
    assert [(t.node, t.op, t.origin) for t in rows] == [
        (names[0], "LayerNorm", "ln"),
        (names[1], "FullyConnected", "fc"),
    ]


@given(st.text(min_size=1), st.integers(0, 10**6))
def test_node_names_are_parsed_from_event_names(name: str, number: int) -> None:
    assert node_of("CPU", NODE, f"_{name}") == name
    assert node_of("HTP", NODE, f"{name}:OpId_{number} (cycles)") == name
    assert node_of("HTP", NODE, f"Input OpId_{number} (cycles)") == ""
    assert node_of("HTP", 3003, f"{name}:OpId_{number} (cycles)") == ""


@pytest.mark.parametrize("name", ["CPU", "HTP"])
def test_loading_and_freeing_a_context_are_profiled(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.ctx"
    with Backend.open(name, SOC[name]) as backend:
        with backend.create_context() as context:
            context.add_graph(model())
            context.save(file)
        profile = backend.create_profile("detailed")
        loaded = backend.load_context(file, profile=profile)
        loaded.graph("model").execute({"x": X}, profile=profile)
        loaded.close(profile=profile)
        loaded.close(profile=profile)
        assert loaded.closed
    assert [c.stage for c in profile.calls] == ["load", "execute", "free"]
    types = {c.stage: {e.type for e in c.events} for c in profile.calls}
    assert types["load"] == (set() if name == "CPU" else {100, 1004})
    assert types["free"] == ({500} if name == "CPU" else {500, 4003})
    # a binary does not record which torch node a node came from
    assert [t.node for t in report.node_times(profile) if t.node in ("norm", "linear")] == ["norm", "linear"]
    assert {t.origin for t in report.node_times(profile)} == {""}


def test_off_collects_nothing() -> None:
    with Backend.open("CPU") as backend:
        profile = backend.create_profile("off")
        graph = backend.prepare(model(), profile=profile)
        assert graph.execute({"x": X}, profile=profile)["y"].shape == (24, 32)
        assert profile.calls == profile.events() == ()
        assert "level off: nothing was collected" in report.text(profile)


def test_invalid_uses_of_profiles_are_refused() -> None:
    with Backend.open("CPU") as backend, Backend.open("CPU") as other:
        with pytest.raises(
            OpdbError, match="'all' is not a profiling level; one of off, basic, detailed, linting"
        ):
            backend.create_profile("all")
        with pytest.raises(
            OpdbError, match="the CPU backend has no profiling level linting, HTP does; use detailed"
        ):
            backend.create_profile("linting")
        check_level("linting", "HTP")
        profile = backend.create_profile("basic")
        with pytest.raises(OpdbError, match="'run' is not a stage; one of load, finalize, execute, free"):
            profile.events("run")
        with pytest.raises(OpdbError, match="'run' is not a stage"):
            report.node_times(profile, "run")
        with pytest.raises(OpdbError, match="'html' is not a format of a profile; one of text, json, trace"):
            report.render(profile, "html")
        graph = other.prepare(model())
        with pytest.raises(OpdbError, match="was given to a graph of another backend"):
            graph.execute({"x": X}, profile=profile)
        bound = backend.prepare(model()).bind({"x": X}, profile=profile)
        bound.run()
        profile.close()
        with pytest.raises(OpdbError, match="a profile of the CPU backend is closed; make a new one"):
            bound.run()
        assert len(profile.calls) == 1


@pytest.mark.parametrize("level", ["basic", "detailed"])
def test_finalization_reports_the_simulated_cost_on_some_chips(level: str) -> None:
    with Backend.open("HTP", "SA8255") as backend:
        profile = backend.create_profile(level)
        backend.prepare(model(), "fp16", profile=profile)
    events = {e.type: e for top in profile.events("finalize") for e in top.walk()}
    prefix = "QNN_HTP_PROFILE_EVENTTYPE_GRAPH_FINALIZE_PERF_ESTIMATE"
    assert {t: events[t].type_name.removeprefix(prefix) for t in (2004, 2006, 2007, 2008, 2011, 2016)} == {
        2004: "",
        2006: "_SIM_EXEC_CYCLES",
        2007: "_SIM_EXEC_LOWER_CYCLES",
        2008: "_SIM_EXEC_UPPER_CYCLES",
        2011: "_INPUT_FILL",
        2016: "_OUTPUT_SPILL",
    }
    assert 0 < events[2007].value < events[2006].value < events[2008].value
    assert {events[t].unit for t in (2006, 2007, 2008)} == {"cycles"}
    assert {events[t].unit for t in range(2011, 2017)} == {"bytes"}
    assert events[2011].value > 2 * (24 * 128 + 32 * 128)  # the input and the weights, in float16
    assert 600 not in events
    assert not any(e.data for e in events.values())


@pytest.mark.parametrize(("wanted", "microseconds"), [("2.47", False), ("2.51", True)])
def test_only_newer_libraries_simulate_microseconds(wanted: str, microseconds: bool) -> None:
    with Backend.open("HTP", "SA8255", libraries=find(wanted)) as backend:
        profile = backend.create_profile("basic")
        backend.prepare(model(), "fp16", profile=profile)
    events = {e.type: e for top in profile.events("finalize") for e in top.walk()}
    assert ({2019, 2020, 2021} <= set(events)) == microseconds
    for micros, cycles in ((2019, 2006), (2020, 2007), (2021, 2008)) if microseconds else ():
        assert events[micros].unit == "us"
        assert events[micros].type_name == events[cycles].type_name.replace("CYCLES", "MICROSEC")
        assert events[micros].value == pytest.approx(events[cycles].value / 1497.6, abs=1)


@pytest.mark.parametrize("wanted", ["2.47", "2.51"])
def test_an_optrace_is_a_chrome_trace_of_the_simulation(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Backend.open("HTP", "SA8255", libraries=find(wanted)) as backend:
        profile = backend.create_profile("detailed", optrace=True)
        backend.prepare(model(), "fp16", profile=profile)
    events = {e.type: e for top in profile.events("finalize") for e in top.walk()}
    object_ = events[600]
    assert (object_.type_name, object_.unit) == ("QNN_PROFILE_EVENTTYPE_TRACE", "object")
    assert len(object_.data) == object_.value > 1000
    text = object_.data[object_.data.index(b"{") : object_.data.rindex(b"}") + 1]
    slices = [e for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) == pytest.approx(events[2006].value, abs=100)
    assert [p.name for p in tmp_path.iterdir()] == ["model_schematic.bin"]


def test_optrace_is_refused_where_unavailable() -> None:
    with (
        Backend.open("CPU") as backend,
        pytest.raises(OpdbError, match="the CPU backend has no optrace, HTP does"),
    ):
        backend.create_profile("detailed", optrace=True)
    with Backend.open("HTP", "SA8255") as backend:
        for level in ("off", "basic", "linting"):
            with pytest.raises(OpdbError, match=f"at the profiling level detailed alone, not at {level}"):
                backend.create_profile(level, optrace=True)


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_the_time_per_node_is_reported(
    name: str, level: str, collected: Collect, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = collected(name, level)
    times = report.node_times(profile)
    if level == "basic":
        assert times == []
        return
    assert sum(t.share for t in times) == pytest.approx(1)
    nodes = {t.node: t for t in times if t.op}
    assert {n: (t.op, t.origin, t.runs) for n, t in nodes.items()} == {
        "norm": ("LayerNorm", "ln", 2),
        "linear": ("FullyConnected", "fc", 2),
    }
    assert {t.unit for t in times} == {"us" if name == "CPU" else "cycles"}
    events = [e for top in profile.events("execute") for e in top.walk() if e.node == "norm"]
    assert nodes["norm"].total == sum(e.value for e in events)
    assert nodes["norm"].mean == nodes["norm"].total / 2
    parts = {t.node for t in times} - set(nodes)
    ends = {"Input OpId_2 (cycles)", "Output OpId_3 (cycles)"}
    assert parts - {report.REST} >= (set() if name == "CPU" else ends)
    # nodes that HTP added have no name
    assert all(re.fullmatch(r"OpId_\d+ \(cycles\)", part) for part in parts - ends - {report.REST})
    print_rows(report.rows(times), report.COLUMNS, Format.table)
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == list(report.COLUMNS)
    assert any(
        line.split()[1:4] == ["linear", "FullyConnected", "fc"] and line.endswith("%") for line in table
    )


def test_nodes_of_the_same_origin_are_summed(collected: Collect) -> None:
    times = report.node_times(collected("HTP", "detailed"))
    as_one = [report.NodeTime(**{**vars(t), "origin": "block"}) if t.op else t for t in times]
    by_origin = report.origin_times(as_one)
    assert [(t.node, t.op) for t in by_origin if t.origin] == [("norm, linear", "LayerNorm, FullyConnected")]
    assert len(by_origin) == len(times) - 1
    assert sum(t.share for t in by_origin) == pytest.approx(1)
    assert report.origin_times(times) == times


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_json_has_every_event(name: str, level: str, collected: Collect) -> None:
    profile = collected(name, level)
    read = json.loads(report.render(profile, "json"))
    assert list(read) == [
        "opdb_profile", "backend", "build_id", "soc", "soc_model", "level", "note", "calls", "nodes"
    ]  # fmt: skip
    assert (read["backend"], read["soc"], read["level"]) == (name, SOC[name], level)
    assert ("emulation" in read["note"]) == (name == "HTP")
    assert [c["stage"] for c in read["calls"]] == ["finalize", "execute", "execute", "free"]

    def count(events: list[dict[str, object]]) -> int:
        return sum(1 + count(e["events"]) for e in events)  # type: ignore[arg-type]

    assert sum(count(c["events"]) for c in read["calls"]) == sum(
        len(list(e.walk())) for e in profile.events()
    )
    assert [n["node"] for n in read["nodes"]["execute"]] == [t.node for t in report.node_times(profile)]


def check_slices(events: list[dict[str, object]]) -> None:
    """Checks that slices of one thread nest: each lies within those open at its start."""
    open_: list[tuple[float, float]] = []
    for event in events:
        start, duration = event["ts"], event["dur"]
        assert isinstance(start, float)
        assert isinstance(duration, float)
        assert start >= 0 <= duration
        end = start + duration
        while open_ and start >= open_[-1][1] - 0.01:
            open_.pop()
        assert not open_ or (start >= open_[-1][0] - 0.01 and end <= open_[-1][1] + 0.01)
        open_.append((start, end))


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_a_chrome_trace_is_valid(name: str, level: str, collected: Collect, tmp_path: Path) -> None:
    profile = collected(name, level)
    file = tmp_path / "trace.json"
    report.save(profile, file, "trace")
    trace = json.loads(file.read_text(encoding="utf-8"))
    shown = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["ph"] for e in trace["traceEvents"]} == {"X", "M"}
    check_slices(shown)
    assert [e["dur"] for e in shown if e["name"].startswith("execute ")] == [
        c.total.value for c in profile.calls if c.stage == "execute" and c.total
    ]
    assert ("emulation" in trace["otherData"]["note"]) == (name == "HTP")
    assert "durations without a time of day" in trace["otherData"]["layout"]
    if level == "basic":
        return
    norms = [e for e in shown if e["name"] == "norm" and e["args"].get("origin") == "ln"]
    assert len(norms) == (3 if name == "CPU" else 2)  # CPU reports nodes of finalization too
    if name == "HTP":  # cycles as a part of the accelerator's time
        for event, call in zip(norms, (c for c in profile.calls if c.stage == "execute"), strict=True):
            assert call.split
            assert call.accelerator
            cycles = next(e.value for e in call.split.events if e.node == "norm")
            expected = call.accelerator.value * cycles / call.split.value
            assert event["dur"] == pytest.approx(expected, abs=0.01)


@given(
    total=st.integers(0, 10**9),
    accelerator=st.none() | st.integers(0, 2 * 10**9),
    nodes=st.lists(st.integers(0, 10**9), max_size=6),
    cycles=st.booleans(),
)
def test_slices_nest_for_any_reported_times(
    total: int, accelerator: int | None, nodes: list[int], cycles: bool
) -> None:
    below = tuple(Event(f"_{i}", NODE, "", "cycles" if cycles else "us", v) for i, v in enumerate(nodes))
    events = [
        Event("whole", 400, "", "us", total),
        Event("split", 3003, "", "cycles" if cycles else "us", 7, events=below),
    ]
    if accelerator is not None:
        events.append(Event("accelerator", 3004, "", "us", accelerator))
    made = list(report.slices(ProfiledCall("execute", "g", 0, tuple(events)), 0.0))
    assert len(made) == 1 + (accelerator is not None) + len(nodes)
    assert all(e["ts"] + e["dur"] <= total + 0.01 for e in made)


def test_text_qualifies_the_times(collected: Collect) -> None:
    text = report.text(collected("HTP", "linting"))
    assert text.startswith("QNN HTP SM8650 v2.")
    assert "HTP is an emulation on" in text.splitlines()[1]
    line = next(line for line in text.splitlines() if "norm:OpId" in line)
    assert line.startswith("    norm:OpId_")
    assert line.endswith(" cycles")
    assert "reference kernels on this machine" in report.text(collected("CPU", "basic"))


def test_files_are_written_atomically(collected: Collect, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OpdbError, match="taken: cannot write"):
        report.save(collected("CPU", "basic"), tmp_path / "taken", "json")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_event_types_have_names(collected: Collect) -> None:
    """The event types reported by the libraries are known by name; 3004 is the accelerator's time of an execution."""
    assert lib.QNN_HTP_PROFILE_EVENTTYPE_GRAPH_EXECUTE_ACCEL_TIME_MICROSEC == 3004
    for name, level in LEVELS:
        for event in (e for top in collected(name, level).events() for e in top.walk()):
            assert event.type == 0 or getattr(lib, event.type_name) == event.type
