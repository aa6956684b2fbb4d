"""The vectors that come with the repository: `python -m tests.shipped` embeds what is new in the bundled wiki and
drops what is gone."""

from __future__ import annotations

import sys

from knowledge_base.pages.wiki import Wiki
from knowledge_base.search import vectors
from knowledge_base.search.documents import Architectures, of_wiki
from knowledge_base.search.embedding import MiniLM
from tools.errors import InfrastructureError, SettingsError


def wanted() -> dict[bytes, str]:
    """Key -> text of all that a question of the bundled wiki can find. No model is needed for it."""
    wiki = Wiki.open()
    return {MiniLM().key(entry.text)[: vectors.KEY]: entry.text for entry in of_wiki(wiki, Architectures(wiki))}


def main() -> int:
    """Write the file and say what changed."""
    embedder = MiniLM()
    texts, known = wanted(), vectors.codes_by_key(embedder)
    new = [key for key in texts if key not in known]
    made = vectors.packed(embedder.embed([texts[key] for key in new])) if new else []
    vectors.write_precomputed(
        embedder, {key: code for key, code in known.items() if key in texts} | dict(zip(new, made, strict=True))
    )
    print(
        f"{vectors.PRECOMPUTED.name}: {len(texts)} vectors, {len(new)} of them new; "
        f"{len(known.keys() - texts.keys())} are gone"
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (SettingsError, InfrastructureError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
