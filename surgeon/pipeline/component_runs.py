"""Runs a function that changes models on a container of several, one after the other."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from surgeon.errors import CheckFailed, UsageError
from surgeon.file.model_like import joined, parts_of
from surgeon.pipeline.reports.report import Report
from surgeon.result_base import ModelAndReport

F = TypeVar("F", bound=Callable[..., tuple[Any, Any]])


def for_each_component(function: F) -> F:
    """A function of a `source` that also takes a container of models, and returns one, with a report for each.

    If checks of a component fail, the other components are changed nevertheless, and the error has all reports.
    """

    @wraps(function)
    def run_all(*given: Any, **options: Any) -> Any:
        bound = signature(function).bind(*given, **options)
        source = bound.arguments["source"]
        parts = parts_of(source)
        if not parts:
            return function(*given, **options)
        if bound.arguments.get("output") is not None:
            raise UsageError("An export of several models is returned, not written. Leave out output.")
        made, reports, failures = dict(parts), dict[str, Report](), list[str]()
        for name, part in parts.items():
            bound.arguments["source"] = part
            try:
                result, reports[name] = function(*bound.args, **bound.kwargs)
            except CheckFailed as failed:
                if not isinstance(failed.report, Report):
                    raise
                result, reports[name] = failed.result, failed.report
                failures.append(f"{name}: {failed}")
            made[name] = part if result is None else result
        from surgeon.pipeline.reports.component_reports import ComponentReports  # not at the top: few runs need it

        is_same = all(made[name] is part for name, part in parts.items())
        whole, report = source if is_same else joined(source, made), ComponentReports.of(reports)
        if failures:
            raise CheckFailed(" ".join(failures), report, whole)
        return ModelAndReport((whole, report))

    return cast(F, run_all)
