"""Small op packages with the structure of public ones, in our own words: each has a feature that the others lack.

Names say where the structure was found; each is a whole file (XML), built from ops.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FLOATS = ("QNN_DATATYPE_FLOAT_32", "QNN_DATATYPE_FLOAT_16")
BYTES = ("QNN_DATATYPE_UFIXED_POINT_8", "QNN_DATATYPE_UINT_8")


def tensor(
    role: str,
    name: str,
    rank: str = "4D",
    text: str | None = None,
    layout: str | None = "NHWC",
    types: tuple[str, ...] = ("BACKEND_SPECIFIC",),
    mandatory: bool = True,
    more: str = "",
) -> str:
    shape = f"<Rank>{rank}</Rank>" + (f"<Layout>{layout}</Layout>" if layout else "")
    shape += f"<Text>{text}</Text>" if text is not None else ""
    kinds = "".join(f"<Datatype>{t}</Datatype>" for t in types)
    return (
        f"<{role}><Name>{name}</Name><Description><Content>{name} of it</Content></Description>"
        f"<Mandatory>{str(mandatory).lower()}</Mandatory>{kinds}<Shape>{shape}</Shape>{more}</{role}>"
    )


def scalar(name: str, kind: str = "FLOAT_32", more: str = "", mandatory: bool = True) -> str:
    return tensor("Parameter", name, "SCALAR", None, None, (f"QNN_DATATYPE_{kind}",), mandatory, more)


def op(name: str, *parts: str, backends: tuple[str, ...] = ("HTP",), more: str = "") -> str:
    supported = "".join(f"<SupportedBackend>{b}</SupportedBackend>" for b in backends)
    about = f"<Description><Content>\n  {name} in words\n</Content></Description>"
    return f"<OpDef><Name>{name}</Name>{about}{more}{''.join(parts)}<!--backends-->{supported}</OpDef>"


def supplement(backend: str, *ops: tuple[str, str], supported: tuple[str, ...] = ()) -> str:
    names = "".join(f"<OpName>{n}</OpName>" for n in supported)
    body = "".join(f"<SupplementalOpDef><Name>{n}</Name>{text}</SupplementalOpDef>" for n, text in ops)
    return f'<SupplementalOpDefList Backend="{backend}"><SupportedOps>{names}</SupportedOps>{body}</SupplementalOpDefList>'


def typed(role: str, name: str, *types: str) -> str:
    return f"<{role}><Name>{name}</Name>{''.join(f'<Datatype>{t}</Datatype>' for t in types)}</{role}>"


def collection(package: str, ops: list[str], tail: str = "", domain: str = "aisw", more: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!--\nA license\n-->\n'
        f'<OpDefCollection\n  PackageName="{package}"\n  Domain="{domain}"\n  Version="1.0"{more}\n>\n<OpDefList>\n'
        + "\n".join(ops)
        + f"\n</OpDefList>\n{tail}\n</OpDefCollection>\n"
    )


@dataclass(frozen=True)
class Structure:
    """``ops``: number of drafts; ``notes``: words of the warnings; ``drafts``: words in the drafts; ``unsaid``: in their comments."""

    text: str
    ops: int
    notes: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = field(default=())


CHOICE = "<Default>0</Default><Enumeration><Enum>FAST</Enum><Enum>EXACT</Enum></Enumeration>"
NCHW = "[N, C, H , W]"
FULL = {"text": NCHW}
ONE = (tensor("Input", "in[0]"), tensor("Output", "out[0]"))
N_MINUS_ONE = "<Default>N-1</Default>"
LLAMA = [
    op(
        "FusedGate",
        tensor("Input", "in[0]", text=NCHW),
        tensor("Input", "in[1]", text=NCHW),
        tensor("Output", "out[0]", text=f" {NCHW} ", layout=None),
        scalar("a_scale", more=N_MINUS_ONE),
        more='<Reference Source="Torch" Url="https://example.com/silu"/>',
    ),
    op(
        "Turn",
        tensor("Input", "in[0]", text=NCHW),
        tensor("Input", "sines", "2D", "[ 16384, hidden state ]", None),
        tensor("Input", "count", "SCALAR", None, None, more=N_MINUS_ONE),
        tensor("Output", "out[0]", text=f" {NCHW} ", layout=None),
        scalar("pose", "UINT_32", N_MINUS_ONE, mandatory=False),
    ),
    op(
        "Normed",
        tensor("Input", "in[0]", text=NCHW),
        tensor("Input", "weights", "1D", "[ EMB]", None),
        tensor("Output", "out[0]", text=f" {NCHW} ", layout=None),
    ),
    op(
        "Waits",
        tensor("Input", "in[0]", text="[1]"),
        tensor("Input", "in[1]", "1D", NCHW, None),
        tensor("Output", "out[0]", text=f" {NCHW} ", layout=None),
        tensor("Output", "sync_var", "1D", "[1]", None),
        scalar("sync_type", "UINT_32"),
    ),
]
LLAMA_HTP = (
    ("FusedGate", typed("Input", "in[0]", "QNN_DATATYPE_SFIXED_POINT_8") + typed("Input", "in[1]", "QNN_DATATYPE_SFIXED_POINT_8")
     + typed("Output", "out[0]", "QNN_DATATYPE_SFIXED_POINT_8")),
    ("Normed", typed("Input", "in[0]", *FLOATS) + typed("Input", "weights", *FLOATS) + typed("Output", "out[0]", *FLOATS)),
)  # fmt: skip
DANGLING = (
    "Attention",
    typed("Input", "in[0]", FLOATS[1]) + typed("Output", "out[0]", "QNN_DATATYPE_UFIXED_POINT_8"),
)
RECURRENT = [
    tensor("Input", n, "3D", None, None, FLOATS) for n in ("k", "v", "r", "state_in", "tf", "td")
] + [tensor("Output", n, "3D", None, None, FLOATS) for n in ("output", "state_out")]
EMPTY_REFERENCE = '<Reference Source="" Url=""/>'

STRUCTURES = {
    "executorch, one op": Structure(
        collection("Example", [op("Triple", tensor("Input", "input", text="a tensor of 4 dimension", types=FLOATS + BYTES[:1]),
                                  tensor("Output", "output", text="a tensor of 4 dimension", types=FLOATS + BYTES[:1]))]),
        1, drafts=("layout: NHWC",), unsaid=("shape of input: a tensor of 4 dimension", "shape of output: a tensor of 4 dimension")),
    "executorch, two outputs": Structure(
        collection("Halves", [op("Halve", tensor("Input", "input", text="a tensor of 4 dimensions; C must be even", types=FLOATS),
                                 *(tensor("Output", n, text="same as input with last dimension halved", types=FLOATS)
                                   for n in ("first_half", "second_half")))]),
        1, drafts=("first_half:", "second_half:"), unsaid=("shape of first_half: same as input with last dimension halved",)),
    "executorch, FastGelu": Structure(
        collection("Gelus", [op("FastGelu", *ONE)],
                   supplement("HTP", ("FastGelu", typed("Input", "in[0]", *FLOATS) + typed("Output", "out[0]", *FLOATS)),
                              supported=("FastGelu",))),
        1, drafts=("{x: [f32, f16], y: [f32, f16]}",)),
    "executorch, an embedding": Structure(
        collection("Embeds", [op("Embed", tensor("Input", "in[0]", "2D", None, None, ("QNN_DATATYPE_UINT_32",)),
                                 tensor("Input", "in[1]", "2D", None, None, FLOATS, more="<IsStaticTensor>true</IsStaticTensor>"),
                                 tensor("Output", "out[0]", "3D", None, None, FLOATS))]),
        1, drafts=("static: true",)),
    "executorch, LPAI": Structure(
        collection("Lpai", [op("Triple", tensor("Input", "input", text="a tensor of 4 dimension", types=BYTES),
                               tensor("Output", "output", text="a tensor of 4 dimension", types=BYTES), backends=("LPAI",))]),
        1, drafts=("  LPAI:", "[uq8, u8]")),
    "mllm, nntrainer: supplements of ops that are not defined": Structure(
        collection("Llama", LLAMA, supplement("HTP", DANGLING, *LLAMA_HTP, supported=("FusedGate", "Normed")), "LLaMA"),
        4, notes=("<SupplementalOpDef>: the op 'Attention' is not in <OpDefList>; ignored",),
        drafts=("[N, C, H, W]",), unsaid=("default of a_scale: N-1", "count: its default is N-1")),
    "mllm: such an op among the supported ones": Structure(
        collection("Llama", LLAMA, supplement("HTP", *LLAMA_HTP, supported=("FusedGate", "Attention")), "LLaMA"),
        4, notes=("<SupplementalOpDefList>: the op 'Attention' is not in <OpDefList>; ignored",)),
    "mllm, first version": Structure(
        collection("Llama", [*LLAMA[:3], op("Attention", *ONE)], supplement("HTP", DANGLING, *LLAMA_HTP), "LLaMA"), 4),
    "qidk, no domain": Structure(
        collection("qhci", [op("Packs", tensor("Input", "data", types=FLOATS), tensor("Input", "mask", "2D", types=FLOATS),
                               tensor("Output", "output", types=FLOATS))], domain=""), 1),
    "qidk, the name of a package is that of its op; CPU": Structure(
        collection("Noise", [op("Noise", tensor("Input", "In", types=FLOATS[:1]), tensor("Output", "Out", types=FLOATS[:1]),
                                backends=("CPU",))], domain=""), 1, drafts=("package: Noise", "  CPU:")),
    "LiteRT, scalars and an enumeration": Structure(
        collection("Lite", [op("Scaled", *ONE, scalar("gain", more="<Default>1.0</Default>", mandatory=False),
                               scalar("mode", "UINT_32", CHOICE, False))]),
        1, drafts=("type: f32 = 1.0", "enum {FAST: 0, EXACT: 1} = FAST")),
    "onnxruntime-qnn, two inputs, ND": Structure(
        collection("Adds", [op("MyAdd", tensor("Input", "a", "ND", None, None, FLOATS), tensor("Input", "b", "ND", None, None, FLOATS),
                               tensor("Output", "c", "ND", "same as a", None, FLOATS), backends=("CPU", "HTP"))]),
        1, drafts=("  CPU:", "  HTP:")),
    "onnxruntime-qnn, a replaced native op": Structure(
        collection("Increments", [op("Increment", *ONE, more="<UseDefaultTranslation>true</UseDefaultTranslation>")]),
        1, unsaid=("UseDefaultTranslation is true",)),
    "rwkv: no supplement, six inputs, an empty reference": Structure(
        collection("Wkv", [op("wkv6", *RECURRENT, more=EMPTY_REFERENCE)]), 1, drafts=("state_out:",)),
    "rwkv, four ops for CPU": Structure(
        collection("Wkv", [op(f"wkv{n}", *RECURRENT, backends=("CPU",), more=EMPTY_REFERENCE) for n in (5, 6, 7, 8)]), 4),
    "TMAN: a parameter is a list": Structure(
        collection("Tables", [op("Lookup", *ONE, tensor("Parameter", "group", "1D", "[2]", None, ("QNN_DATATYPE_INT_32",)),
                                 scalar("symmetric", "BOOL_8"))]), 1, drafts=("type: i32[2]", "type: bool8")),
    "ranks without a D, and 0": Structure(
        collection("Ranks", [op("Ranked", tensor("Input", "in[0]", "1", None, None, FLOATS),
                                tensor("Output", "out[0]", "1", None, None, FLOATS),
                                tensor("Parameter", "bias", "0", None, None, FLOATS[:1]))]), 1, drafts=("type: f32",)),
    "a how-to: QHPI and axes that stay": Structure(
        collection("Hows", [op("Keeps", tensor("Input", "in[0]", text=NCHW, layout="NONTRIVIAL"),
                               tensor("Output", "out[0]", text="same as input", layout="NONTRIVIAL"))],
                   more='\n  UseQHPI="true"'),
        1, drafts=("layout: NONTRIVIAL", "shape: [N, C, H, W]")),
    "two ops with five dimensions": Structure(
        collection("Volumes", [op(n, tensor("Input", "in[0]", "5D", None, "NDHWC", FLOATS),
                                  tensor("Output", "out[0]", "5D", "same as in[0]", "NDHWC", FLOATS))
                               for n in ("Deep", "Deeper")]), 2, drafts=("layout: NDHWC",)),
}  # fmt: skip
