"""The help of a command: its text with an example, its options by section, and its exit codes."""

import re
from collections.abc import Mapping
from inspect import cleandoc

import click

SECTIONS: Mapping[str, str] = {
    "Edits": "",
    "Options": "",
    "Rules": "rules allow_rules plugins inline approximate fold_limit only skip",
    "Target": "target ep ep_library upgrade load",
    "TensorRT": "trt build sm",
    "Baseline": "baseline update tolerance fail_on",
    "Many models": "over to resume rows jobs engine own_proofs model_time model_memory",
    "Checks": "check require_proof expect keep_going dims inputs seed rtol atol layers decode custom_ops assume "
    "proof_time run_time coverage cache",
    "Speed": "measure at threads budget",
    "Files": "dry_run force external_data",
    "Output": "report_path sarif junit markdown as_json diff verbose quiet",
}
"""The sections of a command's help, with the parameters whose options belong there; others are in Options."""
COLUMN = 23  # the widest flags that have their text on the same line
EXIT_CODES = {"0": "success", "2": "bad input or usage", "4": "internal error"}
_CODES = re.compile(r"\n+ *Exit codes: (.+?)\.?\s*(?=\n\n|\Z)", re.DOTALL)


class HelpPage(click.Command):
    """A command whose help ends with its exit codes: `EXIT_CODES`, and those under "Exit codes:" in its docstring."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text without the exit codes."""
        formatter.write_paragraph()
        with formatter.indentation():
            text = re.sub(r"\n+(?=Example: )", "\n\n", _CODES.sub("", cleandoc(self.help or "")))
            formatter.write_text(re.sub(r"\.  (?=\w)", ". ", text))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of a group, then the options, section by section."""
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        found: dict[str, list[tuple[int, tuple[str, str]]]] = {title: [] for title in SECTIONS}
        for item in self.get_params(ctx):
            record = item.get_help_record(ctx)
            if isinstance(item, click.Option) and record is not None:
                title = getattr(item, "section", "Options" if isinstance(self, click.Group) else "Output")
                known = SECTIONS[title].split()
                place = known.index(str(item.name)) if item.name in known else len(known)
                text = "Print this help and exit." if "--help" in item.opts else record[1]
                found[title].append((place, (record[0].ljust(COLUMN), text)))
        for title, rows in found.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([row for _, row in sorted(rows, key=lambda row: row[0])], col_max=COLUMN)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes."""
        documented = _CODES.search(cleandoc(self.help or ""))
        text = "" if documented is None else " ".join(documented[1].split())
        codes = EXIT_CODES | dict(re.findall(r"(\d) (.+?)(?=, \d |$)", text))
        formatter.write_paragraph()
        exits = f"Exit codes: {', '.join(f'{code} {codes[code]}' for code in sorted(codes))}"
        formatter.write_text("\n\n".join(filter(None, (self.epilog, exits))))
