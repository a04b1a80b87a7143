"""Models in a store: an S3 server of its own process, of which as little is read as a recipe looks at."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

import surgeon
from surgeon.automation.fleet.storage.sparse_file import SparseFile, bring_skeleton
from surgeon.automation.fleet.storage.storage import LocalStorage, TransientStorageError, storage_errors, storage_of
from surgeon.errors import ModelFileError
from surgeon.file.external_data.on_demand import fetched_on_demand
from surgeon.file.model import Model
from tests.command_line import run
from tests.fleet import parts, zoo

if find_spec("s3fs") is None or find_spec("moto") is None:  # not imported here: every process of a test run would
    pytest.skip("nothing stands for a store: pip install s3fs moto", allow_module_level=True)
GELU = surgeon.Recipe([surgeon.Rules("gelu")])


@pytest.fixture(scope="module")
def store():
    """An S3 server with a bucket for models and one for results; gives its file system."""
    import s3fs

    with parts.s3_server() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        found = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
        found.mkdir("zoo")
        found.mkdir("fused")
        yield found


@pytest.fixture(scope="module")
def models(store, tmp_path_factory):
    """Models there, two of them with a table of 4 MB, one with large weights inside."""
    root = tmp_path_factory.mktemp("models")
    zoo.gelus(root / "a/g.onnx", 2)
    zoo.sparse(root / "b/fires.onnx", 1 << 22, fires=True)
    zoo.sparse(root / "b/plain.onnx", 1 << 22)
    large_inside(root / "c/inside.onnx")
    zoo.broken(root / "d/cut.onnx", "cut")
    zoo.broken(root / "d/lost.onnx", "without data")
    store.put(f"{root}/", "zoo/", recursive=True)
    return root


def large_inside(path, op="Relu"):
    """A model with 16 MB of weights in its file, behind and before its nodes."""
    weight = np.random.default_rng(0).normal(size=(2048, 2048)).astype(np.float32)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["p"]), onnx.helper.make_node(op, ["p"], ["y"])]
    return zoo.save(nodes, [onnx.numpy_helper.from_array(weight, "w")], path, width=2048)


def test_only_what_is_looked_at_is_read(store, models):
    """Tables that a recipe does not look at stay where they are, and are copied there."""
    found = surgeon.run_many(GELU, "s3://zoo/**/*.onnx", to="s3://fused/one")
    outcomes = ["proved", "proved", "unchanged", "unchanged", "refused", "refused"]
    assert [row.outcome for row in found] == outcomes
    assert found["b/fires.onnx"].read < 1000 < 1 << 22 < found["b/fires.onnx"].size
    assert found["b/plain.onnx"].read < 1000
    assert found["c/inside.onnx"].read < 1 << 20 < 1 << 24 < found["c/inside.onnx"].size
    done = {"a/g.onnx", "b/fires.onnx", "b/fires.weights", "b/plain.onnx", "b/plain.weights", "c/inside.onnx"}
    written = {path.removeprefix("fused/one/") for path in store.find("fused/one") if "/proofs/" not in path}
    assert written == done | {".surgeon/run.json", ".surgeon/rows.jsonl"}
    assert store.info("fused/one/b/fires.weights")["size"] == 1 << 22
    assert store.cat("fused/one/c/inside.onnx") == (models / "c/inside.onnx").read_bytes()
    assert "s3://zoo/d/cut.onnx is truncated or damaged" in found["d/cut.onnx"].why
    again = surgeon.run_many(GELU, "s3://zoo/**/*.onnx", to="s3://fused/one", resume=True)
    assert again.kept == len(outcomes)


@pytest.mark.parametrize("way", ["down", "up"])
def test_models_go_from_stores_to_folders_and_back(store, models, tmp_path, way):
    """The same bytes as where all is local."""
    over, to = ("s3://zoo/**/*.onnx", tmp_path / "out") if way == "down" else (f"{models}/**/*.onnx", "s3://fused/up")
    surgeon.run_many(GELU, over, to=to)
    if way == "up":
        store.get("fused/up/", f"{tmp_path}/out/", recursive=True)
    surgeon.run_many(GELU, f"{models}/**/*.onnx", to=tmp_path / "here")
    names = ["a/g.onnx", "b/fires.onnx", "b/fires.weights", "b/plain.onnx", "c/inside.onnx"]
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_edits_read_what_they_run(store, models, tmp_path):
    """A recipe with edits has whole models run, which ask for nothing."""
    recipe = surgeon.Recipe([surgeon.edits.Rename("y", "z"), surgeon.Rules("gelu")])
    found = surgeon.run_many(recipe, "s3://zoo/b/fires.onnx", to=tmp_path / "out")
    assert found["fires.onnx"].read > 1 << 22
    assert found["fires.onnx"].edits == ["output 'y' is renamed to 'z'"]
    assert found.ok


@pytest.mark.parametrize(
    ("over", "to", "message"),
    [
        ("s3://zoo/**/*.onnx", "s3://zoo/fused", "would match"),
        ("s3://zoo/nothing/*.onnx", "s3://fused/x", "No model matches"),
        ("s3://nobucket/*.onnx", "s3://fused/x", "No model matches"),
        ("s3://zoo/**/*.onnx", "s3://nobucket/x", "nobucket"),
    ],
)
def test_what_cannot_begin_is_one_sentence(models, tmp_path, over, to, message):
    (tmp_path / "r.toml").write_text('[[step]]\nrules = "gelu"\n', encoding="utf-8")
    ran = run("run", tmp_path / "r.toml", "--over", over, "--to", to)
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1)
    assert message in ran.stderr


def test_a_bucket_that_takes_nothing_from_the_middle_on(store, models, monkeypatch):
    """What was done stays done, rows say of the rest why it is not there, and the next run does that."""
    server = {name: os.environ[name] for name in (*parts.CREDENTIALS, "AWS_ENDPOINT_URL")}
    over, to = "s3://zoo/[ab]/*.onnx", "s3://fused/shut"
    with parts.gated(server) as (variables, shut):
        monkeypatch.setenv("AWS_ENDPOINT_URL", variables["AWS_ENDPOINT_URL"])
        type(store).clear_instance_cache()
        found = surgeon.run_many(GELU, over, to=to, progress=lambda *_: shut.set())
        outcomes = sorted(row.outcome for row in found)
        assert (outcomes[1:], found.ok) == (["unwritten", "unwritten"], False)
        assert outcomes[0] in ("proved", "unchanged")
        assert all("permission denied" in row.why for row in found.wrong)
        assert "The rows could not be merged into one file: " in found.ended
        shut.clear()
        again = surgeon.run_many(GELU, over, to=to, resume=True)
        assert (again.kept, again.ok, len(again)) == (1, True, 3)
    type(store).clear_instance_cache()


def test_credentials_that_are_missing_are_one_sentence(store, models, tmp_path, monkeypatch):
    for name in parts.CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    type(store).clear_instance_cache()
    with pytest.raises(ModelFileError, match="no credentials were found"):
        surgeon.run_many(GELU, "s3://zoo/a/*.onnx", to="s3://fused/y")
    type(store).clear_instance_cache()  # that without credentials, which others would be given


class Counted(LocalStorage):
    """Files of this machine as a store that counts what it gives, and gives no more than it may."""

    def __init__(self, most=1 << 40):
        self.given, self.most = 0, most

    def read(self, path, start, end):
        self.given += end - start
        if self.given > self.most:
            raise TransientStorageError("enough")
        return super().read(path, start, end)


def ranged(path, tmp_path, storage):
    return SparseFile(storage, storage.stored(str(path)), tmp_path / "hole.onnx")


def test_a_skeleton_is_that_of_the_whole_file(tmp_path):
    """And values that are asked for come, each once."""
    path, storage = large_inside(tmp_path / "m.onnx"), Counted()
    hole = ranged(path, tmp_path, storage)
    bring_skeleton(hole)
    assert storage.given < 1 << 18
    with Model.open(path) as whole, Model.open(hole.path) as partly, fetched_on_demand({hole.path: hole}):
        assert partly.skeleton == whole.skeleton
        (tensor,) = partly.skeleton.graph.initializer
        (same,) = whole.skeleton.graph.initializer
        for _ in range(2):
            np.testing.assert_array_equal(partly.value(tensor), whole.value(same))
        partly.check_unchanged()
    assert storage.given < (1 << 24) + (1 << 18)
    hole.fetch(0, None)
    assert hole.path.read_bytes() == path.read_bytes()
    assert hole.brought == storage.given == path.stat().st_size


def test_ranges_fit_together_in_any_order(tmp_path):
    """What is there is not brought again."""
    path = tmp_path / "data"
    path.write_bytes(np.random.default_rng(1).bytes(5000))
    storage = Counted()
    hole = ranged(path, tmp_path, storage)
    random = np.random.default_rng(2)
    for _ in range(60):
        start, end = sorted(random.integers(0, 5001, 2).tolist())
        hole.fetch(start, end)
        assert hole.path.read_bytes()[start:end] == path.read_bytes()[start:end]
    assert storage.given == hole.brought <= 5000


def test_what_a_store_does_not_give_is_not_forgotten(tmp_path):
    """Whoever could not read data may have gone on without them."""
    hole = ranged(large_inside(tmp_path / "m.onnx"), tmp_path, Counted(most=1 << 18))
    bring_skeleton(hole)
    with Model.open(hole.path) as model, fetched_on_demand({hole.path: hole}), pytest.raises(TransientStorageError):
        model.value(model.skeleton.graph.initializer[0])
    assert isinstance(hole.failed, TransientStorageError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError(13, "Forbidden"), ModelFileError),
        (TimeoutError("slow"), TransientStorageError),
        (OSError(16, "SlowDown"), TransientStorageError),
        (OSError(121, "Internal Server Error"), TransientStorageError),
        (type("NoCredentialsError", (Exception,), {})("Unable to locate credentials"), ModelFileError),
        (ValueError("odd"), ModelFileError),
    ],
)
def test_what_may_pass_is_distinguished_from_what_stays(error, kind):
    with pytest.raises(ModelFileError) as found, storage_errors("s3://zoo/a.onnx", "read"):
        raise error
    assert type(found.value) is kind
    assert str(found.value).startswith("s3://zoo/a.onnx cannot be read")


def test_urls_name_files_as_people_do(tmp_path):
    """Also those in an archive."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "zoo.zip", "w") as archive:
        archive.write(zoo.gelus(tmp_path / "g.onnx"), "a/g.onnx")
    found = surgeon.run_many(GELU, f"zip://**/*.onnx::{tmp_path}/zoo.zip", to=tmp_path / "out")
    assert [(row.model, row.outcome) for row in found] == [("a/g.onnx", "proved")]
    assert storage_of(f"file://{tmp_path}/x")[1] == os.fspath(tmp_path / "x")
    assert Path(tmp_path / "out/a/g.onnx").exists()


