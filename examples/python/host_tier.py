"""Conversations that are idle move out of the small KV pool into a file, and go on without being
computed again: python host_tier.py FILE.engine"""

from __future__ import annotations

import sys

from slipstream import LLM, SamplingParams

PLACES = ("library", "museum", "harbour", "station")


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: host_tier.py FILE.engine", file=sys.stderr)
        return 2
    params = SamplingParams(max_tokens=16, temperature=0)
    rules = " ".join(f"Rule {i}: wait {i + 3} minutes." for i in range(1, 21))
    conversations = [f"These are the rules of the {p}. {rules} In short," for p in PLACES]
    # Of SmolLM2-135M, 16 MiB take the keys and values of one such conversation, not of four.
    with LLM(sys.argv[1], kv_memory="16MiB", host_kv_memory="128MiB") as llm:
        for turn in (1, 2):
            for i, text in enumerate(conversations):
                (output,) = llm.generate([text], params)
                conversations[i] = text + output.outputs[0].text + " Also,"
                if turn == 2:
                    print(
                        f"{PLACES[i]}: {len(output.prompt_token_ids)} prompt tokens, of which "
                        f"{output.num_cached_tokens} were not computed again"
                    )
        stats = llm.stats()
        print(f"blocks moved out: {stats.blocks_swapped_out}, back: {stats.blocks_swapped_in}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
