"""`opdb add-op --to`: from a third-party file to a package that ran on QNN's HTP backend, checked against a reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opdb.catalog.store import read_catalog
from opdb.cli import add_op
from opdb.cli.help import App
from opdb.core.errors import OpdbError, SpecError
from opdb.runtime.qnn import libraries

pytestmark = pytest.mark.slow

XML = """<OpDefCollection PackageName="Caps" Domain="aisw" Version="1.0" UseQHPI="true">
  <OpDefList><OpDef>
    <Name>SoftCap</Name>
    <Input><Name>in[0]</Name><Mandatory>true</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype>
      <Shape><Rank>ND</Rank><Layout>NONTRIVIAL</Layout></Shape></Input>
    <Output><Name>out[0]</Name><Mandatory>true</Mandatory><Datatype>BACKEND_SPECIFIC</Datatype>
      <Shape><Rank>ND</Rank><Text>same as input</Text></Shape></Output>
    <Parameter><Name>cap</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
      <Shape><Rank>SCALAR</Rank></Shape></Parameter>
    <SupportedBackend>HTP</SupportedBackend>
  </OpDef></OpDefList>
  <SupplementalOpDefList Backend="HTP"><SupplementalOpDef><Name>SoftCap</Name>
    <Input><Name>in[0]</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype></Input>
    <Output><Name>out[0]</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype></Output>
  </SupplementalOpDef></SupplementalOpDefList>
</OpDefCollection>
"""
ROW_SCALE_C = """#include "kernel.h"

