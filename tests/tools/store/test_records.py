"""Evidence is content-addressed, written whole, and the first answer to a question stays the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts import Record
from tools.errors import DiskFullError, StorageError, WorkspaceError
from tools.store.blobs import Blobs, write_atomically
from tools.store.records import Records, record_key


def record(question: str, answer: object = 1) -> Record:
    return Record(kind="test", key=record_key("test", question=question), payload={"answer": answer})


def test_a_record_is_found_by_its_question_also_by_another_process(tmp_path: Path) -> None:
    made = Records(tmp_path).add(record("how fast?", {"ünïcode": [1e-300, 0.1 + 0.2, 2**70, None]}))
    again = Records(tmp_path)
    assert again.find(record_key("test", question="how fast?")) == again.get(made.id) == made and list(again) == [made]
    assert again.find(record_key("test", question="how slow?")) is None


def test_the_first_answer_stays(tmp_path: Path) -> None:
    records = Records(tmp_path)
    first = records.add(record("q", 1))
    assert records.add(record("q", 2)) == first
    assert len(list((tmp_path / "records").iterdir())) == 1


def test_no_record_without_its_blobs(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with pytest.raises(StorageError, match="missing"):
        records.add(record("q").model_copy(update={"blobs": {"log": "0" * 64}}))
    assert not (tmp_path / "records").exists()


def test_an_altered_record_is_noticed(tmp_path: Path) -> None:
    made = Records(tmp_path).add(record("q", 1))
    path = tmp_path / "records" / f"{made.id}.json"
    path.write_text(path.read_text().replace('"answer": 1', '"answer": 2'))
    with pytest.raises(StorageError, match="does not match its id"):
        Records(tmp_path)


LATER = '{"kind": "test", "key": "k", "payload": {}, "later": 1}'


@pytest.mark.parametrize(
    ("content", "says"),
    [('{"kind": "test", "ke', "cut short or damaged"), (LATER, "not have the form that this version writes")],
)
def test_a_record_that_is_none_is_one_sentence(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "abc.json").write_text(content)
    with pytest.raises(WorkspaceError, match=says) as raised:
        Records(tmp_path)
    assert (
        str(raised.value).startswith(f"{tmp_path}: ")
        and "\n" not in str(raised.value)
        and "http" not in str(raised.value)
    )


def test_an_altered_blob_is_noticed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    sha = blobs.put("evidence")
    assert blobs.text(sha) == "evidence"
    (tmp_path / sha).write_text("evidencE")
    with pytest.raises(StorageError, match="does not match its name"):
        blobs.get(sha)


def test_writing_leaves_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DiskFullError, match="free some space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_keys_do_not_depend_on_order() -> None:
    assert record_key("k", a=1, b=2) == record_key("k", b=2, a=1) != record_key("k", a=1, b=3)
