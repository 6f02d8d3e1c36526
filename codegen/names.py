"""Names of a spec in generated Python and C: a name that the code itself uses gets a trailing underscore.

Messages, lookups, and signatures keep the names of the spec.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import replace

from opdb.spec.fields import RESERVED
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.lang.nodes import Loop, Node, is_enum

#: Names that generated C declares, and macros and types of the headers it includes.
C_NAMES = "op target report shapes v ok held found bool true false size_t NULL EOF SIGNATURE INPUTS OUTPUTS PARAMS DTYPES ANY"
#: Names that generated Python binds, imports, or calls.
PYTHON_NAMES = """
    all any bool enumerate float int len list map max min range str tuple
    add at default divide element floordiv floormod given indices inferred largest listed mul neg same smallest sub
    sum_of ANY Context Let OpConfig Param Report Signature Slot Undecidable Violation annotations args bind check
    bind_inputs check_types check_unknown config context infer report rows validate
"""
OWN = RESERVED - {"sdk"} | frozenset(
    (*C_NAMES.split(), *PYTHON_NAMES.split(), *(f.python for f in FUNCTIONS.values()))
)
#: Numbered temporaries, names derived from other names, and prefixes of the runtime's names.
OWN_FORMS = re.compile(
    r"(\w+_)?(all|chosen|from|held|list|result|source)\d+|\w+_(count|default|given|i|known|name|param|values)"
    r"|(SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MAX|MIN)|(ROWS_|OPDB_|opdb_|U?INT\d+_|u?int\d+_|_)\w*|\w*_"
)


def local(name: str) -> str:
    """The name in generated code for ``name`` of the spec; different names stay different."""
    own = name in OWN or keyword.iskeyword(name) or OWN_FORMS.fullmatch(name) is not None
    return f"{name}_" if own else name


def renamed(node: Node) -> Node:
    """``node`` with local names, including loop variables and enum values."""
    value = node.value
    if node.kind == "name" or (node.kind == "const" and is_enum(node.type)):
        value = local(value)
    elif node.kind == "comp":
        value = (value[0], tuple(renamed_loop(loop) for loop in value[1]))
    return replace(node, args=tuple(renamed(a) for a in node.args), value=value)


def renamed_loop(loop: Loop) -> Loop:
    return Loop(local(loop.var), renamed(loop.source), tuple(renamed(c) for c in loop.conditions))
