// The scalar reference: the numerics contract cpu-numerics/1 written down as plainly as possible.
// Slow by design; every other kernel is tested against it bit for bit.
#include "core/numerics.h"
#include "exec/cpu/kernel_table.h"

namespace slipstream::exec::cpu {
namespace {

using core::DType;
using core::Fma;

float ReadElement(const void* data, DType type, int64_t index) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[index];
    case DType::kF16:
      return core::F16ToFloat(static_cast<const uint16_t*>(data)[index]);
    case DType::kBF16:
      return core::Bf16ToFloat(static_cast<const uint16_t*>(data)[index]);
    case DType::kInt8:
      return static_cast<float>(static_cast<const int8_t*>(data)[index]);
  }
  return 0.0f;
}

void WriteElement(void* data, DType type, int64_t index, float value) {
  switch (type) {
    case DType::kF32:
      static_cast<float*>(data)[index] = value;
      return;
    case DType::kF16:
      static_cast<uint16_t*>(data)[index] = core::FloatToF16(value);
      return;
    case DType::kBF16:
      static_cast<uint16_t*>(data)[index] = core::FloatToBf16(value);
      return;
    case DType::kInt8:  // Written with its scale, by WriteHead.
      return;
  }
}

/// Index of element (row, k) of an n16k4 matrix with K columns.
int64_t BlockedIndex(DType type, int32_t cols, int64_t row, int64_t k) {
  const int64_t per_unit = 4 / core::DTypeSize(type);
  const int64_t units = (cols + per_unit - 1) / per_unit;
  const int64_t unit = k / per_unit;
  return (((row / kBlockRows) * units + unit) * kBlockRows + row % kBlockRows) * per_unit +
         k % per_unit;
}

float DotChain(const GemmArgs& a, const float* x, int64_t weight_row) {
  float acc = 0.0f;
  for (int32_t k = 0; k < a.k; ++k) {
    acc = Fma(x[k], ReadElement(a.w, a.w_type, BlockedIndex(a.w_type, a.k, weight_row, k)), acc);
  }
  return a.bias != nullptr ? acc + a.bias[weight_row] : acc;
}

void Gemm(const GemmArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    const float* x = a.x + r * a.x_stride;
    float* y = a.y + r * a.y_stride;
    for (int64_t col = int64_t{a.block_begin} * 16; col < int64_t{a.block_end} * 16; ++col) {
      if (a.activation != Activation::kNone) {
        const float gate = DotChain(a, x, int64_t{a.gate_block} * 16 + col);
        const float up = DotChain(a, x, int64_t{a.up_block} * 16 + col);
        const bool silu = a.activation == Activation::kSilu;
        y[col] = (silu ? core::Silu(gate) : core::GeluTanh(gate)) * up;
      } else {
        y[col] = DotChain(a, x, col);
      }
    }
  }
}

void Embedding(const EmbeddingArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    for (int32_t c = 0; c < a.cols; ++c) {
      const int64_t id = a.ids[r];
      const int64_t index = a.blocked ? BlockedIndex(a.type, a.cols, id, c) : id * a.cols + c;
      a.y[r * a.y_stride + c] = ReadElement(a.table, a.type, index);
    }
  }
}

/// y = (x * (1 / sqrt(mean(x^2) + eps))) * gain
void NormRow(const float* x, const float* gain, float eps, int32_t cols, float* y) {
  float lanes[core::kLanes] = {};
  for (int32_t c = 0; c < cols; ++c) lanes[c % 16] = Fma(x[c], x[c], lanes[c % 16]);
  const float mean = core::TreeSum(lanes) / static_cast<float>(cols);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  for (int32_t c = 0; c < cols; ++c) y[c] = (x[c] * inverse) * gain[c];
}

void Norm(const NormArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    const float* x = a.x + r * a.x_stride;
    if (a.delta != nullptr) {
      float* sum = a.sum + r * a.sum_stride;
      for (int32_t c = 0; c < a.cols; ++c) sum[c] = x[c] + a.delta[r * a.delta_stride + c];
      x = sum;
    }
    NormRow(x, a.gain, a.eps, a.cols, a.y + r * a.y_stride);
  }
}

void Add(const AddArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    for (int32_t c = 0; c < a.cols; ++c) {
      a.y[r * a.y_stride + c] = a.a[r * a.a_stride + c] + a.b[r * a.b_stride + c];
    }
  }
}

float Softcap(float x, float cap) { return cap * core::Tanh(x / cap); }

void Map(const MapArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    for (int32_t c = 0; c < a.cols; ++c) {
      const float x = a.x[r * a.x_stride + c];
      a.y[r * a.y_stride + c] = a.softcap > 0.0f ? Softcap(x, a.softcap) : x * a.factor;
    }
  }
}

