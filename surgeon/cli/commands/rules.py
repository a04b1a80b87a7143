"""The command `surgeon rules`: lists the rules, prints their manuals, or proves them."""

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from surgeon.cli.command_group import CHECK_FAILED, wants_json
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import TargetName
from surgeon.cli.progress import progress
from surgeon.cli.report_file import emit
from surgeon.display.registry import CommandResult
from surgeon.errors import UsageError
from surgeon.printed_commands import command

if TYPE_CHECKING:
    from surgeon.authoring.rule_proof.result import RuleProof
    from surgeon.rules.rule import Rule


@derived_command(
    positional={"name": "[NAME]"}, targets=Spelling("--target", "NAME", TargetName(), multiple=True, section="Target")
)
def rules(
    name: str | None, custom_ops: Sequence[str], cache: bool, prove: bool = False, targets: Sequence[str] = ()
) -> None:
    """List rules, show the manual of a rule, or prove it.

    NAME is a rule or a rule file, as for --rules: gelu, ./my_rules.py, package.module:name.
    Example: surgeon rules gelu --prove
    Exit codes: 1 a form failed or is unproved, with --prove

    Args:
        prove: prove every pattern against every form of the replacement, on generated models.
        targets: prove only the forms of this target.
    """
    from surgeon.display.terminal.rule_manual import print_list, print_postprocessing, rule_list
    from surgeon.rules.catalogue import all_rules, groups, resolve, unique_rules
    from surgeon.rules.edit_aliases import EDIT_ALIASES

    if name is None:
        if prove:
            raise UsageError(f"--prove needs the names of rules: {command('rules', 'NAMES', '--prove')}")
        known, members = list(all_rules()), groups()
        emit([rule_list(known, members)], show=lambda: print_list(known, members, sys.stdout))
    elif name in EDIT_ALIASES and not prove:
        data = {"name": name, **EDIT_ALIASES[name]._asdict()}
        emit([CommandResult("tail", data)], show=lambda: print_postprocessing(name, sys.stdout))
    elif prove:
        _prove_rules(unique_rules(resolve(name)), targets, custom_ops, cache=cache)
    else:
        emit(unique_rules(resolve(name)))


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
