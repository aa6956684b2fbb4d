"""A run whose hardware figures come from somebody else's wiki: methods stay ours, every citation can be opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.__main__ import main
from knowledge_base.__main__ import main as ask
from tests.graph.conftest import SHORT, configured

PAGE = """# Accelerators

## NVIDIA H200

| Parameter | Value |
|---|---|
| Memory Bandwidth | 4.8 TB/s |
| L2 Cache | 50 MB |
"""


@pytest.mark.slow
def test_a_run_cites_a_foreign_wiki_and_keeps_our_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "wiki" / "docs" / "hardware-specs"
    pages.mkdir(parents=True)
    (pages / "accelerators.md").write_text(PAGE)
    config = configured(tmp_path, **SHORT, hardware="H200", gpu_wiki_path=str(tmp_path / "wiki"))
    assert main(["run", str(config), "--quiet"]) == 0
    (root,) = (tmp_path / "workspaces").iterdir()
    assert "memory_bandwidth: 4.8 TB/s <- <gpu-wiki>/docs/hardware-specs/accelerators.md:7" in (root / "README.md").read_text()
    assert "openmp-parallel-outer" in (root / "report.md").read_text()
    capsys.readouterr()
    assert ask(["lint", "--workspace", str(root)]) == 0, capsys.readouterr().out
    (pages / "accelerators.md").write_text(PAGE.replace("4.8", "4.9"))
    assert ask(["lint", "--workspace", str(root)]) == 1
    assert "does not say any more what was cited" in capsys.readouterr().out
