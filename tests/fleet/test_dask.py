"""Dask as the engine: several models at once here, and a scheduler with workers that are processes."""

import os
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest

import surgeon
from tests.command_line import run
from tests.fleet import parts, zoo

distributed = pytest.importorskip("distributed")
from surgeon.automation.fleet.execution.dask_engine import DaskEngine  # noqa: E402 - it needs Dask

GELU = surgeon.Recipe([surgeon.Rules("gelu")])
TROUBLE = surgeon.Recipe([surgeon.Rules(zoo.RULES)])


def test_several_at_once_come_to_the_same(tmp_path):
    """Whatever one of them does; both that hang do it at the same time."""
    zoo.small_zoo(tmp_path / "zoo")
    for name in "ab":
        zoo.troubled(tmp_path / f"zoo/bad/hang{name}.onnx", zoo.HANG)
    begun = []
    settings = {"model_time": zoo.ample_time(tmp_path), "jobs": 2, "begins": begun.append}
    found = surgeon.run_many(TROUBLE, f"{tmp_path}/zoo/**/*.onnx", to=tmp_path / "out", **settings)
    expected = zoo.EXPECTED | {"bad/hanga.onnx": "late", "bad/hangb.onnx": "late"}
    assert {row.model: row.outcome for row in found} == dict(sorted(expected.items()))
    assert set(begun) == set(expected)
    assert found.seconds < sum(row.seconds for row in found)


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """A scheduler with one worker, which says how much memory it has."""
    folder = tmp_path_factory.mktemp("dask")
    with parts.scheduler() as (_, address), parts.workers(address, 1, folder, "--resources", "memory=2e9"):
        yield address


