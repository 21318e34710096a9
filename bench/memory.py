"""What a memory finds again: the share of a question's evidence among the first texts it gives.

    python bench/memory.py LOCOMO.json.gz [--top 10]

The file has dialogues of LoCoMo with questions, and the turns that answer each. Adversarial
questions, which nothing answers, do not count. Each memory keeps every turn, with its speaker; all
of them are asked the same questions in one run. None of them was tuned on these dialogues.
"""

import argparse
import asyncio
import gzip
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from weft import Memory
from weft.stores.vector_memory import VectorMemory

KINDS = {1: "multi-hop", 2: "time", 3: "open", 4: "single-hop"}


async def measure(dialogues: list[dict[str, Any]], top: int) -> None:
    """Print a line for each memory."""
    folder = Path(tempfile.mkdtemp())
    memories: dict[str, Memory | VectorMemory] = {
        "words (BM25)": Memory(),
        "words and meaning": Memory(scorer="embedding"),
        "vectors (sqlite-vec, word vectors)": VectorMemory(f"sqlite:///{folder}/memories.db"),
    }
    print(f"{'':<36}{'all':>7}" + "".join(f"{kind:>12}" for kind in KINDS.values()) + "   CPU/ask")
    for name, memory in memories.items():
        shares: dict[str, list[float]] = defaultdict(list)
        asked = spent = 0.0
        for dialogue in dialogues:
            user, texts = dialogue["sample_id"], {}
            for key, turns in dialogue["conversation"].items():
                if key.startswith("session_") and isinstance(turns, list):
                    for turn in turns:
                        text = f"{turn['speaker']}: {turn['text']}"[:4000]
                        texts[turn["dia_id"]] = text
                        await memory.remember("bench", user, text)
            for question in dialogue["qa"]:
                wanted = {texts[id] for id in question["evidence"] if id in texts}
                if question["category"] not in KINDS or not wanted:
                    continue
                begun = time.process_time()
                found = await memory.find("bench", user, question["question"], top_k=top)
                spent += time.process_time() - begun
                asked += 1
                share = len(wanted & {one.text for one in found}) / len(wanted)
                shares[KINDS[question["category"]]].append(share)
        everything = [share for row in shares.values() for share in row]
        line = f"{name:<36}{sum(everything) / len(everything):>7.1%}"
        for kind in KINDS.values():
            line += f"{sum(shares[kind]) / len(shares[kind]):>12.1%}"
        print(f"{line}{1000 * spent / asked:>7.1f} ms", flush=True)
        await memory.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--top", type=int, default=10)
    asked = parser.parse_args()
    with gzip.open(asked.file, "rt", encoding="utf-8") as file:
        asyncio.run(measure(json.load(file), asked.top))


if __name__ == "__main__":
    main()