void RopeTable(const RopeTableArgs& a) {
  for (int32_t r = a.row_begin; r < a.row_end; ++r) {
    const float position = static_cast<float>(a.positions[r]);
    for (int32_t i = 0; i < a.half; ++i) {
      float sin = 0.0f;
      float cos = 0.0f;
      core::SinCos(position * a.inv_freq[i], &sin, &cos);
      a.cos[r * a.cos_stride + i] = cos * a.factor;
      a.sin[r * a.sin_stride + i] = sin * a.factor;
    }
  }
}

/// Element d of a head after rotation of its first 2 * half elements.
float Rotated(const float* head, const float* cos, const float* sin, int32_t half, int32_t d) {
  if (d >= 2 * half) return head[d];
  if (d < half) return Fma(head[d], cos[d], -(head[d + half] * sin[d]));
  const int32_t i = d - half;
  return Fma(head[d], cos[i], head[i] * sin[i]);
}

/// A head of k or v into the cache: element d at index + d * stride. int8 writes its scale too.
void WriteHead(const float* x, const KvLayer& kv, std::byte* data, int64_t index, int64_t stride,
               std::byte* scale_at) {
  if (kv.type != DType::kInt8) {
    for (int32_t d = 0; d < kv.head_dim; ++d) WriteElement(data, kv.type, index + d * stride, x[d]);
    return;
  }
  float max = 0.0f;
  for (int32_t d = 0; d < kv.head_dim; ++d) max = core::MaxNew(x[d] < 0.0f ? -x[d] : x[d], max);
  const float scale = max / core::kInt8Max;
  __builtin_memcpy(scale_at, &scale, sizeof(scale));
  int8_t* out = reinterpret_cast<int8_t*>(data);
  for (int32_t d = 0; d < kv.head_dim; ++d)
    out[index + d * stride] = scale > 0.0f ? core::QuantizeInt8(x[d], scale) : int8_t{0};
}

/// The int8 scale of a head at a position of a block; `scales` is k_scales or v_scales.
float ReadScale(const std::byte* block, int64_t scales, int64_t head, int32_t slot) {
  float scale;
  __builtin_memcpy(&scale, block + scales + (head * kKvBlockTokens + slot) * 4, sizeof(scale));
  return scale;
}

void RopeKvWrite(const RopeKvArgs& a) {
  const int32_t dim = a.kv.head_dim;
  const int64_t units = int64_t{a.heads} + 2 * a.kv.kv_heads;
  for (int64_t unit = a.unit_begin; unit < a.unit_end; ++unit) {
    const int64_t r = unit / units;
    const int64_t u = unit % units;
    const float* x = a.qkv + r * a.qkv_stride;
    const float* cos = a.cos + r * a.cos_stride;
    const float* sin = a.sin + r * a.sin_stride;
    const int32_t slot = a.positions[r] % kKvBlockTokens;
    float normed[kMaxHeadDim];
    if (u < a.heads) {
      const float* q = x + a.q_col + u * dim;
      if (a.q_gain != nullptr) {
        NormRow(q, a.q_gain, a.eps, dim, normed);
        q = normed;
      }
      for (int32_t d = 0; d < dim; ++d) {
        a.q[r * a.q_stride + u * dim + d] = Rotated(q, cos, sin, a.half, d);
      }
      continue;
    }
    std::byte* block = a.kv.pool + a.blocks[r] * a.kv.bytes_per_block;
    const bool is_k = u < a.heads + a.kv.kv_heads;
    const int64_t head = is_k ? u - a.heads : u - a.heads - a.kv.kv_heads;
    const float* k = x + a.k_col + head * dim;
    if (is_k && a.k_gain != nullptr) {
      NormRow(k, a.k_gain, a.eps, dim, normed);
      k = normed;
    }
    const int64_t scale_at = (head * kKvBlockTokens + slot) * 4;
    if (is_k) {
      float rotated[kMaxHeadDim];
      for (int32_t d = 0; d < dim; ++d) rotated[d] = Rotated(k, cos, sin, a.half, d);
      WriteHead(rotated, a.kv, block + a.kv.k_offset, head * dim * kKvBlockTokens + slot,
                kKvBlockTokens, block + a.kv.k_scales + scale_at);
    } else {
      WriteHead(x + a.v_col + head * dim, a.kv, block + a.kv.v_offset,
                (head * kKvBlockTokens + slot) * dim, 1, block + a.kv.v_scales + scale_at);
    }
  }
}