def test_a_scheduler_that_runs_is_joined(dask, tmp_path):
    """By its address, by Dask's configuration, and by a client of the user's own."""
    import distributed

    zoo.gelus(tmp_path / "zoo/a.onnx")
    over, address = f"{tmp_path}/zoo/*.onnx", dask.replace("dask://", "tcp://")
    assert surgeon.run_many(GELU, over, to=tmp_path / "one", engine=dask).ok
    with pytest.MonkeyPatch.context() as patch:
        import dask as library

        patch.setitem(library.config.config, "scheduler-address", address)
        assert surgeon.run_many(GELU, over, to=tmp_path / "two", engine="dask").ok
    with distributed.Client(address, set_as_default=False) as client:
        assert surgeon.run_many(GELU, over, to=tmp_path / "three", client=client).ok
        assert client.status == "running"
    names = [(tmp_path / name / "a.onnx").read_bytes() for name in ("one", "two", "three")]
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize(
    ("status", "page", "is_told"), [(200, b"plots", True), (200, b"Dask needs bokeh >= 3", False), (404, b"", False)]
)
def test_the_dashboard_is_reported_where_there_is_one(status, page, is_told):
    """A scheduler without one has a link all the same, to a page that says what is missing, or to none."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        link = f"http://127.0.0.1:{server.server_port}/status"
        assert DaskEngine(SimpleNamespace(dashboard_link=link), None).dashboard == (link if is_told else None)
        server.shutdown()
    assert DaskEngine(SimpleNamespace(dashboard_link=link), None).dashboard is None  # nobody is there any more
    assert DaskEngine(SimpleNamespace(dashboard_link=None), None).dashboard is None


def test_the_dashboard_of_a_real_scheduler_is_reported(tmp_path, monkeypatch):
    """With bokeh, which draws it: the address that is told is the page with its plots, where the work can be seen."""
    # A busy machine draws it late.
    monkeypatch.setattr("surgeon.automation.fleet.execution.dask_engine._DASHBOARD", 60.0)
    pytest.importorskip("bokeh", reason="nothing draws the dashboard: pip install bokeh")
    zoo.gelus(tmp_path / "zoo/a.onnx")
    at, message = f"127.0.0.1:{parts.free_port()}", []
    with parts.scheduler("--dashboard-address", at) as (_, address), parts.workers(address, 1, tmp_path / "dask"):
        settings = {"engine": address, "dashboard": message.append}
        assert surgeon.run_many(GELU, f"{tmp_path}/zoo/*.onnx", to=tmp_path / "one", **settings).ok
        assert message == [f"http://{at}/status"]
        with urllib.request.urlopen(message[0]) as page:
            assert b"<title>Dask Diagnostic UI</title>" in (text := page.read())
            assert b"bokeh" in text


def test_the_address_is_reported_before_the_first_model(dask, tmp_path, monkeypatch, capsys):
    from surgeon.cli.progress import FleetProgress

    zoo.gelus(tmp_path / "zoo/a.onnx")
    monkeypatch.setattr(DaskEngine, "dashboard", "http://here/status")
    reported = []
    settings = {"engine": dask, "dashboard": reported.append, "begins": reported.append}
    surgeon.run_many(GELU, f"{tmp_path}/zoo/*.onnx", to=tmp_path / "one", **settings)
    assert reported == ["http://here/status", "a.onnx"]
    FleetProgress(False).dashboard(reported[0])
    assert capsys.readouterr().err == "dashboard http://here/status\n"


AT_ONCE = Barrier(2)
RUNNING: list[str] = []
RUNNING_COUNTS: list[int] = []


def two_meet(job, reports_start=False):
    """Ends well where another one runs at the same time."""
    AT_ONCE.wait(60)
    return job.row("proved").to_dict()


def counted(job, reports_start=False):
    """Notes how many run with it, for a while in which another one could begin."""
    RUNNING.append(job.model.name)
    time.sleep(0.05)
    RUNNING_COUNTS.append(len(RUNNING))
    RUNNING.remove(job.model.name)
    return job.row("proved").to_dict()


@pytest.mark.parametrize(("work", "size"), [(two_meet, 1000), (counted, 1 << 50)], ids=["small", "large"])
def test_large_models_do_not_meet_and_small_ones_do(monkeypatch, work, size):
    """Dask gives a worker no more at once than the memory that it has is thought to do for."""
    from surgeon.automation.fleet.execution import dask_engine
    from surgeon.automation.fleet.job import FleetSettings, ModelJob
    from surgeon.automation.fleet.run_database import PlannedModel

    settings = FleetSettings(GELU, "/nowhere").with_cache_key()
    monkeypatch.setattr(dask_engine, "run_in_process", work)
    RUNNING_COUNTS.clear()
    engine = dask_engine.start_local(2, None)
    models = [PlannedModel(f"{name}.onnx", f"/{name}.onnx", size, "t") for name in "abcd"]
    found = list(engine.rows(ModelJob(model, settings) for model in models))
    engine.close()
    assert [row.outcome for row in found] == ["proved"] * 4
    assert set(RUNNING_COUNTS) == ({1} if work is counted else set())


def test_workers_of_other_versions_begin_nothing(dask, tmp_path, monkeypatch):
    from surgeon.automation.fleet.execution import dask_engine

    zoo.gelus(tmp_path / "zoo/a.onnx")
    here = dict(dask_engine.dependency_versions())
    monkeypatch.setattr(dask_engine, "dependency_versions", lambda: here | {"surgeon": "9.9"})
    (tmp_path / "r.toml").write_text('[[step]]\nrules = "gelu"\n', encoding="utf-8")
    to = ("--to", tmp_path / "out", "--engine", dask)
    ran = run("run", tmp_path / "r.toml", "--over", f"{tmp_path}/zoo/*.onnx", *to)
    assert ran.exit_code == 2
    assert f"has surgeon {here['surgeon']}, but this process has 9.9. Install the same version" in ran.stderr
    assert not (tmp_path / "out").exists()


def test_rules_that_workers_do_not_reach_begin_nothing(dask, tmp_path, monkeypatch):
    from surgeon.automation.fleet.job import FleetSettings

    zoo.gelus(tmp_path / "zoo/a.onnx")
    monkeypatch.setattr(FleetSettings, "files", lambda self: [])
    files = [tmp_path / "zoo/a.onnx", tmp_path / "not/there.py"]
    from surgeon.automation.fleet.execution.dask_engine import connect

    with pytest.raises(surgeon.UsageError, match=r"cannot read .*not/there.py. Use a store, or mount"):
        connect(dask, None, list(map(os.fspath, files)))


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path, monkeypatch):
    from surgeon.automation.fleet.execution import dask_engine

    monkeypatch.setattr(dask_engine, "_ANSWER", 0.5)
    zoo.gelus(tmp_path / "zoo/a.onnx")
    address = f"dask://127.0.0.1:{parts.free_port()}"
    asked, client = [], distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda at, **how: asked.append(how["timeout"]) or client(at, **how))
    with pytest.raises(surgeon.UsageError, match="No scheduler found at tcp://127.0.0.1"):
        surgeon.run_many(GELU, f"{tmp_path}/zoo/*.onnx", to=tmp_path / "out", engine=address)
    assert asked == [0.5]
    assert not (tmp_path / "out").exists()
