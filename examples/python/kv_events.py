"""Two replicas and a router that sends each prompt to the one that has most of it cached: it learns
what they have from their KV events alone: python kv_events.py FILE.engine"""

from __future__ import annotations

import sys

from slipstream import LLM, SamplingParams


class Replica:
    """An LLM and the names of the blocks that it has cached."""

    def __init__(self, engine: str) -> None:
        self.llm = LLM(engine, kv_memory="64MiB", kv_events=10_000)
        self.blocks: set[int] = set()
        self.answered = 0

    def learn(self) -> set[int]:
        """The names that are new since the last call."""
        before = set(self.blocks)
        events, _ = self.llm.take_kv_events()
        for event in events:
            if event.group == 0 and event.kind == "stored":
                self.blocks.update(event.hashes)
            elif event.group == 0 and event.kind == "removed":
                self.blocks.difference_update(event.hashes)
        return self.blocks - before


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: kv_events.py FILE.engine", file=sys.stderr)
        return 2
    params = SamplingParams(max_tokens=16, temperature=0)
    replicas = [Replica(sys.argv[1]) for _ in range(2)]
    talks = [
        f"Conversation {i} in the library."
        + "".join(f" Line {line * (i + 3)} is about books." for line in range(12))
        for i in range(4)
    ]
    known: list[set[int]] = [set() for _ in talks]
    for turn in range(3):
        for i, talk in enumerate(talks):
            best = max(
                range(2), key=lambda r: (len(known[i] & replicas[r].blocks), -replicas[r].answered)
            )
            chosen = replicas[best]
            (output,) = chosen.llm.generate([talk], params)
            chosen.answered += 1
            known[i] |= chosen.learn()
            print(
                f"turn {turn}, conversation {i}: replica {best}, {output.num_cached_tokens} of "
                f"{len(output.prompt_token_ids)} prompt tokens cached"
            )
            talks[i] = talk + output.outputs[0].text + " Go on."
    for replica in replicas:
        replica.llm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
