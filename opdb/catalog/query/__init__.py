"""Read-only questions about the catalog and its history: rows with stable keys.

    rows = ask(Store(url), "support", Filters(op="LayerNorm", soc="SM8650"), where="validates <> 'yes'")

Nothing here imports SQLAlchemy, pydantic or the YAML library: a question reads SQL and starts fast.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from opdb.catalog.query import definitions, evidence
from opdb.catalog.query.rows import Filters, Row, View
from opdb.catalog.query.where import Condition, condition
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.schema.views import ABOUT
from opdb.catalog.store import Store
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean

__all__ = ["QUESTIONS", "Filters", "Question", "Row", "agreement_of", "ask", "errata_notes", "stream"]


@dataclass(frozen=True)
class Question:
    """A question, the keys of its rows in order, and the filters it accepts.

    ``first``: the columns that answer it, by importance, which a terminal shows; () for all.
    """

    name: str
    about: str
    columns: tuple[str, ...]
    answer: Callable[[View], Iterable[Row]]
    filters: tuple[str, ...]
    first: tuple[str, ...] = ()

    @property
    def view(self) -> str:
        """The SQL view with the same rows."""
        return f"v_{self.name}"


def _question(
    name: str,
    about: str,
    columns: str,
    answer: Callable[[View], Iterable[Row]],
    filters: str,
    first: str = "",
) -> Question:
    return Question(name, about, tuple(columns.split()), answer, tuple(filters.split()), tuple(first.split()))


_STATUSES = " ".join(STATUS_COLUMNS)
QUESTIONS: dict[str, Question] = {
    q.name: q
    for q in (
        _question(
            "ops",
            "the ops of the catalog",
            "op package extends inputs params outputs backends torch rules kernel summary source",
            definitions.ops,
            "op backend torch_op",
            "op summary backends torch kernel",
        ),
        _question(
            "params",
            "their parameters",
            "op param type dtype dims optional default kind enum inherited doc",
            definitions.params,
            "op dtype",
            "op param type optional default doc",
        ),
        _question(
            "types",
            "the documented type rows",
            "op backend config type_row cells since until needs source",
            definitions.types,
            "op backend sdk dtype torch_op",
            "op backend type_row cells since until needs",
        ),
        _question(
            "torch",
            "the ATen targets and how each becomes QNN ops",
            "torch_op form ops decomposition when why inputs absent params outputs ignored family place source",
            definitions.torch,
            "op torch_op",
            "torch_op ops form when why",
        ),
        _question(
            "rules",
            "every rule, written and derived",
            "op rule backend kind strength unchecked when expression why inherited source",
            definitions.rules,
            "op backend",
            "rule expression strength backend why when",
        ),
        _question(
            "backends",
            "the QNN backends, and which libraries can be asked here",
            "backend about id letter library asked chips ops context",
            definitions.backends,
            "backend",
            "backend about library asked chips ops context",
        ),
        _question(
            "socs",
            "the chips, and what the HTP device takes",
            "soc names hexagon htp floats simulated vtcm_mb soc_model soc_ids libraries htp_arch fp16 bf16",
            definitions.socs,
            "soc",
            "soc names hexagon htp floats simulated soc_model libraries",
        ),
        _question(
            "errata",
            "the faults of vendor libraries",
            "erratum backend op title effect cause since until arch socs execution workaround cost seen",
            definitions.errata,
            "op backend soc sdk torch_op",
            "erratum op title effect workaround since until arch",
        ),
        _question(
            "support",
            "the support of each op, type row, backend, SoC and SDK: in a word, and by stage",
            f"op type_row cells backend soc sdk status why errata since {_STATUSES} measurements counts furthest stopped"
            " code_name reason"
            " library measured execution source",
            evidence.support,
            "op backend soc sdk dtype torch_op",
            "op status cells why soc sdk type_row backend since errata",
        ),
        _question(
            "evidence",
            "the evidence that opdb ships, and what was merged from others' files, as it was measured",
            f"kind op type_row torch_op precision backend soc sdk execution {' '.join(STATUS_COLUMNS[1:])} cases counts furthest"
            " case config stopped stopped_case code code_name reason errata package package_version build_id sha256 flow"
            " measured host generator seed case_limit origin",
            evidence.evidence,
            "op backend soc sdk torch_op",
            "op torch_op furthest soc sdk type_row backend reason errata validates finalizes executes matches",
        ),
        _question(
            "runs",
            "every measurement of one's own",
            f"kind run started op type_row backend soc sdk {_STATUSES} ours rules reasons code code_name log"
            " error_max ulp magnitude seconds detail package package_version emulated config case case_kind executor"
            " executor_version",
            evidence.runs,
            "op backend soc sdk dtype disagree",
            "op type_row backend soc sdk ours validates finalizes executes matches code_name reasons",
        ),
        _question(
            "agreement",
            "how often a library's validation and ours agree, by the last sweeps of 'opdb probe'",
            "op backend soc sdk n both_accept both_reject we_accept_it_rejects we_reject_it_accepts undecided"
            " crashed percent package package_version",
            evidence.agreement,
            "op backend soc sdk",
            "op backend soc sdk percent n we_accept_it_rejects we_reject_it_accepts undecided crashed",
        ),
        _question(
            "census",
            "how far each op comes in a library, by the last sweeps of 'opdb probe': validates, finalizes, executes",
            "op backend soc sdk asked validates finalizes executes furthest stopped code code_name config"
            " package package_version",
            evidence.census,
            "op backend soc sdk",
            "op backend soc sdk furthest stopped code_name asked validates finalizes executes",
        ),
        _question(
            "coverage",
            "for each rule: where it is, and which cases tried it",
            "op rule backend stated python c positive negative executed implied_by",
            evidence.coverage,
            "op backend",
            "rule backend positive negative executed implied_by",
        ),
    )
}


#: Old question names -> current ones; the next release drops the old names.
RENAMED = {"measured": "evidence", "quirks": "errata"}


def ask(store: Store, question: str, filters: Filters | None = None, where: str | None = None) -> list[Row]:
    """The rows that answer a question; each has all of ``QUESTIONS[question].columns``, in order.

    Raises OpdbError for an unknown question, op, backend, SoC, or dtype, a filter that the question does not
    accept, or a ``where`` that cannot be parsed.
    """
    return list(stream(store, question, filters, where))


def stream(
    store: Store, question: str, filters: Filters | None = None, where: str | None = None
) -> Iterator[Row]:
    """Yields the rows of ``ask`` one by one, so that millions of rows need little memory.  Raises like ``ask``, at the call."""
    asked = _checked(question, filters or Filters())
    columns: dict[str, str | None] = {c.name: c.type for c in ABOUT[asked.view].columns}
    return _answers(store, asked, filters or Filters(), condition(where, columns) if where else None)


def _answers(store: Store, asked: Question, filters: Filters, keep: Condition | None) -> Iterator[Row]:
    narrowed = {} if keep is None or keep.sql is None else {asked.view: keep.sql}
    with store.asking() as reader:
        rows = asked.answer(View(reader, filters, narrowed))
        for row in rows if keep is None else filter(keep.keeps, rows):
            yield row if (*row,) == asked.columns else {c: row[c] for c in asked.columns}


def _checked(question: str, filters: Filters) -> Question:
    asked = QUESTIONS.get(question)
    if asked is None:
        hint = did_you_mean(question, QUESTIONS, f"known: {', '.join(QUESTIONS)}")
        raise OpdbError(f"no question '{question}'{hint}")
    for name, value in vars(filters).items():
        if value not in (None, ()) and name not in asked.filters:
            known = ", ".join(f"--{f.replace('_', '-')}" for f in asked.filters)
            raise OpdbError(
                f"'{question}' cannot be filtered by --{name.replace('_', '-')}; it takes {known}"
            )
    return asked


def agreement_of(store: Store, runs: Collection[int]) -> list[Row]:
    """The rows of the question "agreement" for single probe runs, in their order."""
    with store.asking() as reader:
        found = evidence.agreement_of_runs(View(reader, Filters()), runs)
    return [{c: row[c] for c in QUESTIONS["agreement"].columns} for row in found]


def errata_notes(store: Store, idents: Collection[str]) -> list[str]:
    """A line per erratum: its id and title, in the order of ``idents``."""
    titles = {row["erratum"]: row["title"] for row in ask(store, "errata")} if idents else {}
    return [f"{ident}: {titles[ident]}" for ident in idents if ident in titles]
