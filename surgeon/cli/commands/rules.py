"""The command `surgeon rules`: lists the rules, prints their manuals, or proves them."""

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from surgeon.cli.command_group import CHECK_FAILED
from surgeon.cli.options import Spelling, derived_command
from surgeon.cli.param_types import TargetName
from surgeon.cli.progress import progress
from surgeon.errors import UsageError
from surgeon.printed_commands import command

if TYPE_CHECKING:
    from surgeon.rules.rule import Rule


@derived_command(positional={"name": "[NAME]"}, targets=Spelling("--target", type=TargetName(), multiple=True))
def rules(name: str | None, custom_ops: Sequence[str], prove: bool = False, targets: Sequence[str] = ()) -> None:
    """List the rules, or print the manual of those that NAME leads to, or prove them.

    NAME is as for --rules: gelu, ./my_rules.py, package.module:name.  With --prove, the exit code is 0 if every form is
    proved or not matched by the rule, and 1 if one fails or stays unproved.
    Example: surgeon rules gelu --prove

    Args:
        prove: prove every pattern against every form, from the rule alone.
        targets: prove only the forms of this target.
    """
    from surgeon.display.terminal.rule_manual import print_list, print_postprocessing
    from surgeon.display.terminal.terminal_renderer import show
    from surgeon.rules.catalogue import all_rules, groups, resolve, unique_rules
    from surgeon.rules.edit_aliases import EDIT_ALIASES

    if name is None:
        if prove:
            raise UsageError(f"Say which rules to prove, as in: {command('rules', 'NAMES', '--prove')}")
        print_list(all_rules(), groups(), sys.stdout)
        return
    if name in EDIT_ALIASES and not prove:
        print_postprocessing(name, sys.stdout)
        return
    found = unique_rules(resolve(name))
    if prove and not _prove_rules(found, targets, custom_ops):
        click.get_current_context().exit(CHECK_FAILED)
    for number, rule in enumerate(() if prove else found):
        if number:
            click.echo()
        show(rule, sys.stdout)


def _prove_rules(found: "Sequence[Rule]", targets: Sequence[str], custom_ops: Sequence[str]) -> bool:
    """Prove rules and print the results; returns whether all are proved."""
    from surgeon.authoring.rule_proof.prover import prove_rule
    from surgeon.display.terminal.terminal_renderer import show
    from surgeon.proof.check_result import Outcome
    from surgeon.runtime.sessions.ort_session import require_libraries

    libraries = require_libraries(custom_ops)
    gc.freeze()  # imported modules are not garbage
    gc.enable()  # each instance leaves reference cycles
    all_proved = True
    for number, rule in enumerate(found):
        with progress(False, "proof") as note:
            proof = prove_rule(rule, targets=list(targets) or None, custom_ops=libraries, progress=note)
        if number:
            click.echo()
        show(proof, sys.stdout)
        all_proved = all_proved and proof.outcome is Outcome.PROVED
    return all_proved