def test_a_store_that_removes_one_file_at_a_time(monkeypatch):
    """Servers of S3 refuse many at once where they want a checksum that newer clients do not send."""
    from fsspec.implementations.memory import MemoryFileSystem

    storage, path = storage_of("memory://gone")
    for name in "ab":
        storage.write_text(f"{path}/{name}/x", name)

    def refused(*_, **__):
        raise OSError(5, "An error occurred (MissingContentMD5) when calling the DeleteObjects operation")

    monkeypatch.setattr(MemoryFileSystem, "rm", refused)
    storage.remove(path)
    assert list(storage.find(path)) == []
    storage.write_text(f"{path}/x", "x")
    monkeypatch.setattr(MemoryFileSystem, "rm_file", refused)
    with pytest.raises(TransientStorageError, match="cannot be removed at the moment"):
        storage.remove(path)


def test_ten_gigabytes_that_no_rule_looks_at_stay_where_they_are(tmp_path):
    """Only what is not the data of a tensor comes."""
    zoo.sparse(tmp_path / "zoo/a.onnx", 10 << 30)
    found = surgeon.run_many(GELU, f"local://{tmp_path}/zoo/*.onnx", to=tmp_path / "out", dry_run=True)
    assert [(row.outcome, row.size > 10 << 30, row.read < 1000) for row in found] == [("unchanged", True, True)]


