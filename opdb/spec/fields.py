"""The base class and the field types of the models of spec files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_serializer

IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]*$"
SOURCE = r"^[^@#\s][^@#]*@[^@#\s]+(#.+)?$|^probe( .+)?$"
#: Words that generated Python or C cannot use as a name.
RESERVED = frozenset(
    [
        "False",
        "None",
        "True",
        "and",
        "as",
        "assert",
        "async",
        "await",
        "break",
        "class",
        "continue",
        "def",
        "del",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "from",
        "global",
        "if",
        "import",
        "in",
        "is",
        "lambda",
        "nonlocal",
        "not",
        "or",
        "pass",
        "raise",
        "return",
        "try",
        "while",
        "with",
        "yield",
        "match",
        "case",
        "type",
        "auto",
        "char",
        "const",
        "default",
        "do",
        "double",
        "enum",
        "extern",
        "float",
        "goto",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "bool",
        "true",
        "false",
        "report",
        "target",
        "ok",
        "op",
        "self",
        "result",
        "results",
        "sdk",
    ]
)

Identifier = Annotated[str, Field(pattern=IDENTIFIER, max_length=60)]
Source = Annotated[str, Field(pattern=SOURCE, description="document@version#locator, or 'probe RUN'")]


def _text(value: Any) -> Any:
    """Accepts numbers and booleans as expressions by converting them to text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def _version(value: Any) -> Any:
    """Rejects numbers, because YAML reads 2.50 as 2.5; a version must be text."""
    if isinstance(value, float):
        raise ValueError(f"a version needs quotes; e.g. '{value}'")
    return value


Version = Annotated[str, BeforeValidator(_version)]


def listed(value: Any) -> Any:
    return [value] if isinstance(value, (str, int)) else value


def _plain(text: str) -> Any:
    """The inverse of ``_text``: a literal becomes a YAML number or boolean."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            if str(kind(text)) == text:
                return kind(text)
        except ValueError:
            continue
    return text


#: Text in the rule language (opdb.spec.lang); a number may be written bare.
Expression = Annotated[str, BeforeValidator(_text), PlainSerializer(_plain)]


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Dumps only the fields that differ from the defaults, in the short spelling if there is one."""
        return super().model_dump(**{"exclude_defaults": True, **options})


class WithShort(Model):
    """A model that overrides ``_short``, which returns the short spelling of its data."""

    @model_serializer(mode="wrap")
    def _shortened(self, handler: Any) -> Any:
        return self._short(handler(self))

    def _short(self, kept: dict[str, Any]) -> Any:
        return kept
