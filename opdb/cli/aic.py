"""aic: models and custom-op packages of Qualcomm Cloud AI.  ``package aic`` makes packages."""

from __future__ import annotations

import typer

aic_app = typer.Typer(
    help="Custom ops of Qualcomm Cloud AI (AI 100).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(aic_app, name="aic")