def test_a_store_s_model_is_upgraded_as_a_folder_s_is(tmp_path):
    """Also where no rule fires: that none would is not all that a step of rules does."""
    (tmp_path / "zoo").mkdir()
    large_inside(tmp_path / "zoo/a.onnx")
    before = onnx.load(tmp_path / "zoo/a.onnx", load_external_data=False).opset_import[0].version
    recipe = surgeon.Recipe([surgeon.Rules("gelu", upgrade=before + 1)])
    for start in ("", "local://"):
        surgeon.run_many(recipe, f"{start}{tmp_path}/zoo/*.onnx", to=tmp_path / f"out{len(start)}")
        made = onnx.load(tmp_path / f"out{len(start)}/a.onnx", load_external_data=False)
        assert made.opset_import[0].version == before + 1


def test_stores_that_show_files_early_are_given_them_late(tmp_path):
    """There a file is written under another name first; folders are made."""
    zoo.gelus(tmp_path / "zoo/a/b/g.onnx")
    zoo.sparse(tmp_path / "zoo/a/t.onnx", 1 << 16, fires=True)
    zoo.sparse(tmp_path / "zoo/a/p.onnx", 1 << 16)
    found = surgeon.run_many(GELU, f"local://{tmp_path}/zoo/**/*.onnx", to=f"local://{tmp_path}/out")
    assert [(row.model, row.outcome) for row in found] == [
        ("a/b/g.onnx", "proved"),
        ("a/p.onnx", "unchanged"),
        ("a/t.onnx", "proved"),
    ]
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    done = {"a/b/g.onnx", "a/p.onnx", "a/p.weights", "a/t.onnx", "a/t.weights"}
    assert {name for name in written if "proofs" not in name} == done | {".surgeon/run.json", ".surgeon/rows.jsonl"}
    assert surgeon.run_many(
        GELU, f"local://{tmp_path}/zoo/**/*.onnx", to=f"local://{tmp_path}/out", resume=True
    ).kept == len(found)