opdb_status opdb_row_scale(const opdb_tensor *in0, const opdb_tensor *in1, double gain, opdb_ints shift,
                           const opdb_tensor *y) {
    double total = 0;
    for (int64_t i = 0; i < shift.n; i++)
        total += (double)shift.v[i];
    for (int64_t i = 0; i < size_of(y); i++)
        ((float *)y->data)[i] = (float)(((const float *)in0->data)[i] *
                                            (double)((const float *)in1->data)[i % in1->dims[0]] * gain +
                                        total);
    return OPDB_OK;
}
"""
ROW_SCALE_PY = "def row_scale(x, w, gain, shift):\n    return x * w * gain + sum(shift)\n"


COMMANDS = App()
COMMANDS.callback()(lambda: None)  # so that the one command has a name
add_op.add_to(COMMANDS)


def add(*arguments: object) -> Any:
    return CliRunner().invoke(COMMANDS, ["add-op", *map(str, arguments), "--yes"])


def fault(*arguments: object) -> str:
    """The message of a command that fails."""
    done = add(*arguments)
    assert isinstance(done.exception, OpdbError | SpecError), (done.output, done.exception)
    return str(done.exception)


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    path = tmp_path / "caps.xml"
    path.write_text(XML)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two nodes of a foreign op, with a constant, between two ONNX ops; the batch is symbolic."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    own = {"domain": "com.acme.ops"}
    nodes = [
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("RowScale", ["b", "w"], ["c"], gain=0.5, shift=[1, 2], **own),
        helper.make_node("RowScale", ["c", "w"], ["d"], gain=2.0, shift=[3], mode="fast", **own),
        helper.make_node("Relu", ["d"], ["e"]),
    ]
    values = {n: helper.make_tensor_value_info(n, kind, ["n", 3, 4]) for n in "acde"}
    weight = helper.make_tensor("w", kind, [4], [1.0, 2.0, 3.0, 4.0])
    graph = helper.make_graph(
        nodes, "g", [values["a"]], [values["e"]], [weight], value_info=[values["c"], values["d"]]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme.ops", 1)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


@pytest.mark.vendor
@pytest.mark.native
@pytest.mark.usefixtures("libraries")
def test_an_xml_file_becomes_a_package_that_runs(xml: Path, tmp_path: Path) -> None:
    folder = tmp_path / "custom"
    done = add("SoftCap", "--from-xml", xml, "--each", "cap * tanh(x / cap)", "--to", folder)
    assert done.exit_code == 0, (done.output, done.exception)
    ran = re.findall(r"s  ran +QNN (\S+), HTP SM8650: (.*)", done.output)
    installed = {f.qnn_version() for f in libraries.discover([]) if "HTP" in f.present}
    assert dict(ran).keys() == installed and {text for _, text in ran} == {"6 as the reference"}
    assert re.search(r"\d s  package +\S+/libQnnCaps.so\n", done.output) and "s  in all" in done.output
    op = read_catalog(folder).ops["SoftCap"]
    assert op.package == "Caps" and op.kernel is not None and op.kernel.dtypes == ["f32", "uq8"]
    assert not list((folder / "kernels").iterdir())
    # an altered kernel expression is caught by the original reference
    spec = folder / "ops" / "SoftCap.yaml"
    spec.write_text(spec.read_text().replace("each: cap * tanh(x / cap)", "each: 1.01 * cap * tanh(x / cap)"))
    reference = tmp_path / "cap.py"
    reference.write_text("import numpy\ndef soft_cap(x, cap):\n    return cap * numpy.tanh(x / cap)\n")
    again = add("SoftCap", "--to", folder, "--reference", reference, "--soc", "SM8350")
    assert again.exit_code == 1 and "3 as the reference, 3 other than the reference" in again.output
    assert re.search(r"sample 0, f32: y\[.*\]: \S+, the reference \S+; 24 of 24 differ", again.output)


@pytest.mark.vendor
@pytest.mark.native
@pytest.mark.usefixtures("libraries")
def test_an_onnx_op_gets_a_kernel_to_fill_in(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    command = ("RowScale", "--from-onnx", model, "--to", folder)
    begun = add(*command)
    assert begun.exit_code == 1 and "5 validated; the kernel is not written yet" in begun.output
    c = folder / "kernels" / "row_scale.c"
    assert f"left: {c}: write there what RowScale computes" in begun.output
    assert "return OPDB_UNSUPPORTED;" in c.read_text()
    c.write_text(ROW_SCALE_C)
    reference = tmp_path / "row_scale.py"
    reference.write_text(ROW_SCALE_PY)
    done = add(*command, "--reference", reference)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "5 as the reference" in done.output and "was not read again" in done.output


def test_a_foreign_op_is_described_from_a_model(model: Path) -> None:
    onnx_nodes = pytest.importorskip("opdb.author.importers.onnx_nodes")
    (found,) = onnx_nodes.read(model)
    assert (found.package, found.domain) == ("com_acme_ops", "com.acme.ops")
    (op,) = found.ops
    slots = {t.name: (t.role, t.dtypes, t.text, t.static) for t in op.tensors}
    assert slots == {
        "in[0]": ("Input", ("f32",), "[A, B, D]", False),
        "in[1]": ("Input", ("f32",), "[D]", True),
        "out[0]": ("Output", ("f32",), "[A, B, D]", False),
        "gain": ("Parameter", ("f32",), None, False),
        "shift": ("Parameter", ("i32",), None, False),
    }
    assert [use["Parameter", "shift"] for use in op.examples] == [[1, 2], [3]]
    assert [use["Input", "in[0]"] for use in op.examples] == [[2, 3, 4]] * 2
    assert found.notes == (
        "RowScale: the attribute mode (STRING) is left out: op packages take numbers and lists",
    )


def test_errors_are_one_line_and_leave_no_files(xml: Path, model: Path, tmp_path: Path) -> None:
    to = tmp_path / "new"
    for words, arguments in (
        ("no op 'SoftCup'; it has SoftCap", ("SoftCup", "--from-xml", xml, "--to", to)),
        ("there is no function 'tan'; did you mean 'tanh'?", ("SoftCap", "--from-xml", xml, "--each", "cap * tan(x)", "--to", to)),
        ("say where the op is with --from-xml or --from-onnx", ("SoftCap", "--to", to)),
        ("not an ONNX model", ("SoftCap", "--from-onnx", xml, "--to", to)),
        ("no op 'SoftCap'; it has RowScale", ("SoftCap", "--from-onnx", model, "--to", to)),
        ("--each and --kernel: each says what", ("SoftCap", "--each", "x", "--kernel", xml, "--to", to)),
        ("--from-xml and --from-onnx: give one", ("SoftCap", "--from-xml", xml, "--from-onnx", model, "--to", to)),
        ("none.c: cannot read this kernel", ("SoftCap", "--from-xml", xml, "--kernel", tmp_path / "none.c", "--to", to)),
        ("it has 1 input, 0 parameters", ("SoftCap", "--from-xml", xml, "--like", "Relu", "--to", to)),
        ("Transpose: its C kernel takes", ("SoftCap", "--from-xml", xml, "--like", "Transpose", "--to", to)),
        ("'Soft Cap' is not a valid op name", ("Soft Cap", "--from-xml", xml, "--to", to)),
        ("--torch does not go with --to", ("SoftCap", "--torch", "aten.relu.default", "--to", to)),
        ("--from-onnx goes with --to DIR", ("SoftCap", "--from-onnx", model)),
    ):  # fmt: skip
        said = fault(*arguments)
        assert words in said and len(said.splitlines()) == 1, said
        assert not to.exists()
    (tmp_path / "ops").mkdir()
    assert "it has ops/ and no kernels/" in fault("SoftCap", "--from-xml", xml, "--to", tmp_path)


def test_unusable_reference_files_are_rejected(xml: Path, tmp_path: Path) -> None:
    from opdb.author.importers.opxml.read import read
    from opdb.author.own_ops import references
    from opdb.author.own_ops.folder import drafted, open_folder, with_kernel, write

    text, _ = drafted("SoftCap", [read(xml)], xml)
    catalog = write(open_folder(tmp_path / "own", "SoftCap"), with_kernel(text, "x", None, None), None)
    compiled = catalog.compiled("SoftCap")
    file = tmp_path / "r.py"
    for text, words in (
        ("def other(x): return x", "no function soft_cap"),
        ("import nothing_here", "ModuleNotFoundError"),
    ):
        file.write_text(text)
        with pytest.raises(OpdbError, match=words):
            references.of_file(file, compiled)


def test_a_folder_takes_backends_and_chips_from_opdb(tmp_path: Path, catalog: Any) -> None:
    own = tmp_path / "own"
    (own / "ops").mkdir(parents=True)
    (own / "ops" / "Bare.yaml").write_text(
        "op: Bare\npackage: Mine\ninputs: {x: [S...]}\noutputs: {y: [S...]}\n"
    )
    assert read_catalog(own).backends == {} and read_catalog(own).socs == {}
    (own / "kernels").mkdir()
    found = read_catalog(own)
    assert list(found.ops) == ["Bare"] and found.errata == {} and found.families == {}
    assert found.backends == catalog.backends and found.socs == catalog.socs
    (own / "socs.yaml").write_text("[]\n")
    with pytest.raises(SpecError, match="no chip"):  # its own are the only ones
        read_catalog(own)


@pytest.mark.torch
def test_an_op_can_reuse_another_ops_kernel_and_reference(xml: Path, tmp_path: Path, catalog: Any) -> None:
    """Elu's parameter alpha is cap here; PyTorch's ELU is the reference."""
    import numpy as np

    from opdb.author.importers.opxml.read import read
    from opdb.author.own_ops import references
    from opdb.author.own_ops.folder import drafted, open_folder, with_kernel, write
    from opdb.judge.samples import kernel_types, sample_config
    from opdb.judge.trial import validator_of

    text, _ = drafted("SoftCap", [read(xml)], xml)
    own = write(
        open_folder(tmp_path / "own", "SoftCap"), with_kernel(text, None, "Mine", catalog.ops["Elu"]), None
    )
    compiled = own.compiled("SoftCap")
    assert own.ops["SoftCap"].package == "Mine"
    assert own.ops["SoftCap"].kernel.each == "x if x > 0 else cap * expm1(x)"  # type: ignore[union-attr]
    config = sample_config(compiled, 0, kernel_types(compiled, "f32"), validator_of(compiled).infer)
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
    (made,) = references.of_op(catalog.compiled("Elu"), compiled)(config, [x])
    (same,) = references.of_elements(compiled)(config, [x])
    assert np.allclose(made, np.where(x > 0, x, 0.5 * np.expm1(x)), rtol=1e-6)
    assert np.allclose(made, same, rtol=1e-6)