/// One query vector: partitions of 256 absolute positions, merged left to right.
void AttendOne(const AttentionArgs& a, const AttentionItem& item, int32_t row, int32_t head) {
  const int32_t dim = a.kv.head_dim;
  const int64_t kv_head = head / (a.heads / a.kv.kv_heads);
  const float* q = a.q + row * a.q_stride + int64_t{head} * dim;
  const int32_t query = item.position + (row - item.row_begin);
  const int32_t first = a.window > 0 && query >= a.window ? query - a.window + 1 : 0;
  float* scores = a.scratch;
  float* out = scores + core::kAttentionPartition;
  float* merged = out + dim;
  float merged_max = 0.0f;
  float merged_sum = 0.0f;
  const int32_t first_base = first / core::kAttentionPartition * core::kAttentionPartition;
  for (int32_t base = first_base; base <= query; base += core::kAttentionPartition) {
    const int32_t begin = base < first ? first : base;
    const int32_t last = base + core::kAttentionPartition - 1;
    const int32_t end = (last < query ? last : query) + 1;
    float max = -core::kInfinity;
    for (int32_t p = begin; p < end; ++p) {
      const std::byte* block = a.kv.pool + item.table[p / kKvBlockTokens] * a.kv.bytes_per_block;
      const std::byte* k = block + a.kv.k_offset;
      float acc = 0.0f;
      for (int32_t d = 0; d < dim; ++d) {
        acc = Fma(
            q[d],
            ReadElement(k, a.kv.type, (kv_head * dim + d) * kKvBlockTokens + p % kKvBlockTokens),
            acc);
      }
      if (a.kv.type == DType::kInt8)
        acc = acc * ReadScale(block, a.kv.k_scales, kv_head, p % kKvBlockTokens);
      scores[p - base] = acc * a.scale;
      if (a.softcap > 0.0f) scores[p - base] = Softcap(scores[p - base], a.softcap);
      max = core::MaxNew(scores[p - base], max);
    }
    float lanes[core::kLanes] = {};
    for (int32_t d = 0; d < dim; ++d) out[d] = 0.0f;
    for (int32_t p = begin; p < end; ++p) {
      const std::byte* block = a.kv.pool + item.table[p / kKvBlockTokens] * a.kv.bytes_per_block;
      const std::byte* v = block + a.kv.v_offset;
      const float e = core::Exp(scores[p - base] - max);
      lanes[p % 16] = lanes[p % 16] + e;
      float weight = e;
      if (a.kv.type == DType::kInt8)
        weight = e * ReadScale(block, a.kv.v_scales, kv_head, p % kKvBlockTokens);
      for (int32_t d = 0; d < dim; ++d) {
        out[d] = Fma(
            weight,
            ReadElement(v, a.kv.type, (kv_head * kKvBlockTokens + p % kKvBlockTokens) * dim + d),
            out[d]);
      }
    }
    const float sum = core::TreeSum(lanes);
    if (base == first_base) {
      merged_max = max;
      merged_sum = sum;
      for (int32_t d = 0; d < dim; ++d) merged[d] = out[d];
      continue;
    }
    const float new_max = core::MaxNew(max, merged_max);
    const float old_scale = core::Exp(merged_max - new_max);
    const float new_scale = core::Exp(max - new_max);
    merged_sum = Fma(sum, new_scale, merged_sum * old_scale);
    for (int32_t d = 0; d < dim; ++d) merged[d] = Fma(out[d], new_scale, merged[d] * old_scale);
    merged_max = new_max;
  }
  if (a.sinks != nullptr) {
    const float sink = a.sinks[head];
    const float new_max = core::MaxNew(sink, merged_max);
    const float scale = core::Exp(merged_max - new_max);
    merged_sum = Fma(merged_sum, scale, core::Exp(sink - new_max));
    for (int32_t d = 0; d < dim; ++d) merged[d] = merged[d] * scale;
  }
  float* o = a.o + row * a.o_stride + int64_t{head} * dim;
  for (int32_t d = 0; d < dim; ++d) o[d] = merged[d] / merged_sum;
}

void Attention(const AttentionArgs& a) {
  for (int64_t i = a.item_begin; i < a.item_end; ++i) {
    const AttentionItem& item = a.items[i];
    for (int32_t row = item.row_begin; row < item.row_end; ++row) {
      for (int32_t head = item.head_begin; head < item.head_end; ++head)
        AttendOne(a, item, row, head);
    }
  }
}

int32_t Argmax(const float* x, int32_t n) { return core::ScalarRowMath().argmax(x, n); }
float LogSumExp(const float* x, int32_t n) { return core::ScalarRowMath().log_sum_exp(x, n); }
void ExpShifted(const float* x, float scale, float shift, float* y, int32_t n) {
  core::ScalarRowMath().exp_shifted(x, scale, shift, y, n);
}

}  // namespace

constinit const KernelTable kScalarKernels = {
    "scalar", Gemm,      Embedding,   Norm,      Add,
    Map,      RopeTable, RopeKvWrite, Attention, {Argmax, LogSumExp, ExpShifted}};

}  // namespace slipstream::exec::cpu
