"""The report of a recipe: those of its parts, one after the other."""

from dataclasses import dataclass

from surgeon.pipeline.reports.report import Report


@dataclass(slots=True)
class RecipeReport(Report):
    """The changes of each step of a recipe.

    Examples:
        >>> import surgeon
        >>> recipe = surgeon.Recipe([surgeon.Rules("gelu")])
        >>> _, report = surgeon.run(recipe, "notebooks/models/tiny_distilbert.onnx", "out.onnx")
        >>> report.outcome, len(report.parts)
        ('proved', 1)
    """

    @property
    def parts(self) -> list[Report]:
        """A report of each group of edits and of each step of rules, in order."""
        return self.steps

    def __repr__(self) -> str:
        return f"<RecipeReport {len(self.parts)} parts; {self.outcome}>"
