"""The command `surgeon rules`: lists the rules, prints their manuals, or proves them."""

import gc
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from surgeon.cli.command_group import CHECK_FAILED, wants_json
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import TargetName
from surgeon.cli.progress import progress
from surgeon.cli.report_file import emit
from surgeon.errors import UsageError
from surgeon.printed_commands import command

if TYPE_CHECKING:
    from surgeon.authoring.rule_proof.result import RuleProof
    from surgeon.rules.rule import Rule


@derived_command(
    positional={"name": "[NAME]"},
    shared="custom_ops cache",
    targets=Spelling("--target", "NAME", TargetName(), multiple=True, section="Target"),
)
def rules(name: str | None, verbose: bool, prove: bool = False, targets: Sequence[str] = (), **settings: Any) -> None:
    """List groups and families of rules, search for rules, show the manual of a rule, or prove it.

    NAME is a rule or a rule file, as for --rules: gelu, ./my_rules.py, package.module:name.  For a group, or another
    text, surgeon lists the rules that contain it in their name, file, family, ops or summary.  --verbose lists all.
    Example: surgeon rules gelu --prove
    Exit codes: 1 a form failed or is unproved, with --prove

    Args:
        prove: prove every pattern against every form of the replacement, on generated models.
        targets: prove only the forms of this target.
    """
    from surgeon.diagnostics.rule_search import rules_with
    from surgeon.display.terminal.rule_manual import listing, manuals, rule_list
    from surgeon.rules.catalogue import all_rules, resolve, unique_rules

    if prove:
        if name is None:
            raise UsageError(f"--prove needs the names of rules: {command('rules', 'NAMES', '--prove')}")
        _prove_rules(unique_rules(resolve(name)), targets, **settings)
    elif name is not None and (named := manuals(name)):
        emit(named)
    else:
        found = list(all_rules()) if name is None else rules_with(name)
        emit([rule_list(found)], show=lambda: _print(listing(found, verbose or name is not None)))


def _print(sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Print rows of a name and a text by title."""
    formatter = click.HelpFormatter(max_width=110)
    for title, rows in sections.items():
        with formatter.section(title):
            formatter.write_dl(rows)
    click.echo(formatter.getvalue().strip("\n") or "No rule pack is installed.")


def _prove_rules(found: "Sequence[Rule]", targets: Sequence[str], custom_ops: Sequence[str], *, cache: bool) -> None:
    """Prove rules, and show each proof when it is complete."""
    from surgeon.authoring.rule_proof.prover import prove_rule
    from surgeon.display.terminal.terminal_renderer import show
    from surgeon.proof.check_result import Outcome
    from surgeon.runtime.sessions.ort_session import require_libraries

    libraries, is_json = require_libraries(custom_ops), wants_json(click.get_current_context())
    gc.freeze()  # imported modules are not garbage
    gc.enable()  # each instance leaves reference cycles
    proofs: list[RuleProof] = []
    for number, rule in enumerate(found):
        with progress(False, "proof") as note:
            chosen = list(targets) or None
            proof = prove_rule(rule, targets=chosen, custom_ops=libraries, progress=note, cache=cache)
        proofs.append(proof)
        if not is_json:
            click.echo("\n" * bool(number), nl=False)
            show(proof, sys.stdout)
    all_proved = all(proof.outcome is Outcome.PROVED for proof in proofs)
    emit(proofs, 0 if all_proved else CHECK_FAILED, show=lambda: None)
