"""Paged decode attention: one new query row per sequence over its KV blocks.

Imported only by `slipstream.kernels.compile` (it needs `triton`).
"""

import triton
import triton.language as tl


@triton.jit
def paged_decode_attention(
    out_ptr,
    q_ptr,
    k_pool_ptr,
    v_pool_ptr,
    block_table_ptr,
    context_len_ptr,
    scale_log2,
    q_stride_seq,
    out_stride_seq,
    table_stride,
    window,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_PAD: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """Grid (sequences, KV_HEADS); one program serves the GROUP query heads of one KV head, so a KV
    block is read once.

    q, out: [sequences, KV_HEADS * GROUP, HEAD_DIM], rows `*_stride_seq` elements apart.
    k_pool, v_pool: [blocks, KV_HEADS, BLOCK_TOKENS, HEAD_DIM], contiguous, same dtype as q.
    block_table: i32 [sequences, table_stride]. context_len: i32 [sequences], >= 1, the new token
    included.
    scale_log2: softmax scale times log2(e). window: attend to the last `window` positions; 0
    attends to all. Scores, softmax and accumulation are f32 (online softmax: Milakov and
    Gimelshein, 2018).
    """
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    context = tl.load(context_len_ptr + sequence)
    first = tl.where(window > 0, tl.maximum(context - window, 0), 0)

    # tl.dot needs 16 rows; the rows past GROUP are zero and never stored.
    head = tl.arange(0, GROUP_PAD)
    dim = tl.arange(0, HEAD_DIM_PAD)
    token = tl.arange(0, BLOCK_TOKENS)
    row_mask = (head[:, None] < GROUP) & (dim[None, :] < HEAD_DIM)
    q_offset = (kv_head * GROUP + head[:, None]) * HEAD_DIM + dim[None, :]
    q = tl.load(q_ptr + sequence.to(tl.int64) * q_stride_seq + q_offset, mask=row_mask, other=0.0)

    top = tl.full([GROUP_PAD], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    acc = tl.zeros([GROUP_PAD, HEAD_DIM_PAD], tl.float32)

    for index in range(first // BLOCK_TOKENS, tl.cdiv(context, BLOCK_TOKENS)):
        # 64 bits: a pool of more than 2^31 elements is common.
        block = tl.load(block_table_ptr + sequence * table_stride + index).to(tl.int64)
        base = (block * KV_HEADS + kv_head) * (BLOCK_TOKENS * HEAD_DIM)
        position = index * BLOCK_TOKENS + token
        valid = (position >= first) & (position < context)
        kv_mask = valid[:, None] & (dim[None, :] < HEAD_DIM)
        kv_offset = base + token[:, None] * HEAD_DIM + dim[None, :]
        k = tl.load(k_pool_ptr + kv_offset, mask=kv_mask, other=0.0)
        v = tl.load(v_pool_ptr + kv_offset, mask=kv_mask, other=0.0)

        score = tl.dot(q, tl.trans(k)) * scale_log2
        score = tl.where(valid[None, :], score, float("-inf"))
        # Every visited block holds at least one valid position, so `new_top` is finite.
        new_top = tl.maximum(top, tl.max(score, axis=1))
        keep = tl.exp2(top - new_top)
        weight = tl.exp2(score - new_top[:, None])
        total = total * keep + tl.sum(weight, axis=1)
        acc = acc * keep[:, None] + tl.dot(weight.to(v.dtype), v)
        top = new_top

    out = acc / total[:, None]
    out_ptrs = out_ptr + sequence.to(tl.int64) * out_stride_seq + q_offset
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=row_mask)
